"""How the classes of a scan are said in plain words, shared by every format. Facts, not verdicts; no layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from codeaudit.evaluation.sites import EvaluationSite, Place, Summary
from codeaudit.evaluation.summary import compared_by_rule, counted
from codeaudit.predictions import Prediction
from codeaudit.scan import Scan, Statistics
from codeaudit.text import printable

AGENT = {
    "policy_gradient": "policy-gradient agent",
    "value_based": "value-based agent",
    "model_based": "model-based agent",
    "actor_critic_continuous": "continuous actor-critic agent",
    "random": "random agent",
    "other": "other agent",
}
RULE = {
    "sampled": "sampled",
    "greedy": "greedy",
    "epsilon_greedy": "epsilon-greedy",
    "noisy": "noisy",
    "uniform_random": "uniform random",
    "unknown": "rule unknown",
}
PROVENANCE = {
    "explicit": "explicit: a literal sets it for this call",
    "config": "config: an option sets it",
    "inherited_default": "inherited default: nobody set it",
    "training_sampler": "training sampler: training's own draw is reused",
    "hard_coded": "hard-coded: the code has no other path",
    "framework_default": "framework default: a library decides",
    "unknown": "whose choice unknown",
}
PROCEDURE = {"in_loop": "in-loop", "fixed_checkpoint": "fixed checkpoint", "unknown": "procedure unknown"}
ROLE = {
    "heldout": "held-out",
    "same_env": "same environment",
    "demo": "demo",
    "unknown": "role unknown: nobody here passes the environment",
}

_PLACES = (
    ("default_site", "the default that decides"),
    ("sink", "the draw"),
    ("env_site", "the environment is made"),
    ("report_site", "the return is reported"),
)


def rule_words(site: EvaluationSite) -> str:
    """The action rule, with epsilon where it is known."""
    if site.epsilon is None:
        return RULE[site.rule]
    return f"{RULE[site.rule]} (epsilon {site.epsilon:g})"


def place_words(place: Place) -> str:
    """`file:line`, safe for a terminal."""
    return f"{printable(place.file)}:{place.line}"


def steps(site: EvaluationSite) -> list[tuple[Place, str]]:
    """The evidence chain, then each deciding place that the chain does not mention."""
    chain = [(step.place, step.what) for step in site.evidence]
    said = {place for place, _ in chain}
    for name, what in _PLACES:
        place: Place | None = getattr(site, name)
        if place is not None and place not in said:
            chain.append((place, what))
            said.add(place)
    return _merged(chain) or [(Place(site.file, site.line), "the call")]


def _merged(chain: Sequence[tuple[Place, str]]) -> list[tuple[Place, str]]:
    """Neighbouring steps at one place as a single step."""
    merged: list[tuple[Place, str]] = []
    for place, what in chain:
        if merged and merged[-1][0] == place:
            said = merged[-1][1]
            merged[-1] = (place, said if what == said else f"{said}; {what}")
        else:
            merged.append((place, what))
    return merged


def verdict(summary: Summary, sites: Sequence[EvaluationSite]) -> str:
    """One sentence for the repository."""
    if not sites:
        return (
            "No evaluation site was found. Where a library acts or evaluates, its source (--with) or a model of it "
            "(--library) may be missing."
        )
    parts = (_what_is_measured(summary, sites), _which_rule(summary, sites), _guessed(sites))
    return "; ".join(part for part in parts if part) + "."


def _guessed(sites: Sequence[EvaluationSite]) -> str:
    """How much of the above rests on sites whose agent could only be guessed."""
    spoken_of = counted(sites)
    low = sum(site.confidence == "low" for site in spoken_of)
    if not low:
        return ""
    return "the scan is not sure of " + (
        f"{low} of {count(len(spoken_of), 'site')}" if low < len(spoken_of) else "any site"
    )


def _what_is_measured(summary: Summary, sites: Sequence[EvaluationSite]) -> str:
    spoken_of = counted(sites)
    heldout = [s for s in spoken_of if s.role == "heldout"]
    if heldout:
        moving = [s for s in heldout if s.procedure == "in_loop"]
        where = "Measures return on held-out levels or a separate test environment" + _share(
            heldout, spoken_of, "sites"
        )
        if not moving:
            return f"{where}, the policy held fixed"
        return f"{where}, in-loop{_share(moving, heldout, 'of these')}: across policy versions"
    if all(site.procedure == "in_loop" for site in sites):
        return "Reports the return of its own training episodes (no held-out evaluation)"
    return "Measures return on the training task (no held-out evaluation)"


def _share(part: Sequence[EvaluationSite], whole: Sequence[EvaluationSite], of: str) -> str:
    """How many, where not all."""
    return "" if len(part) == len(whole) else f" ({len(part)} of {len(whole)} {of})"


def _which_rule(summary: Summary, sites: Sequence[EvaluationSite]) -> str:
    rule = summary.policy_gradient_rule
    if rule == "mixed":
        counts = Counter(_RULE_PHRASE.get(s.rule, "an undecided rule") for s in compared_by_rule(sites))
        said = ", ".join(f"{phrase} ({count(n, 'site')})" for phrase, n in counts.most_common())
        return f"its policy-gradient agents are evaluated under different action rules: {said}"
    if rule == "unknown":
        return "the action rule of its policy-gradient agent could not be decided"
    if rule != "none":
        return f"its policy-gradient agent is evaluated with {_RULE_PHRASE.get(rule, rule)}"
    others = {(site.agent, site.rule) for site in sites if site.agent != "random" and site.role != "demo"}
    if len(others) != 1:
        return "no policy-gradient agent is evaluated"
    (agent, only), *_ = others
    return f"its {AGENT[agent]} is evaluated with {_RULE_PHRASE.get(only, 'a rule that could not be decided')}"


_RULE_PHRASE = {
    "sampled": "sampled actions",
    "greedy": "greedy actions",
    "epsilon_greedy": "epsilon-greedy actions",
    "noisy": "greedy actions under live noise",
    "uniform_random": "uniformly random actions",
}


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sites_words(sites: Sequence[EvaluationSite]) -> str:
    """How many sites in how many files."""
    files = len({site.file for site in sites})
    return f"{count(len(sites), 'evaluation site')} in {count(files, 'file')}"


def prediction_words(predictions: Sequence[Prediction]) -> str:
    """How many predictions of each kind a run of the code could test."""
    kinds = Counter(prediction.kind for prediction in predictions)
    return ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


def statistics_words(statistics: Statistics) -> str:
    """What the scan cost."""
    size = statistics.bytes
    amount = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB" if size >= 1e3 else f"{size} bytes"
    return (
        f"{count(statistics.files, 'file')}, {statistics.parsed:,} read, {statistics.cached:,} from the cache, "
        f"{amount}, {statistics.seconds:.2f} s"
    )


def skipped_words(scan: Scan) -> list[tuple[str, list[str]]]:
    """What was left out, grouped by reason: (reason, places), the commonest reason first."""
    groups: dict[str, list[str]] = {}
    for item in scan.skipped:
        place = printable(item.file) + (f":{item.line}" if item.line is not None else "")
        groups.setdefault(printable(item.reason), []).append(place)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
