"""Numbers of one checkpoint: rules, floor and published value compared. Not for running episodes or for verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codeaudit.registry import Published
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.episodes import EpisodeRow, mean_or_none, returns_of
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.spaces import AnyArray
from codeaudit_runtime.statistics import (
    ZERO,
    Call,
    Comparison,
    Estimate,
    bootstrap_interval,
    decide_call,
    estimate_from_clusters,
    estimate_from_summary,
    estimate_from_values,
    floor_margin,
    holm,
    kish_effective_n,
    paired,
    tost_p,
    welch,
)

Rows = Sequence[EpisodeRow]
ALL = LevelSet()
GREEDY, SAMPLED, REDRAWN = "greedy", "sampled", "sampled_redrawn"
ARRANGEMENTS = 200  # random orders of each slot's episodes over which the first-finished mean is taken


@dataclass(frozen=True)
class Summary:
    """Descriptive numbers of one rule's episodes."""

    mean: float
    std: float
    sem: float
    episodes: int
    low: float  # 95% percentile bootstrap interval of the mean
    high: float
    length: float  # mean steps an episode
    truncated: float  # share of episodes that a limit ended
    entropy: float | None  # nats
    revisits: float  # share of steps
    levels: int | None = None  # distinct levels among the episodes, where the environment tells levels
    effective_levels: float | None = None  # Kish
    sem_levels: float | None = None  # clustered by level: for a statement about the generator, not about these levels
    noise_draws: int | None = (
        None  # noise matrices, where one serves all episodes of a slot: errors are clustered by it
    )


@dataclass(frozen=True)
class Against:
    """One rule held against the floor or the published value."""

    comparison: Comparison
    adjusted_p: float
    equivalence_p: float
    margin: float


@dataclass(frozen=True)
class RuleMeasurement:
    rule: str
    summary: Summary
    floor: Against | None = None  # rule − floor
    call: Call | None = None
    published: Against | None = None  # rule − published


@dataclass(frozen=True)
class PairedMeasurement:
    """First rule − second rule, paired by (draw, slot, index)."""

    first: str
    second: str
    returns: Comparison
    low: float  # percentile bootstrap
    high: float
    adjusted_p: float
    equivalence_p: float
    margin: float
    revisits: Comparison
    revisits_equivalence_p: float
    differences: tuple[float, ...]


@dataclass(frozen=True)
class FirstFinished:
    """Mean of the first episodes to finish in the vector environment, minus the balanced mean of the same episodes."""

    rule: str
    episodes: int  # how many are taken: one for each slot
    mean: float
    bias: float
    low: float
    high: float


@dataclass(frozen=True)
class CheckpointRows:
    """What was run for one checkpoint on one level set: the rows of each rule, and the floor's on the same draws."""

    id: str
    environment: str  # as run
    published_environment: str
    algorithm: str
    value_based: bool
    step_cap: int  # steps at which an episode is ended
    rules: Mapping[str, Rows]
    floor: Rows
    references: Mapping[str, Rows]
    published: Published | None = None
    levels: LevelSet = ALL
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The environment, with the level set where it has one."""
        return self.environment if self.levels.count is None else f"{self.environment} ({self.levels.label})"


@dataclass(frozen=True)
class CheckpointMeasurement:
    """Everything that verdicts and reports read of one checkpoint."""

    rows: CheckpointRows
    rules: tuple[RuleMeasurement, ...]
    floor: RuleMeasurement
    references: tuple[RuleMeasurement, ...]
    pairs: tuple[PairedMeasurement, ...]
    first_finished: tuple[FirstFinished, ...]
    margin: float  # of the comparisons between rules and with the published value, in raw return


def summary_of(rows: Rows, plan: Plan, noise_kept: bool = False) -> Summary:
    """`noise_kept`: one noise matrix served all episodes of a slot, so that these aren't independent of each other."""
    returns = returns_of(rows)
    estimate = _estimate(returns, rows, noise_kept)
    low, high = _interval(returns, rows, noise_kept, plan)
    levels = [row.level for row in rows if row.level is not None]
    counts = list(Counter(levels).values()) if len(levels) == len(rows) else []
    return Summary(
        mean=estimate.mean,
        std=float(returns.std(ddof=1)) if len(returns) > 1 else math.nan,
        sem=estimate.sem,
        episodes=len(returns),
        low=low,
        high=high,
        length=float(np.mean([row.length for row in rows])),
        truncated=float(np.mean([row.truncated for row in rows])),
        entropy=mean_or_none([row.entropy for row in rows]),
        revisits=float(np.mean([row.revisits for row in rows])),
        levels=len(counts) or None,
        effective_levels=kish_effective_n(counts) if counts else None,
        sem_levels=estimate_from_clusters(returns, levels).sem if counts else None,
        noise_draws=len(set(map(_noise_of, rows))) if noise_kept else None,
    )


