"""Generalization gaps of one or more runs of a game, read against the floor. Reads episode rows; runs nothing.

The plain test takes episodes as independent: about these levels. The clustered one takes levels as the unit:
about the generator that they come from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.episodes import EpisodeRow, returns_of
from codeaudit_runtime.measurements import CheckpointRows, paired_rows
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.statistics import (
    Call,
    Comparison,
    Estimate,
    bootstrap_interval,
    decide_call,
    estimate_from_clusters,
    estimate_from_values,
    fisher,
    floor_margin,
    holm,
    kish_effective_n,
    stouffer,
    tost_p,
    welch,
)

Rows = Sequence[EpisodeRow]


@dataclass(frozen=True)
class Cell:
    """One rule (or reference) on one level set, over all runs."""

    rule: str
    level_set: str
    mean: float
    sem_episode: float  # pooled over the runs' episodes
    sem_level: float  # clustered by level
    sem_draw: float  # over draws
    episodes: int
    levels: int
    effective_levels: float
    floor: float
    delta: Comparison  # rule − floor; the unit is the run where there are several, else the episode
    z: float
    equivalence_p: float
    normalised: float | None
    runs: int
    above: int  # runs whose own episodes are above the floor, p < alpha after Holm over the runs
    length: float
    entropy: float | None
    adjusted_p: float = math.nan
    call: Call = "not_distinguishable"


@dataclass(frozen=True)
class Gap:
    """First level set − second, under one rule."""

    rule: str
    first: str
    second: str
    run: str  # empty: over all runs
    plain: Comparison  # Welch on episodes, or on runs' own gaps
    clustered: Comparison  # Welch, clustered by level
    floor: float  # the floor's own gap on the same draws
    normalised: float | None
    fisher_p: float | None = None  # over runs
    stouffer_p: float | None = None  # of a gap above zero
    runs: int = 1


@dataclass(frozen=True)
class Difference:
    """First rule − second, paired by draw, slot and index, on a level set, or of the gap (level_set empty)."""

    first: str
    second: str
    level_set: str
    comparison: Comparison
    low: float  # percentile bootstrap
    high: float


@dataclass(frozen=True)
class Loops:
    """How a rule fails. A failing episode returns no more than the floor's mean."""

    rule: str
    level_set: str
    mean: float
    failing: float  # share of episodes
    revisits: float  # share of steps, over all episodes
    failing_revisits: float
    failing_length: float
    failing_distinct: float  # different observations an episode
    longest: float  # share of episodes at least as long as 99% of the longest episode of any rule


@dataclass(frozen=True)
class GameGap:
    """All runs of one game."""

    environment: str
    runs: tuple[str, ...]
    level_sets: tuple[LevelSet, ...]
    cells: tuple[Cell, ...]
    floors: tuple[Cell, ...]
    references: tuple[Cell, ...]
    gaps: tuple[Gap, ...]
    run_gaps: tuple[Gap, ...]
    differences: tuple[Difference, ...]
    loops: tuple[Loops, ...]
    without: tuple[Gap, ...] = ()  # gaps over held-out levels that are new and can be played
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRows:
    """One run on all level sets: rows by level-set name."""

    id: str
    sha256: str
    parts: Mapping[str, CheckpointRows]


def z_of(comparison: Comparison) -> float:
    """Difference over its standard error; infinite for two different constants."""
    if comparison.se == 0:
        return 0.0 if comparison.difference == 0 else math.copysign(math.inf, comparison.difference)
    return comparison.difference / comparison.se


def game_gap(
    environment: str,
    runs: Sequence[RunRows],
    level_sets: Sequence[LevelSet],
    plan: Plan,
    bounds: tuple[float, float] | None,
    left_out: Mapping[str, frozenset[int]] | None = None,
) -> GameGap:
    """Everything about one game. `left_out`: held-out levels (by set name) that are duplicates or over at once."""
    names = [levels.name for levels in level_sets]
    rules = list(runs[0].parts[names[0]].rules)
    first, others = names[0], names[1:]
    cells = tuple(_cell(runs, rule, name, plan, bounds) for rule in rules for name in names)
    references = tuple(
        _cell(runs, rule, name, plan, bounds, references=True)
        for name in names
        for rule in dict.fromkeys(rule for run in runs for rule in run.parts[name].references)
        if all(rule in run.parts[name].references for run in runs)
    )
    pairs = [(rule, other) for rule in rules for other in others]
    run_gaps = tuple(_run_gap(run, rule, first, other, bounds) for rule, other in pairs for run in runs)
    clean = left_out or {}
    return GameGap(
        environment=environment,
        runs=tuple(run.id for run in runs),
        level_sets=tuple(level_sets),
        cells=_called(cells, plan),
        floors=tuple(_floor_cell(runs[0].parts[name], name, bounds) for name in names),
        references=_called(references, plan),
        gaps=tuple(_pooled_gap(runs, rule, first, other, bounds) for rule, other in pairs),
        run_gaps=run_gaps,
        differences=tuple(found for other in rules[1:] for found in _differences(runs, rules[0], other, names, plan)),
        loops=_loops(runs, rules, names),
        without=tuple(
            _pooled_gap(runs, rule, first, other, bounds, clean[other]) for rule, other in pairs if clean.get(other)
        ),
    )


