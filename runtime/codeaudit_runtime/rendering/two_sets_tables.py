"""The table of `gap --against`. Decides nothing; formats: report/grid.py."""

from __future__ import annotations

from collections.abc import Sequence

from codeaudit.report.grid import Grid
from codeaudit_runtime.rendering.procgen_tables import grid, interval, number, p_value, share
from codeaudit_runtime.two_sets import SetComparison

COLUMNS = (
    "rule", "train", "held-out", "gap", "p of gap", "gaps", "from training side", "floor", "held-out, first", "second",
)  # fmt: skip


def two_sets_grid(environment: str, found: Sequence[SetComparison]) -> Grid:
    rows = [
        [
            one.rule,
            interval(one.train),
            interval(one.heldout),
            interval(one.gap),
            p_value(one.gap.p),
            f"{one.gaps[0]:.2f}, {one.gaps[1]:.2f}",
            share(one.training_share),
            number(one.floor),
            *one.calls,
        ]
        for one in found
    ]
    notes = [
        f"first set of runs − second, 95% intervals; the unit is the {found[0].unit}"
        + ("" if found[0].unit == "run" else ", so nothing is said about other runs of either recipe")
    ]
    notes += [
        f"{one.rule}: neither {one.second_levels} return is above the floor of {one.floor:.2f}, so the gaps compare "
        f"training returns with chance and say nothing about how either set generalizes"
        for one in found
        if one.near_chance
    ]
    if any(one.training_share is None for one in found):
        notes.append("no share from the training side where the gap difference can't be told from zero")
    return grid(f"{environment}: two sets of runs, read against the floor", COLUMNS, rows, notes)