def _noise_of(row: EpisodeRow) -> tuple[str, int, int]:
    return row.level_set, row.draw, row.slot


def _estimate(values: AnyArray, rows: Rows, noise_kept: bool) -> Estimate:
    return estimate_from_clusters(values, list(map(_noise_of, rows))) if noise_kept else estimate_from_values(values)


def _interval(values: AnyArray, rows: Rows, noise_kept: bool, plan: Plan) -> tuple[float, float]:
    """Percentile bootstrap of the mean over episodes, or over the means of those that share their noise."""
    if noise_kept:
        shared: dict[tuple[str, int, int], list[float]] = {}
        for row, value in zip(rows, values, strict=True):
            shared.setdefault(_noise_of(row), []).append(float(value))
        values = np.array([np.mean(group) for group in shared.values()])
    return bootstrap_interval(values, resamples=plan.resamples, seed=plan.bootstrap_seed)


def measure_checkpoints(checkpoints: Sequence[CheckpointRows], plan: Plan) -> tuple[CheckpointMeasurement, ...]:
    """Compare everything, then adjust p-values within the plan's families."""
    measured = [_measure_one(rows, plan) for rows in checkpoints]
    if plan.family == "entry":
        return tuple(_adjusted(measured, plan))
    return tuple(adjusted for one in measured for adjusted in _adjusted([one], plan))


def published_margin(published: Published | None, floor: float, plan: Plan) -> float:
    """The margin of the plan: a share of |published − floor|; without a published value, the floor's own margin."""
    if published is None:
        return floor_margin(floor, plan.floor_margin_relative, plan.floor_margin_absolute)
    return plan.published_margin * abs(published.mean - floor)


def _measure_one(rows: CheckpointRows, plan: Plan) -> CheckpointMeasurement:
    floor = estimate_from_values(returns_of(rows.floor))
    margin = published_margin(rows.published, floor.mean, plan)
    kept = {rule for rule in rows.rules if rule == SAMPLED and REDRAWN in rows.rules}
    rules = tuple(
        _measure_rule(rule, own, floor, rows.published, margin, plan, rule in kept) for rule, own in rows.rules.items()
    )
    names = list(rows.rules)
    return CheckpointMeasurement(
        rows=rows,
        rules=rules,
        floor=RuleMeasurement("uniform_random", summary_of(rows.floor, plan)),
        references=tuple(_measure_rule(name, own, floor, None, margin, plan) for name, own in rows.references.items()),
        pairs=tuple(
            _measure_pair(
                names[0],
                other,
                rows.rules[names[0]],
                rows.rules[other],
                margin,
                plan,
                not kept.isdisjoint((names[0], other)),
            )
            for other in names[1:]
        ),
        first_finished=tuple(
            found for rule, own in rows.rules.items() if (found := first_finished(rule, own, plan)) is not None
        ),
        margin=margin,
    )


def _against(estimate: Estimate, reference: Estimate, margin: float) -> Against:
    return Against(welch(estimate, reference), math.nan, tost_p(estimate, reference, margin), margin)


