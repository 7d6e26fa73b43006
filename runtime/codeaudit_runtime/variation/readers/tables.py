"""Curves of CSV tables: tidy ones, progress files and W&B exports. Not for Stable-Baselines3 monitor files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.variation.readers.csv_lines import BLANK, CsvFile, Rows, numbers
from codeaudit_runtime.variation.readers.source import (
    Choice,
    RawCurve,
    Reading,
    last_of_equal_steps,
    trouble,
)

WANDB_SEPARATOR = " - "
WANDB_EXTREMES = ("__MIN", "__MAX")


@dataclass(frozen=True)
class TableSource:
    """One row a logged point. With a run column it holds several runs, without one it is one run."""

    file: CsvFile
    facts: Mapping[str, str]
    kind: str = "table"

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def values(self) -> tuple[str, ...]:
        return self.file.header

    @property
    def columns(self) -> tuple[str, ...]:
        return self.file.header

    def read(self, choice: Choice) -> Reading:
        """Rows without a value are no points; steps may stand in any order where a run column tells runs apart."""
        keys = tuple(name for name in choice.keys if name in self.file.header)
        identity = (*keys, *((choice.run,) if choice.run is not None else ()))
        points = _Points(self.path, choice, identity)
        for rows in self.file.chunks():
            points.add(rows, self.file.header)
        fixed = {name: self.facts[name] for name in choice.keys if name in self.facts and name not in keys}
        curves, notes = [], []
        for names, steps_T, values_T, lines_T in points.by_identity():
            own = dict(zip(identity, names, strict=True))
            run = own[choice.run] if choice.run is not None else None
            steps_T, values_T, repeated = self._in_order(steps_T, values_T, lines_T, choice, own)
            if repeated:
                notes.append(f"{self.path.name}: {repeated} steps were logged twice; the later value is kept")
            shown = {name: own[name] if name in own else fixed.get(name, "") for name in choice.keys}
            curves.append(RawCurve(shown, run, steps_T, values_T, str(self.path)))
        if self.file.cut_short:
            notes.append(f"{self.path.name}:{self.file.cut_short[0]}: the last line is unfinished and left out")
        return Reading(tuple(curves), tuple(notes))

    def _in_order(
        self, steps_T: FloatArray, values_T: FloatArray, lines_T: FloatArray, choice: Choice, own: Mapping[str, str]
    ) -> tuple[FloatArray, FloatArray, int]:
        """Ascending steps. UserError where equal steps show that more than one run is mixed up."""
        jumps = np.diff(steps_T)
        if choice.run is None:
            if (jumps < 0).any():
                line = int(lines_T[int(np.argmax(jumps < 0)) + 1])
                hint = "several runs in one file? Name their column with --run; a resumed run? Cut the older part"
                raise trouble(self.path, line, f"column {choice.step!r} goes back", hint)
            return last_of_equal_steps(steps_T, values_T)
        order = np.argsort(steps_T, kind="stable")
        steps_T, values_T, lines_T = steps_T[order], values_T[order], lines_T[order]
        same = np.flatnonzero(np.diff(steps_T) == 0)
        if len(same):
            who = ", ".join(f"{name} {value}" for name, value in own.items())
            others = [name for name in self.file.header if name not in (choice.value, choice.step, *own)]
            hint = f"name the columns that tell runs apart with --group or --run; columns left: {', '.join(others)}"
            why = f"{who} has step {steps_T[same[0]]:g} twice"
            raise trouble(self.path, int(lines_T[same[0] + 1]), why, hint)
        return steps_T, values_T, 0


@dataclass
class _Points:
    """Columns of a table gathered chunk by chunk, each row's identity as a small integer."""

    path: Path
    choice: Choice
    identity: tuple[str, ...]
    codes: dict[tuple[str, ...], int] = field(default_factory=dict)
    parts: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]] = field(default_factory=list)

    def add(self, rows: Rows, header: Sequence[str]) -> None:
        if not rows.cells:
            return
        lines, place = rows.lines, {name: index for index, name in enumerate(header)}
        raw = rows.column(place[self.choice.value])
        values_T = numbers(self.path, self.choice.value, raw, lines, blank=True)
        measured = np.ones(len(raw), dtype=bool)
        for index in np.flatnonzero(np.isnan(values_T)):
            measured[index] = raw[index].strip().lower() not in BLANK
        step = self.choice.step
        assert step is not None
        steps_T = numbers(self.path, step, rows.column(place[step]), lines, blank=True)
        bad = measured & ~np.isfinite(steps_T)
        if bad.any():
            line = lines[int(np.argmax(bad))]
            raise trouble(self.path, line, f"a value without a finite {step!r}", "mend the line, or choose --step")
        names: list[tuple[str, ...]] = [()] * len(raw)
        if self.identity:
            names = list(zip(*(rows.column(place[name]) for name in self.identity), strict=True))
        for name in dict.fromkeys(names):
            self.codes.setdefault(name, len(self.codes))
        codes_T = np.fromiter(map(self.codes.__getitem__, names), dtype=np.int64, count=len(names))
        lines_T = np.array(lines, dtype=np.int64)
        self.parts.append((steps_T[measured], values_T[measured], codes_T[measured], lines_T[measured]))

    def by_identity(self) -> list[tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray]]:
        """(identity, steps, values, lines) of each run, in order of appearance. UserError where nothing is left."""
        if not self.parts or not sum(len(part[0]) for part in self.parts):
            raise trouble(self.path, None, f"no row has a {self.choice.value!r}", "leave the file out with --skip-bad")
        steps_T, values_T, codes_T, lines_T = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        order = np.argsort(codes_T, kind="stable")
        edges = np.flatnonzero(np.diff(codes_T[order])) + 1
        by_code = list(self.codes)
        return [
            (by_code[int(codes_T[part[0]])], steps_T[part], values_T[part], lines_T[part])
            for part in np.split(order, edges)
        ]


