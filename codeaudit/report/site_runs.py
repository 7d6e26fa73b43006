"""The reports that runs left behind, found and read. What they say is shown elsewhere; nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.registry.entries import RegistryEntry
from codeaudit.report.statement import RUN_REPORTS
from codeaudit.text import printable

_FILES = ("verification.json", "evaluation.json", "floor.json")
_LARGEST = 64 << 20  # bytes


def run_report(path: Path) -> Mapping[str, Any] | None:
    """The report of a run directory, or that report itself; None where `path` is neither. UserError if damaged."""
    if path.is_dir():
        files = [path / name for name in _FILES if (path / name).is_file()]
    else:
        files = [path] if path.suffix == ".json" and path.is_file() else []
    return _read(files[0]) if files else None


def _read(path: Path) -> Mapping[str, Any]:
    shown = printable(str(path))
    try:
        if path.stat().st_size > _LARGEST:
            raise UserError(f"{shown}: too large for the report of a run")
        report = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{shown}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{shown}: no JSON", hint="make the report again") from None
    if not isinstance(report, dict) or report.get("schema") not in RUN_REPORTS:
        raise UserError(f"{shown}: not the report of a run", hint=f"its schema must be one of {', '.join(RUN_REPORTS)}")
    return report


def find_runs(
    folders: Sequence[Path], entries: Sequence[RegistryEntry], *, named: bool = True
) -> dict[str, Mapping[str, Any]]:
    """The newest verification of each entry at its commit, by entry id, among run directories and folders of them.

    A folder that a person named and that holds no run is a UserError; a default one may be empty.
    """
    wanted = {entry.id: entry.commit for entry in entries}
    found: dict[str, tuple[float, Mapping[str, Any]]] = {}
    for folder in folders:
        files = [folder / _FILES[0], *sorted(folder.glob(f"*/{_FILES[0]}"))] if folder.is_dir() else []
        files = [file for file in files if file.is_file()]
        if named and not files:
            raise UserError(f"{printable(str(folder))}: no {_FILES[0]} in it", hint="name a run directory of verify")
        for file in files:
            report = _read(file)
            name, written = str(report.get("entry")), file.stat().st_mtime
            if wanted.get(name) == report.get("commit") and written >= found.get(name, (0.0, {}))[0]:
                found[name] = (written, report)
    return {name: report for name, (_, report) in sorted(found.items())}
