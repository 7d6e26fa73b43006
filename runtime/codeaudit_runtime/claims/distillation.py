"""Would a head that was fitted to true returns make true claims, there and elsewhere? Pure; not for the fitting.

Source: arXiv:2607.11607, its repair by distillation on restart returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from codeaudit_runtime.claims.stored import Law
from codeaudit_runtime.claims.verdicts import Share, StateResult, share
from codeaudit_runtime.spaces import FloatArray

FOLDS = 2


@dataclass(frozen=True)
class DistilledState:
    """One state: mean W1 of its two learned laws to the true returns, and its claim, for the head as it is
    (`w1_before`), fitted with this state among others (`inside`) and fitted without it (`outside`)."""

    w1_before: float
    w1_inside: float
    w1_outside: float
    claim_inside: float
    claim_outside: float


@dataclass(frozen=True)
class Fit:
    """States that were fitted, or those held out. `overstated`, and `asserted`: real trade-offs whose new claim is
    above what chance shows."""

    w1_before: float
    w1_after: float
    overstated_before: Share
    overstated_after: Share
    asserted: Share


@dataclass(frozen=True)
class Distillation:
    """One game. `states` that could be fitted: 0 where no agent brings weights that are known here."""

    states: int
    inside: Fit
    outside: Fit


def folds_of_states(count: int, seed: int) -> list[list[int]]:
    """Halves (or nearly) of the states at random; each is fitted once and held out once."""
    order = np.random.Generator(np.random.PCG64([seed, 9])).permutation(count)
    return [sorted(order[fold::FOLDS].tolist()) for fold in range(FOLDS)]


def w1_of_law(law: Law, returns: FloatArray) -> float:
    return float(stats.wasserstein_distance(law.values, returns, law.weights))


def distillation(
    states: Sequence[StateResult], real: Sequence[bool], distilled: Sequence[DistilledState | None]
) -> Distillation:
    """`distilled`: of each state, None where its run could not be fitted."""
    known = [
        (state, exists, one) for state, exists, one in zip(states, real, distilled, strict=True) if one is not None
    ]

    def fit(inside: bool) -> Fit:
        claims = [one.claim_inside if inside else one.claim_outside for _, _, one in known]
        overstated = [
            claim > state.truth_limit + state.tolerance for claim, (state, _, _) in zip(claims, known, strict=True)
        ]
        asserted = [claim > state.null_95 for claim, (state, exists, _) in zip(claims, known, strict=True) if exists]
        return Fit(
            _mean([one.w1_before for _, _, one in known]),
            _mean([one.w1_inside if inside else one.w1_outside for _, _, one in known]),
            share(sum(state.overstated for state, _, _ in known), len(known)),
            share(sum(overstated), len(known)),
            share(sum(asserted), len(asserted)),
        )

    return Distillation(len(known), fit(True), fit(False))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
