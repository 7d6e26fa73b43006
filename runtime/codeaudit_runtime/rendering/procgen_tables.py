"""The tables of gap, entropy, levels, actions, floors and curves. Decides nothing; formats: report/grid.py."""

from __future__ import annotations

import math
from collections.abc import Sequence

from codeaudit.report.grid import Cell as GridCell
from codeaudit.report.grid import Grid
from codeaudit_runtime.entropy import HIGH, LOW, Screen
from codeaudit_runtime.equivalence import Equivalence
from codeaudit_runtime.floors import FloorCell, PublishedFigures, game_of
from codeaudit_runtime.gap import Cell, GameGap, Gap
from codeaudit_runtime.gap_run import GameReport, LevelReport
from codeaudit_runtime.published_curves import CurveReading
from codeaudit_runtime.statistics import Comparison

TONES = {"above": "good", "below": "bad", "equivalent": "doubt", "not_distinguishable": "doubt"}


def grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> Grid:
    cells = tuple(tuple(GridCell(text, TONES.get(text, "")) for text in row) for row in rows)  # type: ignore[arg-type]
    return Grid(title, tuple(columns), cells, tuple(notes))


def number(value: float | None, digits: int = 2) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}f}" if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def share(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.0f}%"


def p_value(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def interval(one: Comparison) -> str:
    return f"{one.difference:+.2f} [{number(one.low)}, {number(one.high)}]"


def gap_grids(report: GameReport) -> list[Grid]:
    """The tables of one game; the first two have the shape of the study's."""
    gap = report.gap
    grids = [_return_grid(report), _gap_grid(gap, gap.gaps, f"{gap.environment}: generalization gap")]
    if len(gap.runs) > 1:
        grids.append(_gap_grid(gap, gap.run_gaps, f"{gap.environment}: gap of each run"))
    if gap.without:
        grids.append(_gap_grid(gap, gap.without, f"{gap.environment}: gap over held-out levels that are new"))
    if gap.differences:
        grids.append(_difference_grid(gap))
    grids.append(_loop_grid(gap))
    if gap.references:
        rows = [_cell_row(cell) for cell in gap.references]
        grids.append(grid(f"{gap.environment}: stricter references", CELL_COLUMNS, rows))
    if report.equivalence is not None:
        grids.append(actions_grid([report.equivalence], None))
    if report.levels is not None:
        grids.extend(level_grids([report.levels]))
    return grids


CELL_COLUMNS = (
    "levels", "rule", "return", "floor", "over floor [95%]", "z", "p (Holm)", "call", "above", "normalised",
    "SEM episode / level", "levels (effective)", "entropy",
)  # fmt: skip


def _cell_row(cell: Cell) -> list[str]:
    return [
        cell.level_set,
        cell.rule,
        number(cell.mean),
        number(cell.floor),
        interval(cell.delta),
        number(cell.z),
        p_value(cell.adjusted_p),
        cell.call,
        f"{cell.above}/{cell.runs}",
        number(cell.normalised),
        f"{number(cell.sem_episode)} / {number(cell.sem_level)}",
        f"{cell.levels} ({cell.effective_levels:.0f})",
        number(cell.entropy, 3),
    ]


def _return_grid(report: GameReport) -> Grid:
    gap = report.gap
    rows = []
    for name in (levels.name for levels in gap.level_sets):
        rows += [_cell_row(cell) for cell in gap.cells if cell.level_set == name]
        for cell in gap.floors:
            if cell.level_set == name:
                floor = _cell_row(cell)
                rows.append([*floor[:3], "", "", "", "", "", "", *floor[9:]])
    unit = "runs" if len(gap.runs) > 1 else "episodes of one run"
    notes = [
        f"runs: {', '.join(gap.runs)}. Level sets: {', '.join(levels.label for levels in gap.level_sets)}.",
        f"over floor: Welch over {unit}, on the floor's episodes of the same draws; above: runs above the floor by "
        "themselves.",
        "p and call are adjusted for all comparisons of their kind (Holm); intervals and z (a difference over its "
        "standard error) are not, so an interval may leave zero out where the call is not_distinguishable.",
        "SEM: standard error of the mean. SEM episode is about these levels; SEM level, clustered by level, about the "
        "generator they come from.",
    ]
    if report.bounds is not None:
        notes.append(f"normalised by {report.bounds.describe()}.")
    return grid(f"{gap.environment}: returns against the floor", CELL_COLUMNS, rows, (*notes, *gap.notes))


def _gap_grid(gap: GameGap, gaps: Sequence[Gap], title: str) -> Grid:
    columns = (
        "rule", "gap", "run", "difference [95%]", "p", "clustered by level [95%]", "p clustered", "floor's gap",
        "normalised", "Fisher p", "Stouffer p",
    )  # fmt: skip
    rows = [
        [
            one.rule,
            f"{one.first} - {one.second}",
            one.run or f"{one.runs} runs",
            interval(one.plain),
            p_value(one.plain.p),
            interval(one.clustered),
            p_value(one.clustered.p),
            f"{one.floor:+.2f}",
            number(one.normalised),
            p_value(one.fisher_p),
            p_value(one.stouffer_p),
        ]
        for one in gaps
    ]
    notes = ("p and intervals are not adjusted. Fisher p and Stouffer p: all runs of a game together, as one test.",)
    return grid(title, columns, rows, notes)


def _difference_grid(gap: GameGap) -> Grid:
    rows = [
        [
            f"{one.first} - {one.second}",
            one.level_set,
            interval(one.comparison),
            f"[{number(one.low)}, {number(one.high)}]",
            p_value(one.comparison.p),
        ]
        for one in gap.differences
    ]
    columns = ("rules", "levels", "paired difference [95%]", "bootstrap", "p")
    return grid(f"{gap.environment}: rules, paired by draw, slot and index", columns, rows)


def _loop_grid(gap: GameGap) -> Grid:
    rows = [
        [
            one.level_set,
            one.rule,
            number(one.mean),
            share(one.failing),
            share(one.revisits),
            share(one.failing_revisits),
            number(one.failing_length, 0),
            number(one.failing_distinct, 0),
            share(one.longest),
        ]
        for one in gap.loops
    ]
    columns = (
        "levels", "rule", "return", "failing", "revisits", "revisits, failing", "steps, failing",
        "different observations, failing", "to the time limit",
    )  # fmt: skip
    notes = (
        "failing: an episode that returns no more than the floor's mean. revisits: steps that show an observation "
        "already seen in the episode.",
    )
    return grid(f"{gap.environment}: where episodes fail", columns, rows, notes)


def entropy_grid(screens: Sequence[Screen], above: Sequence[str]) -> Grid:
    """`above` says of each run what its return is against the floor, or nothing."""
    columns = (
        "run", "environment", "entropy", "tier", "merged", "tier merged", "on equivalent actions",
        "argmax class changes", "first 1,024", "uniform 1,024", "low below", "against the floor",
    )  # fmt: skip
    rows = [
        [
            one.name,
            one.environment,
            number(one.mean.raw, 3),
            one.tier,
            f"{number(one.mean.merged, 3)} of {one.effective}",
            one.merged_tier,
            share(one.equivalent_share),
            share(one.mean.changed),
            number(one.mean.first, 3),
            number(one.mean.uniform, 3),
            ", ".join(threshold for threshold, low in one.sweep.items() if low) or "none",
            told or "-",
        ]
        for one, told in zip(screens, above, strict=True)
    ]
    notes = (
        f"nats over visited states, mean of the level sets. low < {LOW}, intermediate to {HIGH}, high above; merged: "
        "the same fractions of ln k for k classes of equivalent actions.",
    )
    return grid("Entropy of the sampled policy", columns, rows, notes)


def actions_grid(found: Sequence[Equivalence], published: PublishedFigures | None) -> Grid:
    printed = published.effective_actions if published else {}
    rows = [
        [
            one.environment,
            str(one.effective),
            str(printed.get(game_of(one.environment), "-")),
            number(one.per_state),
            str(one.states),
            " ".join(
                "{" + ",".join(str(action) for action, own in enumerate(one.classes) if own == each) + "}"
                for each in sorted(set(one.classes))
            ),
        ]
        for one in found
    ]
    columns = ("game", "effective actions", "published", "a state, mean", "states", "classes")
    notes = ("two actions are the same where pictures, rewards and ends agree over the action and four no-ops.",)
    return grid("Actions that do the same thing", columns, rows, notes)


def level_grids(reports: Sequence[LevelReport]) -> list[Grid]:
    pairs = [
        [
            report.environment,
            f"{one.second} in {one.first}",
            str(one.levels),
            *(f"{one.duplicates[kind]}" for kind in ("picture", "layout", "played_picture", "played_layout")),
        ]
        for report in reports
        for one in report.overlaps
    ]
    own = [
        [
            report.environment,
            one.label,
            str(one.levels),
            *(f"{one.distinct[kind]}" for kind in ("picture", "layout", "played_picture", "played_layout")),
            str(len(one.short)),
            ", ".join(map(str, one.short[:12])) + (" ..." if len(one.short) > 12 else ""),
        ]
        for report in reports
        for one in report.sets
    ]
    kinds = ("picture", "layout", "picture, played", "layout, played")
    notes = (
        "layout: grid and entities without themes and seeds; played: also all through fixed action sequences.",
        "over at once: levels that end within two steps whatever is done.",
    )
    grids = [grid("Levels of a set", ("game", "set", "levels", *kinds, "over at once", "which"), own, notes)]
    if pairs:
        grids.insert(0, grid("Held-out levels that are training levels", ("game", "pair", "levels", *kinds), pairs))
    return grids


def floors_grid(cells: Sequence[FloorCell]) -> Grid:
    columns = (
        "game", "levels", "floor", "SEM draws", "SEM episode", "SEM level", "published", "SEM printed", "difference",
        "p episode", "Holm", "p level", "Holm",
    )  # fmt: skip
    rows = [
        [
            cell.environment,
            cell.level_set,
            number(cell.mean),
            number(cell.sem_draw),
            number(cell.sem_episode),
            number(cell.sem_level),
            number(cell.published),
            number(cell.published_sem),
            "-" if cell.episode is None else f"{cell.episode.difference:+.2f}",
            p_value(None if cell.episode is None else cell.episode.p),
            p_value(cell.episode_p),
            p_value(None if cell.level is None else cell.level.p),
            p_value(cell.level_p),
        ]
        for cell in cells
    ]
    notes = (
        "p: Welch against the published mean with the spread measured here on both sides, episodes as independent and "
        "clustered by level; Holm over all comparisons of the table.",
    )
    return grid("Floors: a uniform-random policy", columns, rows, notes if any(c.published for c in cells) else ())


def curves_grid(found: Sequence[CurveReading]) -> Grid:
    columns = (
        "game", "train", "test", "floor train", "floor test", "gap [95%]", "train over floor", "test over floor [95%]",
        "gap above floor", "entropy", "tier", "reading",
    )  # fmt: skip
    rows = [
        [
            one.game,
            number(one.train.mean),
            number(one.test.mean),
            number(one.train_floor),
            number(one.test_floor),
            interval(one.gap),
            "-" if one.train_above is None else f"{one.train_above.difference:+.2f}",
            "-" if one.test_above is None else interval(one.test_above),
            number(one.gap_above_floor),
            number(one.entropy),
            one.tier,
            one.words,
        ]
        for one in found
    ]
    notes = ("the unit is the run; a curve's end is its last 5% of steps, as in-loop running means of 100 episodes.",)
    return grid("Published learning curves against the floor", columns, rows, notes)
