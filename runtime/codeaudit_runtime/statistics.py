"""Tests, intervals and multiplicity corrections, thin over SciPy. Not for reading episodes or writing verdicts.

The unit of analysis is the run (the mean of its draws). Where there is one run the unit is the episode, and the caller
must say that run-to-run variation is then unknown.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from codeaudit_runtime.spaces import FloatArray

Call = Literal["above", "below", "equivalent", "not_distinguishable"]
Numbers = Sequence[float] | NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and the degrees of freedom of that error."""

    mean: float
    sem: float
    df: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """A difference of means: estimate, standard error, Welch–Satterthwaite df, two-sided p, 95% interval."""

    difference: float
    se: float
    df: float
    p: float
    low: float
    high: float


def estimate_from_values(values: Numbers) -> Estimate:
    """Mean and SEM (n − 1 in the variance) of independent values. NaN error and no df for fewer than two."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2:
        return Estimate(float(array.mean()) if len(array) else math.nan, math.nan, 0.0, len(array))
    return Estimate(float(array.mean()), float(array.std(ddof=1) / math.sqrt(len(array))), len(array) - 1.0, len(array))


def estimate_from_summary(mean: float, std: float, n: int) -> Estimate:
    """The same from a printed mean, standard deviation and count."""
    return Estimate(mean, std / math.sqrt(n), n - 1.0, n)


def estimate_from_clusters(values: Numbers, clusters: Sequence[Hashable]) -> Estimate:
    """Mean with a cluster-robust SEM: √(G/(G−1) · Σ_g (Σ_i (x_i − mean))²) / n, df = G − 1.

    Source: Liang & Zeger (1986), the intercept-only case, with the usual correction G/(G−1) (Cameron & Miller
    2015, eq. 11).
    """
    array = np.asarray(values, dtype=np.float64)
    order: dict[Hashable, int] = {}  # by first appearance: a hash would order texts differently in every process
    index = [order.setdefault(cluster, len(order)) for cluster in clusters]
    groups = len(order)
    if groups < 2:
        return Estimate(float(array.mean()), math.nan, 0.0, len(array))
    sums = np.bincount(index, weights=array - array.mean(), minlength=groups)
    sem = math.sqrt(groups / (groups - 1) * float((sums**2).sum())) / len(array)
    return Estimate(float(array.mean()), sem, groups - 1.0, len(array))


def welch(a: Estimate, b: Estimate, level: float = 0.95) -> Comparison:
    """Two-sided Welch test of a − b (Welch 1947). Two constants: p = 1 if equal, else 0 (SciPy: NaN, 0)."""
    difference = a.mean - b.mean
    se, df = _pooled_error(a, b)
    if se == 0:
        return Comparison(difference, 0.0, math.inf, 1.0 if difference == 0 else 0.0, difference, difference)
    if not (math.isfinite(se) and df > 0):
        return Comparison(difference, math.nan, df, math.nan, math.nan, math.nan)
    half = float(stats.t.ppf(0.5 + level / 2, df)) * se
    p = 2 * float(stats.t.sf(abs(difference) / se, df))
    return Comparison(difference, se, df, p, difference - half, difference + half)


def _pooled_error(a: Estimate, b: Estimate) -> tuple[float, float]:
    """Standard error of a − b and its Welch–Satterthwaite degrees of freedom."""
    va, vb = a.sem**2, b.sem**2
    if va + vb == 0:
        return 0.0, math.inf
    terms = [v**2 / e.df for v, e in ((va, a), (vb, b)) if v > 0 and e.df > 0]
    if len(terms) < sum(v > 0 for v in (va, vb)) or not math.isfinite(va + vb):
        return math.nan, 0.0
    return math.sqrt(va + vb), (va + vb) ** 2 / sum(terms)


def tost_p(a: Estimate, b: Estimate, margin: float) -> float:
    """p of equivalence within ±margin: the larger of two one-sided Welch tests (Schuirmann 1987), Welch df, not pooled.

    Two constants are equivalent (p = 0) if they are equal or differ by less than the margin, else not (p = 1).
    """
    difference = a.mean - b.mean
    se, df = _pooled_error(a, b)
    if se == 0:
        return 0.0 if abs(difference) < margin or difference == 0 else 1.0
    if not (math.isfinite(se) and df > 0):
        return math.nan
    return max(float(stats.t.sf((difference + margin) / se, df)), float(stats.t.cdf((difference - margin) / se, df)))


ZERO = Estimate(0.0, 0.0, 0.0, 0)


def paired(differences: Numbers, level: float = 0.95) -> Comparison:
    """One-sample t test of paired differences against zero; constants as in `welch`."""
    return welch(estimate_from_values(differences), ZERO, level)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the given order (Holm 1979). NaN stays NaN but counts in the family."""
    order = sorted(range(len(p_values)), key=lambda i: (math.isnan(p_values[i]), p_values[i]))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        if math.isnan(p_values[index]):
            continue
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def bootstrap_interval(
    values: Numbers, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron & Tibshirani 1993, ch. 13). Constants give a point, not NaN."""
    array = np.asarray(values, dtype=np.float64)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = np.empty(resamples)
    chunk = max(1, 4_000_000 // max(len(array), 1))
    for start in range(0, resamples, chunk):
        stop = min(start + chunk, resamples)
        means[start:stop] = array[rng.integers(0, len(array), (stop - start, len(array)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap_two_way(
    values_RL: FloatArray, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the grand mean of a runs × levels table; resamples both (Owen 2007)."""
    runs, levels = values_RL.shape
    rng = np.random.Generator(np.random.PCG64(seed))
    weights_BR = rng.multinomial(runs, [1 / runs] * runs, size=resamples)
    weights_BL = rng.multinomial(levels, [1 / levels] * levels, size=resamples)
    means = ((weights_BR @ values_RL) * weights_BL).sum(axis=1) / (runs * levels)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def decide_call(comparison: Comparison, adjusted_p: float, equivalence_p: float, alpha: float = 0.05) -> Call:
    """above/below if the adjusted p < alpha, else equivalent if the TOST passes, else not_distinguishable."""
    if adjusted_p < alpha:
        return "above" if comparison.difference > 0 else "below"
    return "equivalent" if equivalence_p < alpha else "not_distinguishable"


