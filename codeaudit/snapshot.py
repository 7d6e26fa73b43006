"""The bytes of one commit, or of a working tree, read as data: nothing is checked out and nothing runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.git import clones, objects, worktree
from codeaudit.git.process import GitError, GitTimeout
from codeaudit.git.repository import (
    Repository,
    find_mirrors,
    find_repository,
    open_view,
    origin_url,
    read_refs,
    usable_scratch,
)
from codeaudit.git.revisions import NoSuchCommit, commits_near, is_full_id, no_such_commit, resolve
from codeaudit.target import Target, web_of_url
from codeaudit.text import printable

__all__ = ["LARGEST_FILE", "Entry", "Skipped", "Snapshot", "open_snapshot", "printable"]

LARGEST_FILE = 10 << 20  # bytes

_NOT_WHOLE = "it is a partial clone, or borrows objects by alternates, or is damaged; make a full clone"


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
    source: Source

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """(path, bytes) of each file asked for, in the order asked; a path may be asked for more than once.

        Raises `KeyError` for a path that is no entry, and `UserError` where the repository is damaged or, for a working
        tree, where a file changed since the snapshot was opened.
        """
        blobs = {entry.path: entry.blob for entry in self.entries}
        wanted = [(path, blobs[path]) for path in paths]
        return self._read_disk(wanted) if self.dirty else self._read_objects(wanted)

    def _read_objects(self, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
        shown = self.source.repository.shown
        with self.source.guarded(), self.source.view(refs=False) as view, self.source.reader(view) as reader:
            found = reader.read(blob for _, blob in wanted)
            for (path, blob), answer in zip(wanted, found, strict=True):
                if answer is None or answer[1] != "blob":
                    raise objects.Damaged(shown, blob)
                yield path, answer[2]

    def _read_disk(self, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
        root = self.source.repository.work_tree
        assert root is not None
        for path, blob in wanted:
            try:
                data = worktree.read_file(root, path, LARGEST_FILE)
            except worktree.Unreadable:
                data = None
            if data is None or objects.blob_id(data) != blob:
                where = f"{self.source.repository.shown}: {printable(path)}"
                raise UserError(f"{where} changed while it was being read", hint="run again when it is still")
            yield path, data


@dataclass(frozen=True)
class Source:
    """The repository that a snapshot is read from, and how."""

    repository: Repository
    scratch: Path
    timeout: float  # seconds to wait for git
    cached: bool = False  # a clone of ours, which may be thrown away

    def view(self, *, refs: bool) -> AbstractContextManager[Path]:
        return open_view(self.repository, self.scratch, refs=refs)

    def reader(self, view: Path) -> objects.ObjectReader:
        return objects.ObjectReader(view, self.repository.shown, self.timeout)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turns what can go wrong below into one line for a person. A damaged clone of ours is thrown away."""
        shown = self.repository.shown
        try:
            yield
        except GitTimeout:
            raise UserError(f"{shown}: git gave no answer within {self.timeout:g} s", hint="try again") from None
        except GitError as error:
            raise UserError(f"{shown}: git failed: {printable(error.stderr)[:300]}") from None
        except OSError as error:
            raise _trouble(shown, error) from None
        except objects.Damaged as error:
            if not self.cached:
                raise
            clones.discard(self.repository.git_dir)
            raise UserError(f"{error.what}; the cached clone was removed", hint="run again to fetch it anew") from None


def open_snapshot(
    target: Target,
    *,
    mirrors: Sequence[Path] = (),
    cache: Path,
    timeout: float = 300,
    allow_network: bool = True,
) -> Snapshot:
    """Find the target's commit, or its working tree, and list its files.

    A remote target is looked for in `mirrors` (folders of repositories named OWNER+NAME), then among the clones under
    `cache`, then, unless `allow_network` is false, on its server. `timeout` is in seconds and bounds what is asked of
    the server, and each wait for git. Raises `UserError` for whatever a person must mend.
    """
    scratch = usable_scratch(cache)
    try:
        if target.kind == "remote":
            return _remote(target, mirrors, cache, scratch, timeout, allow_network)
        source = Source(find_repository(Path(target.location)), scratch, timeout)
    except OSError as error:
        raise _trouble(printable(target.text), error) from None
    with source.guarded():
        web = web_of_url(origin_url(source.repository, scratch, timeout))
        if not target.revision and source.repository.work_tree is not None:
            return _of_working_tree(target, source, web)
        return _of_commit(target, source, target.revision or "HEAD", web)


def _remote(
    target: Target, mirrors: Sequence[Path], cache: Path, scratch: Path, timeout: float, allow_network: bool
) -> Snapshot:
    missing: NoSuchCommit | None = None
    for repository in find_mirrors(mirrors, target.slug):
        source = Source(repository, scratch, timeout)
        try:
            with source.guarded():
                return _of_commit(target, source, target.revision or "HEAD", target.web)
        except NoSuchCommit as error:
            missing = error if missing is None or error.shared > missing.shared else missing
    server = clones.server(
        target.location, target.slug, cache=cache, scratch=scratch, largest_blob=LARGEST_FILE, timeout=timeout
    )
    if found := clones.cached_clone(server, target.revision):
        try:
            return _of_clone(target, server, *found)
        except UserError:  # damaged, and removed by now
            if not allow_network:
                raise
    if not allow_network:
        raise missing or UserError(f"{server.shown}: in no mirror and not in the cache", hint="allow the network")
    try:
        return _of_clone(target, server, *clones.fetched_clone(server, target.revision))
    except UserError as error:
        if missing is None or isinstance(error, NoSuchCommit):
            raise
        raise UserError(missing.what, hint=f"{missing.hint}. Elsewhere: {error.what}") from None


