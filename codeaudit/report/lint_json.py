"""The check report as JSON: our own contract `codeaudit.check/1`, and GitLab's code-quality report. Not for people."""

from __future__ import annotations

from typing import Any

from codeaudit import __version__
from codeaudit.lint.run import Check, Problem
from codeaudit.rules.base import Rule

SCHEMA = "codeaudit.check/1"
GITLAB_SEVERITY = {"error": "major", "warning": "minor", "note": "info"}


def check_to_json(check: Check) -> dict[str, Any]:
    """The report as plain data; everything but `statistics` is the same for every run on the same files."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "codeaudit", "version": __version__},
        "target": check.target.to_json(),
        "rules": [rule.code for rule in check.rules],
        "findings": [_problem(p) for p in check.open],
        "silenced": [{**_problem(p), "by": p.silenced, "reason": p.reason} for p in check.problems if p.silenced],
        "notes": list(check.notes),
        "skipped": [item.to_json() for item in check.skipped],
        "statistics": check.statistics.to_json(),
    }


def _problem(problem: Problem) -> dict[str, Any]:
    fix = None if problem.edit is None else {"safe": problem.edit.safe}
    return {**problem.finding.to_json(), "rule": problem.rule.name, "end_line": problem.end_line, "fix": fix}


def gitlab(check: Check) -> list[dict[str, Any]]:
    """GitLab's code-quality report, whose fingerprints must be unique."""
    return [
        {
            "description": f"{p.finding.code}: {p.finding.message}",
            "check_name": p.finding.code,
            "fingerprint": p.finding.fingerprint,
            "severity": GITLAB_SEVERITY[p.finding.severity],
            "location": {"path": p.finding.file, "lines": {"begin": p.finding.line, "end": p.end_line}},
        }
        for p in check.open
    ]


def rules_to_json(rules: tuple[Rule, ...]) -> list[dict[str, Any]]:
    """What there is to know of each rule, examples included."""
    names = ("code", "name", "message", "why", "source", "severity", "default", "fixable", "experiment")
    return [
        {
            **{name: getattr(rule, name) for name in names},
            "good": [dict(e) for e in rule.good],
            "bad": [dict(e) for e in rule.bad],
        }
        for rule in rules
    ]
