"""Keep bytes on disk so that they survive a kill: a cache that may forget, and run directories that must not.

Nothing here knows what the bytes mean. No locks: a file is written aside and renamed into place, so a reader sees the
old content or the new, never half of it, and two processes at once do each other no harm.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from codeaudit.errors import UserError
from codeaudit.text import printable

_MAGIC = b"codeaudit-store-1\n"
_DIGEST = 32
_STALE = 24 * 3600.0  # seconds after which an unfinished file belongs to nobody
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by codeaudit; `codeaudit cache clear` empties it.\n"
_CLEARED = ("entries", "clones")
_LAYOUT = "v1"  # a folder of our own: someone may name a cache folder that holds other things


def default_cache_dir(chosen: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Where clones, facts and runs are kept: `chosen`, else CODEAUDIT_CACHE, XDG_CACHE_HOME or ~/.cache."""
    variables = os.environ if environ is None else environ
    if chosen is not None:
        return chosen
    if named := variables.get("CODEAUDIT_CACHE"):
        return Path(named)
    base = Path(variables.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "codeaudit"


def cache_area(root: Path, name: str) -> Path:
    """The folder in the cache for one kind of thing that can be made again: "entries", "clones", "scratch"."""
    return root / _LAYOUT / name


class Cache:
    """Entries by namespace and key. A lost, truncated or altered entry reads as missing; its owner makes it anew."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, namespace: str, key: str) -> bytes | None:
        """The bytes kept under `key`, or None."""
        try:
            sealed = self._file(namespace, key).read_bytes()
        except OSError:
            return None
        return _unseal(_name(namespace, key), sealed)

    def put(self, namespace: str, key: str, data: bytes) -> bool:
        """Keep `data`; False where the disk is full or may not be written, which must not stop anybody's work."""
        file = self._file(namespace, key)
        try:
            if not file.parent.is_dir():
                self._make(file.parent)
            _write(file, _seal(_name(namespace, key), data))
        except OSError:
            return False
        return True

    def size(self) -> int:
        """Bytes that `clear` would free."""
        return sum(size for name in _CLEARED for size in _file_sizes(cache_area(self.root, name)))

    def clear(self) -> int:
        """Remove entries and clones; the bytes freed. Runs, foreign files and what others are working on stay."""
        before = self.size()
        for name in _CLEARED:
            shutil.rmtree(cache_area(self.root, name), ignore_errors=True)
        return before - self.size()

    def _file(self, namespace: str, key: str) -> Path:
        digest = hashlib.blake2b(_name(namespace, key), digest_size=20).hexdigest()
        return cache_area(self.root, "entries") / digest[:2] / digest[2:]

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        tag = self.root / "CACHEDIR.TAG"  # tells backup programs to leave the folder out
        if not tag.exists():
            tag.write_text(_TAG)


class RunDirectory:
    """The units of one run, each saved when done, so that a killed run goes on where it stopped.

    `manifest` says what the run is (every setting that shapes its results). It is written once; opening the directory
    with another manifest raises `UserError`, which names the setting that differs. Several processes may work on one
    run.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self._units = path / "units"
        wanted: dict[str, Any] = json.loads(json.dumps(manifest))
        try:
            self._units.mkdir(parents=True, exist_ok=True)
            text = json.dumps(wanted, indent=2, sort_keys=True) + "\n"
            _write(path / "manifest.json", text.encode(), keep_existing=True)
            found = (path / "manifest.json").read_bytes()
        except OSError as error:
            raise self._trouble(error) from None
        self._compare(found, wanted)
        _sweep(self._units)

    def unit(self, key: str) -> bytes | None:
        """What was saved under `key`; None where nothing was, or where it was damaged since and must be made again."""
        try:
            return _unseal(_name("", key), self._file(key).read_bytes())
        except OSError:
            return None

    def save(self, key: str, data: bytes) -> None:
        """Save a finished unit. Raises `UserError` where it can't be kept (a full disk)."""
        try:
            _write(self._file(key), _seal(_name("", key), data))
        except OSError as error:
            raise self._trouble(error) from None

    def keys(self) -> list[str]:
        """The keys of the undamaged units, sorted."""
        found = []
        for file in self._units.glob("*.unit"):
            with suppress(OSError):
                sealed = file.read_bytes()
                name = _sealed_name(sealed)
                if name is not None and _unseal(name, sealed) is not None:
                    found.append(name.decode("utf-8", "surrogateescape").removeprefix("0:"))
        return sorted(found)

    def _file(self, key: str) -> Path:
        return self._units / f"{hashlib.blake2b(_name('', key), digest_size=20).hexdigest()}.unit"

    def _trouble(self, error: OSError) -> UserError:
        shown = printable(str(self.path))
        return UserError(
            f"{shown}: can't write the run: {error.strerror}", hint="free some space or name another folder"
        )

    def _compare(self, found: bytes, wanted: Mapping[str, Any]) -> None:
        shown = printable(str(self.path))
        try:
            there = json.loads(found)
            if not isinstance(there, dict):
                raise ValueError
        except ValueError:
            raise UserError(f"{shown}/manifest.json: damaged", hint="delete the folder and run again") from None
        for key in sorted({*there, *wanted}):
            had, has = (json.dumps(side[key], sort_keys=True) if key in side else "unset" for side in (there, wanted))
            if had != has:
                name = printable(key)
                raise UserError(
                    f"{shown}: the folder holds a run with {name} {_short(had)}, and this one has {_short(has)}",
                    hint="go on with the same settings, or name another folder",
                )


def _short(text: str) -> str:
    return printable(text if len(text) <= 80 else text[:77] + "...")


def _name(namespace: str, key: str) -> bytes:
    return f"{len(namespace)}:{namespace}{key}".encode("utf-8", "surrogateescape")


def _seal(name: bytes, data: bytes) -> bytes:
    body = b"%d\n%b%b" % (len(name), name, data)
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def _unseal(name: bytes, sealed: bytes) -> bytes | None:
    """The data, or None where one bit differs from what was sealed, or where it was sealed under another name."""
    view = memoryview(sealed)
    start = len(_MAGIC) + _DIGEST
    head = b"%d\n%b" % (len(name), name)
    if view[: len(_MAGIC)] != _MAGIC or view[start : start + len(head)] != head:
        return None
    if hashlib.blake2b(view[start:], digest_size=_DIGEST).digest() != view[len(_MAGIC) : start]:
        return None
    return sealed[start + len(head) :]


def _sealed_name(sealed: bytes) -> bytes | None:
    count, newline, rest = sealed[len(_MAGIC) + _DIGEST :].partition(b"\n")
    return rest[: int(count)] if newline and count.isdigit() else None


def _write(file: Path, data: bytes, *, keep_existing: bool = False) -> None:
    """Write aside, then rename into place, or, with `keep_existing`, link so that the first writer wins."""
    aside = file.with_name(f".{file.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        aside.write_bytes(data)
        if keep_existing:
            with suppress(FileExistsError):
                os.link(aside, file)
        else:
            aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    for left in folder.glob(".*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE:
                left.unlink()


def _file_sizes(folder: Path) -> Iterator[int]:
    for parent, _, files in os.walk(folder):
        for file in files:
            with suppress(OSError):
                yield Path(parent, file).lstat().st_size


@contextmanager
def report_file(output: Path | None, *, option: str = "--output") -> Iterator[IO[str]]:
    """Standard output, or a file that appears whole or not at all. UserError where it can't be written, and for a
    device, a pipe or a folder: to put a file in its place would destroy it."""
    if output is None:
        yield sys.stdout
        return
    if output.exists() and not output.is_file():
        raise UserError(f"cannot write {output}: it is no regular file", hint=f"choose another {option}")
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(output)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}", hint=f"choose another {option}") from error
    finally:
        draft.unlink(missing_ok=True)
