"""A lint finding: plain data that rules give and reports render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codeaudit.evaluation.sites import Evidence


@dataclass(frozen=True)
class Finding:
    """One reproducibility fault at one place."""

    code: str
    severity: str  # "error", "warning" or "note"
    file: str
    line: int
    message: str
    fingerprint: str
    evidence: tuple[Evidence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "message": self.message,
            "evidence": [step.to_json() for step in self.evidence],
            "fingerprint": self.fingerprint,
        }
