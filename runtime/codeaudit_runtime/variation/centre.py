"""What readers expect beside variation: mean, IQM, standard error, bootstrap, failures, profile. Not for spread.

The standard error and the bootstrap intervals say how well a *mean* is known. They shrink as 1/√n; runs do not get any
closer to each other by that. Axis letter: R, one entry an independently trained run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.statistics import bootstrap_interval
from codeaudit_runtime.variation.spread import Scores, scores_array


@dataclass(frozen=True)
class Centre:
    """Where the middle of the runs is, and how well that middle is known. NaN where one run can't say."""

    n: int
    mean: float
    median: float
    iqm: float  # interquartile mean
    std: float  # of runs, n − 1: variation, if the runs are near normal
    standard_error: float  # of the mean
    mean_low: float  # percentile bootstrap interval of the mean
    mean_high: float
    iqm_low: float  # percentile bootstrap interval of the IQM
    iqm_high: float
    level: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class Failures:
    """Runs below a threshold, with the exact binomial interval of their share in the population."""

    threshold: float
    count: int
    n: int
    share: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Profile:
    """Share of runs that reach at least each threshold, with a band that holds everywhere at once."""

    thresholds: tuple[float, ...]
    shares: tuple[float, ...]
    half_width: float  # of the band, in share
    level: float


def interquartile_mean(scores: Scores) -> float:
    """Mean of scores (R,) without the floor(R/4) lowest and highest (Agarwal et al. 2021, as rliable computes it).

    Below four runs nothing is cut, and it is the mean.
    """
    return float(stats.trim_mean(scores_array(scores), 0.25))


def bootstrap_iqm_interval(
    scores: Scores, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the IQM of scores (R,); runs are resampled (Agarwal et al. 2021, section 4)."""
    array_R = scores_array(scores)
    rng = np.random.Generator(np.random.PCG64(seed))
    n = len(array_R)
    values = np.empty(resamples)
    chunk = max(1, 4_000_000 // n)
    for start in range(0, resamples, chunk):
        stop = min(start + chunk, resamples)
        drawn_BR = array_R[rng.integers(0, n, (stop - start, n))]
        values[start:stop] = stats.trim_mean(drawn_BR, 0.25, axis=1)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def centre(scores: Scores, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Centre:
    """Mean, median, IQM, standard deviation, standard error and seeded bootstrap intervals of scores (R,)."""
    array_R = scores_array(scores)
    n = len(array_R)
    std = float(array_R.std(ddof=1)) if n > 1 else math.nan
    mean_interval = iqm_interval = (math.nan, math.nan)
    if n > 1:
        mean_interval = bootstrap_interval(array_R, resamples=resamples, level=level, seed=seed)
        iqm_interval = bootstrap_iqm_interval(array_R, resamples=resamples, level=level, seed=seed)
    return Centre(
        n=n,
        mean=float(array_R.mean()),
        median=float(np.median(array_R)),
        iqm=interquartile_mean(array_R),
        std=std,
        standard_error=std / math.sqrt(n),
        mean_low=mean_interval[0],
        mean_high=mean_interval[1],
        iqm_low=iqm_interval[0],
        iqm_high=iqm_interval[1],
        level=level,
        resamples=resamples,
        seed=seed,
    )


def failures(scores: Scores, threshold: float, *, level: float = 0.95) -> Failures:
    """Runs of scores (R,) strictly under the threshold; the interval of their share is Clopper & Pearson's (1934)."""
    array_R = scores_array(scores)
    n, count = len(array_R), int(np.count_nonzero(array_R < threshold))
    interval = stats.binomtest(count, n).proportion_ci(confidence_level=level, method="exact")
    return Failures(float(threshold), count, n, count / n, float(interval.low), float(interval.high), level)


def performance_profile(scores: Scores, thresholds: Scores, *, level: float = 0.95) -> Profile:
    """Share of scores (R,) at or above each of thresholds (K,).

    Agarwal et al. (2021), section 4.2, on one task. The band is Dvoretzky, Kiefer & Wolfowitz's with Massart's (1990)
    constant: √(ln(2/(1 − level)) / 2n), for all thresholds at once and any population.
    """
    ordered_R = np.sort(scores_array(scores))
    levels_K: FloatArray = np.asarray(thresholds, dtype=np.float64)
    n = len(ordered_R)
    reached_K = n - np.searchsorted(ordered_R, levels_K, side="left")
    half = math.sqrt(math.log(2 / (1 - level)) / (2 * n))
    return Profile(tuple(map(float, levels_K)), tuple(float(count) / n for count in reached_K), half, level)
