"""How far apart runs are: percentiles, min-max IPR, order-statistic and tolerance intervals. Not for means.

Everything here is about the population of runs that a recipe makes. None of it shrinks as runs are added; it only gets
known better. Axis letter: R, one entry an independently trained run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from codeaudit_runtime.spaces import FloatArray

Scores = Sequence[float] | NDArray[np.floating[Any]]
PercentileMethod = Literal["nearest_rank", "linear", "closest"]
Side = Literal["two_sided", "lower", "upper"]
METHODS: tuple[PercentileMethod, ...] = ("nearest_rank", "linear", "closest")


@dataclass(frozen=True)
class MinMaxIPR:
    """The inter-percentile range of runs as a share of what the task allows.

    `percent` = 100 · (upper − lower) / (high − low). `lower_rank` and `upper_rank` count the sorted runs from 1; they
    are None with linear interpolation, which lies between two runs.
    """

    percent: float
    lower: float  # U(5) for the inner 90%
    upper: float  # U(95)
    low: float  # m, the task's lower bound
    high: float  # M
    inner: float
    method: PercentileMethod
    n: int
    lower_rank: int | None
    upper_rank: int | None

    @property
    def is_range(self) -> bool:
        """Whether the two percentiles are the worst and the best run: then this is the range of the sample."""
        return self.lower_rank == 1 and self.upper_rank == self.n


@dataclass(frozen=True)
class OrderStatisticInterval:
    """Limits for a percentile of the population that are runs themselves. None: too few runs for that limit."""

    percent: float
    low: float | None
    high: float | None
    low_rank: int | None
    high_rank: int | None
    level: float  # asked for
    attained: float  # at least this, whatever the distribution; NaN where an asked limit is missing
    n: int


@dataclass(frozen=True)
class IPRInterval:
    """Limits for the population's min-max IPR, in percent. `high` is None where there are too few runs for it."""

    low: float
    high: float | None
    level: float
    n: int


@dataclass(frozen=True)
class ToleranceInterval:
    """Two runs between which at least `content` of all runs of the recipe lie, with confidence `attained`.

    With fewer runs than any two can promise that for, it is the sample's range and `attained` stays below `level`.
    """

    low: float
    high: float
    low_rank: int
    high_rank: int
    content: float
    level: float
    attained: float
    n: int

    @property
    def holds(self) -> bool:
        return self.attained >= self.level


def scores_array(scores: Scores) -> FloatArray:
    """Scores (R,) as floats. ValueError where there are none, or where one is not finite."""
    array_R = np.asarray(scores, dtype=np.float64)
    if array_R.ndim != 1 or len(array_R) == 0:
        raise ValueError("scores must be one number for each run, shape (R,), R at least 1")
    if not np.isfinite(array_R).all():
        raise ValueError("a score is not finite; leave such runs out, or count them as failed, before this")
    return array_R


def nearest_rank(n: int, percent: float) -> int:
    """ceil(percent/100 · n), at least 1: the rank, from 1, of a percentile among n sorted runs.

    Exact: 7% of 100 runs is rank 7, which floating point makes 8. The 5th percentile is the minimum for n ≤ 20; the
    95th is the maximum for n ≤ 19.
    """
    _check_percent(percent)
    return max(1, math.ceil(Fraction(str(percent)) * n / 100))


def percentile(scores: Scores, percent: float, method: PercentileMethod = "nearest_rank") -> float:
    """A percentile of scores (R,).

    `nearest_rank`: a run's own score, see `nearest_rank` (Hyndman & Fan 1996, type 1). `linear`: NumPy's default (type
    7), at position (n − 1)·p; the 5th percentile then mixes the two worst runs below n = 21. `closest`: the run nearest
    to that position, as the code of Tanaka & Mahmood (2026) takes it (NumPy's "nearest").
    """
    array_R = scores_array(scores)
    _check_percent(percent)
    if method == "linear":
        return float(np.percentile(array_R, percent))
    return float(np.sort(array_R)[_rank(len(array_R), percent, method) - 1])


def run_at_percentile(scores: Scores, percent: float) -> int:
    """Index into scores (R,) of the run at the nearest-rank percentile; among equal scores, the earlier run first."""
    array_R = scores_array(scores)
    return int(np.argsort(array_R, kind="stable")[nearest_rank(len(array_R), percent) - 1])


def min_max_ipr(
    scores: Scores, low: float, high: float, *, inner: float = 90.0, method: PercentileMethod = "nearest_rank"
) -> MinMaxIPR:
    """Min-max inter-percentile range of final scores (R,) on a task with bounds `low` < `high`.

    (U(95) − U(5)) / (high − low) · 100 for the inner 90%. Source: Tanaka & Mahmood (2026), the definition of IPR.
    ValueError where the bounds are not finite and in order, or a score is not finite.
    """
    array_R = scores_array(scores)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bounds must be finite and low < high, not {low} and {high}")
    below, above = _tails(inner)
    lower, upper = percentile(array_R, below, method), percentile(array_R, above, method)
    n = len(array_R)
    ranks = (None, None) if method == "linear" else (_rank(n, below, method), _rank(n, above, method))
    percent = 100 * (upper - lower) / (high - low)
    return MinMaxIPR(percent, lower, upper, float(low), float(high), inner, method, n, *ranks)


