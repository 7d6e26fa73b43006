"""Find a git repository on this disk and open a view of it in which none of its own settings act.

A clone is hostile: its configuration can name commands (fsmonitor, filters, pagers, ssh), other object stores
(alternates) and remotes to fetch missing objects from. So git is never run on the clone itself. A *view* is a fresh
bare repository of ours, with our configuration, whose object store is made of links to the clone's own packs and loose
objects, and whose refs are copied from the clone, read here as data.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.git.process import GitError, run_git
from codeaudit.store import cache_area
from codeaudit.text import printable

_CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = true
\tfsmonitor = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tcommitGraph = false
\tmultiPackIndex = false
\tuntrackedCache = false
\taskPass =
[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_ID = re.compile(r"[0-9a-f]{40}")
_REF_NAME = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
_LARGEST_METADATA = 64 << 20
_ROOM, _FILES = 8 << 20, 1000  # bytes and files that a view may need: refs, links to packs
_STALE = 24 * 3600.0  # seconds after which a scratch folder belongs to nobody


@dataclass(frozen=True)
class Repository:
    """Where the parts of a repository lie. The two git folders differ only in a linked work tree."""

    git_dir: Path  # HEAD, index
    common_dir: Path  # objects, refs
    work_tree: Path | None
    shown: str  # its name in messages


def find_repository(path: Path) -> Repository:
    """The repository at `path`, or that `path` is a folder of; OWNER+NAME may hold it as `repo`. Else `UserError`."""
    shown = printable(str(path))
    if not path.exists():
        raise UserError(f"{shown}: there is no such folder", hint="give the folder of a git repository")
    if not path.is_dir():
        raise UserError(f"{shown}: that is a file", hint="give the folder of its git repository")
    here = path.absolute()
    found = repository_at(here, shown) or ("+" in here.name and repository_at(here / "repo", shown)) or None
    for parent in here.parents:
        if found:
            break
        found = repository_at(parent, shown)
    if not found:
        raise UserError(f"{shown}: that is no git repository", hint="run git init and commit there, or give a clone")
    return found


def repository_at(path: Path, shown: str) -> Repository | None:
    """The repository whose work tree or git folder is exactly `path`."""
    marker = path / ".git"
    if marker.is_dir() and (common := _common_dir(marker)):
        return Repository(marker, common, path, shown)
    if marker.is_file():
        text = (read_small(marker) or b"").decode("utf-8", "replace").strip()
        git_dir = Path(os.path.normpath(path / text.removeprefix("gitdir:").strip()))
        if text.startswith("gitdir:") and (common := _common_dir(git_dir)):
            return Repository(git_dir, common, path, shown)
    if common := _common_dir(path):
        return Repository(path, common, None, shown)
    return None


def _common_dir(git_dir: Path) -> Path | None:
    if not (git_dir / "HEAD").is_file():
        return None
    pointer = (read_small(git_dir / "commondir") or b"").decode("utf-8", "replace").strip()
    common = Path(os.path.normpath(git_dir / pointer)) if pointer else git_dir
    return common if (common / "objects").is_dir() and (common / "refs").is_dir() else None


def read_small(path: Path, *, largest: int = _LARGEST_METADATA) -> bytes | None:
    """The bytes of a regular file; None for a missing, special or unreadable one. It never waits on a named pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode) or state.st_size > largest:
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(largest)


def find_mirrors(mirrors: Sequence[Path], slug: str) -> Iterator[Repository]:
    """The repositories named OWNER+NAME in the mirror folders, in the order of the folders. Hosts fold upper case."""
    if not slug:
        return
    wanted = slug.replace("/", "+")
    for mirror in mirrors:
        try:
            names = [name.name for name in os.scandir(mirror)]
        except OSError as error:
            shown = printable(str(mirror))
            raise UserError(f"{shown}: no folder of mirrors: {error.strerror}", hint="check --mirror") from None
        alike = [name for name in names if name.removesuffix(".git").lower() == wanted.lower()]
        for name in sorted(alike, key=lambda name: (name.removesuffix(".git") != wanted, name)):
            folder = (mirror / name).absolute()
            shown = printable(str(mirror / name))
            if found := repository_at(folder, shown) or repository_at(folder / "repo", shown):
                yield found


def origin_url(repository: Repository, scratch: Path, timeout: float) -> str:
    """Where the clone says that it came from, or "". Its configuration is read as a list of words: no includes."""
    config = read_small(repository.common_dir / "config", largest=1 << 20) or b""
    if b"origin" not in config:
        return ""
    with scratch_folder(scratch) as folder:
        lay_out(folder)
        (folder / "copy").write_bytes(config)
        command = ["config", "--file", str(folder / "copy"), "--no-includes", "--get", "remote.origin.url"]
        try:
            answer = run_git(command, git_dir=folder, deadline=time.monotonic() + timeout)
        except GitError:
            return ""
    return answer.decode("utf-8", "replace").strip()