def _rows(run: RunRows, rule: str, name: str, references: bool = False) -> Rows:
    part = run.parts[name]
    return (part.references if references else part.rules)[rule]


def _unit(runs: Sequence[Rows]) -> Estimate:
    """Over the runs' means where there are several runs, else over episodes."""
    if len(runs) > 1:
        return estimate_from_values([float(returns_of(rows).mean()) for rows in runs])
    return estimate_from_values(returns_of(runs[0]))


def _share(value: float, bounds: tuple[float, float] | None) -> float | None:
    return None if bounds is None else (value - bounds[0]) / (bounds[1] - bounds[0])


def _draw_sem(rows: Rows) -> float:
    draws = dict.fromkeys(row.draw for row in rows)
    return estimate_from_values([float(returns_of([r for r in rows if r.draw == d]).mean()) for d in draws]).sem


def _levels_of(rows: Rows) -> list[int]:
    """The level of each episode; where the environment tells none, every episode is a level of its own."""
    return [row.level if row.level is not None else -1 - index for index, row in enumerate(rows)]


def _cell(
    runs: Sequence[RunRows],
    rule: str,
    name: str,
    plan: Plan,
    bounds: tuple[float, float] | None,
    references: bool = False,
) -> Cell:
    parts = [_rows(run, rule, name, references) for run in runs]
    pooled = [row for rows in parts for row in rows]
    floor = estimate_from_values(returns_of(runs[0].parts[name].floor))
    estimate = _unit(parts)
    delta = welch(estimate, floor)
    margin = floor_margin(floor.mean, plan.floor_margin_relative, plan.floor_margin_absolute)
    own = [welch(estimate_from_values(returns_of(rows)), floor) for rows in parts]
    adjusted = holm([comparison.p for comparison in own])
    above = sum(p < plan.alpha and one.difference > 0 for p, one in zip(adjusted, own, strict=True))
    base = _summary(rule, name, pooled, bounds)
    return Cell(
        **base,
        floor=floor.mean,
        delta=delta,
        z=z_of(delta),
        equivalence_p=tost_p(estimate, floor, margin),
        runs=len(runs),
        above=above,
    )


def _summary(rule: str, name: str, rows: Rows, bounds: tuple[float, float] | None) -> dict[str, Any]:
    returns, levels = returns_of(rows), _levels_of(rows)
    counts = list(Counter(levels).values())
    known = [(row.entropy, row.length) for row in rows if row.entropy is not None]
    steps = sum(length for _, length in known)
    return {
        "rule": rule,
        "level_set": name,
        "mean": float(returns.mean()),
        "sem_episode": estimate_from_values(returns).sem,
        "sem_level": estimate_from_clusters(returns, levels).sem,
        "sem_draw": _draw_sem(rows),
        "episodes": len(rows),
        "levels": len(counts),
        "effective_levels": kish_effective_n(counts),
        "normalised": _share(float(returns.mean()), bounds),
        "length": float(np.mean([row.length for row in rows])),
        "entropy": sum(value * length for value, length in known) / steps if steps else None,
    }


def _floor_cell(part: CheckpointRows, name: str, bounds: tuple[float, float] | None) -> Cell:
    mean = float(returns_of(part.floor).mean())
    zero = Comparison(0.0, 0.0, math.inf, 1.0, 0.0, 0.0)
    base = _summary("uniform_random", name, part.floor, bounds)
    return Cell(**base, floor=mean, delta=zero, z=0.0, equivalence_p=0.0, runs=0, above=0)


def _called(cells: Sequence[Cell], plan: Plan) -> tuple[Cell, ...]:
    """Holm over all cells of the game."""
    adjusted = holm([cell.delta.p for cell in cells])
    return tuple(
        replace(cell, adjusted_p=p, call=decide_call(cell.delta, p, cell.equivalence_p, plan.alpha))
        for cell, p in zip(cells, adjusted, strict=True)
    )


def _clustered(rows: Rows) -> Estimate:
    return estimate_from_clusters(returns_of(rows), _levels_of(rows))


def _kept(rows: Rows, left_out: frozenset[int]) -> Rows:
    return [row for row in rows if row.level not in left_out]