def order_statistic_interval(
    scores: Scores, percent: float, *, level: float = 0.95, side: Side = "two_sided"
) -> OrderStatisticInterval:
    """Distribution-free limits for a percentile of the population, from scores (R,).

    The number of runs at or below the percentile is binomial, so that x(l) lies below it with probability
    P(Bin(n, p) ≥ l) and x(u) above it with P(Bin(n, p) ≤ u − 1); two-sided with equal tails. Conservative for a
    population with ties or jumps. Source: David & Nagaraja, Order Statistics (3rd ed., 2003), section 7.1.
    """
    ordered_R = np.sort(scores_array(scores))
    _check_percent(percent)
    _check_level(level)
    n, p = len(ordered_R), percent / 100
    tail = (1 - level) / (2 if side == "two_sided" else 1)
    cdf = stats.binom.cdf(np.arange(n), n, p)  # P(Bin ≤ k) for k = 0 … n − 1
    low_rank = int(np.count_nonzero(cdf <= tail)) or None
    reached = np.flatnonzero(cdf >= 1 - tail)
    high_rank = int(reached[0]) + 1 if len(reached) else None
    low_rank = None if side == "upper" else low_rank
    high_rank = None if side == "lower" else high_rank
    below = float(cdf[low_rank - 1]) if low_rank else 0.0
    above = 1 - float(cdf[high_rank - 1]) if high_rank else 0.0
    missing = (side != "upper" and low_rank is None) or (side != "lower" and high_rank is None)
    return OrderStatisticInterval(
        percent=percent,
        low=float(ordered_R[low_rank - 1]) if low_rank else None,
        high=float(ordered_R[high_rank - 1]) if high_rank else None,
        low_rank=low_rank,
        high_rank=high_rank,
        level=level,
        attained=math.nan if missing else 1 - below - above,
        n=n,
    )


def runs_needed(percent: float, *, level: float = 0.95, side: Side = "lower") -> int:
    """The fewest runs with which `order_statistic_interval` has every limit that `side` asks for.

    A lower limit exists once 1 − (1 − p)^n ≥ level: 59 runs for the 5th percentile at 95%.
    """
    if not 0 < percent < 100:
        raise ValueError(f"a percentile strictly between 0 and 100, not {percent}")
    _check_level(level)
    tail = (1 - level) / (2 if side == "two_sided" else 1)
    p = percent / 100
    misses = {"lower": [1 - p], "upper": [p], "two_sided": [1 - p, p]}[side]
    return max(math.ceil(math.log(tail) / math.log(miss) - 1e-12) for miss in misses)


def ipr_interval(scores: Scores, low: float, high: float, *, inner: float = 90.0, level: float = 0.95) -> IPRInterval:
    """Conservative distribution-free limits for the population's min-max IPR, from scores (R,), bounds held fixed.

    From the order-statistic limits of both percentiles, each at 1 − (1 − level)/2 so that all four hold at once
    (Bonferroni): the widest and the narrowest range that they allow. The upper limit needs 86 runs for IPR-90 at 95%.
    """
    below, above = _tails(inner)
    each = 1 - (1 - level) / 2
    lower = order_statistic_interval(scores, below, level=each)
    upper = order_statistic_interval(scores, above, level=each)
    scale = 100 / (high - low)
    narrowest = 0.0
    if upper.low is not None and lower.high is not None:
        narrowest = max(0.0, (upper.low - lower.high) * scale)
    widest = None
    if upper.high is not None and lower.low is not None:
        widest = (upper.high - lower.low) * scale
    return IPRInterval(narrowest, widest, level, lower.n)


def range_confidence(n: int, content: float = 0.9) -> float:
    """Probability that the range of n runs, worst to best, holds at least `content` of all runs of the recipe.

    1 − n·c^(n−1) + (n−1)·c^n (Wilks 1941): 0.028 for three runs and 90%, 0.95 from 46 runs on.
    """
    return 1 - n * content ** (n - 1) + (n - 1) * content**n


def tolerance_interval(scores: Scores, *, content: float = 0.9, level: float = 0.95) -> ToleranceInterval:
    """The tightest symmetric pair of order statistics of scores (R,) that promises `content` at `level`.

    The share of the population between x(r) and x(n+1−r) is Beta(n − 2r + 1, 2r) (Wilks 1941; David & Nagaraja 2003,
    section 7.2). Distribution-free; for a normal population narrower ones exist, but returns are seldom normal.
    """
    ordered_R = np.sort(scores_array(scores))
    if not 0 < content < 1:
        raise ValueError(f"content must lie strictly between 0 and 1, not {content}")
    _check_level(level)
    n = len(ordered_R)
    trims = np.arange(1, (n + 1) // 2 + 1)
    attained = stats.binom.cdf(n - 2 * trims, n, content)  # P(Beta(n − 2r + 1, 2r) ≥ content)
    good = np.flatnonzero(attained >= level)
    chosen = int(good[-1]) if len(good) else 0
    r = int(trims[chosen])
    return ToleranceInterval(
        float(ordered_R[r - 1]), float(ordered_R[n - r]), r, n + 1 - r, content, level, float(attained[chosen]), n
    )


def _rank(n: int, percent: float, method: PercentileMethod) -> int:
    """Rank from 1. `closest` rounds (n − 1)·p half to even, as NumPy does."""
    if method == "nearest_rank":
        return nearest_rank(n, percent)
    return round(Fraction(str(percent)) * (n - 1) / 100) + 1


def _tails(inner: float) -> tuple[float, float]:
    if not 0 < inner <= 100:
        raise ValueError(f"the inner share must lie in (0, 100], not {inner}")
    return (100 - inner) / 2, 100 - (100 - inner) / 2


def _check_percent(percent: float) -> None:
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile between 0 and 100, not {percent}")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"a confidence level strictly between 0 and 1, not {level}")
