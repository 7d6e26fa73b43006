"""Addresses of lines on the sites that host repositories. Knows URL shapes, not repositories; opens nothing."""

from __future__ import annotations

import re
from urllib.parse import quote

from codeaudit.evaluation.sites import Place
from codeaudit.scan import TargetInfo

# host → the path from a repository's address to a line of a file at a commit
_SHAPES = {
    "github.com": "blob/{commit}/{path}#L{line}",
    "gitlab.com": "-/blob/{commit}/{path}#L{line}",
    "bitbucket.org": "src/{commit}/{path}#lines-{line}",
    "codeberg.org": "src/commit/{commit}/{path}#L{line}",
}
_REPOSITORY = re.compile(r"https://(?P<host>[A-Za-z0-9.-]+)(?:/[A-Za-z0-9._~-]+){2,}")


def blob_url(target: TargetInfo, place: Place) -> str | None:
    """The address of `place` at the scanned commit; None where the host is unknown or the line is not in that commit.

    A file of a working tree (`dirty`) may differ from the commit, and a place in a dependency lies elsewhere.
    """
    repo = target.repo.removesuffix("/").removesuffix(".git")
    match = _REPOSITORY.fullmatch(repo)
    if match is None or target.dirty or is_dependency(place):
        return None
    host = match["host"].lower()
    shape = _SHAPES.get("gitlab.com" if host.startswith("gitlab.") else host)
    if shape is None:
        return None
    path = quote(place.file.encode("utf-8", "surrogateescape"), safe="/")
    return f"{repo}/{shape.format(commit=target.commit, path=path, line=place.line)}"


def is_dependency(place: Place) -> bool:
    """Whether the place is written `NAME:path`, which names a file of another repository."""
    name, colon, _ = place.file.partition(":")
    return bool(colon) and "/" not in name
