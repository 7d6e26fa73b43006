"""The check report as SARIF 2.1.0, in the form that GitHub code scanning takes. Not for other SARIF features.

Paths are relative to the root of the repository, without originalUriBaseIds. Our identity of a finding has a key of its
own: `primaryLocationLineHash` is GitHub's, which computes it from the checked-out file where it is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from codeaudit import __version__
from codeaudit.evaluation.sites import Evidence
from codeaudit.lint.run import Check, Problem
from codeaudit.report.lint_text import rule_words
from codeaudit.rules import all_rules
from codeaudit.rules.base import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOME = "https://pypi.org/project/rl-codeaudit/"
MOST_RESULTS, MOST_LOCATIONS, MOST_TAGS = 25_000, 100, 10
IDENTITY = "codeauditFingerprint/v1"
FAMILIES = {
    "CA0": "comments",
    "CA1": "action-rule",
    "CA2": "procedure",
    "CA3": "seeding",
    "CA4": "reference",
    "CA5": "restarts",
    "CA6": "statistics",
    "CA7": "dependencies",
    "CA8": "checkpoints",
}
PRECISION = {"error": "high", "warning": "high", "note": "medium"}


def sarif(check: Check) -> dict[str, Any]:
    """One run; results in the order of the report, silenced ones kept and marked as suppressed.

    GitHub drops what is over its limits without a word, so what is over is dropped here, from the least severe on, and
    a notification says how many.
    """
    problems = _within(check.problems)
    rules = all_rules()  # all of them, so that a rule's index doesn't depend on the selection
    index = {rule.code: number for number, rule in enumerate(rules)}
    dropped = len(check.problems) - len(problems)
    notes = [*check.notes, *([f"{dropped} findings over the limit of {MOST_RESULTS} are left out"] if dropped else [])]
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if notes:
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": note}} for note in notes]
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "codeaudit",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": HOME,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "automationDetails": {"id": "codeaudit/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": [_result(p, index[p.finding.code]) for p in problems],
    }
    if check.target.repo.startswith("https://") and check.target.commit:
        run["versionControlProvenance"] = [{"repositoryUri": check.target.repo, "revisionId": check.target.commit}]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _within(problems: Sequence[Problem]) -> list[Problem]:
    if len(problems) <= MOST_RESULTS:
        return list(problems)
    rank = {"error": 0, "warning": 1, "note": 2}
    kept = sorted(
        range(len(problems)), key=lambda n: (bool(problems[n].silenced), rank[problems[n].finding.severity], n)
    )
    return [problems[n] for n in sorted(kept[:MOST_RESULTS])]


def _rule(rule: Rule) -> dict[str, Any]:
    tags = ["reproducibility", "reinforcement-learning", FAMILIES[rule.code[:3]]][:MOST_TAGS]
    help_ = rule_words(rule)
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.message[0].upper()}{rule.message[1:]}"},
        "fullDescription": {"text": rule.why},
        "help": {"text": help_, "markdown": help_},
        "helpUri": rule.source.partition(" ")[0].rstrip(","),
        "defaultConfiguration": {"level": rule.severity, "enabled": rule.default},
        "properties": {
            "tags": tags,
            "precision": PRECISION[rule.severity],
            "problem.severity": _severity(rule.severity),
        },
    }


def _severity(level: str) -> str:
    return {"error": "error", "warning": "warning", "note": "recommendation"}[level]


def _result(problem: Problem, index: int) -> dict[str, Any]:
    finding = problem.finding
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": f"{finding.message[0].upper()}{finding.message[1:]}."},
        "locations": [_location(finding.file, finding.line, problem.end_line)],
        "partialFingerprints": {IDENTITY: finding.fingerprint},
    }
    steps = [s for s in finding.evidence if ":" not in s.place.file]  # a dependency's file isn't in this repository
    if steps:
        flow = [{"location": _step(step)} for step in steps[:MOST_LOCATIONS]]
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if problem.silenced:
        suppression: dict[str, Any] = {
            "kind": "inSource" if problem.silenced == "comment" else "external",
            "status": "accepted",
        }
        suppression["justification"] = problem.reason or f"silenced by the {problem.silenced}"
        result["suppressions"] = [suppression]
    return result


def _step(step: Evidence) -> dict[str, Any]:
    return {**_location(step.place.file, step.place.line, step.place.line), "message": {"text": step.what}}


def _location(path: str, line: int, end_line: int) -> dict[str, Any]:
    region = {"startLine": max(1, line)}
    if end_line > line:
        region["endLine"] = end_line
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}


def _uri(path: str) -> str:
    """A relative URI reference; a first segment with a colon would read as a scheme."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/!$&'()*+,;=@-._~")
