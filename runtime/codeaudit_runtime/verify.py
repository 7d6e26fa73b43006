"""Prediction + measurement → verdict. Pure: no file, no episode and no random draw is touched here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from codeaudit.errors import UserError
from codeaudit.predictions import Prediction, PredictionKind
from codeaudit.verdicts import Verdict, VerdictWord
from codeaudit_runtime.measurements import CheckpointMeasurement, PairedMeasurement, RuleMeasurement
from codeaudit_runtime.plan import Plan

NORMAL_95 = 1.645  # one-sided 5% point of the normal distribution
NEEDS_OTHER_DATA: Mapping[str, str] = {
    "in_loop_differs": "needs a training log beside the checkpoint",
    "level_draw_matters": "needs an environment with level sets",
    "levels_overlap": "needs an environment with level sets",
    "claims_hold": "is what `codeaudit claims` measures",
}


@dataclass(frozen=True)
class Verified:
    """One checkpoint with its verdicts."""

    measurement: CheckpointMeasurement
    fits: str  # the rule that reproduces the published number; both, several, none (all rejected), unclear, or ""
    verdicts: tuple[Verdict, ...]


def predictions_from_scan(scan: Mapping[str, Any], site_file: str = "") -> list[Prediction]:
    """The predictions of a scan report (`codeaudit.scan/1`), one of each kind and expectation.

    With `site_file`, the file that made the published numbers, predictions of sites in other files are left out, and
    those of the whole repository stay; a scan that found no such site speaks with all its sites. Raises UserError where
    the report is none.
    """
    if scan.get("schema") != "codeaudit.scan/1" or not isinstance(scan.get("predictions"), list):
        raise UserError("not a scan report", hint="make one with `codeaudit scan TARGET --format json`")
    files = {str(site.get("id")): str(site.get("file")) for site in scan.get("sites", []) if isinstance(site, dict)}
    known = get_args(PredictionKind)
    if site_file not in files.values():
        site_file = ""
    found: dict[tuple[str, str], Prediction] = {}
    for item in scan["predictions"]:
        if not isinstance(item, dict) or item.get("kind") not in known:
            continue
        site = str(item.get("site", ""))
        if site_file and site and files.get(site) != site_file:
            continue
        prediction = Prediction(str(item.get("id")), site, item["kind"], str(item.get("expectation", "")))
        found.setdefault((prediction.kind, prediction.expectation), prediction)
    return list(found.values())


def verify_checkpoint(measurement: CheckpointMeasurement, predictions: Sequence[Prediction], plan: Plan) -> Verified:
    """Each prediction held against this checkpoint's numbers."""
    published = [prediction for prediction in predictions if prediction.kind == "published_rule"]
    others = [prediction for prediction in predictions if prediction.kind != "published_rule"]
    verdicts = [_published_rule(measurement, published, plan)] if published else []
    seen: set[str] = set()
    for prediction in others:
        if prediction.kind not in seen:  # what one checkpoint shows does not depend on the site
            seen.add(prediction.kind)
            verdicts.append(_verdict(measurement, prediction, plan))
    return Verified(measurement, fitting_rule(measurement, plan), tuple(verdicts))


def fits(rule: RuleMeasurement, plan: Plan) -> bool:
    """The equivalence test against the published value passes."""
    return rule.published is not None and rule.published.equivalence_p < plan.alpha


def rejected(rule: RuleMeasurement, plan: Plan) -> bool:
    """The published value is not this rule's, by the adjusted Welch test."""
    return rule.published is not None and rule.published.adjusted_p < plan.alpha


def fitting_rule(measurement: CheckpointMeasurement, plan: Plan) -> str:
    if measurement.rows.published is None:
        return ""
    names = [rule.rule for rule in measurement.rules if fits(rule, plan)]
    if not names:
        return "none" if all(rejected(rule, plan) for rule in measurement.rules) else "unclear"
    return names[0] if len(names) == 1 else "both" if len(names) == 2 else "several"


