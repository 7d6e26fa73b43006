"""The tables of `similarity`. Decides nothing; formats: report/grid.py."""

from __future__ import annotations

from codeaudit.report.grid import Grid
from codeaudit_runtime.rendering.procgen_tables import grid, number, p_value
from codeaudit_runtime.similarity.study import THRESHOLDS, Control, Cross, SimilarityReport, mean_of


def similarity_grids(report: SimilarityReport) -> list[Grid]:
    grids = [_cross_grid(report.crosses)] if report.crosses else []
    if report.controls:
        grids += [_control_grid(report.controls), _dormant_grid(report.controls)]
    return grids


def _cross_grid(crosses: tuple[Cross, ...]) -> Grid:
    columns = ("first", "second", "levels", "rows", "CKA", "shuffled rows", "closed form", "largest p", "PR", "finding")
    rows = []
    for one in crosses:
        ratios = f"{mean_of(one.draws, 'ratio_x'):.1f}, {mean_of(one.draws, 'ratio_y'):.1f}"
        rows.append(
            [
                one.first,
                one.second,
                one.level_set,
                str(one.draws[0].rows),
                f"{one.value.mean:.3f} ± {number(one.value.sem, 3)}",
                number(mean_of(one.draws, "mean"), 4),
                number(mean_of(one.draws, "closed_form"), 4),
                p_value(max(null.p for null in one.draws)),
                ratios,
                "yes" if one.finding else "no",
            ]
        )
    notes = ["both encoders see the same pictures, half of them visited by either agent; ± is the SEM over draws"]
    return grid("Two encoders on one batch (linear CKA)", columns, rows, notes)


def _control_grid(controls: tuple[Control, ...]) -> Grid:
    columns = (
        "run", "sets", "CKA", "shuffled", "closed form", "A", "C", "B", "D", "A − C", "PR", "finding",
    )  # fmt: skip
    rows = []
    for one in controls:
        rows.append(
            [
                one.run,
                f"{one.first}, {one.second}",
                *(number(mean_of(one.whole, name), 4) for name in ("value", "mean", "closed_form")),
                *(number(mean_of(nulls, "value"), 3) for nulls in (one.a, one.c)),
                *(number(mean_of(nulls, "mean"), 4) for nulls in (one.a, one.c)),
                f"{one.difference.difference:+.3f} [{number(one.difference.low, 3)}, {number(one.difference.high, 3)}]",
                f"{mean_of(one.whole, 'ratio_x'):.1f}, {mean_of(one.whole, 'ratio_y'):.1f}",
                "yes" if one.finding else "no",
            ]
        )
    first = controls[0]
    notes = [
        f"CKA: {first.whole[0].rows} rows; A, B, C, D: {first.a[0].rows} rows, means over {len(first.a)} draws",
        "A: first set against second, aligned by step; C: first set against itself, other slots, aligned by step; "
        "B and D: the same with one side's rows shuffled",
        *(f"{one.run}: {one.reason}" for one in controls),
    ]
    return grid("One encoder, two level sets: a control, not a finding", columns, rows, notes)


def _dormant_grid(controls: tuple[Control, ...]) -> Grid:
    rows = []
    for one in controls:
        for name, shares in (("all", one.dormant_all), *one.dormant.items()):
            rows.append([one.run, name, *(f"{100 * share:.1f}%" for share in shares)])
    columns = ("run", "layer", *(f"τ = {threshold:g}" for threshold in THRESHOLDS))
    notes = ["share of units whose mean activation is at most τ of their layer's mean; a channel is one unit"]
    return grid("Dormant units", columns, rows, notes)
