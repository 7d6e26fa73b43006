"""From labelled curves to the numbers of each group of runs, one group a task and algorithm. Pure; renders nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.variation.bounds import (
    Bounds,
    empirical_bounds,
    given_bounds,
    known_bounds,
    normalised,
    suites_with,
)
from codeaudit_runtime.variation.centre import Centre, Failures, Profile, centre, failures, performance_profile
from codeaudit_runtime.variation.curves import Curve, Finals, Lengths, Window, final_scores
from codeaudit_runtime.variation.readers.discover import LeftOut
from codeaudit_runtime.variation.spread import (
    IPRInterval,
    MinMaxIPR,
    OrderStatisticInterval,
    PercentileMethod,
    ToleranceInterval,
    ipr_interval,
    min_max_ipr,
    order_statistic_interval,
    run_at_percentile,
    tolerance_interval,
)

HIGHLIGHTED = (5.0, 50.0, 95.0)
PROFILE_POINTS = 101
Missing = Literal["leave_out", "lowest"]


@dataclass(frozen=True)
class Settings:
    """Everything that shapes the numbers."""

    window: Window = field(default_factory=Window)
    lengths: Lengths = "shortest"
    missing: Missing = "leave_out"
    method: PercentileMethod = "nearest_rank"
    inner: float = 90.0
    content: float = 0.9  # of the tolerance interval
    level: float = 0.95
    resamples: int = 10_000
    seed: int = 0
    fail_under: float | None = None
    fail_share: bool = False  # `fail_under` is a percentage of the way from the lower to the upper bound
    low: float | None = None
    high: float | None = None
    suite: str | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)  # by normalised task name


@dataclass(frozen=True)
class Highlight:
    """The run whose final performance is at a percentile of the runs (nearest rank)."""

    percent: float
    run: str
    index: int
    score: float


@dataclass(frozen=True, eq=False)
class GroupVariation:
    """The runs of one algorithm on one task. `curves` and `scores_R` (R,) stand in the same order."""

    task: str
    algorithm: str
    curves: tuple[Curve, ...]
    scores_R: FloatArray
    window: tuple[float, float]  # steps, the earliest start and the latest end over the runs
    bounds: Bounds | None
    ipr: MinMaxIPR | None  # None where no bounds can be had
    ipr_interval: IPRInterval | None
    lower: OrderStatisticInterval  # of the 5th percentile
    upper: OrderStatisticInterval  # of the 95th percentile
    tolerance: ToleranceInterval
    centre: Centre
    failures: Failures | None
    profile: Profile | None
    highlights: tuple[Highlight, ...]
    outside: int  # runs whose score lies outside the bounds
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.curves)

    @property
    def title(self) -> str:
        return " · ".join(part for part in (self.task, self.algorithm) if part) or "all runs"


@dataclass(frozen=True)
class Average:
    """Mean IPR of one algorithm over its tasks, as the paper averages."""

    algorithm: str
    percent: float
    tasks: int
    origins: tuple[str, ...]
    smallest_n: int


@dataclass(frozen=True)
class Analysis:
    settings: Settings
    groups: tuple[GroupVariation, ...]
    averages: tuple[Average, ...]
    left_out: tuple[LeftOut, ...]


def analyse(curves: Sequence[Curve], settings: Settings) -> Analysis:
    """The numbers of each task and algorithm. Raises UserError where no run of a task has a final score."""
    tasks: dict[str, list[Curve]] = {}
    for curve in curves:
        tasks.setdefault(curve.task, []).append(curve)
    groups: list[GroupVariation] = []
    left_out: list[LeftOut] = []
    for task, own in tasks.items():
        made, missing = _task_groups(task, own, settings)
        groups += made
        left_out += missing
    if not groups:
        raise UserError(f"no run has a finite value in {settings.window.describe()}", hint="choose a longer --window")
    return Analysis(settings, tuple(groups), _averages(groups), tuple(left_out))


def _task_groups(task: str, curves: Sequence[Curve], settings: Settings) -> tuple[list[GroupVariation], list[LeftOut]]:
    finals = final_scores(curves, settings.window, settings.lengths)
    bounds, notes = task_bounds(task, curves, settings)
    scores_R = finals.scores_R.copy()
    absent = ~np.isfinite(scores_R)
    left_out: list[LeftOut] = []
    if absent.any() and settings.missing == "lowest":
        if bounds is None:
            raise UserError(
                f"{printable(task)}: no bounds to count runs without a final value at", hint="give --min and --max"
            )
        scores_R[absent] = bounds.low
        notes.append(f"{int(absent.sum())} runs without a number in the window count as the lower bound")
    elif absent.any():
        left_out = [
            LeftOut(f"{task or 'the task'}: run {curves[index].run}", "no finite value in the window")
            for index in np.flatnonzero(absent)
        ]
        notes.append(
            f"{len(left_out)} runs have no number in the window and are left out, which hides variation if they failed;"
            " --missing lowest counts them as the lower bound"
        )
    notes += _length_notes(curves, finals, settings)
    groups = []
    for algorithm in dict.fromkeys(curve.algorithm for curve in curves):
        chosen = [i for i, one in enumerate(curves) if one.algorithm == algorithm and np.isfinite(scores_R[i])]
        if chosen:
            window = (float(finals.starts_R[chosen].min()), float(finals.ends_R[chosen].max()))
            own = tuple(curves[index] for index in chosen)
            groups.append(_group(own, scores_R[chosen], window, bounds, settings, tuple(notes)))
    return groups, left_out


def _length_notes(curves: Sequence[Curve], finals: Finals, settings: Settings) -> list[str]:
    if not finals.short:
        return []
    named = ", ".join(finals.short[:3]) + (" …" if len(finals.short) > 3 else "")
    longest = max(float(curve.steps_T[-1]) for curve in curves)
    if settings.lengths == "shortest":
        return [
            f"{len(finals.short)} runs end before 90% of the longest ({named}); every run is read at the shortest one's"
            f" last step, {finals.ends_R.min():,.0f} of {longest:,.0f}; --lengths own reads each at its own end"
        ]
    return [f"{len(finals.short)} runs end before 90% of the longest ({named}); each is read at its own end"]


def task_bounds(task: str, curves: Sequence[Curve], settings: Settings) -> tuple[Bounds | None, list[str]]:
    """Bounds of a task and what to say of them: given, else known, else empirical. None where nothing varies."""
    names = [name for name in (task, *task.split(", ")) if name]
    for name in names:
        if normalised(name) in settings.bounds:
            return settings.bounds[normalised(name)], []
    if settings.low is not None and settings.high is not None:
        return given_bounds(settings.low, settings.high), []
    known = known_bounds(names, settings.suite)
    if known is not None:
        return known, []
    notes = []
    suites = suites_with(names)
    if len(suites) > 1 and settings.suite is None:
        notes.append(f"bounds of this task are known for {' and '.join(suites)}: choose with --suite")
    empirical = empirical_bounds(curves)
    if empirical is None:
        notes.append("every value of every run is the same: there are no bounds and no IPR")
    return empirical, notes


def _group(
    curves: tuple[Curve, ...],
    scores_R: FloatArray,
    window: tuple[float, float],
    bounds: Bounds | None,
    settings: Settings,
    notes: tuple[str, ...],
) -> GroupVariation:
    level, inner = settings.level, settings.inner
    below = (100 - inner) / 2
    threshold = _threshold(bounds, settings)
    ipr = interval = profile = None
    outside = 0
    if bounds is not None:
        ipr = min_max_ipr(scores_R, bounds.low, bounds.high, inner=inner, method=settings.method)
        interval = ipr_interval(scores_R, bounds.low, bounds.high, inner=inner, level=level)
        grid = np.linspace(min(bounds.low, scores_R.min()), max(bounds.high, scores_R.max()), PROFILE_POINTS)
        profile = performance_profile(scores_R, grid, level=level)
        outside = int(np.count_nonzero((scores_R < bounds.low) | (scores_R > bounds.high)))
    return GroupVariation(
        task=curves[0].task,
        algorithm=curves[0].algorithm,
        curves=curves,
        scores_R=scores_R,
        window=window,
        bounds=bounds,
        ipr=ipr,
        ipr_interval=interval,
        lower=order_statistic_interval(scores_R, below, level=level),
        upper=order_statistic_interval(scores_R, 100 - below, level=level),
        tolerance=tolerance_interval(scores_R, content=settings.content, level=level),
        centre=centre(scores_R, level=level, resamples=settings.resamples, seed=settings.seed),
        failures=failures(scores_R, threshold, level=level) if threshold is not None else None,
        profile=profile,
        highlights=highlights(scores_R, [curve.run for curve in curves]),
        outside=outside,
        notes=notes,
    )


def highlights(
    scores_R: FloatArray, runs: Sequence[str], percents: Sequence[float] = HIGHLIGHTED
) -> tuple[Highlight, ...]:
    """The runs at percentiles of scores (R,), nearest rank. Source: Tanaka & Mahmood (2026), run-wise highlighting."""
    found = [(percent, run_at_percentile(scores_R, percent)) for percent in percents]
    return tuple(Highlight(percent, runs[index], index, float(scores_R[index])) for percent, index in found)


def _threshold(bounds: Bounds | None, settings: Settings) -> float | None:
    if settings.fail_under is None or not settings.fail_share:
        return settings.fail_under
    if bounds is None:
        return None
    return bounds.low + settings.fail_under / 100 * (bounds.high - bounds.low)


def _averages(groups: Sequence[GroupVariation]) -> tuple[Average, ...]:
    averages = []
    for algorithm in dict.fromkeys(group.algorithm for group in groups):
        own = [group for group in groups if group.algorithm == algorithm and group.ipr is not None]
        if len(own) > 1:
            percents = [group.ipr.percent for group in own if group.ipr is not None]
            origins = tuple(dict.fromkeys(group.bounds.origin for group in own if group.bounds is not None))
            averages.append(
                Average(algorithm, float(np.mean(percents)), len(own), origins, min(group.n for group in own))
            )
    return tuple(averages)