def usable_scratch(cache: Path) -> Path:
    """A folder for scratch files: in the cache, or, where that can't be written, among the temporary files."""
    scratch = cache_area(cache, "scratch")
    with suppress(OSError):
        scratch.mkdir(parents=True, exist_ok=True)
        disk = os.statvfs(scratch)
        room = disk.f_bavail * disk.f_frsize >= _ROOM and (disk.f_files == 0 or disk.f_favail >= _FILES)
        if room and os.access(scratch, os.W_OK):
            return scratch.absolute()
    return _scratch_among_temporary_files()


def _scratch_among_temporary_files() -> Path:
    from tempfile import gettempdir

    scratch = Path(gettempdir(), f"codeaudit-{os.getuid()}")
    with suppress(FileExistsError):
        scratch.mkdir(mode=0o700)
    state = scratch.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise UserError(f"{scratch}: someone else can write there", hint="name a writable folder with --cache")
    return scratch


@contextmanager
def open_view(repository: Repository, scratch: Path, *, refs: bool) -> Iterator[Path]:
    """A git folder of ours that holds the repository's objects and, where asked for, its refs. Removed at the end."""
    with scratch_folder(scratch) as view:
        lay_out(view)
        _link_objects(repository.common_dir / "objects", view / "objects")
        if refs:
            copied = read_refs(repository)
            head = copied.pop("HEAD", "")
            lines = [f"{id} {name}\n" for name, id in sorted(copied.items()) if not name.startswith("refs/replace/")]
            (view / "packed-refs").write_text("".join(lines), "utf-8", "surrogateescape")
            if head:
                (view / "HEAD").write_text(f"{head}\n")
            shallow = read_small(repository.common_dir / "shallow")
            if shallow and all(_ID.fullmatch(line) for line in shallow.decode("ascii", "replace").split()):
                (view / "shallow").write_bytes(shallow)
        yield view


def lay_out(view: Path) -> None:
    """An empty bare repository; by hand, because `git init` costs more than all the reading."""
    (view / "objects").mkdir(parents=True)
    (view / "refs").mkdir()
    (view / "HEAD").write_text("ref: refs/heads/none\n")
    write_config(view)


def write_config(view: Path) -> None:
    """Our settings and no others."""
    (view / "config").write_text(_CONFIG)


@contextmanager
def scratch_folder(scratch: Path) -> Iterator[Path]:
    """A new folder under `scratch`, removed at the end; what killed processes left there long ago goes too."""
    scratch.mkdir(parents=True, exist_ok=True)
    for left in os.scandir(scratch):  # only ours: nothing else is ever put there
        with suppress(OSError):
            if time.time() - left.stat(follow_symlinks=False).st_mtime > _STALE:
                shutil.rmtree(left.path, ignore_errors=True)
    folder = scratch / f"{os.getpid()}-{os.urandom(8).hex()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link_objects(source: Path, target: Path) -> None:
    """Link loose-object folders and pack files. `info` stays behind: it names other object stores.

    Links that the clone itself holds are not followed: through them, as through alternates, it would borrow objects of
    another repository.
    """
    (target / "pack").mkdir()
    for folder in os.scandir(source):
        if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False):
            (target / folder.name).symlink_to(folder.path)
    packs = source / "pack"
    if packs.is_dir() and not packs.is_symlink():
        for file in os.scandir(packs):
            if file.name.endswith((".pack", ".idx")) and file.is_file(follow_symlinks=False):
                (target / "pack" / file.name).symlink_to(file.path)


def read_refs(repository: Repository) -> dict[str, str]:
    """Ref names and the ids that they point at, symbolic ones followed; no "HEAD" where it has no commit yet."""
    raw: dict[str, str] = {}
    packed = (read_small(repository.common_dir / "packed-refs") or b"").decode("utf-8", "surrogateescape")
    for line in packed.splitlines():
        id, _, name = line.partition(" ")
        if line[:1] not in ("#", "^"):
            raw[name] = id
    for folder, _, files in os.walk(repository.common_dir / "refs"):
        for file in files:
            path = Path(folder, file)
            raw[path.relative_to(repository.common_dir).as_posix()] = _ref_text(path)
    raw["HEAD"] = _ref_text(repository.git_dir / "HEAD")
    resolved = {}
    for name in raw:
        id = _follow(raw, name)
        if _ID.fullmatch(id) and (name == "HEAD" or _well_formed(name)):
            resolved[name] = id
        elif name == "HEAD" and re.fullmatch(r"[0-9a-f]{64}", id):
            raise UserError(f"{repository.shown}: repositories of format sha256 can't be read", hint="use a sha1 clone")
    return resolved


def _ref_text(path: Path) -> str:
    return (read_small(path, largest=4096) or b"").decode("utf-8", "surrogateescape").strip()


def _follow(raw: dict[str, str], name: str) -> str:
    for _ in range(5):
        value = raw.get(name, "")
        if not value.startswith("ref:"):
            return value
        name = value[4:].strip()
    return ""


def _well_formed(name: str) -> bool:
    parts = name.split("/")
    bad = any(part.startswith(".") or part.endswith((".lock", ".")) or not part for part in parts)
    return bool(_REF_NAME.fullmatch(name)) and not bad and ".." not in name and "@{" not in name
