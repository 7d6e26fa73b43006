"""Registry entries read from YAML: one audited codebase each. Reads and checks; compares nothing and runs nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from codeaudit.errors import UserError
from codeaudit.text import printable

_HERE = Path(__file__).resolve().parent
_SHIPPED = (_HERE / "_registry", _HERE.parent / "registry")  # installed, and in a work tree


@dataclass(frozen=True)
class FileSource:
    """Where one file lies: relative to a folder of checkpoints, and as a blob `owner/name@commit:path`."""

    file: str
    git: str
    sha256: str


@dataclass(frozen=True)
class Published:
    """A printed return: mean and standard deviation over a number of episodes, and where it is printed."""

    mean: float
    std: float
    episodes: int
    line: str = ""


@dataclass(frozen=True)
class CheckpointEntry:
    """One trained agent."""

    id: str
    source: FileSource
    format: str
    algorithm: str
    environment: str  # the id that the publication names
    run_as: str  # the id that is run, where the named one no longer exists
    normalization: FileSource | None = None
    published: Published | None = None
    note: str = ""


@dataclass(frozen=True)
class RegistryEntry:
    """One codebase: what this reader knows of it."""

    id: str
    title: str
    url: str
    commit: str
    published_site: str  # the file whose evaluation site made the printed numbers, or ""
    checkpoints: tuple[CheckpointEntry, ...]
    folder: Path


def registry_folders(extra: Sequence[Path] = ()) -> list[Path]:
    """The folders that are looked in: those named first, then the one that is shipped."""
    return [*extra, *(folder for folder in _SHIPPED if folder.is_dir())]


def load_entry(entry_id: str, folders: Sequence[Path]) -> RegistryEntry:
    """The entry `entry_id`, from the first folder that has it. UserError where none has it or it is malformed."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", entry_id):
        raise UserError(f"{printable(entry_id)!r} is no entry id", hint="see `codeaudit registry list`")
    for folder in folders:
        path = folder / f"{entry_id}.yaml"
        if path.is_file():
            return _entry(_mapping_of(path), path)
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    raise UserError(f"no registry entry {entry_id!r}", hint=f"known: {', '.join(known) or 'none'}")


def _mapping_of(path: Path) -> Mapping[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise UserError(f"{path}:{line}: not valid YAML ({getattr(error, 'problem', None) or 'unreadable'})") from None
    if not isinstance(loaded, dict):
        raise UserError(f"{path}: an entry is a mapping")
    return loaded


def _entry(fields: Mapping[str, Any], path: Path) -> RegistryEntry:
    where = str(path)
    repository = _child(fields, "repository", where)
    published = _child(fields, "published", where) if "published" in fields else {}
    checkpoints = fields.get("checkpoints", [])
    if not isinstance(checkpoints, list):
        raise UserError(f"{where}: checkpoints is a list")
    read = tuple(_checkpoint(item, f"{where}: checkpoint {number}") for number, item in enumerate(checkpoints, 1))
    ids = [checkpoint.id for checkpoint in read]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise UserError(f"{where}: two checkpoints are called {twice[0]!r}")
    return RegistryEntry(
        id=_text(fields, "id", where),
        title=_text(fields, "title", where),
        url=_text(repository, "url", where),
        commit=_text(repository, "commit", where),
        published_site=str(published.get("site", "")),
        checkpoints=read,
        folder=path.parent,
    )


def _checkpoint(fields: Any, where: str) -> CheckpointEntry:
    if not isinstance(fields, dict):
        raise UserError(f"{where} is no mapping")
    where = f"{where} ({fields.get('id', 'no id')})"
    environment = _text(fields, "environment", where)
    return CheckpointEntry(
        id=_text(fields, "id", where),
        source=_source(fields, "source", where),
        format=_text(fields, "format", where),
        algorithm=_text(fields, "algorithm", where),
        environment=environment,
        run_as=str(fields.get("run_as", environment)),
        normalization=_source(fields, "normalization", where) if "normalization" in fields else None,
        published=_published(_child(fields, "published", where), where) if "published" in fields else None,
        note=str(fields.get("note", "")),
    )


def _source(fields: Mapping[str, Any], name: str, where: str) -> FileSource:
    source = _child(fields, name, where)
    sha256 = _text(source, "sha256", where)
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise UserError(f"{where}: {name}.sha256 is not 64 hex digits")
    return FileSource(str(source.get("file", "")), str(source.get("git", "")), sha256)


def _published(fields: Mapping[str, Any], where: str) -> Published:
    mean, std, episodes = (fields.get(name) for name in ("mean", "std", "episodes"))
    good = isinstance(mean, int | float) and isinstance(std, int | float) and std >= 0
    if not good or not isinstance(episodes, int) or episodes < 2:
        raise UserError(f"{where}: published needs mean, std and episodes (two or more)")
    assert isinstance(mean, int | float) and isinstance(std, int | float)
    return Published(float(mean), float(std), episodes, str(fields.get("line", "")))


def _child(fields: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise UserError(f"{where}: {name} is missing or no mapping")
    return value


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise UserError(f"{where}: {name} is missing or no text")
    return value