def _measure_rule(
    rule: str,
    rows: Rows,
    floor: Estimate,
    published: Published | None,
    margin: float,
    plan: Plan,
    noise_kept: bool = False,
) -> RuleMeasurement:
    estimate = _estimate(returns_of(rows), rows, noise_kept)
    own_margin = floor_margin(floor.mean, plan.floor_margin_relative, plan.floor_margin_absolute)
    printed = None
    if published is not None:
        printed = _against(estimate, estimate_from_summary(published.mean, published.std, published.episodes), margin)
    return RuleMeasurement(
        rule, summary_of(rows, plan, noise_kept), _against(estimate, floor, own_margin), None, printed
    )


def paired_rows(first: Rows, second: Rows) -> list[tuple[EpisodeRow, EpisodeRow]]:
    """Episodes of two rules with the same level set, draw, slot and index."""
    partners = {(row.level_set, row.draw, row.slot, row.index): row for row in second}
    keys = [(row.level_set, row.draw, row.slot, row.index) for row in first]
    return [(row, partners[key]) for row, key in zip(first, keys, strict=True) if key in partners]


def _measure_pair(
    first: str, second: str, a: Rows, b: Rows, margin: float, plan: Plan, noise_kept: bool = False
) -> PairedMeasurement:
    pairs = paired_rows(a, b)
    own = [one for one, _ in pairs]
    differences = np.array([one.total - other.total for one, other in pairs])
    revisits = np.array([one.revisits - other.revisits for one, other in pairs])
    estimate = _estimate(differences, own, noise_kept)
    low, high = _interval(differences, own, noise_kept, plan)
    return PairedMeasurement(
        first=first,
        second=second,
        returns=welch(estimate, ZERO),
        low=low,
        high=high,
        adjusted_p=math.nan,
        equivalence_p=tost_p(estimate, ZERO, margin),
        margin=margin,
        revisits=paired(revisits),
        revisits_equivalence_p=tost_p(estimate_from_values(revisits), ZERO, plan.loops_margin),
        differences=tuple(map(float, differences)),
    )


def first_finished(rule: str, rows: Rows, plan: Plan) -> FirstFinished | None:
    """What a harness would have reported that stops when as many episodes have finished as there are slots.

    Each slot's episodes are laid end to end from time zero and the first `slots` to finish are taken. Which of a slot's
    episodes comes first is chance, so this is averaged over arrangements. The interval resamples slots within each draw
    (percentile bootstrap), keeping a slot's episodes together. None where a slot has one episode only: all are then
    among the first, whatever their length.
    """
    tables: list[tuple[AnyArray, AnyArray]] = []
    for draw in sorted({(row.level_set, row.draw) for row in rows}):
        own = [row for row in rows if (row.level_set, row.draw) == draw]
        slots = sorted({row.slot for row in own})
        count = min(sum(row.slot == slot for row in own) for slot in slots)
        if count == 1:
            return None
        table = {(row.slot, row.index): row for row in own}
        cells = [[table[slot, index] for index in range(count)] for slot in slots]
        lengths_SI = np.array([[row.length for row in line] for line in cells])
        returns_SI = np.array([[row.total for row in line] for line in cells])
        tables.append((lengths_SI, returns_SI))
    rng = np.random.Generator(np.random.PCG64(plan.bootstrap_seed))
    resamples = min(plan.resamples, 1000)
    means, biases, biases_BD = [], [], np.zeros((resamples, len(tables)))
    for position, (lengths_SI, returns_SI) in enumerate(tables):
        slots_ = len(lengths_SI)
        taken = _first_finished_means(lengths_SI, returns_SI, np.tile(np.arange(slots_), (ARRANGEMENTS, 1)), rng).mean()
        means.append(taken)
        biases.append(taken - returns_SI.mean())
        picks_BS = rng.integers(0, slots_, (resamples, slots_))
        balanced_B = returns_SI.mean(axis=1)[picks_BS].mean(axis=1)
        biases_BD[:, position] = _first_finished_means(lengths_SI, returns_SI, picks_BS, rng) - balanced_B
    low, high = np.quantile(biases_BD.mean(axis=1).round(9) + 0.0, [0.025, 0.975])
    # Rounded, for the two means are summed in another order and equal numbers should give no bias at all.
    bias = round(float(np.mean(biases)), 9) + 0.0
    return FirstFinished(rule, len(tables[0][0]), float(np.mean(means)), bias, float(low), float(high))


