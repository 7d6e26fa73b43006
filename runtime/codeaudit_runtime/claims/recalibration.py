"""Could claims be mended by rescaling? The best monotone map, fitted on half, held against the rest. Pure.

Source: arXiv:2607.11607, its repair by monotone recalibration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from codeaudit_runtime.claims.states import TOP_STRATA
from codeaudit_runtime.claims.verdicts import StateResult
from codeaudit_runtime.spaces import FloatArray

SPLITS = 200


@dataclass(frozen=True)
class Recalibration:
    """Means over splits, of the states that were not fitted. nan where no such state is there.

    `refuted_before`, `refuted_after`: share of top-strata claims overstated. `kept`: sum of recalibrated claims over
    that of the claims. `asserted`: share of real trade-offs whose recalibrated claim is above what
    chance shows (null_95).
    """

    states: int
    refuted_before: float
    refuted_after: float
    kept: float
    asserted: float


def recalibration(states: Sequence[StateResult], real: Sequence[bool], seed: int) -> Recalibration:
    claims = np.array([state.claim for state in states])
    truths = np.array([state.truth for state in states])
    limits = np.array([state.truth_limit + state.tolerance for state in states])
    nulls = np.array([state.null_95 for state in states])
    top = np.array([state.stratum in TOP_STRATA for state in states])
    exists = np.array(real, dtype=bool)
    rng = np.random.Generator(np.random.PCG64([seed, 8]))
    rows = []
    for _ in range(SPLITS if len(states) >= 4 else 0):
        order = rng.permutation(len(states))
        fitted, held = order[: len(states) // 2], order[len(states) // 2 :]
        mapped = np.zeros(len(states))
        mapped[held] = monotone_map(claims[fitted], truths[fitted], claims[held])
        of_top, of_real = held[top[held]], held[exists[held]]
        rows.append((
            _mean(claims[of_top] > limits[of_top]),
            _mean(mapped[of_top] > limits[of_top]),
            float(mapped[held].sum() / claims[held].sum()) if claims[held].sum() > 0 else math.nan,
            _mean(mapped[of_real] > nulls[of_real]),
        ))  # fmt: skip
    columns = np.array(rows).reshape(-1, 4)
    means = [float(np.nanmean(column)) if np.isfinite(column).any() else math.nan for column in columns.T]
    return Recalibration(len(states), *means)


def monotone_map(claims: FloatArray, truths: FloatArray, others: FloatArray) -> FloatArray:
    """Isotonic least squares of truth on claim, read at `others`: linear between fitted claims, level beyond them."""
    values, places = np.unique(claims, return_inverse=True)
    weights = np.bincount(places)
    levels = isotonic_regression(np.bincount(places, truths) / weights, weights=weights).x
    result: FloatArray = np.interp(others, values, levels)
    return result


def _mean(values: FloatArray) -> float:
    return float(np.mean(values)) if len(values) else math.nan
