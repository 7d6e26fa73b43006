"""In-loop running mean against fixed-checkpoint evaluation along training. Reads logs' rows and episode rows; runs
nothing.

At a checkpoint's step s, the running mean W over the last episodes that ended in-loop differs from the return F(s) of
that checkpoint. What is known of the window's episodes splits the difference:

    W − F(s) = age + levels + short first + rest

- age: mean over the window of F(at the middle of the episode) − F(s), F linear between checkpoints. Older policies.
- levels: mean over the window of F(s) on the episode's level − F(s). Which levels the window happened to hold.
- short first: W − the mean over slots of each slot's own mean. Slots with short episodes give more of them.
- rest: all else, the window's sampling noise above all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codeaudit_runtime.episodes import EpisodeRow, returns_of
from codeaudit_runtime.spaces import FloatArray, IntArray
from codeaudit_runtime.statistics import Comparison, Estimate, estimate_from_values, welch

RESAMPLES = 2_000
LAGS = 101  # shifts that are tried, from none to half of the training


@dataclass(frozen=True)
class InLoopEpisode:
    """One episode of the in-loop environment; `began` and `ended` count training steps."""

    slot: int
    level: int
    began: int
    ended: int
    length: int
    total: float


@dataclass(frozen=True)
class LoggedRun:
    """One training run's in-loop log of one level set. `means` is by step; `episodes`, where known, in the order of
    their ends."""

    id: str
    level_set: str
    means: Mapping[int, float]
    episodes: tuple[InLoopEpisode, ...] | None
    window: int = 100


@dataclass(frozen=True)
class Part:
    """A number in raw return (or steps) with a 95% percentile bootstrap interval over episodes."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Window:
    """What the running mean at a checkpoint is made of. Ages are in training steps before the checkpoint."""

    episodes: int
    mean_age: float  # of an episode's middle
    oldest: int  # beginning of the oldest episode
    mean_length: float
    age: Part
    levels: Part
    short_first: Part
    rest: Part


@dataclass(frozen=True)
class InLoopPoint:
    """One checkpoint. `spread_known` is false where the log gives no episodes: the window's standard error is then that
    of as many episodes of the fixed checkpoint."""

    steps: int
    logged_at: int
    running: Estimate
    fixed: Estimate
    bias: Comparison  # running − fixed
    spread_known: bool
    window: Window | None


@dataclass(frozen=True)
class InLoopReport:
    """One run and level set along training. `lag`: the shift τ ≥ 0 for which F(s − τ) is nearest to the running mean,
    in steps."""

    id: str
    level_set: str
    points: tuple[InLoopPoint, ...]
    bias: Part  # mean over the checkpoints
    absolute_bias: float
    lag: Part
    shares: Mapping[str, Part]  # mean of each part over the checkpoints whose window is known
    floor: float


def in_loop_report(
    run: LoggedRun, fixed: Mapping[int, Sequence[EpisodeRow]], floor: float, *, seed: int = 0
) -> InLoopReport:
    """`fixed`: the episodes of each checkpoint by its steps. Checkpoints before the log's first mean serve as F only.

    Raises ValueError where no checkpoint lies in the log.
    """
    steps = sorted(fixed)
    draws = _Draws(run, {step: fixed[step] for step in steps}, seed)
    points, resampled, parts = [], [], []
    for step in steps:
        logged = [at for at in run.means if at <= step]
        if step == 0 or not logged:
            continue
        point, bias_B, parts_B = _point(run, draws, step, max(logged))
        points.append(point)
        resampled.append(bias_B)
        if parts_B:
            parts.append((point.window, parts_B))
    if not points:
        raise ValueError("no checkpoint lies in the log")
    shares = {}
    for name in ("age", "levels", "short_first", "rest") if parts else ():
        values = [getattr(window, name).value for window, _ in parts]
        shares[name] = _part(float(np.mean(values)), np.mean([own[name] for _, own in parts], axis=0))
    biases = [point.bias.difference for point in points]
    return InLoopReport(
        id=run.id,
        level_set=run.level_set,
        points=tuple(points),
        bias=_part(float(np.mean(biases)), np.mean(resampled, axis=0)),
        absolute_bias=float(np.mean(np.abs(biases))),
        lag=_lag(draws, points, resampled),
        shares=shares,
        floor=floor,
    )