def _is_rule(label: str, name: str) -> bool:
    return label == name or label.startswith(f"{name}:")


def _published_rule(one: CheckpointMeasurement, predictions: Sequence[Prediction], plan: Plan) -> Verdict:
    """Confirmed only if the predicted rule alone passes the equivalence test and all others are rejected."""
    kind = "published_rule"
    if one.rows.published is None:
        return Verdict(kind, "undecided", "nothing was published for this checkpoint")
    expectations = sorted({prediction.expectation for prediction in predictions})
    if len(expectations) > 1:
        return Verdict(kind, "undecided", f"the scan predicts {' and '.join(expectations)} at different sites")
    expected = expectations[0]
    predicted = [rule for rule in one.rules if _is_rule(rule.rule, expected)]
    others = [rule for rule in one.rules if not _is_rule(rule.rule, expected)]
    if not predicted or not others:
        return Verdict(kind, "undecided", f"the predicted rule {expected!r} and another one were not both measured")
    rule = predicted[0]
    text = ", ".join(_printed_text(item, plan) for item in (rule, *others))
    detail = f"published {one.rows.published.mean:g}, margin ±{one.margin:.3g}: {text}"
    numbers = {
        f"{item.rule}.{name}": value
        for item in one.rules
        if item.published
        for name, value in {
            "difference": item.published.comparison.difference,
            "adjusted_p": item.published.adjusted_p,
            "equivalence_p": item.published.equivalence_p,
        }.items()
    }
    numbers["margin"] = one.margin
    other_fits = [item for item in others if fits(item, plan)]
    word: VerdictWord
    if fits(rule, plan) and not other_fits and all(rejected(item, plan) for item in others):
        word = "confirmed"
    elif fits(rule, plan):
        word, reason = "undecided", "both rules fit" if other_fits else "the other rule is not rejected"
        detail = f"{reason}; {detail}"
    elif rejected(rule, plan) and other_fits:
        word = "refuted"
    else:
        word, detail = "undecided", f"{_why_unsettled(one, plan)}; {detail}"
    return Verdict(kind, word, detail, numbers)


def _why_unsettled(one: CheckpointMeasurement, plan: Plan) -> str:
    published = one.rows.published
    assert published is not None
    if all(rejected(rule, plan) for rule in one.rules):
        return "no rule reproduces the number"
    sem = published.std / published.episodes**0.5
    if NORMAL_95 * sem >= one.margin:
        return f"the published number's own standard error, {sem:.2g}, is too large for this margin"
    return "these episodes do not settle it"


def _printed_text(rule: RuleMeasurement, plan: Plan) -> str:
    assert rule.published is not None
    said = "fits" if fits(rule, plan) else "no fit shown"
    if rejected(rule, plan):
        said = "fits, yet differs" if fits(rule, plan) else "rejected"
    against = rule.published
    return (
        f"{rule.rule} {rule.summary.mean:.4g} ({said}; difference {against.comparison.difference:+.3g}, "
        f"p {against.adjusted_p:.2g}, equivalence p {against.equivalence_p:.2g})"
    )


def _verdict(one: CheckpointMeasurement, prediction: Prediction, plan: Plan) -> Verdict:
    kind = prediction.kind
    if kind == "rule_matters":
        return _rule_matters(one, plan)
    if kind == "above_floor":
        return _above_floor(one)
    if kind == "first_finished_bias":
        return _first_finished_bias(one)
    if kind == "greedy_loops":
        return _greedy_loops(one, plan)
    return Verdict(kind, "undecided", f"not measured here: it {NEEDS_OTHER_DATA.get(kind, 'is not known here')}")


def _main_pair(one: CheckpointMeasurement) -> PairedMeasurement | None:
    return one.pairs[0] if one.pairs else None


