"""From audited states to verdicts: corrections over states, intervals, the null head, the resolution. Pure.

Not for resampling returns (`resampling`) or for words (`rendering`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from codeaudit_runtime.claims.states import STRATA, TOP_STRATA
from codeaudit_runtime.spaces import FloatArray

LOW_ALIASING = 0.25
NULL_HEADS = 1_000


@dataclass(frozen=True)
class StateResult:
    """One audited state: the claim, its truth from restarts, and what resampling says of both. Returns' units.

    `truth_limit` is the upper limit of the magnitude verdict, `truth_low` and `truth_high` the study's percentiles.
    `aliasing` is None where it is undefined (deterministic dynamics, one snapshot, constant returns); `exact` is the
    answer key's excess where the environment has one.
    """

    run: str
    index: int
    rank: int
    stratum: float
    actions: tuple[int, int]
    claim: float
    index_paired: float
    crossed: bool
    mean_gap: float
    snapshots: int
    returns: int
    truth: float
    truth_limit: float
    truth_low: float
    truth_high: float
    null_95: float
    existence_p: float
    existence_draws: int
    half_sample_p: float
    magnitude_p: float
    aliasing: float | None
    exact: float | None
    deterministic: bool

    @property
    def overstated(self) -> bool:
        """The magnitude verdict: the claim is above what the truth can be, with 97.5% confidence."""
        return self.claim > self.truth_limit + self.tolerance

    @property
    def overstated_by_study(self) -> bool:
        """The study's own verdict: the claim is above the 97.5th percentile of the bootstrap of Δ."""
        return self.claim > self.truth_high + self.tolerance

    @property
    def tolerance(self) -> float:
        return 1e-6 if self.deterministic else 0.0


@dataclass(frozen=True)
class Share:
    """k of n with its 95% Wilson interval (Wilson 1927); nan where n is 0."""

    k: int
    n: int
    low: float
    high: float


@dataclass(frozen=True)
class NullHead:
    """A truth-blind head: the claims dealt out anew among the audited states of each run. Share of top-strata claims
    that would be overstated: mean and 95% interval, and p that so few or fewer are (small: the head knows something).
    """

    observed: Share
    mean: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Row:
    """One stratum (or several) of one game."""

    label: str
    states: int
    real: Share
    overstated: Share
    mean_claim: float
    mean_truth: float


@dataclass(frozen=True)
class Resolution:
    """What the run could have found: smallest numbers of states that Benjamini–Hochberg could call at once."""

    states: int
    draws: int
    smallest_existence: int
    draws_for_one: int


@dataclass(frozen=True)
class GameSummary:
    """All runs of one environment, algorithm and number of training steps (None: unknown), pooled."""

    environment: str
    algorithm: str
    steps: int | None
    runs: tuple[str, ...]
    rows: tuple[Row, ...]
    real: tuple[bool, ...]  # the existence verdict of each state, in order
    two_by_two: tuple[tuple[int, int], tuple[int, int]]  # [not real, real][not overstated, overstated]
    refuted_bh: int  # magnitude p-values under the same correction
    resolution: Resolution
    null_head: NullHead
    pearson: float
    pearson_by_run: tuple[float, ...]
    spearman: float
    crossing: Share
    aliasing_low: Share