class _Draws:
    """The fixed checkpoints' means, and the same under B resamplings of their episodes."""

    def __init__(self, run: LoggedRun, fixed: Mapping[int, Sequence[EpisodeRow]], seed: int) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.run, self.rows = run, fixed
        self.steps = np.array(list(fixed), dtype=np.float64)
        self.weights = {
            step: self.rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=RESAMPLES) / len(rows)
            for step, rows in fixed.items()
        }
        self.means_S = np.array([returns_of(rows).mean() for rows in fixed.values()])
        self.means_BS = np.stack([self.weights[step] @ returns_of(rows) for step, rows in fixed.items()], axis=1)

    def at(self, times_I: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F at each time (I), and under each resampling (B × I); flat beyond the first and last checkpoint."""
        last = len(self.steps) - 1
        after = np.clip(np.searchsorted(self.steps, times_I), min(1, last), last)
        before = np.maximum(after - 1, 0)
        width = np.maximum(self.steps[after] - self.steps[before], 1.0)
        share = np.clip((times_I - self.steps[before]) / width, 0.0, 1.0)
        point = self.means_S[before] * (1 - share) + self.means_S[after] * share
        resampled = self.means_BS[:, before] * (1 - share) + self.means_BS[:, after] * share
        return point, resampled

    def by_level(self, step: int, levels_I: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """F(step) on each episode's own level − F(step): I, and B × I; 0 where that level was never evaluated."""
        rows, weights_BE = self.rows[step], self.weights[step]
        known = sorted({row.level for row in rows if row.level is not None})
        place = {level: index for index, level in enumerate(known)}
        member_EL = np.zeros((len(rows), len(known)))
        for index, row in enumerate(rows):
            if row.level is not None:
                member_EL[index, place[row.level]] = 1.0
        returns_E = returns_of(rows)
        column_I = np.array([place.get(level, -1) for level in levels_I], dtype=np.int64)

        def differences(weights: FloatArray) -> FloatArray:
            counts = weights @ member_EL
            sums = (weights * returns_E) @ member_EL
            overall = (weights * returns_E).sum(axis=1, keepdims=True)
            found = np.where(counts > 0, sums / np.maximum(counts, 1e-12) - overall, 0.0)
            result: FloatArray = np.concatenate([found, np.zeros((len(found), 1))], axis=1)[:, column_I]
            return result

        return differences(np.full((1, len(rows)), 1 / len(rows)))[0], differences(weights_BE)


def _part(value: float, resampled_B: FloatArray) -> Part:
    low, high = np.quantile(resampled_B, [0.025, 0.975])
    return Part(value, float(low), float(high))


def _point(
    run: LoggedRun, draws: _Draws, step: int, logged: int
) -> tuple[InLoopPoint, FloatArray, dict[str, FloatArray]]:
    fixed = estimate_from_values(returns_of(draws.rows[step]))
    fixed_B = draws.means_BS[:, int(np.searchsorted(draws.steps, step))]
    episodes = None if run.episodes is None else [one for one in run.episodes if one.ended <= step][-run.window :]
    if not episodes:
        sem = fixed.sem * math.sqrt(fixed.n / run.window)
        running = Estimate(run.means[logged], sem, run.window - 1.0, run.window)
        noise_B = draws.rng.standard_normal(RESAMPLES) * sem
        point = InLoopPoint(step, logged, running, fixed, welch(running, fixed), False, None)
        return point, running.mean + noise_B - fixed_B, {}
    totals_I = np.array([one.total for one in episodes])
    picked_BI = draws.rng.integers(0, len(episodes), (RESAMPLES, len(episodes)))
    running = estimate_from_values(totals_I)
    running_B = totals_I[picked_BI].mean(axis=1)
    middles_I = np.array([(one.began + one.ended) / 2 for one in episodes])
    then_I, then_BI = draws.at(middles_I)
    level_I, level_BI = draws.by_level(step, [one.level for one in episodes])
    rows = np.arange(RESAMPLES)[:, None]
    balanced, balanced_B = _slot_means(np.array([one.slot for one in episodes]), totals_I, picked_BI)
    parts = {
        "age": (float(then_I.mean() - fixed.mean), then_BI[rows, picked_BI].mean(axis=1) - fixed_B),
        "levels": (float(level_I.mean()), level_BI[rows, picked_BI].mean(axis=1)),
        "short_first": (running.mean - balanced, running_B - balanced_B),
    }
    total, total_B = running.mean - fixed.mean, running_B - fixed_B
    rest = total - sum(value for value, _ in parts.values())
    parts["rest"] = (rest, total_B - sum(values for _, values in parts.values()))
    window = Window(
        episodes=len(episodes),
        mean_age=float(step - middles_I.mean()),
        oldest=step - min(one.began for one in episodes),
        mean_length=float(np.mean([one.length for one in episodes])),
        **{name: _part(value, values) for name, (value, values) in parts.items()},
    )
    point = InLoopPoint(step, step, running, fixed, welch(running, fixed), True, window)
    return point, total_B, {name: values for name, (_, values) in parts.items()}


def _slot_means(slots_I: IntArray, totals_I: FloatArray, picked_BI: IntArray) -> tuple[float, FloatArray]:
    """Mean over slots of each slot's mean, and the same under each resampling, where a slot may be left out."""
    names = np.unique(slots_I)
    member_IS = (slots_I[:, None] == names[None, :]).astype(np.float64)
    counts_BI = np.stack([np.bincount(picked, minlength=len(totals_I)) for picked in picked_BI]).astype(np.float64)

    def mean(counts: FloatArray) -> FloatArray:
        held = counts @ member_IS
        own = (counts * totals_I) @ member_IS / np.maximum(held, 1.0)
        result: FloatArray = (own * (held > 0)).sum(axis=1) / (held > 0).sum(axis=1)
        return result

    return float(mean(np.ones((1, len(totals_I))))[0]), mean(counts_BI)


def _lag(draws: _Draws, points: Sequence[InLoopPoint], bias_BP: Sequence[FloatArray]) -> Part:
    """Source: least squares over a grid of shifts. NaN for fewer than three checkpoints, or a flat F."""
    if len(points) < 3 or np.ptp(draws.means_S) == 0:
        return Part(math.nan, math.nan, math.nan)
    at_P = np.array([point.steps for point in points], dtype=np.float64)
    running_P = np.array([point.running.mean for point in points])
    fixed_BP = draws.means_BS[:, np.searchsorted(draws.steps, at_P)]
    running_BP = np.stack(bias_BP, axis=1) + fixed_BP
    shifts = np.linspace(0.0, float(draws.steps[-1]) / 2, LAGS)
    errors, errors_B = [], []
    for shift in shifts:
        then_P, then_BP = draws.at(at_P - shift)
        errors.append(float(((then_P - running_P) ** 2).mean()))
        errors_B.append(((then_BP - running_BP) ** 2).mean(axis=1))
    best_B = shifts[np.argmin(np.stack(errors_B), axis=0)]
    return _part(float(shifts[int(np.argmin(errors))]), best_B)
