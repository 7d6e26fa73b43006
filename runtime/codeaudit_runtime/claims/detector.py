"""Could one tell from the head alone which claims are overstated? Thirteen features, held-out runs and games. Pure.

Source: arXiv:2607.11607, its detector. Not for verdicts: the labels are those of the audit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

from codeaudit_runtime.claims.stored import Law, StoredState
from codeaudit_runtime.spaces import AnyArray, BoolArray, FloatArray

FEATURES = (
    "claim", "W1", "mean gap", "spread 1", "spread 2", "range 1", "range 2", "crossings", "tail location",
    "skew 1", "skew 2", "mean 1", "mean 2",
)  # fmt: skip
LEVELS = (np.arange(51) + 0.5) / 51
RIDGE = 1.0


@dataclass(frozen=True)
class Detection:
    """AUROC on what was left out (`run` or `game`): all features, the claim alone, and an oracle that knows the
    measured truth and ranks by claim − truth. Averaged over the `groups` that hold both kinds of claims; nan if none.
    """

    left_out: str
    groups: int
    features: float
    claim_only: float
    oracle: float


def detection(states: Sequence[StoredState], groups: Sequence[str], left_out: str) -> Detection:
    """Fits on all groups but one and ranks that one, for each group; `groups` names the group of each state."""
    overstated = np.array([state.result.overstated for state in states], dtype=bool)
    rows = np.array([features_of_state(state) for state in states]).reshape(len(states), len(FEATURES))
    truths = np.array([state.result.truth for state in states])
    names = np.array(groups)
    found = []
    for group in sorted(set(groups)):
        held = names == group
        if len(set(overstated[held])) < 2 or len(set(overstated[~held])) < 2:
            continue
        scores = _fitted_scores(rows[~held], overstated[~held], rows[held])
        claims = rows[held, 0]
        found.append([auroc(one, overstated[held]) for one in (scores, claims, claims - truths[held])])
    means = np.mean(found, axis=0).tolist() if found else [math.nan] * 3
    return Detection(left_out, len(found), *means)


def features_of_state(state: StoredState) -> list[float]:
    """The thirteen numbers of `FEATURES`. Crossings are sign changes of the difference of the two quantile functions;
    the tail location is the level where it is largest."""
    first, second = state.learned
    quantiles = [_quantiles(law) for law in (first, second)]
    difference = quantiles[0] - quantiles[1]
    signs = np.sign(difference[np.abs(difference) > 1e-9])
    moments = [_moments(law) for law in (first, second)]
    means, spreads, skews = ([one[place] for one in moments] for place in range(3))
    gap = abs(means[0] - means[1])
    return [
        state.result.claim, state.result.claim + gap, gap, *spreads,
        *(float(law.values[law.weights > 1e-6].max() - law.values[law.weights > 1e-6].min()) for law in state.learned),
        float(np.count_nonzero(np.diff(signs))), float(LEVELS[np.abs(difference).argmax()]), *skews, *means,
    ]  # fmt: skip


def auroc(scores: FloatArray, labels: BoolArray) -> float:
    """The chance that a labelled state ranks above another one, ties counting half (Mann & Whitney 1947)."""
    positive = int(labels.sum())
    negative = len(labels) - positive
    if not positive or not negative:
        return math.nan
    ranks = stats.rankdata(scores)
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _quantiles(law: Law) -> FloatArray:
    places = np.searchsorted(np.cumsum(law.weights), LEVELS - 1e-12)
    result: FloatArray = law.values[np.minimum(places, len(law.values) - 1)]
    return result


def _moments(law: Law) -> tuple[float, float, float]:
    """Mean, standard deviation and skewness; the last is 0 where nothing varies."""
    mean = float(law.values @ law.weights)
    centred = law.values - mean
    spread = math.sqrt(float(centred**2 @ law.weights))
    return mean, spread, float(centred**3 @ law.weights) / spread**3 if spread > 1e-9 else 0.0


def _fitted_scores(rows: AnyArray, labels: BoolArray, others: AnyArray) -> FloatArray:
    """Logistic regression with a ridge on standardised features, read at `others`."""
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale < 1e-12] = 1.0
    known = np.column_stack([(rows - centre) / scale, np.ones(len(rows))])
    signs = np.where(labels, 1.0, -1.0)

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        margins = signs * (known @ weights)
        slope = known.T @ (-signs * expit(-margins))
        slope[:-1] += RIDGE * weights[:-1]
        return float(np.logaddexp(0.0, -margins).sum() + RIDGE * (weights[:-1] @ weights[:-1]) / 2), slope

    weights = minimize(loss, np.zeros(known.shape[1]), jac=True, method="L-BFGS-B").x
    result: FloatArray = np.column_stack([(others - centre) / scale, np.ones(len(others))]) @ weights
    return result
