"""Do other seeds of one recipe make the same claim of the same state? Not for their own audits.

Source: arXiv:2607.11607, its cross-seed reproduction and the disagreement of siblings as a warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codeaudit_runtime.claims.detector import auroc
from codeaudit_runtime.claims.gaps import excesses_of_pairs
from codeaudit_runtime.claims.heads import ReturnHead
from codeaudit_runtime.claims.states import TOP_STRATA
from codeaudit_runtime.claims.verdicts import Share, StateResult, share
from codeaudit_runtime.spaces import AnyArray

REPRODUCED_FROM = 0.5  # of the claim


@dataclass(frozen=True)
class Siblings:
    """`top`, `rest`: pairs of a claim and a sibling that claims at least half as much of the same two actions there.
    `disagreement`: AUROC of the claims' standard deviation over seeds for overstated claims; nan without both kinds."""

    top: Share
    rest: Share
    disagreement: float


def sibling_claims(head: ReturnHead, observations: AnyArray, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """What `head` claims of other agents' states, for the same two actions."""
    support = None if head.support is None else head.support.numpy()
    return excesses_of_pairs(head.laws_NAK(observations), support, pairs)


def siblings(states: Sequence[StateResult], claims: Sequence[Sequence[float]]) -> Siblings:
    """`claims`: of each state, those of the siblings. States whose claim is zero have nothing to reproduce."""
    counts = {True: [0, 0], False: [0, 0]}
    spreads, overstated = [], []
    for state, others in zip(states, claims, strict=True):
        if not others:
            continue
        spreads.append(float(np.std([state.claim, *others])))
        overstated.append(state.overstated)
        if state.claim > 0:
            count = counts[state.stratum in TOP_STRATA]
            count[0] += sum(other >= REPRODUCED_FROM * state.claim for other in others)
            count[1] += len(others)
    score = auroc(np.array(spreads), np.array(overstated, dtype=bool)) if spreads else math.nan
    return Siblings(share(*counts[True]), share(*counts[False]), score)
