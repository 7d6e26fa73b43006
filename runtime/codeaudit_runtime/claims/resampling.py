"""Resampled excess gaps: the null of existence, the bootstrap of magnitude, p-values. Not for combining states.

All are computed per state and at the deployed number of returns n, for the empirical distance has a floor that falls as
n^(−1/2) and depends on the return distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from codeaudit_runtime.claims.gaps import ZERO_BELOW
from codeaudit_runtime.spaces import FloatArray, IntArray

CHUNK = 250  # draws at a time: 250 × 2,000 returns stay in the cache's reach
FEW_ATOMS = 64  # up to so many different values, counts are drawn instead of returns
STOP_AFTER = 20  # exceedances after which a sequential p-value is settled


@dataclass(frozen=True)
class Existence:
    """`p` against the null of one action at n; `half_p` the study's half-sample variant; `draws` those of the larger p;
    `null_95` the larger 95th percentile of the null over the two actions (from its first draws)."""

    p: float
    draws: int
    half_p: float
    null_95: float


@dataclass(frozen=True)
class Magnitude:
    """Percentiles of the bootstrap of the true excess, and p of the claim: (1 + #{Δ* ≥ claim}) / (B + 1)."""

    low: float
    high: float
    p: float


def existence(x: FloatArray, y: FloatArray, observed: float, draws: int, rng: np.random.Generator) -> Existence:
    """Is the excess of two actions' returns more than chance? The larger p of the two actions' nulls.

    Null of an action: the excess between two resampled sets, each of n returns, of that action alone. Sequential:
    after `STOP_AFTER` exceedances in L draws, p = STOP_AFTER / L, else (1 + g) / (B + 1) (Besag & Clifford 1991).
    """
    tested = [_sequential_p(one, observed, draws, rng) for one in (x, y)]
    p, used, _ = max(tested, key=lambda result: (result[0], result[1]))
    halves = max(_half_sample_p(one, observed, rng) for one in (x, y))
    return Existence(p, used, halves, max(level for _, _, level in tested))


def magnitude(x: FloatArray, y: FloatArray, claim: float, draws: int, rng: np.random.Generator) -> Magnitude:
    """Is the claim larger than the truth's bootstrap allows? Δ is not regular at zero: see the simulated coverage."""
    values = np.concatenate(list(resampled_excess(x, y, draws, rng)))
    low, high = np.quantile(values, [0.025, 0.975])
    return Magnitude(float(low), float(high), (1 + int((values >= claim - ZERO_BELOW).sum())) / (draws + 1))


def resampled_excess(x: FloatArray, y: FloatArray, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Excess gaps of `draws` pairs of resampled sets, in chunks. `y` may be `x`: then it is the null."""
    support = np.unique(np.concatenate([x, y]))
    few = len(support) <= FEW_ATOMS
    shares = [_shares(one, support) for one in (x, y)] if few else []
    ordered = [] if few else [np.sort(one) for one in (x, y)]
    for start in range(0, draws, CHUNK):
        count = min(CHUNK, draws - start)
        values: FloatArray
        if few:
            counts, others = (rng.multinomial(len(x), share, size=count) for share in shares)
            steps = np.cumsum(counts - others, axis=1)[:, :-1] / len(x) * np.diff(support)
            values = np.abs(steps).sum(axis=1) - np.abs(steps.sum(axis=1))
        else:
            first, second = (one[sorted_indices(count, len(one), rng)] for one in ordered)
            first -= second
            gap = np.abs(first.mean(axis=1))
            values = np.abs(first, out=first).mean(axis=1) - gap
        values[values < ZERO_BELOW] = 0.0
        yield values


def sorted_indices(draws: int, n: int, rng: np.random.Generator) -> IntArray:
    """`draws` × n indices drawn with replacement, each row ascending, so that a sorted sample stays sorted.

    Sixteen bits where they suffice, for NumPy then sorts by radix.
    """
    kind = np.uint16 if n <= 1 << 16 else np.int64
    indices = rng.integers(0, n, (draws, n), dtype=kind)
    indices.sort(axis=1, kind="stable")
    return indices


def _shares(values: FloatArray, support: FloatArray) -> FloatArray:
    counts = np.bincount(np.searchsorted(support, values), minlength=len(support))
    result: FloatArray = counts / len(values)
    return result


def _sequential_p(x: FloatArray, observed: float, draws: int, rng: np.random.Generator) -> tuple[float, int, float]:
    """p, draws used, and the 95th percentile of the null's first chunk."""
    if x.min() == x.max():  # the null of a constant is zero
        return (1.0, 0, 0.0) if observed <= 0 else (1 / (draws + 1), draws, 0.0)
    used, exceeded, level = 0, 0, math.nan
    for values in resampled_excess(x, x, draws, rng):
        if not used:
            level = float(np.quantile(values, 0.95))
        over = np.flatnonzero(values >= observed - ZERO_BELOW)
        if exceeded + len(over) >= STOP_AFTER:
            used += int(over[STOP_AFTER - exceeded - 1]) + 1
            return STOP_AFTER / used, used, level
        exceeded += len(over)
        used += len(values)
    return (1 + exceeded) / (used + 1), used, level


def _half_sample_p(x: FloatArray, observed: float, rng: np.random.Generator, splits: int = 200) -> float:
    """The study's variant: the excess between two random halves of one action's returns, which is √2 too wide."""
    half = len(x) // 2
    if half == 0:
        return 1.0
    ordered = np.sort(x)
    over = 0
    for _ in range(splits):
        mask = np.zeros(len(x), dtype=bool)
        chosen = rng.permutation(len(x))
        mask[chosen[:half]] = True
        first = ordered[mask]
        mask[:] = False
        mask[chosen[half : 2 * half]] = True
        difference = first - ordered[mask]
        over += float(np.abs(difference).mean() - abs(difference.mean())) >= observed - ZERO_BELOW
    return (1 + over) / (splits + 1)
