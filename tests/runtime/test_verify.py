"""Predictions against made-up episodes: each verdict is reached where it should be, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from codeaudit_runtime.episodes import EpisodeRow
from codeaudit_runtime.measurements import CheckpointRows, first_finished, measure_checkpoints
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.verify import Verified, predictions_from_scan, verify_checkpoint
from made_agents import scan_report

from codeaudit.errors import UserError
from codeaudit.predictions import Prediction
from codeaudit.registry import Published
from codeaudit.verdicts import Verdict

PLAN = Plan(resamples=500)
PUBLISHED = Published(100.0, 10.0, 300)


def rows_of(
    rule: str, returns: Sequence[float], lengths: Sequence[int] | None = None, revisits: float = 0.0
) -> list[EpisodeRow]:
    """Sixteen slots in one draw; episode i is in slot i modulo 16."""
    return [
        EpisodeRow(
            "agent",
            rule,
            "all",
            11,
            number % 16,
            number // 16,
            None,
            None,
            float(value),
            float(value),
            lengths[number] if lengths is not None else 10,
            False,
            None,
            revisits,
        )
        for number, value in enumerate(returns)
    ]


def normal(mean: float, std: float, count: int = 256, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(count)
    return mean + std * (drawn - drawn.mean()) / drawn.std(ddof=1)


def agent(
    greedy: Sequence[float],
    sampled: Sequence[float],
    published: Published | None = PUBLISHED,
    name: str = "agent",
) -> CheckpointRows:
    rules = {"greedy": rows_of("greedy", greedy), "sampled": rows_of("sampled", sampled)}
    floor = rows_of("uniform_random", normal(0, 10, seed=9))
    return CheckpointRows(name, "Toy-v0", "Toy-v0", "ppo", False, 100, rules, floor, {}, published)


def verify(rows: CheckpointRows, *predictions: tuple[str, str], plan: Plan = PLAN) -> Verified:
    asked = [Prediction(f"p{n}", "", kind, text) for n, (kind, text) in enumerate(predictions)]  # type: ignore[arg-type]
    return verify_checkpoint(measure_checkpoints([rows], plan)[0], asked, plan)


def verdict(rows: CheckpointRows, kind: str, expectation: str = "greedy") -> Verdict:
    return verify(rows, (kind, expectation)).verdicts[0]


def test_published_rule_is_confirmed_by_equivalence_and_rejection_of_the_other() -> None:
    rows = agent(normal(100.5, 10), normal(80, 10, seed=1))
    found = verdict(rows, "published_rule")
    assert found.verdict == "confirmed"
    assert found.numbers["margin"] == pytest.approx(5.0, abs=0.1)  # 5% of |published − floor|
    assert verdict(rows, "published_rule", "sampled").verdict == "refuted"
    assert verify(rows).fits == "greedy"


def test_published_rule_is_undecided_where_both_fit() -> None:
    one = verify(agent(normal(100.5, 10), normal(99.5, 10, seed=1)), ("published_rule", "greedy"))
    assert (one.verdicts[0].verdict, one.fits) == ("undecided", "both")
    assert "both rules fit" in one.verdicts[0].detail


def test_equal_constants_fit() -> None:
    constant = agent([500.0] * 64, [500.0] * 64, Published(500.0, 0.0, 300))
    assert verify(constant).fits == "both"
    apart = agent([500.0] * 64, normal(450, 5, 64), Published(500.0, 0.0, 300))
    assert verdict(apart, "published_rule").verdict == "confirmed"


def test_published_rule_is_undecided_where_neither_fits() -> None:
    neither = verify(agent(normal(60, 10), normal(80, 10, seed=1)), ("published_rule", "greedy"))
    assert (neither.verdicts[0].verdict, neither.fits) == ("undecided", "none")
    assert "no rule reproduces" in neither.verdicts[0].detail
    noisy = verify(agent(normal(101, 60), normal(80, 10, seed=1)), ("published_rule", "greedy"))
    assert (noisy.verdicts[0].verdict, noisy.fits) == ("undecided", "unclear")
    few = verdict(agent(normal(101, 10), normal(80, 10, seed=1), Published(100.0, 60.0, 200)), "published_rule")
    assert "published number's own standard error" in few.detail


def test_published_rule_without_a_published_number_or_with_two_expectations() -> None:
    assert verdict(agent([1, 2], [1, 2], None), "published_rule").verdict == "undecided"
    rows = agent(normal(100, 10), normal(80, 10, seed=1))
    both = verify(rows, ("published_rule", "greedy"), ("published_rule", "sampled")).verdicts
    assert len(both) == 1 and "greedy and sampled" in both[0].detail
    assert verdict(rows, "published_rule", "noisy").verdict == "undecided"


def test_rejection_is_adjusted_over_the_entrys_checkpoints() -> None:
    """A difference that one test would reject is no longer rejected among twenty."""
    borderline = agent(normal(100, 10), normal(97.6, 10, seed=1))
    plan = replace(PLAN, resamples=10)
    many = [borderline] + [agent(normal(100, 10), normal(100, 10))] * 19
    alone = measure_checkpoints([borderline], plan)[0]
    among = measure_checkpoints(many, plan)[0]
    each = measure_checkpoints(many, replace(plan, family="checkpoint"))[0]
    adjusted = [one.rules[1].published.adjusted_p for one in (alone, among, each)]  # type: ignore[union-attr]
    assert adjusted[0] < 0.05 < adjusted[1] and adjusted[2] == adjusted[0]


def test_rule_matters() -> None:
    assert verdict(agent(normal(100, 10), normal(80, 10, seed=1)), "rule_matters").verdict == "confirmed"
    assert verdict(agent(normal(100, 10), normal(100, 10, seed=1)), "rule_matters").verdict == "refuted"
    noisy = agent(normal(100, 100, 32), normal(100, 100, 32, seed=1))
    assert verdict(noisy, "rule_matters").verdict == "undecided"


def test_a_difference_that_the_step_limit_hides_is_undecided() -> None:
    capped = [replace(row, truncated=True) for row in rows_of("greedy", [500.0] * 64)]
    rows = agent([500.0] * 64, [500.0] * 64)
    hidden = verdict(replace(rows, rules={"greedy": capped, "sampled": capped}), "rule_matters")
    assert hidden.verdict == "undecided" and "could not have shown" in hidden.detail
    assert verdict(rows, "rule_matters").verdict == "refuted"  # these episodes ended by themselves


def test_pairing_removes_what_the_episodes_share() -> None:
    shared = normal(0, 50)
    rows = agent(100 + shared, 99 + shared + normal(0, 1, seed=3))
    pair = measure_checkpoints([rows], PLAN)[0].pairs[0]
    assert pair.returns.se < 0.1 and pair.returns.difference == pytest.approx(1.0)


def test_one_noise_matrix_for_a_slot_makes_its_episodes_one_draw() -> None:
    """Sixteen matrices that differ and hardly any noise beside them: the error is that of sixteen values."""
    own = np.tile(normal(0, 50, 16, seed=5), 16)
    sampled = 100 + own + normal(0, 1, 256, seed=6)
    rows = agent(normal(100, 1), sampled)
    kept = replace(rows, rules={**rows.rules, "sampled_redrawn": rows_of("sampled_redrawn", normal(100, 1))})
    independent = measure_checkpoints([rows], PLAN)[0].rules[1].summary
    clustered = measure_checkpoints([kept], PLAN)[0]
    summary, pair = clustered.rules[1].summary, clustered.pairs[0]
    assert summary.noise_draws == 16 and independent.noise_draws is None
    assert summary.mean == pytest.approx(independent.mean)
    assert summary.sem == pytest.approx(sampled.reshape(16, 16).mean(axis=0).std(ddof=1) / 4)
    assert summary.high - summary.low > 3 * (independent.high - independent.low)
    assert pair.returns.df == 15 and pair.high - pair.low > 3 * (independent.high - independent.low)
    assert clustered.rules[0].summary.noise_draws is None  # the greedy rule draws no noise


def test_above_floor_calls() -> None:
    both = verify(agent(normal(100, 10), normal(80, 10, seed=1)), ("above_floor", ""))
    assert [rule.call for rule in both.measurement.rules] == ["above", "above"]
    assert both.verdicts[0].verdict == "confirmed"
    below = verify(agent(normal(100, 10), normal(-50, 10, seed=1)), ("above_floor", ""))
    assert [rule.call for rule in below.measurement.rules] == ["above", "below"]
    assert below.verdicts[0].verdict == "refuted"
    noisy = verify(agent(normal(100, 10), normal(1, 100, seed=1)), ("above_floor", ""))
    assert noisy.measurement.rules[1].call == "not_distinguishable" and noisy.verdicts[0].verdict == "undecided"


def test_greedy_loops() -> None:
    rows = agent(normal(100, 10), normal(100, 10))
    loops = replace(rows, rules={**rows.rules, "greedy": rows_of("greedy", normal(100, 10), revisits=0.4)})
    alike = replace(rows, rules={name: rows_of(name, normal(100, 10), revisits=0.4) for name in rows.rules})
    assert verdict(loops, "greedy_loops").verdict == "confirmed"
    assert verdict(alike, "greedy_loops").verdict == "refuted"
    assert verdict(rows, "greedy_loops").verdict == "undecided"  # nothing was ever seen twice: states are continuous


def test_first_finished_bias_is_found_where_short_episodes_pay_less() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.choice([5, 50], 256).tolist()
    biased = first_finished("greedy", rows_of("greedy", lengths, lengths), PLAN)
    assert biased is not None and biased.high < 0 and biased.episodes == 16
    fair = first_finished("greedy", rows_of("greedy", rng.normal(size=256), lengths), PLAN)
    assert fair is not None and fair.low < 0 < fair.high
    same = first_finished("greedy", rows_of("greedy", rng.normal(size=256)), PLAN)
    assert same is not None and (same.bias, same.low, same.high) == (
        0.0,
        0.0,
        0.0,
    )  # equal lengths: everybody finishes at once


def test_first_finished_mean_against_a_simulated_harness() -> None:
    """The estimate from balanced rows is what a harness that stops at the sixteenth episode really reports."""
    rng = np.random.default_rng(1)
    reported = []
    for _ in range(4000):
        lengths = rng.choice([5, 50], (16, 12))
        ends = lengths.cumsum(axis=1)
        order = np.argsort(ends + rng.random(ends.shape) * 1e-6, axis=None)[:16]
        reported.append(lengths.ravel()[order].mean())
    lengths = np.random.default_rng(2).choice([5, 50], 16 * 60).tolist()
    found = first_finished("greedy", rows_of("greedy", lengths, lengths), PLAN)
    assert found is not None and found.mean == pytest.approx(np.mean(reported), abs=1.5)


def test_one_episode_a_slot_says_nothing_of_the_first_to_finish() -> None:
    lengths = np.random.default_rng(0).choice([5, 50], 16).tolist()
    assert first_finished("greedy", rows_of("greedy", lengths, lengths), PLAN) is None
    said = verdict(agent(lengths, lengths), "first_finished_bias")
    assert said.verdict == "undecided" and "two episodes a slot" in said.detail


@pytest.mark.parametrize("kind", ["in_loop_differs", "level_draw_matters", "levels_overlap", "claims_hold"])
def test_what_was_not_measured_is_undecided_and_says_what_it_needs(kind: str) -> None:
    found = verdict(agent(normal(100, 10), normal(80, 10)), kind)
    assert found.verdict == "undecided" and "not measured here" in found.detail


def test_predictions_come_from_the_site_that_made_the_numbers() -> None:
    report = scan_report(("published_rule", "greedy"), ("rule_matters", "yes"), ("strange_kind", ""))
    assert [item.kind for item in predictions_from_scan(report, "evaluate.py")] == ["published_rule", "rule_matters"]
    elsewhere = {**report, "sites": [*report["sites"], {"id": "t", "file": "other.py"}]}
    assert predictions_from_scan(elsewhere, "other.py") == []
    assert len(predictions_from_scan(report, "not-found.py")) == 2  # a scan without that site speaks with all of them
    assert len(predictions_from_scan(report)) == 2
    with pytest.raises(UserError, match="not a scan report"):
        predictions_from_scan({"schema": "something"})
