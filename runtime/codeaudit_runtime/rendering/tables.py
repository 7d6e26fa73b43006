"""The rows of the tables that every text format shows. Plain strings; no markup and no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codeaudit_runtime.episodes import EpisodeRow
from codeaudit_runtime.measurements import CheckpointMeasurement, RuleMeasurement
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.rendering.json_report import floor_report
from codeaudit_runtime.verify import Verified


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: tuple[str, ...] = ()  # what its words mean, for a reader who knows none of them


VERDICT_LEGEND = (
    "fits: the rule whose mean equals the published one within the margin (an equivalence test, p < 0.05); none: every "
    "rule is rejected; unclear: neither is shown.",
    "A verdict is about the prediction that the scan made, not about the quality of the agent.",
)
RULE_LEGEND = (
    "return: mean ± standard deviation over episodes. [low, high]: 95% interval of that one number, not adjusted. call "
    "and p: adjusted for all comparisons of their kind (Holm), so an interval may leave zero out where the call is "
    "not_distinguishable. equivalence p: below 0.05 both are equal within the margin (TOST); not adjusted. margin: 5% "
    "of |published − floor|, or the larger of 0.1 |floor| and 0.25 where nothing was published, unless a plan says "
    "otherwise.",
    "cut: episodes that a step limit ended. entropy: of the policy, in nats. revisits: steps that show what their "
    "episode has shown before. sampled_redrawn: state-dependent noise whose matrix is drawn anew every few steps, as "
    "in training; sampled keeps one. epsilon_greedy, unless asked for: with the exploration that the agent's "
    "training ended with.",
)
FLOOR_LEGEND = (
    "return: mean ± standard deviation over episodes. sem: standard error of that mean, from the means of the draws "
    "and from single episodes. draws: the mean of each seeded draw.",
)


def number(value: float | None) -> str:
    """Two decimals below a hundred, one above: what a table of returns can hold."""
    if value is None or value != value:
        return "–"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def mean_and_std(rule: RuleMeasurement) -> str:
    return f"{number(rule.summary.mean)} ± {number(rule.summary.std)}"


def verdict_table(verified: Sequence[Verified]) -> Table:
    """One row a checkpoint: published, each rule, floor, which rule fits, the verdicts."""
    rows = []
    for one in verified:
        measurement = one.measurement
        published = measurement.rows.published
        first, others = measurement.rules[0], measurement.rules[1:]
        verdicts = {verdict.prediction: verdict.verdict for verdict in one.verdicts}
        rows.append(
            (
                measurement.rows.id,
                f"{number(published.mean)} ± {number(published.std)}" if published else "–",
                f"{mean_and_std(first)} {first.call}",
                "; ".join(f"{rule.rule} {mean_and_std(rule)} {rule.call}" for rule in others),
                mean_and_std(measurement.floor),
                one.fits or "–",
                "; ".join(f"{kind} {word}" for kind, word in verdicts.items()),
            )
        )
    columns = ("checkpoint", "published", "greedy", "other rule", "floor", "fits", "verdicts")
    return Table("Published numbers against the rules", columns, tuple(rows), VERDICT_LEGEND)


def detail_lines(verified: Sequence[Verified]) -> list[tuple[str, str, str]]:
    """(checkpoint, verdict, sentence) for every prediction."""
    return [
        (one.measurement.rows.id, f"{verdict.prediction}: {verdict.verdict}", verdict.detail)
        for one in verified
        for verdict in one.verdicts
    ]


def rule_table(one: CheckpointMeasurement) -> Table:
    """One row a rule of one checkpoint, the floor and the stricter references below."""
    columns = (
        "policy",
        "return",
        "95% interval",
        "episodes",
        "− floor",
        "call",
        "length",
        "cut",
        "entropy",
        "revisits",
    )
    rows = []
    for rule in (*one.rules, one.floor, *one.references):
        summary = rule.summary
        floor = rule.floor
        difference = "–"
        if floor is not None:
            against = floor.comparison
            difference = f"{number(against.difference)} [{number(against.low)}, {number(against.high)}]"
        rows.append(
            (
                rule.rule,
                mean_and_std(rule),
                f"[{number(summary.low)}, {number(summary.high)}]",
                str(summary.episodes),
                difference,
                rule.call or "–",
                f"{summary.length:.0f}",
                f"{summary.truncated:.0%}",
                "–" if summary.entropy is None else f"{summary.entropy:.3f}",
                f"{summary.revisits:.3f}",
            )
        )
    title = f"{one.rows.id} on {one.rows.place}, at most {one.rows.step_cap:,} steps an episode"
    return Table(title, columns, tuple(rows), RULE_LEGEND)


def comparison_lines(one: CheckpointMeasurement) -> list[str]:
    """Sentences on paired differences and on the first-finished bias."""
    lines = [
        f"{pair.first} − {pair.second}: {pair.returns.difference:+.3g} "
        f"[{pair.low:.3g}, {pair.high:.3g}] over {len(pair.differences)} pairs, adjusted p {pair.adjusted_p:.2g}"
        for pair in one.pairs
    ]
    lines += [
        f"{item.rule}: the first {item.episodes} episodes to finish would have given {number(item.mean)}, "
        f"{item.bias:+.3g} [{item.low:.3g}, {item.high:.3g}] against balanced episodes"
        for item in one.first_finished
    ]
    lines += [
        f"{rule.rule}: {rule.summary.episodes} episodes under {rule.summary.noise_draws} noise matrices, one a slot "
        "and draw; its errors are clustered by them"
        for rule in one.rules
        if rule.summary.noise_draws is not None and rule.summary.noise_draws < rule.summary.episodes
    ]
    lines += [
        f"{rule.rule}: chosen on the first draw and read on the others, so that the choice flatters nobody"
        for rule in one.references
        if rule.rule.startswith("best constant")
    ]
    lines += [_levels_line(rule) for rule in (*one.rules, one.floor) if rule.summary.levels is not None]
    return lines


def _levels_line(rule: RuleMeasurement) -> str:
    own = rule.summary
    return (
        f"{rule.rule}: {own.episodes} episodes of {own.levels} levels ({own.effective_levels:.0f} effective); standard "
        f"error {number(own.sem)} for these levels, {number(own.sem_levels)} for the generator they come from"
    )


def floor_table(environment: str, rows: Sequence[EpisodeRow], plan: Plan) -> Table:
    sets = floor_report(environment, rows, plan, (), {})["level_sets"]
    table = tuple(
        (
            name,
            f"{number(own['mean'])} ± {number(own['std'])}",
            number(own["sem"]),
            number(own["sem_episode"]),
            str(own["episodes"]),
            ", ".join(number(draw["mean"]) for draw in own["draws"]),
            f"{own['length']:.0f}",
        )
        for name, own in sets.items()
    )
    columns = ("levels", "return", "sem of draws", "sem of episodes", "episodes", "draws", "length")
    return Table(f"Floor of {environment}: a uniform-random policy", columns, table, FLOOR_LEGEND)


def protocol_line(plan: Plan, changes: Sequence[str], asked: int | None = None) -> str:
    """`asked`: the episodes that a person asked for. Where they don't divide by the draws, more are run; it says so."""
    cap = f", at most {plan.step_cap} steps an episode" if plan.step_cap else ""
    line = (
        f"plan {plan.hash[:12]}: draws seeded {', '.join(map(str, plan.draws))}, {plan.episodes_per_draw} episodes "
        f"each, shared evenly over the slots, {plan.burn_in} burn-in a slot{cap}"
    )
    run = plan.episodes_per_draw * len(plan.draws)
    if asked is not None and asked != run:
        line = f"{asked} episodes asked for, {run} run: every draw has as many. {line}"
    return line if not changes else f"{line}. Changed since the run began: {'; '.join(changes)}"
