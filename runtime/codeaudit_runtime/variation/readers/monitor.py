"""Curves of monitor files (Stable-Baselines3, baselines): one row an episode with r, l, t. Not for other tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codeaudit_runtime.variation.readers.csv_lines import CsvFile, numbers
from codeaudit_runtime.variation.readers.source import Choice, RawCurve, Reading, trouble


def monitor_head(file: CsvFile) -> Mapping[str, Any] | None:
    """The JSON line that opens a monitor file; None for any other table."""
    if not file.comments or not {"r", "l", "t"} <= set(file.header):
        return None
    try:
        head = json.loads(file.comments[0].lstrip("#"))
    except ValueError:
        return None
    return head if isinstance(head, dict) and "t_start" in head else None


@dataclass(frozen=True)
class MonitorSource:
    """The monitor files of one run: one for each sub-environment, merged in order of wall-clock time.

    The step of an episode is the sum of all lengths up to it, as Stable-Baselines3's `load_results` and `ts2xy` count.
    """

    files: tuple[CsvFile, ...]
    facts: Mapping[str, str]
    kind: str = "monitor"
    values: tuple[str, ...] = ("r",)
    columns: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return self.files[0].path

    def read(self, choice: Choice) -> Reading:
        parts, notes = [], []
        for file in self.files:
            start = float((monitor_head(file) or {}).get("t_start", 0.0))
            for rows in file.chunks():
                if not rows.cells:
                    continue
                columns = dict(zip(file.header, zip(*rows.cells, strict=True), strict=True))
                r, length, t = (
                    numbers(file.path, name, list(columns[name]), rows.lines, blank=False) for name in ("r", "l", "t")
                )
                if not (length > 0).all():
                    line = rows.lines[int(np.argmin(length > 0))]
                    raise trouble(file.path, line, "an episode without length", "mend the line, or use --skip-bad")
                parts.append((t + start, length, r))
            if file.cut_short:
                notes.append(f"{file.path.name}:{file.cut_short[0]}: the last line is unfinished and left out")
        if not parts:
            raise trouble(self.path, None, "no episode below the header", "leave the file out with --skip-bad")
        times_T, lengths_T, returns_T = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(times_T, kind="stable")
        keys = {name: self.facts.get(name, "") for name in choice.keys}
        curve = RawCurve(keys, None, lengths_T[order].cumsum(), returns_T[order], str(self.path))
        return Reading((curve,), tuple(notes))
