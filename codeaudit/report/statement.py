"""The paragraph on evaluation that a paper needs, from a scan or a run. What is not known stays a question in brackets.

Only sentences are made here. Nothing is guessed: a number that neither the code nor a run shows is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from codeaudit import __version__
from codeaudit.errors import UserError
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.registry.fieldwide import main_sites
from codeaudit.report.words import place_words
from codeaudit.scan import Scan
from codeaudit.text import printable

RUN_REPORTS = ("codeaudit.verify/1", "codeaudit.evaluate/1", "codeaudit.floor/1")

_RULE = {
    "sampled": "sampled from the policy's distribution",
    "greedy": "the policy's most likely ones (greedy)",
    "epsilon_greedy": "epsilon-greedy",
    "noisy": "greedy with noise added",
    "uniform_random": "uniformly random",
    "unknown": "[sampled or greedy?]",
}
_AGENT = {
    "policy_gradient": "the policy-gradient agent",
    "value_based": "the value-based agent",
    "model_based": "the model-based agent",
    "actor_critic_continuous": "the actor-critic agent",
    "random": "the random baseline",
    "other": "the agent",
}
_SET_BY = {
    "explicit": "the evaluation code sets this rule with a literal",
    "config": "an option sets this rule, and its default is meant",
    "inherited_default": "no caller sets this rule: the default argument decides",
    "training_sampler": "evaluation calls training's own sampling function, which has no other rule",
    "hard_coded": "the code has no other rule",
    "framework_default": "a default of an external library decides",
    "unknown": "[who sets this rule?]",
}
_PROCEDURE = {
    "fixed_checkpoint": "The policy is held fixed for the whole measurement.",
    "in_loop": (
        "Returns are a running mean over episodes that are stepped inside the training loop, so one number spans "
        "several versions of the policy [how many episodes does the mean hold?]."
    ),
    "unknown": "[Is the policy held fixed for the whole measurement, or stepped inside the training loop?]",
}
_ROLE = {
    "heldout": "Test episodes run on held-out levels or in a separate test environment [which ones, as START:COUNT?]",
    "same_env": "Test episodes run in the training task itself",
    "demo": "The call is part of a demonstration",
    "unknown": "[Do test episodes run on held-out levels?]",
}


@dataclass(frozen=True)
class Statement:
    """Paragraphs; whatever stands in square brackets is a question to the author."""

    subject: str
    paragraphs: tuple[str, ...]

    @property
    def questions(self) -> list[str]:
        found = [question for paragraph in self.paragraphs for question in re.findall(r"\[([^\[\]]*\?)\]", paragraph)]
        return list(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "codeaudit.statement/1",
            "subject": self.subject,
            "paragraphs": list(self.paragraphs),
            "questions": self.questions,
        }


def statement_of_scan(scan: Scan) -> Statement:
    """What the code decides, and questions for what only its author knows."""
    subject = f"{scan.target.repo}@{scan.target.commit}"
    sites = main_sites(scan.sites)
    if not sites:
        text = (
            "No evaluation of a policy was found in the code [where are the reported returns measured, under which "
            f"action rule, on which levels, over how many episodes?]. {_read(scan)}"
        )
        return Statement(subject, (text,))

    def classes(site: EvaluationSite) -> tuple[str, ...]:
        epsilon = "" if site.epsilon is None else f"{site.epsilon:g}"
        return (site.agent, site.rule, epsilon, site.provenance, site.procedure, site.role)

    groups = [list(group) for _, group in groupby(sorted(sites, key=classes), key=classes)]
    groups.sort(key=lambda group: sites.index(group[0]))
    paragraphs = [" ".join(_of_group(group, several=len(groups) > 1)) for group in groups]
    return Statement(subject, (*paragraphs, f"{_open_questions(sites)} {_read(scan)}"))


def _of_group(group: Sequence[EvaluationSite], *, several: bool) -> Iterator[str]:
    site = group[0]
    calls = _places([Place(one.file, one.line) for one in group])
    where = f" at {calls}" if several else ""
    epsilon = f" (epsilon {site.epsilon:g})" if site.epsilon is not None else ""
    decides = _places([one.default_site for one in group if one.default_site])
    decided = f" ({decides})" if decides else ""
    yield (
        f"Reported returns of {_AGENT[site.agent]}{where} are measured with actions {_RULE[site.rule]}{epsilon}; "
        f"{_SET_BY[site.provenance]}{decided}."
    )
    if any(one.confidence == "low" for one in group):
        yield "[The scan could only guess which agent acts there: is this its rule, and is this who set it?]"
    yield _PROCEDURE[site.procedure]
    made = _places([one.env_site for one in group if one.env_site])
    yield f"{_ROLE[site.role]}{f' (made at {made})' if made else ''}."
    if not several:
        yield f"{'The calls are' if ', ' in calls else 'The call is'} {calls}."


def _open_questions(sites: Sequence[EvaluationSite]) -> str:
    questions = []
    if any(site.role == "heldout" for site in sites):
        questions.append(
            "how are the evaluated levels drawn, with which seeds, and are the draws shared by all methods"
        )
    questions += [
        "over how many episodes is each number a mean",
        "over how many independently trained runs",
        "what does a uniform-random policy return under the same harness",
        "which interval and which test support each comparison",
    ]
    return " ".join(f"[{question[0].upper()}{question[1:]}?]" for question in questions)


def _read(scan: Scan) -> str:
    state = ", and the working tree as it was" if scan.target.dirty else ""
    commit = scan.target.commit[:12]
    return f"Read from {printable(scan.target.repo)} at commit {commit}{state} by codeaudit {__version__}."


def _places(places: Sequence[Place]) -> str:
    return ", ".join(dict.fromkeys(place_words(place) for place in places))


# --- a run -----------------------------------------------------------------------------------------------------------


def statement_of_run(report: Mapping[str, Any]) -> Statement:
    """What a run measured, and under which protocol. Raises UserError where the report is none of a run."""
    if report.get("schema") not in RUN_REPORTS:
        raise UserError("not the report of a run", hint=f"it must be one of {', '.join(RUN_REPORTS)}")
    try:
        commit = f"@{report['commit']}" if "commit" in report else ""
        subject = f"{report.get('entry') or report.get('environment') or 'a run'}{commit}"
        checkpoints = report.get("checkpoints", [])
        paragraphs = [_protocol(report["plan"], checkpoints)]
        paragraphs += [_checkpoint(one) for one in checkpoints]
        paragraphs += [_floor(name, one, report) for name, one in report.get("level_sets", {}).items()]
        paragraphs.append(_tests(report["plan"], report))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise UserError(f"the report of the run lacks {error}", hint="make it again with this version") from None
    return Statement(subject, tuple(paragraphs))


def _protocol(plan: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]]) -> str:
    draws, each = plan["draws"], plan["episodes_per_draw"]
    rules = list(dict.fromkeys(rule for one in checkpoints for rule in one["rules"] if rule != "uniform_random"))
    said = [
        f"Each checkpoint is held fixed and re-executed under its action rules ({', '.join(rules)})."
        if rules
        else "A uniform-random policy is executed.",
        f"Each rule is measured over {len(draws) * each} episodes: {each} for each of {len(draws)} draws "
        f"(seeds {', '.join(map(str, draws))}), balanced over the slots of the vector environment.",
    ]
    levels = list(dict.fromkeys(one["levels"] for one in checkpoints if one.get("levels")))
    if levels:
        said.append(f"Levels are {', '.join(map(str, levels))} (START:COUNT).")
    elif checkpoints:
        said.append("The environments have no level sets [are training and test episodes drawn apart in another way?].")
    return " ".join(said)


def _checkpoint(one: Mapping[str, Any]) -> str:
    rules = dict(one["rules"])
    floor = rules.pop("uniform_random", None)
    measured = "; ".join(f"{rule} {_number(value)}" for rule, value in rules.items())
    said = [f"{one['id']} in {one['environment']}: {measured}."]
    if floor is not None:
        said.append(f"The floor, a uniform-random policy under the same harness, returns {_number(floor)}.")
    published = one.get("published")
    if published:
        said.append(f"The published return is {published['mean']:g} over {published['episodes']} episodes.")
        verdicts = {item["prediction"]: item for item in one.get("verdicts", [])}
        if "published_rule" in verdicts:
            verdict = verdicts["published_rule"]
            said.append(
                f"That the rule which the scan found made it is {verdict['verdict']} ({_prose(verdict['detail'])})."
            )
    return " ".join(said)


def _floor(name: str, one: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    where = f" on levels {name}" if name else ""
    measured = f"{one['mean']:.4g} over {one['episodes']} episodes"
    return f"A uniform-random policy returns {measured} in {report['environment']}{where}."


def _tests(plan: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    tests = plan.get("tests", {})
    used = "; ".join(f"{name}: {how}" for name, how in tests.items())
    versions = ", ".join(f"{name} {number}" for name, number in report.get("versions", {}).items())
    said = f"Intervals are 95%; tests are at level {plan['alpha']:g}" + (f" ({used})" if used else "")
    changes = "; ".join(map(str, report.get("plan_changes", [])))
    return (
        f"{said}. {'Changed after the plan was fixed: ' + changes + '. ' if changes else ''}"
        f"[Over how many independently trained runs is each claim made?] Plan {plan['hash'][:12]}; {versions}."
    )


def _number(value: Mapping[str, Any]) -> str:
    return f"{value['mean']:.4g} ({value['low']:.4g} to {value['high']:.4g}) over {value['episodes']} episodes"


def _prose(text: str) -> str:
    """Text of a report in which square brackets would look like questions."""
    return text.replace("[", "(").replace("]", ")")
