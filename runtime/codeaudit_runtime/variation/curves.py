"""Learning curves and their final performance in a stated window. Not for reading files or for statistics.

Axis letters: R runs, T logged points of one run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.spaces import FloatArray

Lengths = Literal["shortest", "own"]
Unit = Literal["percent", "steps", "points"]
SHORT = 0.9  # a run that ends before this share of the longest one is named


@dataclass(frozen=True, eq=False)
class Curve:
    """One run's learning curve: steps (T,) ascending, values (T,), NaN where a value was logged but is no number."""

    task: str
    algorithm: str
    run: str
    steps_T: FloatArray
    values_T: FloatArray
    source: str


@dataclass(frozen=True)
class Window:
    """The last part of a curve: a percentage of the span of steps, a number of steps, or of logged points."""

    amount: float = 10.0
    unit: Unit = "percent"

    def describe(self) -> str:
        if self.unit == "percent":
            return "the whole curve" if self.amount == 100 else f"the last {self.amount:g}% of the steps"
        unit = self.unit if self.amount != 1 else self.unit[:-1]
        return f"the last {self.amount:,g} {unit}" if self.amount != 1 else f"the last {unit}"


@dataclass(frozen=True, eq=False)
class Finals:
    """Final performance of the runs of one task.

    `scores_R` is NaN where a run has no number in its window; `starts_R` and `ends_R` bound each run's window in steps,
    both ends included; `points_R` counts the values that were averaged.
    """

    scores_R: FloatArray
    starts_R: FloatArray
    ends_R: FloatArray
    points_R: tuple[int, ...]
    short: tuple[str, ...]  # runs that end well before the longest one


def window_from_text(text: str) -> Window:
    """`10%`, `100000steps` or `5points`. Raises UserError."""
    found = re.fullmatch(r"\s*([0-9][0-9_,]*\.?[0-9]*(?:e[0-9]+)?)\s*(%|steps?|points?)\s*", text, re.IGNORECASE)
    if not found:
        raise UserError(f"--window {text!r} is no window", hint="for example 10%, 100000steps or 5points")
    amount = float(found[1].replace("_", "").replace(",", ""))
    unit: Unit = "percent" if found[2] == "%" else "steps" if found[2].lower().startswith("step") else "points"
    if amount <= 0 or (unit == "percent" and amount > 100) or (unit == "points" and amount != int(amount)):
        raise UserError(f"--window {text!r} is out of range", hint="for example 10%, 100000steps or 5points")
    return Window(amount, unit)


def final_scores(curves: Sequence[Curve], window: Window, lengths: Lengths = "shortest") -> Finals:
    """Mean of each run's values in its final window; curves of one task, of all algorithms compared on it.

    With `shortest` the window of every run ends where the shortest run ends, so that all are compared at the same
    budget; with `own` each at its own end. Values that are not finite are left out of the mean, never interpolated.
    """
    ends_R = np.array([curve.steps_T[-1] for curve in curves], dtype=np.float64)
    begins_R = np.array([curve.steps_T[0] for curve in curves], dtype=np.float64)
    longest = float(ends_R.max())
    span = longest - float(begins_R.min())
    short = tuple(
        curve.run for curve, end in zip(curves, ends_R, strict=True) if longest - end > (1 - SHORT) * span and span > 0
    )
    if lengths == "shortest":
        ends_R = np.full(len(curves), ends_R.min())
    scores_R, starts_R = np.full(len(curves), np.nan), np.empty(len(curves))
    points = []
    for index, curve in enumerate(curves):
        start = _window_start(curve, window, float(ends_R[index]))
        inside_T = (curve.steps_T >= start) & (curve.steps_T <= ends_R[index])
        values = curve.values_T[inside_T]
        finite = values[np.isfinite(values)]
        starts_R[index] = start
        points.append(len(finite))
        if len(finite):
            scores_R[index] = finite.mean()
    return Finals(scores_R, starts_R, ends_R, tuple(points), short)


def _window_start(curve: Curve, window: Window, end: float) -> float:
    if window.unit == "points":
        before = int(np.searchsorted(curve.steps_T, end, side="right"))
        return float(curve.steps_T[max(0, before - int(window.amount))])
    if window.unit == "steps":
        return end - window.amount
    begin = float(curve.steps_T[0])
    return end - window.amount / 100 * (end - begin)
