"""Fetch one commit from a server into the cache of clones. It reads no files, and nothing that it fetches can act.

A clone is made in a scratch folder and renamed into place when whole, so a kill leaves no half clone and two processes
at once do each other no harm.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.git.process import GitError, GitTimeout, run_git
from codeaudit.git.repository import (
    Repository,
    find_repository,
    lay_out,
    open_view,
    read_small,
    scratch_folder,
    write_config,
)
from codeaudit.git.revisions import commits_near, is_abbreviation, is_full_id, no_such_commit, resolve
from codeaudit.store import cache_area
from codeaudit.target import without_password
from codeaudit.text import printable

_LARGEST_CLONE = 8 << 30  # bytes on the disk
_ALL_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
# Faults of old commits that harm nobody: dates, addresses and modes as other tools once wrote them.
_FORGIVEN = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badFilemode",
    "badTimezone",
    "missingEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)
# What servers, old and new, say where they don't give a commit by its id.
_NOT_BY_ID = ("not our ref", "unadvertised object", "shallow capabilities", "does not support", "find remote ref")


@dataclass(frozen=True)
class Server:
    """One repository on a server, and where its clones are kept."""

    url: str
    shown: str  # the URL in messages: no password, nothing unprintable
    folder: Path
    scratch: Path
    largest_blob: int  # bytes; larger files are left on the server
    timeout: float  # seconds for everything that is asked of the server

    @property
    def protocol(self) -> str:
        scheme, colon, _ = self.url.partition("://")
        return scheme if colon else "ssh"


def server(url: str, slug: str, *, cache: Path, scratch: Path, largest_blob: int, timeout: float) -> Server:
    digest = hashlib.blake2b(url.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    name = f"{slug.replace('/', '+')[:100]}-{digest}" if slug else digest
    return Server(
        url, printable(without_password(url)), cache_area(cache, "clones") / name, scratch, largest_blob, timeout
    )


def cached_clone(server: Server, revision: str) -> tuple[Path, str] | None:
    """A clone in the cache that holds the commit, and its full id. Only a commit id can be known without the server."""
    id = revision.lower()
    if is_abbreviation(id) and not is_full_id(id):
        known = read_small(server.folder / "ids" / id, largest=64) or b""
        id = known.decode("ascii", "replace").strip()
    if not is_full_id(id):
        return None
    if (server.folder / id / "HEAD").is_file():
        return server.folder / id, id
    return None


def fetched_clone(server: Server, revision: str) -> tuple[Path, str]:
    """Fetch the commit that `revision` ("" for HEAD) names; the clone, now in the cache, and the full id.

    Raises `UserError` where the server can't be reached, gives no answer in time, or has no such commit.
    """
    deadline = time.monotonic() + server.timeout
    try:
        with _source(server) as url, scratch_folder(server.scratch) as folder:
            return _Fetch(replace(server, url=url), folder, deadline).commit(revision)
    except GitTimeout:
        raise UserError(
            f"{server.shown}: the server gave no whole answer within {server.timeout:g} s",
            hint="try again, or give a local copy with --mirror",
        ) from None
    except GitError as error:
        raise _unreachable(server, error) from None
    except OSError as error:
        raise UserError(
            f"{server.shown}: can't keep a clone: {error.strerror}", hint="choose another --cache"
        ) from None


@contextmanager
def _source(server: Server) -> Iterator[str]:
    """The URL to fetch from. Behind file:// git would serve the clone with its own settings, so it serves a view."""
    if server.protocol != "file":
        yield server.url
        return
    with open_view(find_repository(Path(server.url.removeprefix("file://"))), server.scratch, refs=True) as view:
        yield f"file://{view}"