def benjamini_hochberg(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses the step-up procedure rejects (Benjamini & Hochberg 1995)."""
    if not p_values:
        return []
    return (stats.false_discovery_control(np.asarray(p_values, dtype=float)) <= level + 1e-12).tolist()  # type: ignore[no-any-return,unused-ignore]


def smallest_discovery(states: int, draws: int, level: float) -> int:
    """k = ⌈m / (level · (B + 1))⌉: fewer p-values of 1/(B + 1) can't be called among m; never more than m + 1."""
    return min(states + 1, max(1, math.ceil(states / (level * (draws + 1)) - 1e-9)))


def draws_for_one_discovery(states: int, level: float) -> int:
    """The smallest B with which a single true claim among m could be confirmed."""
    return max(1, math.ceil(states / level - 1e-9) - 1)


def share(k: int, n: int) -> Share:
    if n == 0:
        return Share(0, 0, math.nan, math.nan)
    interval = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    return Share(k, n, float(interval.low), float(interval.high))


def aliasing_index(returns: FloatArray, snapshots: int) -> float | None:
    """Standard deviation of the per-snapshot means over that of all returns; return i is of snapshot i mod `snapshots`.

    Near 0: a snapshot's hidden part tells nothing of the return. None where it is undefined.
    """
    spread = float(returns.std())
    if snapshots < 2 or spread == 0.0:
        return None
    means = [float(returns[first::snapshots].mean()) for first in range(snapshots)]
    return float(np.std(means)) / spread


def null_head(states: Sequence[StateResult], seed: int) -> NullHead:
    """Deal the claims of each run out anew among its audited states, `NULL_HEADS` times."""
    rng = np.random.Generator(np.random.PCG64([seed, 5]))
    counts = np.zeros(NULL_HEADS, dtype=np.int64)
    observed = total = 0
    for run in sorted({state.run for state in states}):
        own = [state for state in states if state.run == run]
        claims = np.array([state.claim for state in own])
        limits = np.array([state.truth_limit + state.tolerance for state in own])
        top = np.array([state.stratum in TOP_STRATA for state in own])
        observed += int((claims > limits)[top].sum())
        total += int(top.sum())
        for draw in range(NULL_HEADS):
            counts[draw] += int((claims[top] > rng.permutation(limits)[top]).sum())
    if total == 0:
        return NullHead(share(0, 0), math.nan, math.nan, math.nan, math.nan)
    low, high = np.quantile(counts, [0.025, 0.975]) / total
    p = (1 + int((counts <= observed).sum())) / (NULL_HEADS + 1)
    return NullHead(share(observed, total), float(counts.mean()) / total, float(low), float(high), p)


def summarise(
    game: tuple[str, str, int | None], states: Sequence[StateResult], draws: int, level: float, seed: int
) -> GameSummary:
    """The verdicts of all audited states of one game (environment, algorithm, steps), pooled over its runs."""
    environment, algorithm, steps = game
    real = benjamini_hochberg([state.existence_p for state in states], level)
    refuted = benjamini_hochberg([state.magnitude_p for state in states], level)
    groups: list[tuple[str, tuple[float, ...]]] = [
        *((f"{upper:g}%", (upper,)) for upper in STRATA),
        ("top 2%", TOP_STRATA),
        ("rest", STRATA[2:]),
        ("all", STRATA),
    ]
    rows = tuple(_row(label, uppers, states, real) for label, uppers in groups)
    table = np.zeros((2, 2), dtype=int)
    for state, exists in zip(states, real, strict=True):
        table[int(exists), int(state.overstated)] += 1
    runs = tuple(dict.fromkeys(state.run for state in states))
    aliasing = [state.aliasing for state in states if state.aliasing is not None]
    by_run = tuple(_correlation([state for state in states if state.run == run]) for run in runs)
    claims, truths = [state.claim for state in states], [state.truth for state in states]
    return GameSummary(
        environment=environment,
        algorithm=algorithm,
        steps=steps,
        runs=runs,
        rows=rows,
        real=tuple(real),
        two_by_two=((int(table[0, 0]), int(table[0, 1])), (int(table[1, 0]), int(table[1, 1]))),
        refuted_bh=sum(refuted),
        resolution=Resolution(
            len(states),
            draws,
            smallest_discovery(len(states), draws, level),
            draws_for_one_discovery(len(states), level),
        ),
        null_head=null_head(states, seed),
        pearson=_correlation(states),
        pearson_by_run=by_run,
        spearman=float(stats.spearmanr(claims, truths).statistic) if _varies(claims, truths) else math.nan,
        crossing=share(sum(state.crossed for state in states), len(states)),
        aliasing_low=share(sum(value < LOW_ALIASING for value in aliasing), len(aliasing)),
    )


def _row(label: str, uppers: tuple[float, ...], states: Sequence[StateResult], real: Sequence[bool]) -> Row:
    own = [(state, exists) for state, exists in zip(states, real, strict=True) if state.stratum in uppers]
    return Row(
        label,
        len(own),
        share(sum(exists for _, exists in own), len(own)),
        share(sum(state.overstated for state, _ in own), len(own)),
        float(np.mean([state.claim for state, _ in own])) if own else math.nan,
        float(np.mean([state.truth for state, _ in own])) if own else math.nan,
    )


def _varies(*columns: Sequence[float]) -> bool:
    return all(len(column) > 1 and max(column) > min(column) for column in columns)


def _correlation(states: Sequence[StateResult]) -> float:
    """Pearson's r of claim and truth; nan where one of them is constant."""
    claims, truths = [state.claim for state in states], [state.truth for state in states]
    return float(np.corrcoef(claims, truths)[0, 1]) if _varies(claims, truths) else math.nan