def _first_finished_means(
    lengths_SI: AnyArray, returns_SI: AnyArray, picks_BS: AnyArray, rng: np.random.Generator
) -> AnyArray:
    """For each row of slot picks, the mean return of the first S episodes to finish, averaged over rotations (B,).

    Each picked slot begins at a random one of its episodes, so that a slot picked twice does not finish twice at once.
    Ties in time are taken in proportion, so that the order of slots does not matter.
    """
    slots, count = lengths_SI.shape
    rows = len(picks_BS)
    offsets_BS1 = rng.integers(0, count, (rows, slots, 1))
    total = np.zeros(rows)
    for rotation in range(count):
        order_BSI = (offsets_BS1 + rotation + np.arange(count)) % count
        ends_BE = lengths_SI[picks_BS[:, :, None], order_BSI].cumsum(axis=2).reshape(rows, -1)
        returns_BE = returns_SI[picks_BS[:, :, None], order_BSI].reshape(rows, -1)
        last_B = np.partition(ends_BE, slots - 1, axis=1)[:, slots - 1 : slots]
        before_BE, tied_BE = ends_BE < last_B, ends_BE == last_B
        left_B = slots - before_BE.sum(axis=1)
        tied_mean_B = (returns_BE * tied_BE).sum(axis=1) / tied_BE.sum(axis=1)
        total += ((returns_BE * before_BE).sum(axis=1) + left_B * tied_mean_B) / slots
    result: AnyArray = total / count
    return result


def is_greedy(rule: RuleMeasurement) -> bool:
    return rule.rule == GREEDY


def _adjusted(measured: Sequence[CheckpointMeasurement], plan: Plan) -> list[CheckpointMeasurement]:
    """The same with Holm-adjusted p-values and calls; the family is everything in `measured`."""
    floor_p = iter(holm([rule.floor.comparison.p for one in measured for rule in one.rules if rule.floor]))
    references = [rule for one in measured for rule in one.references]
    reference_p = iter(holm([rule.floor.comparison.p for rule in references if rule.floor]))
    # Greedy and not greedy are families of their own: a prediction of one rule needs the other one rejected.
    printed = [rule for one in measured for rule in one.rules if rule.published]
    printed_p = {
        greedy: iter(
            holm([rule.published.comparison.p for rule in printed if rule.published and is_greedy(rule) == greedy])
        )
        for greedy in (True, False)
    }
    paired_p = iter(holm([pair.returns.p for one in measured for pair in one.pairs]))

    def called(rule: RuleMeasurement, p: float) -> RuleMeasurement:
        assert rule.floor is not None
        call = decide_call(rule.floor.comparison, p, rule.floor.equivalence_p, plan.alpha)
        return replace(rule, floor=replace(rule.floor, adjusted_p=p), call=call)

    result = []
    for one in measured:
        rules = []
        for rule in one.rules:
            rule = called(rule, next(floor_p))
            if rule.published is not None:
                rule = replace(rule, published=replace(rule.published, adjusted_p=next(printed_p[is_greedy(rule)])))
            rules.append(rule)
        pairs = tuple(replace(pair, adjusted_p=next(paired_p)) for pair in one.pairs)
        stricter = tuple(called(rule, next(reference_p)) for rule in one.references)
        result.append(replace(one, rules=tuple(rules), pairs=pairs, references=stricter))
    return result
