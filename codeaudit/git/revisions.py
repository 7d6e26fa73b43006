"""Turn a revision (HEAD, a branch, a tag, an abbreviation, HEAD~3) into one commit id of a local repository."""

from __future__ import annotations

import re
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.git.process import GitError, run_git
from codeaudit.text import printable

_FULL = re.compile(r"[0-9a-fA-F]{40}")
_ABBREVIATION = re.compile(r"[0-9a-fA-F]{4,40}")
_MOST_NAMED = 4


def is_full_id(revision: str) -> bool:
    return bool(_FULL.fullmatch(revision))


def is_abbreviation(revision: str) -> bool:
    return bool(_ABBREVIATION.fullmatch(revision))


def resolve(view: Path, revision: str, deadline: float) -> str | None:
    """The commit id, or None where the revision names no commit of this repository, or more than one."""
    try:
        answer = run_git(
            ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"],
            git_dir=view,
            deadline=deadline,
        )
    except GitError:
        return None
    id = answer.decode("ascii", "replace").strip()
    return id if is_full_id(id) else None


class NoSuchCommit(UserError):
    """A revision that names no commit of this repository; `shared` characters of it begin some commit's id there."""

    def __init__(self, what: str, *, hint: str = "", shared: int = 0) -> None:
        super().__init__(what, hint=hint)
        self.shared = shared


def no_such_commit(shown: str, revision: str, near: list[str]) -> NoSuchCommit:
    """The error for a pin that resolves to nothing; `near` are the commits that `commits_near` gave."""
    what = f"{shown}: there is no commit '{printable(revision)}'"
    if len(near) > 1 and is_abbreviation(revision) and all(id.startswith(revision.lower()) for id in near):
        what = f"{shown}: '{printable(revision)}' is the beginning of more than one commit"
        return NoSuchCommit(what, hint=f"write more of it: {_named(near)}", shared=len(revision))
    if near:
        count = _shared(revision.lower(), near[0])
        return NoSuchCommit(what, hint=f"sharing its first {count} characters: {_named(near)}", shared=count)
    if is_abbreviation(revision):
        return NoSuchCommit(what, hint="none begins like it either; check the id, and that the clone is not shallow")
    return NoSuchCommit(what, hint="check its spelling; a commit id, a branch or a tag is wanted")


def commits_near(view: Path, revision: str, deadline: float) -> list[str]:
    """The commits that share the longest beginning (of at least four characters) with a mistyped id; often empty."""
    if not is_abbreviation(revision):
        return []
    try:
        alike = run_git(["rev-parse", f"--disambiguate={revision[:4].lower()}"], git_dir=view, deadline=deadline)
        kinds = run_git(["cat-file", "--batch-check"], git_dir=view, deadline=deadline, stdin=alike)
    except GitError:
        return []
    rows = [line.split(" ") for line in kinds.decode("ascii", "replace").splitlines()]
    commits = [row[0] for row in rows if len(row) == 3 and row[1] == "commit"]
    longest = max((_shared(revision.lower(), id) for id in commits), default=0)
    return sorted(id for id in commits if _shared(revision.lower(), id) == longest)


def _shared(one: str, other: str) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _named(ids: list[str]) -> str:
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return ", ".join(ids[:_MOST_NAMED]) + more
