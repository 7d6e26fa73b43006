"""Does a head's risk decide well? Choices by learned CVaR against mean-greedy and the truth. Pure.

Not for claims' sizes. Source: arXiv:2607.11607, its table of CVaR decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from codeaudit_runtime.claims.resampling import CHUNK, sorted_indices
from codeaudit_runtime.claims.stored import Law, StoredState
from codeaudit_runtime.spaces import FloatArray

ALPHAS = (0.1, 0.25)
RESAMPLES = 500


@dataclass(frozen=True)
class Picks:
    """How often the safer action is picked, p of a fair coin doing as well or as badly, and the true CVaR given up."""

    safer: int
    p: float
    regret: float


@dataclass(frozen=True)
class Decisions:
    """One game at one α. `decidable`: states whose true CVaR gap differs from zero by bootstrap at 95%."""

    alpha: float
    states: int
    decidable: int
    head: Picks
    mean_greedy: Picks


def cvar_of_law(law: Law, alpha: float) -> float:
    """The mean of the lowest `alpha` of a discrete law."""
    before = np.concatenate([[0.0], np.cumsum(law.weights)[:-1]])
    taken = np.clip(alpha - before, 0.0, law.weights)
    return float(law.values @ taken) / float(taken.sum())


def cvar_of_returns(returns: FloatArray, alpha: float) -> float:
    return float(np.sort(returns) @ _tail_weights(len(returns), alpha))


def decisions(states: Sequence[StoredState], alpha: float, seed: int) -> Decisions:
    """Regret is averaged over decidable states; where the learned CVaRs are equal, the head picks as mean-greedy."""
    gaps, picked = [], []
    for state in states:
        x, y = state.returns
        low, high = _gap_interval(x, y, alpha, np.random.Generator(np.random.PCG64([seed, 7, state.result.index])))
        gap = cvar_of_returns(x, alpha) - cvar_of_returns(y, alpha)
        if low > 0 or high < 0:
            gaps.append(gap)
            learned = [cvar_of_law(law, alpha) for law in state.learned]
            picked.append(learned[0] >= learned[1])
    return Decisions(
        alpha, len(states), len(gaps), _picks(gaps, picked), _picks(gaps, [True] * len(gaps))
    )  # the first action is the one of the higher mean


def _picks(gaps: Sequence[float], first: Sequence[bool]) -> Picks:
    if not gaps:
        return Picks(0, math.nan, math.nan)
    safer = sum((gap > 0) == one for gap, one in zip(gaps, first, strict=True))
    lost = [0.0 if (gap > 0) == one else abs(gap) for gap, one in zip(gaps, first, strict=True)]
    return Picks(safer, float(stats.binomtest(safer, len(gaps)).pvalue), float(np.mean(lost)))


def _gap_interval(x: FloatArray, y: FloatArray, alpha: float, rng: np.random.Generator) -> tuple[float, float]:
    """95% percentile bootstrap of the difference of the CVaRs."""
    ordered = [np.sort(one) for one in (x, y)]
    gaps = []
    for start in range(0, RESAMPLES, CHUNK):
        count = min(CHUNK, RESAMPLES - start)
        first, second = (one[sorted_indices(count, len(one), rng)] @ _tail_weights(len(one), alpha) for one in ordered)
        gaps.append(first - second)
    low, high = np.quantile(np.concatenate(gaps), [0.025, 0.975])
    return float(low), float(high)


def _tail_weights(count: int, alpha: float) -> FloatArray:
    weights: FloatArray = np.clip(alpha * count - np.arange(count), 0.0, 1.0) / (alpha * count)
    return weights
