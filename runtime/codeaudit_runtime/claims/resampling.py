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
    """`limit`: what the true excess is below, with 97.5% confidence; `p` of the claim against it.

    `low`, `high`: the study's variant, the 2.5th and 97.5th percentiles of the bootstrap of Δ itself.
    """

    limit: float
    p: float
    low: float
    high: float


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
    """Is the claim larger than the truth can be?

    With P and N the integrals of the positive and negative part of the difference of the two quantile functions,
    W1 = P + N, |μ1 − μ2| = |P − N| and Δ = 2 min(P, N). Where the means tie, Δ has a kink, and its percentile bootstrap
    refutes true claims, the more the less noise W1 itself has. But Δ is under a claim exactly if 2P or 2N is, and then
    W1 may be, too. So the three are tested one by one and corrected jointly: the limit is the smallest of their upper
    percentiles, at the level at which 2.5% of the bootstrap's draws are above any of them (single-step min-p,
    Westfall & Young 1993). All three are convex in the two laws, so what is measured is too large on average (Jensen),
    never too small; the draws are therefore shifted to have the measured value as their mean, and the limit errs
    towards sparing a claim. `tests/benchmarks/bench_claims.py simulate` shows what remains.
    """
    parts = list(_resampled_parts(x, y, draws, rng))
    w1, gap = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    difference = np.sort(x) - np.sort(y)
    seen_w1, seen_gap = float(np.abs(difference).mean()), float(difference.mean())
    excess = _excess_of_parts(w1, gap)
    low, high = np.quantile(excess, [0.025, 0.975])
    shifted = [
        drawn + (seen - float(drawn.mean()))
        for drawn, seen in ((w1 + gap, seen_w1 + seen_gap), (w1 - gap, seen_w1 - seen_gap), (w1, seen_w1))
    ]
    ordered = [np.sort(column) for column in shifted]
    above = [draws - np.searchsorted(o, c - ZERO_BELOW) for o, c in zip(ordered, shifted, strict=True)]
    fewest = np.min(above, axis=0)
    rank = max(1, int(np.quantile(fewest, 0.025, method="lower")))
    limit = max(0.0, min(float(column[draws - rank]) for column in ordered))
    of_claim = min(draws - int(np.searchsorted(column, claim - ZERO_BELOW)) for column in ordered)
    return Magnitude(limit, (1 + int((fewest <= of_claim).sum())) / (draws + 1), float(low), float(high))


def resampled_excess(x: FloatArray, y: FloatArray, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Excess gaps of `draws` pairs of resampled sets, in chunks. `y` may be `x`: then it is the null."""
    for w1, gap in _resampled_parts(x, y, draws, rng):
        yield _excess_of_parts(w1, gap)


def _excess_of_parts(w1: FloatArray, gap: FloatArray) -> FloatArray:
    values: FloatArray = w1 - np.abs(gap)
    values[values < ZERO_BELOW] = 0.0
    return values


def _resampled_parts(
    x: FloatArray, y: FloatArray, draws: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """W1 and μ1 − μ2 of pairs of resampled sets, in chunks."""
    support = np.unique(np.concatenate([x, y]))
    few = len(support) <= FEW_ATOMS
    shares = [_shares(one, support) for one in (x, y)] if few else []
    ordered = [] if few else [np.sort(one) for one in (x, y)]
    for start in range(0, draws, CHUNK):
        count = min(CHUNK, draws - start)
        if few:
            counts, others = (rng.multinomial(len(x), share, size=count) for share in shares)
            steps = np.cumsum(others - counts, axis=1)[:, :-1] / len(x) * np.diff(support)
            yield np.abs(steps).sum(axis=1), steps.sum(axis=1)
        else:
            first, second = (one[sorted_indices(count, len(one), rng)] for one in ordered)
            first -= second
            gap = first.mean(axis=1)
            yield np.abs(first, out=first).mean(axis=1), gap


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
