"""The bytes of one commit, or of a working tree, read as data: nothing is checked out and nothing runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.git import objects
from codeaudit.git.process import GitTimeout
from codeaudit.git.repository import Repository, find_repository, open_view, read_refs
from codeaudit.git.revisions import commits_near, is_full_id, no_such_commit, resolve
from codeaudit.target import Target
from codeaudit.text import printable

__all__ = ["LARGEST_FILE", "Entry", "Skipped", "Snapshot", "open_snapshot", "printable"]

LARGEST_FILE = 10 << 20  # bytes


@dataclass(frozen=True)
class Skipped:
    """Something that was left out, and why. Nothing is dropped in silence."""

    file: str
    reason: str
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        report: dict[str, Any] = {"file": self.file}
        if self.line is not None:
            report["line"] = self.line
        report["reason"] = self.reason
        return report


@dataclass(frozen=True)
class Entry:
    """One regular file of the snapshot."""

    path: str  # relative to the repository, with "/"
    blob: str  # git blob id (40 hex), also for files of a working tree
    size: int


@dataclass(frozen=True)
class Snapshot:
    """The regular files of one commit or of one working tree. It holds no open file and can be pickled."""

    repo: str  # the web page where known, else the path or URL as given
    web: str  # "https://host/owner/name" or ""
    requested: str  # the target as typed
    commit: str  # 40 hex
    tree: str  # 40 hex, of the commit
    dirty: bool  # True for a working tree: its files need not be those of the commit
    entries: tuple[Entry, ...]  # by path
    skipped: tuple[Skipped, ...]
    repository: Repository
    scratch: Path
    timeout: float

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """(path, bytes) of each file asked for, in the order asked; a path may be asked for more than once.

        Raises `KeyError` for a path that is no entry, and `UserError` where the repository is damaged or, for a working
        tree, where a file changed since the snapshot was opened.
        """
        blobs = {entry.path: entry.blob for entry in self.entries}
        wanted = [(path, blobs[path]) for path in paths]
        yield from self._read_objects(wanted)

    def _read_objects(self, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
        shown = self.repository.shown
        with _timed(shown, self.timeout), open_view(self.repository, self.scratch, refs=False) as view:
            with objects.ObjectReader(view, shown, self.timeout) as reader:
                found = reader.read(blob for _, blob in wanted)
                for (path, blob), answer in zip(wanted, found, strict=True):
                    if answer is None or answer[1] != "blob":
                        raise objects.damaged(shown, blob)
                    yield path, answer[2]


def open_snapshot(
    target: Target,
    *,
    mirrors: Sequence[Path] = (),
    cache: Path,
    timeout: float = 300,
    allow_network: bool = True,
) -> Snapshot:
    """Find the target's commit and list its files.

    A remote target is looked for in `mirrors` (folders of repositories named OWNER+NAME), then among the clones under
    `cache`, then, unless `allow_network` is false, on its server. `timeout` is in seconds and bounds each step that waits
    for git. Raises `UserError` for whatever a person must mend.
    """
    scratch = cache / "scratch"
    if target.kind == "local":
        repository = find_repository(Path(target.location))
        revision = target.revision or "HEAD"
    else:
        raise UserError(f"{printable(target.text)}: not yet", hint="give a local clone")
    return _of_commit(target, repository, revision, scratch, timeout)


def _of_commit(target: Target, repository: Repository, revision: str, scratch: Path, timeout: float) -> Snapshot:
    with _timed(repository.shown, timeout):
        commit, tree, files, whole = _listing(repository, revision, scratch, timeout)
    entries, skipped = _sort_out(files)
    if not whole:
        skipped.append(Skipped(".", f"the commit lists more than {objects.MOST_FILES} files; the rest was left out"))
    return Snapshot(
        repo=target.web or target.location,
        web=target.web,
        requested=target.text,
        commit=commit,
        tree=tree,
        dirty=False,
        entries=tuple(entries),
        skipped=tuple(skipped),
        repository=repository,
        scratch=scratch,
        timeout=timeout,
    )


_Sized = tuple[objects.TreeFile, int | None]


def _listing(
    repository: Repository, revision: str, scratch: Path, timeout: float
) -> tuple[str, str, list[_Sized], bool]:
    deadline = time.monotonic() + timeout
    full = is_full_id(revision)
    with open_view(repository, scratch, refs=not full) as view:
        id = revision.lower() if full else resolve(view, revision, deadline)
        with objects.ObjectReader(view, repository.shown, timeout) as reader:
            commit = objects.read_commit(reader, id) if id else None
            if commit is None:
                if revision == "HEAD" and "HEAD" not in read_refs(repository):
                    raise UserError(f"{repository.shown}: the repository has no commit yet", hint="commit first")
                raise no_such_commit(repository.shown, revision, commits_near(view, revision, deadline))
            try:
                files, whole = objects.list_files(reader, commit.tree)
            except objects.MissingTree:
                raise UserError(
                    f"{repository.shown}: the clone lacks folder listings of commit {commit.id}",
                    hint="it is a partial clone or borrows objects by alternates; make a full clone",
                ) from None
        sizes = objects.sizes(view, (file.id for file in files if file.mode in objects.FILE_MODES), deadline)
    return commit.id, commit.tree, [(file, sizes.get(file.id)) for file in files], whole


def _sort_out(files: Sequence[_Sized]) -> tuple[list[Entry], list[Skipped]]:
    entries: dict[str, Entry] = {}
    skipped: list[Skipped] = []
    for file, size in files:
        try:
            path = file.path.decode("utf-8")
        except UnicodeDecodeError:
            skipped.append(Skipped(file.path.decode("utf-8", "backslashreplace"), "its name is not UTF-8"))
            continue
        reason = _reason_to_skip(path, file.mode, size)
        if path in entries:
            reason = "the commit lists this path twice; the first is read"
        if reason:
            skipped.append(Skipped(path, reason))
        else:
            entries[path] = Entry(path, file.id, size or 0)
    return list(entries.values()), skipped


def _reason_to_skip(path: str, mode: int, size: int | None) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "its path leads out of the repository"
    if mode == objects.SYMLINK_MODE:
        return "a symbolic link; not followed"
    if mode == objects.SUBMODULE_MODE:
        return "a submodule; not fetched"
    if mode not in objects.FILE_MODES:
        return f"of unknown kind (mode {mode:o})"
    if size is None:
        return "its bytes are not in this clone"
    if size > LARGEST_FILE:
        return f"larger than {LARGEST_FILE >> 20} MiB"
    return ""


@contextmanager
def _timed(shown: str, timeout: float) -> Iterator[None]:
    try:
        yield
    except GitTimeout:
        raise UserError(f"{shown}: git gave no answer within {timeout:g} s", hint="try again") from None
