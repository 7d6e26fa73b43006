"""The pipeline: the one place that knows the order of the rooms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from codeaudit.evaluation.sites import EvaluationSite, Summary
from codeaudit.findings import Finding
from codeaudit.predictions import Prediction
from codeaudit.snapshot import Skipped


@dataclass(frozen=True)
class TargetInfo:
    """What was scanned, as the report names it."""

    repo: str  # https://host/owner/name where known, else the path given
    requested: str  # the target text as typed
    commit: str  # 40 hex
    tree: str
    dirty: bool

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Statistics:
    files: int
    parsed: int
    cached: int
    bytes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Scan:
    """Everything one scan found out. `to_json()` is the contract `codeaudit.scan/1`."""

    target: TargetInfo
    summary: Summary
    sites: tuple[EvaluationSite, ...]
    findings: tuple[Finding, ...]
    predictions: tuple[Prediction, ...]
    skipped: tuple[Skipped, ...]
    statistics: Statistics
    notes: tuple[str, ...] = field(default=())  # sentences a person should read (an option that nobody reads, …)
