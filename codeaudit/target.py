"""The only parser of target strings (`owner/name@rev`, a clone URL, a path). It reads no repository and no network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codeaudit.errors import UserError
from codeaudit.text import printable

_FORMS = "give a folder, a clone URL or owner/name for github.com, each with @REVISION where wanted"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_REMOTE_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
_SSH_SHORT = re.compile(r"([A-Za-z0-9_][\w.-]*)@([A-Za-z0-9][A-Za-z0-9.-]*):([^:].*)")
_SHORTHAND = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.][\w.-]*)(@.*)?", re.ASCII)
_AUTHORITY = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?P<port>:[0-9]{1,5})?"
)
_SECRET = re.compile(r"(https?://)[^/@]*@|([A-Za-z][A-Za-z0-9+.-]*://)[^/@:]*:[^/@]*@", re.IGNORECASE)
_PART = re.compile(r"[\w.~-]+", re.ASCII)
_TRANSPORTS = ("https", "http", "ssh", "git", "file")
_LONGEST = 4096


@dataclass(frozen=True)
class Target:
    """What a person asked to have audited."""

    text: str  # as typed; a password inside it is shown as ***
    kind: Literal["remote", "local"]
    location: str  # the clone URL, or the path as given
    slug: str  # "owner/name", or "" where the target says none
    web: str  # "https://host/owner/name", or "" where the host is not known to have pages
    revision: str  # "" is HEAD; for a local work tree, the files as they are

    @property
    def shown_location(self) -> str:
        """`location` as it may be shown."""
        return without_password(self.location) if self.kind == "remote" else self.location


def parse_target(text: str) -> Target:
    """Read a target string.

    An existing local path wins over `owner/name`. Raises `UserError` for anything that is no target, and for text that
    git could take for an option or for a command to run.
    """
    shown = _shown(text)
    if not text.strip():
        raise UserError("the target is empty", hint=_FORMS)
    if len(text) > _LONGEST:
        raise UserError(f"the target is {len(text)} characters long", hint=_FORMS)
    if text.startswith("-"):
        raise UserError(f"{shown}: a target can't begin with '-'", hint="for a folder of that name write ./ before it")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text):
        raise UserError(f"{shown}: a target can't hold control characters", hint=_FORMS)
    if match := _SCHEME.fullmatch(text):
        return _from_url(text, match[1].lower(), match[2])
    if local := _from_existing_path(text):
        return local
    if _REMOTE_HELPER.match(text):
        raise UserError(f"{shown}: git remote helpers such as ext:: run commands and are refused", hint=_FORMS)
    if match := _SSH_SHORT.fullmatch(text):
        user, host, rest = match.groups()
        path, revision = _split_revision(text, rest)
        slug = _slug(path)
        return Target(text, "remote", f"{user}@{host}:{path}", slug, _web(host, slug), revision)
    if match := _SHORTHAND.fullmatch(text):
        path, revision = _split_revision(text, text)
        slug = _slug(path)
        if slug:
            web = f"https://github.com/{slug}"
            return Target(text, "remote", web, slug, web, revision)
    raise UserError(f"{shown}: there is no such folder", hint=_FORMS)


def _shown(text: str) -> str:
    return printable(without_password(text))


def without_password(url: str) -> str:
    """The URL with *** for a password, and for the user of a web URL, which is often a token."""
    match = _SECRET.match(url)
    return f"{match[1] or match[2]}***@{url[match.end() :]}" if match else url


def web_of_url(url: str) -> str:
    """The web page of the repository that a clone URL names, or "" where it can't be told."""
    if match := _SCHEME.fullmatch(url):
        authority, _, path = match[2].partition("/")
        place = _AUTHORITY.fullmatch(authority)
        if place and match[1].lower() != "file":
            web_port = place["port"] and match[1].lower() in ("http", "https")
            return "" if web_port else _web(place["host"], _slug(path))
    elif match := _SSH_SHORT.fullmatch(url):
        return _web(match[2], _slug(match[3]))
    return ""


def _from_url(text: str, scheme: str, rest: str) -> Target:
    authority, slash, path = rest.partition("/")
    if scheme not in _TRANSPORTS:
        names = ", ".join(_TRANSPORTS)
        raise UserError(f"{_shown(text)}: codeaudit doesn't clone over '{scheme}'", hint=f"use one of {names}")
    if scheme == "file":
        return _from_file_url(text, authority, slash + path)
    match = _AUTHORITY.fullmatch(authority)
    if not match:
        raise UserError(f"{_shown(text)}: '{printable(authority)}' is no host", hint=_FORMS)
    user = match["user"] or ""
    if user.startswith("-"):
        raise UserError(f"{_shown(text)}: a user name can't begin with '-'", hint=_FORMS)
    path, revision = _split_revision(text, path)
    if not path.strip("/"):
        raise UserError(f"{_shown(text)}: the URL names no repository", hint=_FORMS)
    location = f"{scheme}://{authority}/{path}"
    return Target(without_password(text), "remote", location, _slug(path), web_of_url(location), revision)


def _from_file_url(text: str, authority: str, path: str) -> Target:
    if authority not in ("", "localhost") or not path.startswith("/"):
        raise UserError(f"{_shown(text)}: a file URL must name a folder of this machine", hint="write file:///folder")
    found = _longest_existing(path)
    if found is None:
        raise UserError(f"{_shown(text)}: there is no such folder", hint=_FORMS)
    folder, revision = found
    return Target(text, "remote", f"file://{folder}", "", "", _checked(text, revision))


def _from_existing_path(text: str) -> Target | None:
    found = _longest_existing(text)
    if found is None:
        return None
    path, revision = found
    return Target(text, "local", path, "", "", _checked(text, revision))


def _longest_existing(text: str) -> tuple[str, str | None] | None:
    """The longest beginning of `text` that exists, and the revision after its '@' (None where there is no '@')."""
    if _exists(text):
        return text, None
    cut = text.rfind("@")
    while cut > 0:
        if _exists(text[:cut]):
            return text[:cut], text[cut + 1 :]
        cut = text.rfind("@", 0, cut)
    return None


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a name that no file system would take
        return False


def _split_revision(text: str, path: str) -> tuple[str, str]:
    path, at, revision = path.partition("@")
    return path, _checked(text, revision if at else None)


def _checked(text: str, revision: str | None) -> str:
    if revision is None:
        return ""
    if not revision.strip():
        raise UserError(f"{_shown(text)}: nothing follows the '@'", hint="name a commit, a tag or a branch there")
    if revision.startswith("-"):
        raise UserError(f"{_shown(text)}: a revision can't begin with '-'", hint="name a commit, a tag or a branch")
    return revision


def _slug(path: str) -> str:
    parts = path.strip("/").removesuffix(".git").split("/")
    named = len(parts) >= 2 and all(_PART.fullmatch(part) and part not in (".", "..") for part in parts)
    return "/".join(parts) if named else ""


def _web(host: str, slug: str) -> str:
    public = "." in host and not host.startswith("[") and not host.replace(".", "").isdigit()
    return f"https://{host}/{slug}" if public and slug else ""