def _rule_matters(one: CheckpointMeasurement, plan: Plan) -> Verdict:
    pair = _main_pair(one)
    if pair is None:
        return Verdict("rule_matters", "undecided", "only one rule was measured")
    returns = pair.returns
    measured = [rule.summary for rule in one.rules if rule.rule in (pair.first, pair.second)]
    if all(rule.truncated == 1 and rule.std == 0 for rule in measured) and returns.difference == 0:
        capped = f"every episode of both rules is cut at {one.rows.step_cap} steps with {measured[0].mean:g}"
        return Verdict("rule_matters", "undecided", f"{capped}: a difference could not have shown")
    detail = (
        f"{pair.first} − {pair.second} = {returns.difference:+.3g} [{pair.low:.3g}, {pair.high:.3g}], paired over "
        f"{len(pair.differences)} episodes, p {pair.adjusted_p:.2g}; margin ±{pair.margin:.3g}, "
        f"equivalence p {pair.equivalence_p:.2g}"
    )
    equivalent, different = pair.equivalence_p < plan.alpha, pair.adjusted_p < plan.alpha
    word: VerdictWord = "refuted" if equivalent else "confirmed" if different else "undecided"
    numbers = {
        "difference": returns.difference,
        "low": pair.low,
        "high": pair.high,
        "adjusted_p": pair.adjusted_p,
        "equivalence_p": pair.equivalence_p,
        "margin": pair.margin,
    }
    return Verdict("rule_matters", word, detail, numbers)


def _above_floor(one: CheckpointMeasurement) -> Verdict:
    calls = {rule.rule: rule.call for rule in one.rules}
    text = ", ".join(f"{rule.rule} {rule.summary.mean:.4g}: {rule.call}" for rule in one.rules)
    word: VerdictWord = "undecided"
    if all(call == "above" for call in calls.values()):
        word = "confirmed"
    elif any(call in ("below", "equivalent") for call in calls.values()):
        word = "refuted"
    numbers = {f"{rule.rule}.adjusted_p": rule.floor.adjusted_p for rule in one.rules if rule.floor}
    return Verdict("above_floor", word, f"floor {one.floor.summary.mean:.4g}; {text}", numbers)


def _first_finished_bias(one: CheckpointMeasurement) -> Verdict:
    """Confirmed if the interval of any rule's bias excludes zero, refuted if all lie within the margin."""
    if not one.first_finished:
        return Verdict(
            "first_finished_bias", "undecided", "needs two episodes a slot: with one, each is among the first"
        )
    texts = [f"{item.rule} {item.bias:+.3g} [{item.low:.3g}, {item.high:.3g}]" for item in one.first_finished]
    biased = [item for item in one.first_finished if item.low > 0 or item.high < 0]
    within = all(-one.margin < item.low and item.high < one.margin for item in one.first_finished)
    word: VerdictWord = "refuted" if within else "confirmed" if biased else "undecided"
    taken = one.first_finished[0].episodes
    detail = f"first {taken} to finish minus balanced: {', '.join(texts)}; margin ±{one.margin:.3g}"
    return Verdict("first_finished_bias", word, detail, {f"{item.rule}.bias": item.bias for item in one.first_finished})


def _greedy_loops(one: CheckpointMeasurement, plan: Plan) -> Verdict:
    pair = _main_pair(one)
    if pair is None:
        return Verdict("greedy_loops", "undecided", "only one rule was measured")
    shares = {rule.rule: rule.summary.revisits for rule in one.rules}
    if not any(shares.values()):
        # An agent can circle through continuous states for ever without meeting one twice.
        return Verdict(
            "greedy_loops", "undecided", "no observation came back under any rule: nothing shows a loop here"
        )
    revisits = pair.revisits
    detail = (
        f"share of revisiting steps: {', '.join(f'{name} {share:.3f}' for name, share in shares.items())}; "
        f"difference {revisits.difference:+.3f} [{revisits.low:.3f}, {revisits.high:.3f}]"
    )
    word: VerdictWord = "undecided"
    if pair.revisits_equivalence_p < plan.alpha or revisits.high < 0:
        word = "refuted"
    elif revisits.low > 0:
        word = "confirmed"
    return Verdict("greedy_loops", word, detail, {f"{name}.revisits": share for name, share in shares.items()})