def _run_gap(
    run: RunRows,
    rule: str,
    first: str,
    second: str,
    bounds: tuple[float, float] | None,
    left_out: frozenset[int] = frozenset(),
) -> Gap:
    a, b = _rows(run, rule, first), _kept(_rows(run, rule, second), left_out)
    floor = returns_of(run.parts[first].floor).mean() - returns_of(_kept(run.parts[second].floor, left_out)).mean()
    plain = welch(estimate_from_values(returns_of(a)), estimate_from_values(returns_of(b)))
    clustered = welch(_clustered(a), _clustered(b))
    return Gap(rule, first, second, run.id, plain, clustered, float(floor), _width(plain.difference, bounds))


def _width(value: float, bounds: tuple[float, float] | None) -> float | None:
    return None if bounds is None else value / (bounds[1] - bounds[0])


def _pooled_gap(
    runs: Sequence[RunRows],
    rule: str,
    first: str,
    second: str,
    bounds: tuple[float, float] | None,
    left_out: frozenset[int] = frozenset(),
) -> Gap:
    """Over runs: a t interval of the runs' own gaps, and their p-values combined. For one run, its own gap."""
    own = [_run_gap(run, rule, first, second, bounds, left_out) for run in runs]
    if len(own) == 1:
        return own[0]
    plain = welch(estimate_from_values([gap.plain.difference for gap in own]), Estimate(0.0, 0.0, 0.0, 0))
    clustered = welch(
        _clustered([row for run in runs for row in _rows(run, rule, first)]),
        _clustered([row for run in runs for row in _kept(_rows(run, rule, second), left_out)]),
    )
    identities = [run.sha256 for run in runs]
    one_sided = [float(stats.t.sf(z_of(gap.plain), gap.plain.df)) for gap in own]
    return Gap(
        rule,
        first,
        second,
        "",
        plain,
        clustered,
        own[0].floor,
        _width(plain.difference, bounds),
        fisher([gap.plain.p for gap in own], identities),
        stouffer(one_sided, identities),
        len(runs),
    )


def _differences(
    runs: Sequence[RunRows], first: str, second: str, names: Sequence[str], plan: Plan
) -> list[Difference]:
    """On each level set, and of the gap between the first set and each other one."""
    by_set = {
        name: [
            np.array([a.total - b.total for a, b in paired_rows(_rows(run, first, name), _rows(run, second, name))])
            for run in runs
        ]
        for name in names
    }
    zero = Estimate(0.0, 0.0, 0.0, 0)
    found = []
    for name, parts in by_set.items():
        values = np.array([part.mean() for part in parts]) if len(runs) > 1 else parts[0]
        low, high = bootstrap_interval(values, resamples=plan.resamples, seed=plan.bootstrap_seed)
        found.append(Difference(first, second, name, welch(estimate_from_values(values), zero), low, high))
    for other in names[1:]:
        own = [a.mean() - b.mean() for a, b in zip(by_set[names[0]], by_set[other], strict=True)]
        if len(runs) > 1:
            comparison = welch(estimate_from_values(own), zero)
            low, high = bootstrap_interval(own, resamples=plan.resamples, seed=plan.bootstrap_seed)
        else:
            comparison = welch(estimate_from_values(by_set[names[0]][0]), estimate_from_values(by_set[other][0]))
            low, high = comparison.low, comparison.high
        found.append(Difference(first, second, f"gap {names[0]} - {other}", comparison, low, high))
    return found


def _loops(runs: Sequence[RunRows], rules: Sequence[str], names: Sequence[str]) -> tuple[Loops, ...]:
    found = []
    for name in names:
        floor_rows = runs[0].parts[name].floor
        floor = float(returns_of(floor_rows).mean())
        by_rule = {rule: [row for run in runs for row in _rows(run, rule, name)] for rule in rules}
        longest = max(row.length for rows in (*by_rule.values(), floor_rows) for row in rows)
        for rule, rows in (*by_rule.items(), ("uniform_random", floor_rows)):
            found.append(_loop(rule, name, rows, floor, 0.99 * longest))
    return tuple(found)


def _loop(rule: str, name: str, rows: Rows, floor: float, long: float) -> Loops:
    failing = [row for row in rows if row.total <= floor]

    def share(of: Rows) -> float:
        steps = sum(row.length for row in of)
        return sum(row.revisits * row.length for row in of) / steps if steps else math.nan

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values)) if values else math.nan

    return Loops(
        rule=rule,
        level_set=name,
        mean=float(returns_of(rows).mean()),
        failing=len(failing) / len(rows),
        revisits=share(rows),
        failing_revisits=share(failing),
        failing_length=mean([row.length for row in failing]),
        failing_distinct=mean([(1 - row.revisits) * row.length for row in failing]),
        longest=float(np.mean([row.length >= long for row in rows])),
    )
