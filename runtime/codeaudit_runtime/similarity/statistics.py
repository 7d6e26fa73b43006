"""Linear CKA, its row-permutation null with the null's mean in closed form, and dormant units. Pure; runs no policy.

Axis letters: N rows (inputs), D and E features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codeaudit_runtime.spaces import FloatArray


def centred(values_ND: FloatArray) -> FloatArray:
    result: FloatArray = values_ND.astype(np.float64) - values_ND.mean(axis=0, dtype=np.float64)
    return result


def _norm(centred_ND: FloatArray) -> float:
    """Frobenius norm of the centred Gram matrix X·Xᵀ, by way of the smaller Xᵀ·X."""
    return float(np.linalg.norm(centred_ND.T @ centred_ND))


def linear_cka(x_ND: FloatArray, y_NE: FloatArray) -> float:
    """‖YᵀX‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F) of the centred columns, row i of X paired with row i of Y.

    Source: Kornblith et al. 2019, equation 4 and Section 3. NaN where one side is constant; ValueError where the
    numbers of rows differ.
    """
    if len(x_ND) != len(y_NE):
        raise ValueError("rows must be paired")
    x, y = centred(x_ND), centred(y_NE)
    scale = _norm(x) * _norm(y)
    return float(np.linalg.norm(y.T @ x) ** 2) / scale if scale > 0 else math.nan


def participation_ratio(x_ND: FloatArray) -> float:
    """tr(A)² / ‖A‖²_F of the centred Gram matrix A: how many directions carry the variance. NaN for constant rows."""
    x = centred(x_ND)
    norm = _norm(x)
    return float((x**2).sum() ** 2 / norm**2) if norm > 0 else math.nan


def null_mean(ratio_x: float, ratio_y: float, rows: int) -> float:
    """The mean of linear CKA over all permutations of one side's rows: √(PR_X · PR_Y) / (n − 1), exactly.

    For centred Gram matrices the mean of tr(A·PBPᵀ) over permutations P is tr(A)·tr(B)/(n − 1); it says nothing about
    what the rows mean, only how many there are and how many directions each side spreads over.
    """
    return math.sqrt(ratio_x * ratio_y) / (rows - 1)


@dataclass(frozen=True)
class Null:
    """CKA under random pairings of the rows. `p` counts the pairing that was measured among them."""

    value: float
    mean: float
    standard_error: float  # of `mean`
    high: float  # 95% quantile
    p: float
    closed_form: float
    ratio_x: float
    ratio_y: float
    rows: int


def permutation_null(x_ND: FloatArray, y_NE: FloatArray, permutations: int, rng: np.random.Generator) -> Null:
    """CKA of the given pairing against `permutations` random ones of Y's rows."""
    x, y = _reduced(x_ND), _reduced(y_NE)
    scale = _norm(x) * _norm(y)
    ratios = participation_ratio(x_ND), participation_ratio(y_NE)
    nan = math.nan
    if not scale > 0:
        return Null(nan, nan, nan, nan, nan, nan, *ratios, len(x_ND))
    value = float(np.linalg.norm(y.T @ x) ** 2) / scale
    drawn = np.array([np.linalg.norm(y[rng.permutation(len(y))].T @ x) ** 2 / scale for _ in range(permutations)])
    return Null(
        value=value,
        mean=float(drawn.mean()),
        standard_error=float(drawn.std(ddof=1) / math.sqrt(permutations)),
        high=float(np.quantile(drawn, 0.95)),
        p=(1 + int((drawn >= value).sum())) / (1 + permutations),
        closed_form=null_mean(*ratios, len(x_ND)),
        ratio_x=ratios[0],
        ratio_y=ratios[1],
        rows=len(x_ND),
    )


def _reduced(values_ND: FloatArray) -> FloatArray:
    """The centred rows in the directions that carry any variance: the same Gram matrix, and faster products."""
    u, s, _ = np.linalg.svd(centred(values_ND), full_matrices=False)
    kept = s > s.max(initial=0.0) * 1e-10
    result: FloatArray = u[:, kept] * s[kept]
    return result


def dormant_shares(layers: Sequence[FloatArray], thresholds: Sequence[float]) -> tuple[float, ...]:
    """The share of units whose mean |h_i| over inputs is at most τ times its layer's mean, for each τ.

    `layers` holds mean |h_i| (units,) of each layer; channels of a convolution are units, averaged over places too. The
    units of a layer that is silent are all dormant. Source: Sokar et al. 2023, Definitions 3.1 and 3.2.
    """
    counts = np.zeros(len(thresholds))
    for scores in layers:
        mean = scores.mean()
        relative = scores / mean if mean > 0 else np.zeros_like(scores)
        counts += [(relative <= threshold).sum() for threshold in thresholds]
    return tuple((counts / sum(len(scores) for scores in layers)).tolist())
