"""The excess Wasserstein gap Δ = W1(Z1, Z2) − |μ1 − μ2| of two return distributions. Not for tests of it.

Δ ≥ 0, and 0 exactly when one distribution first-order stochastically dominates the other (arXiv:2607.11607, Section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codeaudit_runtime.spaces import FloatArray

ZERO_BELOW = 1e-9  # differences under this are rounding


@dataclass(frozen=True)
class Claim:
    """What a head says of one state. `first` and `second` are the actions ranked first by mean; returns' units."""

    first: int
    second: int
    excess: float
    w1: float
    mean_gap: float
    index_paired: float  # the same with atoms compared index by index as the network gives them
    crossed: bool  # an atom lies below the one before it, for one of the two actions


def claim_from_quantiles(quantiles_AQ: FloatArray) -> Claim:
    """The claim of quantile atoms (actions × quantiles) of equal weight, in the order in which the network gives them.

    Atoms are sorted first: W1 of two equal-weight samples pairs them in order, so index pairing of crossed atoms
    exceeds it. Equal means rank by action number.
    """
    atoms = np.asarray(quantiles_AQ, dtype=np.float64)
    if len(atoms) < 2:
        raise ValueError("a claim compares two actions")
    first, second = np.argsort(-atoms.mean(axis=1), kind="stable")[:2].tolist()
    pair = atoms[[first, second]]
    ordered = np.sort(pair, axis=1)
    w1, gap = _w1_and_gap(ordered[0], ordered[1])
    paired = float(np.abs(pair[0] - pair[1]).mean())
    crossed = bool((np.diff(pair, axis=1) < -ZERO_BELOW).any())
    return Claim(first, second, _excess(w1, gap), w1, gap, _excess(paired, gap), crossed)


def claim_from_probabilities(support_K: FloatArray, probabilities_AK: FloatArray) -> Claim:
    """The claim of a categorical head, by CDFs. Its atoms cannot cross, and there is no index pairing."""
    support = np.asarray(support_K, dtype=np.float64)
    laws = np.asarray(probabilities_AK, dtype=np.float64)
    if len(laws) < 2:
        raise ValueError("a claim compares two actions")
    laws = laws / laws.sum(axis=1, keepdims=True)
    first, second = np.argsort(-(laws @ support), kind="stable")[:2].tolist()
    difference = np.cumsum(laws[first] - laws[second])[:-1] * np.diff(support)
    w1, gap = float(np.abs(difference).sum()), abs(float(difference.sum()))
    return Claim(first, second, _excess(w1, gap), w1, gap, _excess(w1, gap), False)


def excess_of_samples(x: FloatArray, y: FloatArray) -> float:
    """Δ of two samples of one size, in any order."""
    if len(x) != len(y):
        raise ValueError("both actions need the same number of returns")
    return _excess(*_w1_and_gap(np.sort(x), np.sort(y)))


def excesses_of_pairs(
    laws_NAK: FloatArray, support_K: FloatArray | None, pairs: Sequence[tuple[int, int]]
) -> list[float]:
    """Δ of two given actions in each state, of quantiles or (with a support) of probabilities."""
    found = []
    for law, (first, second) in zip(np.asarray(laws_NAK, dtype=np.float64), pairs, strict=True):
        if support_K is None:
            found.append(excess_of_samples(law[first], law[second]))
        else:
            values = np.asarray(support_K, dtype=np.float64)
            one, two = (law[action] / law[action].sum() for action in (first, second))
            found.append(excess_of_weighted(values, one, values, two))
    return found


def excess_of_weighted(values_x: FloatArray, p_x: FloatArray, values_y: FloatArray, p_y: FloatArray) -> float:
    """Δ of two discrete distributions, by their CDFs: categorical heads (one support) and exact answer keys."""
    support = np.concatenate([values_x, values_y])
    weights = np.concatenate([p_x, -np.asarray(p_y)])
    order = np.argsort(support, kind="stable")
    difference = np.cumsum(weights[order])[:-1] * np.diff(support[order])
    return _excess(float(np.abs(difference).sum()), abs(float(difference.sum())))


def _w1_and_gap(x_sorted: FloatArray, y_sorted: FloatArray) -> tuple[float, float]:
    difference = x_sorted - y_sorted
    return float(np.abs(difference).mean()), abs(float(difference.mean()))


def _excess(w1: float, gap: float) -> float:
    return w1 - gap if w1 - gap >= ZERO_BELOW else 0.0
