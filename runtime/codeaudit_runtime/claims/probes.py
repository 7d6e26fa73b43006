"""How do refuted claims go with training and score? Pure; not for scoring an agent.

Source: arXiv:2607.11607, its audits along training and its comparison of score and refutation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy import stats

from codeaudit_runtime.claims.states import TOP_STRATA
from codeaudit_runtime.claims.verdicts import Share, StateResult, share
from codeaudit_runtime.spaces import FloatArray

MOST_EXACT, ORDERS = 7, 9_999  # agents of which all orders are tried; orders at random of more


@dataclass(frozen=True)
class Probe:
    """One audited agent: steps of its training (None: unknown), mean undiscounted return of its greedy policy
    (`score`), and the claims that are overstated."""

    run: str
    environment: str
    algorithm: str
    steps: int | None
    score: float
    top: Share
    rest: Share
    mean_top_claim: float


@dataclass(frozen=True)
class Trend:
    """Spearman's ρ of score and share of overstated top claims over `agents` of one environment and algorithm, of any
    age; p two-sided, by all orders (or 9,999 at random). nan where nothing varies or fewer than three are there."""

    environment: str
    algorithm: str
    agents: int
    rho: float
    p: float


def probe(
    run: str, environment: str, algorithm: str, steps: int | None, score: float, states: Sequence[StateResult]
) -> Probe:
    """`states` are those of this run."""
    top = [state for state in states if state.stratum in TOP_STRATA]
    rest = [state for state in states if state.stratum not in TOP_STRATA]
    claims = [state.claim for state in top]
    return Probe(
        run, environment, algorithm, steps, score,
        share(sum(state.overstated for state in top), len(top)),
        share(sum(state.overstated for state in rest), len(rest)),
        float(np.mean(claims)) if claims else math.nan,
    )  # fmt: skip


def trends(probes: Sequence[Probe], seed: int) -> tuple[Trend, ...]:
    """One for each environment and algorithm with two agents or more."""
    found = []
    for key in dict.fromkeys((one.environment, one.algorithm) for one in probes):
        own = [one for one in probes if (one.environment, one.algorithm) == key and one.top.n]
        if len(own) < 2:
            continue
        scores, shares = np.array([one.score for one in own]), np.array([one.top.k / one.top.n for one in own])
        rho = p = math.nan
        if len(own) > 2 and len(set(scores)) > 1 and len(set(shares)) > 1:
            rho = float(stats.spearmanr(scores, shares).statistic)
            p = _p_of_orders(stats.rankdata(scores), stats.rankdata(shares), seed)
        found.append(Trend(*key, len(own), rho, p))
    return tuple(found)


def _p_of_orders(scores: FloatArray, shares: FloatArray, seed: int) -> float:
    """Of the correlation of ranks, whose asymptotic law few agents are far from."""
    count = len(scores)
    exact = count <= MOST_EXACT
    if exact:
        orders = np.array(list(permutations(range(count))))
    else:
        rng = np.random.Generator(np.random.PCG64([seed, 10]))
        orders = rng.permuted(np.tile(np.arange(count), (ORDERS, 1)), axis=1)
    centred = scores - scores.mean()
    seen, found = abs(centred @ shares), np.abs(centred[orders] @ shares)
    as_extreme = int((found >= seen - 1e-9).sum())
    return as_extreme / len(orders) if exact else (1 + as_extreme) / (len(orders) + 1)
