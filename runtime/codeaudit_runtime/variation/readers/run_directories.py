"""Scores of our own run directories (`evaluate --out`, `verify --out`): one run an agent. Not for curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codeaudit_runtime.variation.readers.source import Choice, RawCurve, Reading, trouble

REPORTS = ("evaluation.json", "verification.json")
SCHEMAS = ("codeaudit.evaluate/", "codeaudit.verify/")
FLOOR = "uniform_random"


@dataclass(frozen=True)
class RunDirectorySource:
    """A report of re-executed checkpoints: one score, the mean return, for each checkpoint and action rule.

    There is no curve in it: each is a single point at step 0. Keys: environment, algorithm, rule.
    """

    path: Path
    facts: Mapping[str, str]
    report: Mapping[str, Any]
    kind: str = "run directory"
    values: tuple[str, ...] = ("mean",)
    columns: tuple[str, ...] = ("environment", "algorithm", "rule")

    def read(self, choice: Choice) -> Reading:
        curves = []
        try:
            for checkpoint in self.report["checkpoints"]:
                for rule, numbers in checkpoint["rules"].items():
                    if rule == FLOOR:
                        continue
                    own = {
                        "environment": str(checkpoint["environment"]),
                        "algorithm": str(checkpoint["algorithm"]),
                        "rule": str(rule),
                    }
                    keys = {name: own.get(name, self.facts.get(name, "")) for name in choice.keys}
                    run = f"{self.path.parent.name}/{checkpoint['id']}"
                    score = np.array([float(numbers["mean"])])
                    curves.append(RawCurve(keys, run, np.zeros(1), score, str(self.path)))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise trouble(self.path, None, "not a report of this version", "make the run directory again") from None
        return Reading(tuple(curves))


def source_from_report(path: Path, facts: Mapping[str, str]) -> RunDirectorySource:
    """UserError where the file is no report of ours."""
    try:
        report = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise trouble(path, None, error.strerror or str(error), "check the path and its permissions") from None
    except ValueError as error:
        raise trouble(path, getattr(error, "lineno", None), "no JSON", "make the run directory again") from None
    if not isinstance(report, dict) or not str(report.get("schema", "")).startswith(SCHEMAS):
        raise trouble(path, None, "not a report of `codeaudit evaluate` or `codeaudit verify`", "leave it out")
    return RunDirectorySource(path, facts, report)