def _of_clone(target: Target, server: clones.Server, clone: Path, id: str) -> Snapshot:
    source = Source(clones.as_repository(server, clone), server.scratch, server.timeout, cached=True)
    with source.guarded():
        return _of_commit(target, source, id, target.web)


def _of_commit(target: Target, source: Source, revision: str, web: str) -> Snapshot:
    shown = source.repository.shown
    deadline = time.monotonic() + source.timeout
    full = is_full_id(revision)
    with source.view(refs=not full) as view:
        id = revision.lower() if full else resolve(view, revision, deadline)
        with source.reader(view) as reader:
            commit = objects.read_commit(reader, id) if id else None
            if commit is None:
                if source.cached:
                    raise objects.Damaged(shown, revision)
                if revision == "HEAD":
                    raise _no_head(source.repository)
                raise no_such_commit(shown, revision, commits_near(view, revision, deadline))
            try:
                files, whole = objects.list_files(reader, commit.tree)
            except objects.MissingTree:
                if source.cached:
                    raise objects.Damaged(shown, commit.tree) from None
                raise NoSuchCommit(f"{shown}: the clone lacks files of commit {commit.id}", hint=_NOT_WHOLE) from None
        sizes = objects.sizes(view, (file.id for file in files if file.mode in objects.FILE_MODES), deadline)
    absent = "its bytes are not in this clone"
    if source.cached:
        absent = f"not sent by the server, which was asked for no file {worktree.too_large(LARGEST_FILE)}"
    entries: dict[str, Entry] = {}
    skipped: list[Skipped] = []
    for file in files:
        path, reason = _name(file.path)
        reason = reason or _reason_to_skip(file.mode, sizes.get(file.id), absent)
        if path in entries:
            reason = "the commit lists this path twice; the first is read"
        if reason:
            skipped.append(Skipped(path, reason))
        else:
            entries[path] = Entry(path, file.id, sizes[file.id])
    if not whole:
        skipped.append(Skipped(".", f"more than {objects.MOST_FILES} files, or folders too deep; the rest is left out"))
    return Snapshot(
        repo=web or _as_utf8(target.shown_location),
        web=web,
        requested=_as_utf8(target.text),
        commit=commit.id,
        tree=commit.tree,
        dirty=False,
        entries=tuple(entries.values()),
        skipped=tuple(skipped),
        source=source,
    )


def _of_working_tree(target: Target, source: Source, web: str) -> Snapshot:
    root = source.repository.work_tree
    assert root is not None
    head = read_refs(source.repository).get("HEAD", "")
    with source.view(refs=False) as view, source.reader(view) as reader:
        commit = objects.read_commit(reader, head) if head else None
    if commit is None:
        raise _no_head(source.repository)
    entries: list[Entry] = []
    skipped: list[Skipped] = []
    paths = worktree.list_paths(source.repository, source.scratch, time.monotonic() + source.timeout)
    for raw in paths[: objects.MOST_FILES]:
        path, reason = _name(raw.rstrip(b"/"))
        if raw.endswith(b"/"):
            reason = "a git repository inside this one; scan it by itself"
        if not reason:
            try:
                data = worktree.read_file(root, path, LARGEST_FILE)
            except worktree.Unreadable as error:
                reason = str(error)
            else:
                if data is None:
                    reason = "not in the working tree"
                else:
                    entries.append(Entry(path, objects.blob_id(data), len(data)))
        if reason:
            skipped.append(Skipped(path, reason))
    if len(paths) > objects.MOST_FILES:
        skipped.append(Skipped(".", f"more than {objects.MOST_FILES} files; the rest is left out"))
    return Snapshot(
        repo=web or _as_utf8(target.shown_location),
        web=web,
        requested=_as_utf8(target.text),
        commit=commit.id,
        tree=commit.tree,
        dirty=True,
        entries=tuple(entries),
        skipped=tuple(skipped),
        source=source,
    )


def _no_head(repository: Repository) -> UserError:
    head = read_refs(repository).get("HEAD")
    if head:
        return NoSuchCommit(f"{repository.shown}: the clone lacks its commit {head}", hint=_NOT_WHOLE)
    return UserError(f"{repository.shown}: the repository has no commit yet", hint="commit its files first")


def _as_utf8(text: str) -> str:
    """A path that isn't UTF-8 comes from the command line with characters that no report could hold."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _trouble(shown: str, error: OSError) -> UserError:
    place = f" ({printable(str(error.filename))})" if error.filename else ""
    return UserError(f"{shown}: can't be read: {error.strerror}{place}", hint="check its permissions and the disk")


def _name(raw: bytes) -> tuple[str, str]:
    """A path as text, and why it is not read ("" where it is)."""
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), "its name is not UTF-8"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return path, "its path leads out of the repository"
    if any(part.lower() == ".git" for part in parts):
        return path, "its path is one that git keeps for itself"
    if ":" in path and path.endswith((".py", ".ipynb")):
        return path, "a colon in its path, which reports keep for dependencies"
    return path, ""


def _reason_to_skip(mode: int, size: int | None, absent: str) -> str:
    if mode == objects.SYMLINK_MODE:
        return "a symbolic link; not followed"
    if mode == objects.SUBMODULE_MODE:
        return "a submodule; not read"
    if mode not in objects.FILE_MODES:
        return f"of unknown kind (mode {mode:o})"
    if size is None:
        return absent
    return worktree.too_large(LARGEST_FILE) if size > LARGEST_FILE else ""
