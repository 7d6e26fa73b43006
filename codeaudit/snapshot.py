"""The bytes of one commit, or of a working tree, read as data: nothing is checked out and nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


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
