"""Finds the files of a checkpoint: in a folder on this machine first, else as a git blob. Parses none of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.registry import CheckpointEntry, FileSource
from codeaudit.snapshot import open_snapshot
from codeaudit.target import parse_target
from codeaudit_runtime.checkpoints.source import bytes_of_file, verified_bytes
from codeaudit_runtime.measure import AgentFiles


def checkpoint_folders(chosen: Path | None) -> list[Path]:
    """`--checkpoints DIR`, then CODEAUDIT_CHECKPOINTS (folders, split as PATH is)."""
    named = os.environ.get("CODEAUDIT_CHECKPOINTS", "")
    return [*([chosen] if chosen is not None else []), *(Path(part) for part in named.split(os.pathsep) if part)]


def agent_files(
    entry_id: str, checkpoint: CheckpointEntry, folders: Sequence[Path], mirrors: Sequence[Path], cache: Path
) -> AgentFiles:
    """Local paths of a registered checkpoint, each with its sha256 verified. UserError where a file is not found."""
    statistics = checkpoint.normalization
    return AgentFiles(
        path=str(_local_file(entry_id, checkpoint.source, folders, mirrors, cache)),
        sha256=checkpoint.source.sha256,
        normalization=str(_local_file(entry_id, statistics, folders, mirrors, cache)) if statistics else "",
        normalization_sha256=statistics.sha256 if statistics else "",
    )


def agent_files_of_path(path: Path, architecture: str = "", normalization: Path | None = None) -> AgentFiles:
    """A checkpoint that somebody names by path. A `vecnormalize.pkl` beside it belongs to it."""
    _, digest = verified_bytes(bytes_of_file(path), "", str(path))
    if normalization is None:
        beside = [path.with_name("vecnormalize.pkl"), path.parent / path.stem / "vecnormalize.pkl"]
        normalization = next((file for file in beside if path.suffix == ".zip" and file.is_file()), None)
    if normalization is None:
        return AgentFiles(str(path), digest, architecture)
    _, statistics = verified_bytes(bytes_of_file(normalization), "", str(normalization))
    return AgentFiles(str(path), digest, architecture, str(normalization), statistics)


def _local_file(
    entry_id: str, source: FileSource, folders: Sequence[Path], mirrors: Sequence[Path], cache: Path
) -> Path:
    candidates = [folder / part / source.file for folder in folders for part in (entry_id, "") if source.file]
    found = next((path for path in candidates if path.is_file()), None)
    if found is not None:
        verified_bytes(bytes_of_file(found), source.sha256, str(found))
        return found
    kept = cache / "checkpoints" / source.sha256 / (Path(source.git.rpartition(":")[2]).name or "checkpoint")
    if kept.is_file():
        return kept  # whoever reads it verifies the hash again
    if not source.git:
        looked = ", ".join(map(str, folders)) or "no folder was named"
        raise UserError(f"{source.file}: not found ({looked})", hint="name its folder with --checkpoints DIR")
    content, _ = verified_bytes(_blob(source, mirrors, cache), source.sha256, source.git)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(kept)
    except OSError as error:
        raise UserError(f"{kept}: {error.strerror}", hint="free some space or name another --cache") from None
    return kept


def _blob(source: FileSource, mirrors: Sequence[Path], cache: Path) -> bytes:
    repository, colon, path = source.git.partition(":") if "://" not in source.git else _split_url(source.git)
    if not colon or not path:
        raise UserError(f"{source.git!r} is not repository@commit:path")
    snapshot = open_snapshot(parse_target(repository), mirrors=mirrors, cache=cache)
    try:
        return next(content for _, content in snapshot.read([path]))
    except KeyError:
        raise UserError(f"{repository} has no file {path!r}", hint="check the registry entry") from None


def _split_url(text: str) -> tuple[str, str, str]:
    scheme, separator, rest = text.partition("://")
    left, colon, path = rest.partition(":")
    return f"{scheme}{separator}{left}", colon, path