class _Fetch:
    def __init__(self, server: Server, folder: Path, deadline: float) -> None:
        self._server = server
        self._folder = folder
        self._deadline = deadline

    def commit(self, revision: str) -> tuple[Path, str]:
        head, id = "", revision.lower()
        if not is_full_id(revision):
            refs = self._advertised()
            head, id = refs.get("HEAD", ""), _named_ref(refs, revision or "HEAD")
        if id and (clone := self._by_id(id)):
            return clone, id
        # Commits alone, without their trees, tell what the revision means; a server without filters sends everything.
        history = self._fetch("history", _ALL_REFS, "--filter=tree:0")
        if head:
            (history / "HEAD").write_text(f"{head}\n")
        resolved = resolve(history, id or revision, self._deadline)
        if not resolved:
            near = commits_near(history, id or revision, self._deadline)
            raise no_such_commit(self._server.shown, revision, near)
        if is_abbreviation(revision) and resolved.startswith(revision.lower()):
            self._remember(revision.lower(), resolved)
        if found := cached_clone(self._server, resolved):
            return found
        if self._holds_files(history, resolved):
            return self._keep(history, resolved), resolved
        if resolved != id and (clone := self._by_id(resolved)):
            return clone, resolved
        whole = self._fetch("whole", _ALL_REFS, self._without_large)
        return self._keep(whole, resolved), resolved

    def _advertised(self) -> dict[str, str]:
        """Names and ids of the branches, the tags and HEAD as the server lists them."""
        answer = self._git("ls-remote", "--quiet", "--", self._server.url)
        pairs = [line.partition("\t") for line in answer.split("\n")]
        refs = {name: id for id, _, name in pairs if is_full_id(id)}
        if not refs:
            raise UserError(f"{self._server.shown}: the repository has no commit yet")
        return refs

    def _holds_files(self, folder: Path, id: str) -> bool:
        try:
            run_git(["cat-file", "-e", f"{id}^{{tree}}"], git_dir=folder, deadline=self._deadline)
        except GitError:
            return False
        return True

    def _by_id(self, id: str) -> Path | None:
        """The clone with that one commit; None where the server doesn't give commits by id, or hasn't this one."""
        if found := cached_clone(self._server, id):
            return found[0]
        try:
            folder = self._fetch("one", [id], self._without_large, ["--depth=1"])
        except GitError as error:
            if any(sign in error.stderr for sign in _NOT_BY_ID):
                return None
            raise
        return self._keep(folder, id)

    def _empty(self, name: str) -> Path:
        folder = self._folder / name
        lay_out(folder)
        return folder

    @property
    def _without_large(self) -> str:
        return f"--filter=blob:limit={self._server.largest_blob + 1}"

    def _fetch(self, name: str, refs: Sequence[str], filter: str, options: Sequence[str] = ()) -> Path:
        """A new folder with what was fetched, unfiltered where filters stand in the way."""
        try:
            return self._fetch_once(name, refs, [*options, filter])
        except GitError as error:
            # Git before 2.44 forgives nothing in a filtered fetch.
            if not any(sign in error.stderr for sign in ("filter", "capabilities", *_FORGIVEN)):
                raise
        return self._fetch_once(f"{name}-plain", refs, options)

    def _fetch_once(self, name: str, refs: Sequence[str], options: Sequence[str]) -> Path:
        folder = self._empty(name)
        settings = [f"fetch.fsck.{name}=ignore" for name in _FORGIVEN]
        settings += ["transfer.fsckObjects=true", "fetch.fsckObjects=true", "submodule.recurse=false"]
        quiet = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance"]
        self._git("fetch", *quiet, *options, "--", self._server.url, *refs, folder=folder, settings=settings)
        write_config(folder)  # git noted there that missing objects may be fetched from that server
        return folder

    def _git(self, *command: str, folder: Path | None = None, settings: Sequence[str] = ()) -> str:
        always = [
            "protocol.allow=never",
            f"protocol.{self._server.protocol}.allow=always",
            "credential.helper=",
            "http.lowSpeedLimit=1",  # so that a fetch whose parent was killed doesn't wait for ever
            f"http.lowSpeedTime={max(1, round(self._server.timeout))}",
        ]
        options = [part for setting in [*always, *settings] for part in ("-c", setting)]
        answer = run_git(
            [*options, *command],
            git_dir=folder or self._empty("ask"),
            deadline=self._deadline,
            protocol=self._server.protocol,
            watch=self._check_size,
        )
        return answer.decode("utf-8", "surrogateescape")

    def _check_size(self) -> None:
        total = 0
        for folder, _, files in os.walk(self._folder):
            for file in files:
                with suppress(OSError):
                    total += Path(folder, file).lstat().st_size
        if total > _LARGEST_CLONE:
            limit = _LARGEST_CLONE >> 30
            raise UserError(f"{self._server.shown}: the server sent more than {limit} GiB", hint="clone it by hand")

    def _keep(self, folder: Path, id: str) -> Path:
        target = self._server.folder / id
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(target)
        except OSError:
            if not (target / "HEAD").is_file():  # else another process was faster
                raise
        return target

    def _remember(self, abbreviation: str, id: str) -> None:
        folder = self._server.folder / "ids"
        folder.mkdir(parents=True, exist_ok=True)
        aside = self._folder / "id"
        aside.write_text(f"{id}\n")
        aside.replace(folder / abbreviation)


def _named_ref(refs: Mapping[str, str], revision: str) -> str:
    """The id of a branch, a tag or HEAD, found as git finds it; "" for another revision."""
    for pattern in ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}"):
        name = pattern.format(revision)
        if name in refs:
            return refs.get(name + "^{}", refs[name])
    return ""


def discard(clone: Path) -> None:
    """Remove a damaged clone from the cache."""
    shutil.rmtree(clone, ignore_errors=True)


def as_repository(server: Server, clone: Path) -> Repository:
    return Repository(clone, clone, None, server.shown)


def _unreachable(server: Server, error: GitError) -> UserError:
    text = error.stderr.replace(server.url, server.shown)
    lines = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(("fatal:", "error:"))]
    said = printable((lines or [text.strip().splitlines()[-1] if text.strip() else "git failed"])[0])[:300]
    signs = ("could not read Username", "not found", "Authentication failed", "does not appear to be a git repository")
    if any(sign in text for sign in signs):
        return UserError(f"{server.shown}: there is no public repository there ({said})", hint="check the spelling")
    if "Could not resolve host" in text or "unable to look up" in text:
        return UserError(
            f"{server.shown}: unknown host, or no network ({said})", hint="give a local copy with --mirror"
        )
    if "fsck" in text:
        return UserError(f"{server.shown}: the server sent objects that git holds unsafe ({said})")
    return UserError(f"{server.shown}: can't be fetched ({said})", hint="try again, or give a local copy with --mirror")