@dataclass(frozen=True)
class WandbSource:
    """The CSV that W&B's panels export: a step column and, for each run, `RUN - METRIC`, `__MIN` and `__MAX`."""

    file: CsvFile
    facts: Mapping[str, str]
    kind: str = "W&B export"

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.file.header if WANDB_SEPARATOR not in name)

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name.rpartition(WANDB_SEPARATOR)[2] for name in self._runs()))

    def _runs(self) -> list[str]:
        return [
            name
            for name in self.file.header
            if WANDB_SEPARATOR in name and not name.endswith(WANDB_EXTREMES) and not name.endswith("_step")
        ]

    def read(self, choice: Choice) -> Reading:
        assert choice.step is not None
        names = [name for name in self._runs() if name.rpartition(WANDB_SEPARATOR)[2] == choice.value]
        steps, values = [], {name: [] for name in names}  # type: tuple[list[FloatArray], dict[str, list[FloatArray]]]
        blanks: dict[str, list[FloatArray]] = {name: [] for name in names}
        for rows in self.file.chunks():
            if not rows.cells:
                continue
            columns = dict(zip(self.file.header, zip(*rows.cells, strict=True), strict=True))
            steps.append(numbers(self.path, choice.step, list(columns[choice.step]), rows.lines, blank=False))
            for name in names:
                values[name].append(numbers(self.path, name, list(columns[name]), rows.lines, blank=True))
                blanks[name].append(np.array([cell.strip().lower() in BLANK for cell in columns[name]]))
        if not steps:
            raise trouble(self.path, None, "no rows below the header", "export the panel again")
        steps_T = np.concatenate(steps)
        fixed = {name: self.facts.get(name, "") for name in choice.keys}
        curves = []
        for name in names:
            kept = ~np.concatenate(blanks[name]).astype(bool)
            own_T, values_T = steps_T[kept], np.concatenate(values[name])[kept]
            order = np.argsort(own_T, kind="stable")
            own_T, values_T, _ = last_of_equal_steps(own_T[order], values_T[order])
            if len(own_T):
                curves.append(RawCurve(fixed, name.rpartition(WANDB_SEPARATOR)[0], own_T, values_T, str(self.path)))
        empty = len(names) - len(curves)
        notes = (f"{self.path.name}: {empty} runs have no value at all and are left out",) if empty else ()
        return Reading(tuple(curves), notes)
