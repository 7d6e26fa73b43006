"""Learning curves as characters, for a terminal without a plot file. Returns cells; does no I/O and no colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codeaudit_runtime.variation.analysis import GroupVariation
from codeaudit_runtime.variation.numerals import number, ordinal

OTHERS, EMPTY = "·", " "
MARKS = ("▼", "●", "▲")  # the runs at the 5th, 50th and 95th percentile
STRIP = 40


@dataclass(frozen=True)
class Canvas:
    """Lines of text of equal width, with labels on the left; `key` says what the marks are."""

    title: str
    lines: tuple[str, ...]
    key: str


def curves_canvas(group: GroupVariation, *, width: int = 72, height: int = 14) -> Canvas:
    """All runs as dots and the highlighted ones as marks; where several fall in one cell the highlighted one shows."""
    low, high = _limits(group)
    first = min(float(curve.steps_T[0]) for curve in group.curves)
    last = max(float(curve.steps_T[-1]) for curve in group.curves)
    cells = [[EMPTY] * width for _ in range(height)]
    marked = {item.index: mark for item, mark in zip(group.highlights, MARKS, strict=False)}
    order = sorted(range(group.n), key=lambda index: index in marked)
    for index in order:
        curve = group.curves[index]
        finite = np.isfinite(curve.values_T)
        steps, values = curve.steps_T[finite], curve.values_T[finite]
        columns = np.round((steps - first) / ((last - first) or 1) * (width - 1)).astype(int)
        for column in np.unique(columns):
            value = float(values[columns == column].mean())
            row = height - 1 - round((value - low) / ((high - low) or 1) * (height - 1))
            cells[min(max(row, 0), height - 1)][int(column)] = marked.get(index, OTHERS)
    labels = {0: number(high), height - 1: number(low)}
    margin = max(map(len, labels.values()))
    lines = [f"{labels.get(row, ''):>{margin}} │{''.join(line)}" for row, line in enumerate(cells)]
    lines.append(f"{'':>{margin}} └{'─' * width}")
    ends = f"{first:,.0f}", f"{last:,.0f} steps"
    lines.append(f"{'':>{margin}}  {ends[0]}{ends[1]:>{width - len(ends[0])}}")
    return Canvas(group.title, tuple(lines), _key(group))


def score_strip(group: GroupVariation, low: float, high: float, width: int = STRIP) -> str:
    """Final scores on one line between two values; the highlighted runs as marks."""
    cells = [EMPTY] * width
    marked = {item.index: mark for item, mark in zip(group.highlights, MARKS, strict=False)}
    for index in sorted(range(group.n), key=lambda index: index in marked):
        place = round((float(group.scores_R[index]) - low) / ((high - low) or 1) * (width - 1))
        cells[min(max(place, 0), width - 1)] = marked.get(index, OTHERS)
    return f"│{''.join(cells)}│"


def strips(groups: Sequence[GroupVariation]) -> Canvas:
    """One strip a group, each between its own bounds."""
    names = [group.title for group in groups]
    margin = min(max(map(len, names)), 32)
    lines = []
    for group, name in zip(groups, names, strict=True):
        low, high = (group.bounds.low, group.bounds.high) if group.bounds else _limits(group)
        shown = name if len(name) <= margin else name[: margin - 1] + "…"
        lines.append(f"{shown:<{margin}} {number(low):>8} {score_strip(group, low, high)} {number(high)}")
    key = "▼ ● ▲ the runs at the 5th, 50th and 95th percentile, · others; from lower to upper bound"
    return Canvas("Final performance", tuple(lines), key)


def _limits(group: GroupVariation) -> tuple[float, float]:
    finite = [curve.values_T[np.isfinite(curve.values_T)] for curve in group.curves]
    finite = [values for values in finite if len(values)]
    return min(float(v.min()) for v in finite), max(float(v.max()) for v in finite)


def _key(group: GroupVariation) -> str:
    parts = [
        f"{mark} {ordinal(item.percent)} percentile: run {item.run}, {number(item.score)}"
        for item, mark in zip(group.highlights, MARKS, strict=False)
    ]
    return "   ".join([*parts, f"{OTHERS} other runs"])
