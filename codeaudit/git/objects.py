"""Read commits, trees and blobs, and prove each by its id. It knows no refs, no revisions and no network.

A clone can hold a pack whose index files one object's bytes under another's id. Git trusts the index, so the ids are
checked here, from the commit down to each blob: what is reported for a commit is then what that commit says, and facts
that are cached by blob id can't be poisoned.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from codeaudit.errors import UserError
from codeaudit.git.process import TimedReader, run_git, start, stop

FILE_MODES = (0o100644, 0o100755, 0o100664)
SYMLINK_MODE = 0o120000
SUBMODULE_MODE = 0o160000
MOST_FILES = 200_000
_TREE_MODE = 0o040000
_DEEPEST = 500  # folders within folders
_LARGEST = 64 << 20  # bytes of an object; files are read up to a smaller size
_AT_ONCE = 500  # ids sent before their answers are read: fewer bytes than any pipe holds, so neither side can block


@dataclass(frozen=True)
class Commit:
    id: str
    tree: str


@dataclass(frozen=True)
class TreeFile:
    """One line of a recursive listing; the path is the bytes that the tree holds."""

    path: bytes
    mode: int
    id: str


def blob_id(data: bytes) -> str:
    """The id that git gives to a file with these bytes."""
    return object_id("blob", data)


def object_id(kind: str, data: bytes) -> str:
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class ObjectReader:
    """One `git cat-file --batch` on a view of a repository. Use as a context manager."""

    def __init__(self, view: Path, shown: str, patience: float) -> None:
        self._shown = shown
        self._process = start(["cat-file", "--batch"], git_dir=view, stdin=subprocess.PIPE)
        assert self._process.stdout is not None
        self._answers = TimedReader(self._process.stdout, patience)

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop(self._process)

    def read(self, ids: Iterable[str]) -> Iterator[tuple[str, str, bytes] | None]:
        """(id, kind, bytes) for each id in order, None for one that the repository doesn't hold.

        Raises `UserError` where an object is damaged or isn't what its id says.
        """
        waiting: list[str] = []
        for id in ids:
            waiting.append(id)
            if len(waiting) == _AT_ONCE:
                yield from self._exchange(waiting)
                waiting = []
        yield from self._exchange(waiting)

    def _exchange(self, ids: Sequence[str]) -> Iterator[tuple[str, str, bytes] | None]:
        assert self._process.stdin is not None
        id = ""
        try:
            self._process.stdin.write("".join(f"{id}\n" for id in ids).encode())
            for id in ids:
                header = self._answers.line().split(b" ")
                if len(header) != 3:
                    yield None
                    continue
                if int(header[2]) > _LARGEST:
                    raise UserError(f"{self._shown}: the object {id} is too large to be read")
                data = self._answers.exactly(int(header[2]) + 1)[:-1]
                kind = header[1].decode()
                if object_id(kind, data) != id:
                    raise Damaged(self._shown, id)
                yield id, kind, data
        except (EOFError, BrokenPipeError):
            raise Damaged(self._shown, id) from None


class Damaged(UserError):
    """An object's bytes don't belong to its id, or aren't there though they must be."""

    def __init__(self, shown: str, id: str) -> None:
        super().__init__(f"{shown}: the object {id} is damaged, or isn't what its id says", hint="clone it afresh")


def read_commit(reader: ObjectReader, id: str) -> Commit | None:
    """The commit of that id, or the one that the tag of that id points at; None where it isn't there."""
    for _ in range(8):
        found = next(reader.read([id]))
        if found is None:
            return None
        _, kind, data = found
        name, _, value = data.split(b"\n", 1)[0].partition(b" ")
        if kind == "commit" and name == b"tree" and len(value) == 40:
            return Commit(id, value.decode("ascii", "replace"))
        if kind != "tag" or name != b"object" or len(value) != 40:
            return None
        id = value.decode("ascii", "replace")
    return None


def list_files(reader: ObjectReader, tree: str) -> tuple[list[TreeFile], bool]:
    """All files below a tree, symlinks and submodules included, in the order of their paths; and whether that is all.

    Each distinct tree is read once, level by level, so that trees which repeat each other ten times over on every level
    cost nothing until they are listed, and the listing ends at `MOST_FILES`. Raises `MissingTree`.
    """
    known: dict[str, list[tuple[int, bytes, str]]] = {}
    level = [tree]
    for _ in range(_DEEPEST):
        wanted = [id for id in dict.fromkeys(level) if id not in known]
        if not wanted or len(known) > MOST_FILES:
            break
        level = []
        for id, found in zip(wanted, reader.read(wanted), strict=True):
            if found is None or found[1] != "tree":
                raise MissingTree(id)
            known[id] = list(_parse_tree(found[2]))
            level += [child for mode, _, child in known[id] if mode == _TREE_MODE]
    files: list[TreeFile] = []
    whole = True
    stack = [(b"", tree, 0)]
    while stack:
        prefix, id, depth = stack.pop()
        if id not in known or depth > _DEEPEST:
            whole = False
            continue
        folders = []
        for mode, name, child in known[id]:
            if mode == _TREE_MODE:
                folders.append((prefix + name + b"/", child, depth + 1))
            else:
                files.append(TreeFile(prefix + name, mode, child))
        if len(files) + len(stack) + len(folders) > MOST_FILES:
            whole = False
            break
        stack += reversed(folders)
    return sorted(files[:MOST_FILES], key=lambda file: file.path), whole


class MissingTree(Exception):
    """The repository doesn't hold a tree of the commit."""


def _parse_tree(data: bytes) -> Iterator[tuple[int, bytes, str]]:
    at = 0
    while at < len(data):
        space = data.find(b" ", at)
        end = data.find(b"\0", space)
        mode = data[at:space]
        if space < 0 or end < 0 or end + 21 > len(data) or not mode.isdigit() or len(mode) > 7:
            raise UserError("a folder listing in the repository is malformed", hint="run git fsck on it")
        yield int(mode, 8), data[space + 1 : end], data[end + 1 : end + 21].hex()
        at = end + 21


def sizes(view: Path, ids: Iterable[str], deadline: float) -> dict[str, int]:
    """The size in bytes of each blob that the repository holds; other ids are left out."""
    unique = list(dict.fromkeys(ids))
    if not unique:
        return {}
    answers = run_git(
        ["cat-file", "--batch-check", "--buffer"],
        git_dir=view,
        deadline=deadline,
        stdin="".join(f"{id}\n" for id in unique).encode(),
    )
    found = {}
    for id, answer in zip(unique, answers.split(b"\n"), strict=False):
        parts = answer.split(b" ")
        if len(parts) == 3 and parts[1] == b"blob":
            found[id] = int(parts[2])
    return found
