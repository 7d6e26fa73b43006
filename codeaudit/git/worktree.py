"""List and read the files of a work tree as they lie on the disk. Git lists them, from a view, and reads none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from codeaudit.git.process import run_git
from codeaudit.git.repository import Repository, open_view, read_small


class Unreadable(Exception):
    """A file that is there and is not read; the text says why."""


def list_paths(repository: Repository, scratch: Path, deadline: float) -> list[bytes]:
    """Tracked and unignored paths relative to the root, in order. A repository within this one ends with "/".

    The index and `info/exclude` are copied into the view, because git would run the clone's fsmonitor if it read the
    clone's configuration with them.
    """
    assert repository.work_tree is not None
    with open_view(repository, scratch, refs=False) as view:
        (view / "info").mkdir()
        index = [file for file in repository.git_dir.glob("sharedindex.*") if len(file.name) == 52]
        copies = [(repository.git_dir / "index", view / "index")]
        copies += [(file, view / file.name) for file in index]
        copies += [(repository.common_dir / "info" / "exclude", view / "info" / "exclude")]
        for source, copy in copies:
            content = read_small(source, largest=1 << 30)
            if content is not None:
                copy.write_bytes(content)
        answer = run_git(
            ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name"],
            git_dir=view,
            cwd=repository.work_tree,
            deadline=deadline,
            extra={"GIT_WORK_TREE": str(repository.work_tree)},
        )
    return sorted(set(answer.split(b"\0")) - {b""})


def read_file(root: Path, path: str, largest: int) -> bytes | None:
    """The bytes of one regular file below `root`; None where it isn't there. Raises `Unreadable`.

    Folder by folder from the root, following no link: a tracked path can lead through a link that someone put in a
    folder's place.
    """
    *folders, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        state = os.stat(name, dir_fd=here, follow_symlinks=False)
        _check_kind(state, largest)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=here), "rb", buffering=0) as file:
            _check_kind(os.fstat(file.fileno()), largest)
            content = file.readall()
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        _refuse_link(root, folders)
        return None
    except OSError as error:
        raise Unreadable(f"can't be read: {(error.strerror or 'unknown error').lower()}") from None
    finally:
        os.close(here)
    if len(content) > largest:
        raise Unreadable(too_large(largest))
    return content


def too_large(largest: int) -> str:
    return f"larger than {largest >> 20} MiB"


def _check_kind(state: os.stat_result, largest: int) -> None:
    if stat.S_ISLNK(state.st_mode):
        raise Unreadable("a symbolic link; not followed")
    if stat.S_ISDIR(state.st_mode):
        raise Unreadable("a submodule; not read")
    if not stat.S_ISREG(state.st_mode):
        raise Unreadable("no regular file")
    if state.st_size > largest:
        raise Unreadable(too_large(largest))


def _refuse_link(root: Path, folders: list[str]) -> None:
    """A folder of the path is no folder: a link is worth a word, anything else means that the file isn't there."""
    for count in range(1, len(folders) + 1):
        if root.joinpath(*folders[:count]).is_symlink():
            raise Unreadable("below a symbolic link; not followed")