def floor_margin(floor_mean: float, relative: float = 0.1, absolute: float = 0.25) -> float:
    """max(relative · |floor|, absolute) in raw return (Keshari 2026)."""
    return max(relative * abs(floor_mean), absolute)


def _independent(p_values: Sequence[float], runs: Sequence[Hashable]) -> FloatArray:
    if len(p_values) != len(runs):
        raise ValueError("one run identity for each p-value")
    if len(set(runs)) < len(runs):
        raise ValueError(
            "p-values can be combined across independent runs only; two of these come from the same weights"
        )
    return np.asarray(p_values, dtype=np.float64)


def fisher(p_values: Sequence[float], runs: Sequence[Hashable]) -> float:
    """Combined p across independent runs (Fisher 1932). ValueError where a run (its weights' hash) appears twice."""
    array = _independent(p_values, runs)
    if (array <= 0).any():
        return 0.0
    return float(stats.chi2.sf(-2 * np.log(array).sum(), 2 * len(array)))


def stouffer(p_values: Sequence[float], runs: Sequence[Hashable]) -> float:
    """Combined one-sided p across independent runs (Stouffer et al. 1949). Refuses re-evaluations as `fisher` does.

    A p of exactly 0 or 1 is ±infinity on the normal scale and would decide alone; both are taken at 1e-16 from the end.
    """
    array = np.clip(_independent(p_values, runs), 1e-16, 1 - 1e-16)
    return float(stats.norm.sf(stats.norm.isf(array).sum() / math.sqrt(len(array))))


def kish_effective_n(counts: Numbers) -> float:
    """(Σw)² / Σw², the effective number of equally weighted levels (Kish 1965, §11.7)."""
    array = np.asarray(counts, dtype=np.float64)
    return float(array.sum() ** 2 / (array**2).sum()) if len(array) else 0.0
