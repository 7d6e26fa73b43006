"""The tables of `gap --in-loop`. Decides nothing; formats: report/grid.py."""

from __future__ import annotations

from codeaudit.report.grid import Grid
from codeaudit_runtime.in_loop import InLoopPoint, InLoopReport, Part
from codeaudit_runtime.rendering.procgen_tables import grid, interval, number, p_value

COLUMNS = ("steps", "running mean", "fixed checkpoint", "bias", "p")
PARTS = ("age", "levels", "short first", "rest", "window age, steps", "oldest")
NAMES = {"age": "policy age", "levels": "level draw", "short_first": "short episodes first", "rest": "rest"}


def part(one: Part, digits: int = 2) -> str:
    return f"{one.value:+.{digits}f} [{number(one.low, digits)}, {number(one.high, digits)}]"


def steps(one: Part) -> str:
    return f"{number(one.value, 0)} [{number(one.low, 0)}, {number(one.high, 0)}]"


def in_loop_grid(report: InLoopReport) -> Grid:
    """One row a checkpoint."""
    known = any(point.window is not None for point in report.points)
    rows = [_row(point, known) for point in report.points]
    notes = [
        f"mean bias over the checkpoints {part(report.bias)}, mean size {report.absolute_bias:.2f}; floor "
        f"{report.floor:.2f}",
        f"lag of the running mean behind the fixed checkpoints: {steps(report.lag)} steps",
    ]
    if report.shares:
        told = ", ".join(f"{NAMES[name]} {part(own)}" for name, own in report.shares.items())
        notes.append(f"bias = {told}")
    else:
        notes.append(
            "the log keeps no episodes, so the bias isn't split, and the spread of the window is taken from the fixed "
            "checkpoint's episodes"
        )
    columns = (*COLUMNS, *PARTS) if known else COLUMNS
    return grid(f"{report.id}: in-loop against fixed, {report.level_set}", columns, rows, notes)


def _row(point: InLoopPoint, known: bool) -> list[str]:
    row = [
        f"{point.steps:,}",
        f"{point.running.mean:.2f} ± {number(point.running.sem)}",
        f"{point.fixed.mean:.2f} ± {number(point.fixed.sem)}",
        interval(point.bias),
        p_value(point.bias.p),
    ]
    window = point.window
    if known and window is None:
        return [*row, *("-" for _ in PARTS)]
    if window is not None:
        row += [part(one) for one in (window.age, window.levels, window.short_first, window.rest)]
        row += [f"{window.mean_age:,.0f}", f"{window.oldest:,}"]
    return row
