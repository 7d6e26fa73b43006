"""A person's word on a site: `# codeaudit: site rule=greedy reason` on its line or the line above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from codeaudit.evaluation import sites as s
from codeaudit.evaluation.sites import EvaluationSite
from codeaudit.facts.tree import Correction

ALLOWED: dict[str, tuple[str, ...]] = {
    "rule": get_args(s.ActionRule),
    "provenance": get_args(s.Provenance),
    "procedure": get_args(s.Procedure),
    "role": get_args(s.Role),
    "agent": get_args(s.Agent),
}


def correct(
    sites: Sequence[EvaluationSite], corrections: Mapping[str, Sequence[Correction]]
) -> tuple[list[EvaluationSite], list[str]]:
    """The sites with corrections applied, and a sentence for every correction that fits nothing."""
    out = list(sites)
    notes: list[str] = []
    for path, found in sorted(corrections.items()):
        for correction in found:
            where = f"{path}:{correction.line}"
            if correction.word != "site":
                notes.append(
                    f"{where}: `codeaudit: {correction.word}` isn't known; write `codeaudit: site` to set a class"
                )
                continue
            if not correction.settings:
                notes.append(
                    f"{where}: this correction sets nothing; write one of {', '.join(ALLOWED)}, as in `rule=greedy`"
                )
                continue
            changes: dict[str, Any] = {}
            for name, value in correction.settings:
                if name not in ALLOWED or value not in ALLOWED[name]:
                    known = ", ".join(ALLOWED.get(name, tuple(ALLOWED)))
                    notes.append(f"{where}: `{name}={value}` isn't known; use one of {known}")
                else:
                    changes[name] = value
            hit = [i for i, site in enumerate(out)
                   if site.file == path and site.line - 1 <= correction.line <= site.end_line]  # fmt: skip
            if not hit:
                notes.append(f"{where}: this correction stands beside no evaluation site")
            for i in hit:
                if changes:
                    reason = correction.reason or "no reason given"
                    said = {**_undone(out[i], changes), **changes}
                    out[i] = replace(out[i], corrected=reason, confidence="high", unknown="", **said)
    return out, notes


def _undone(site: EvaluationSite, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What the scan said of its own rule, and no longer holds under another one."""
    if changes.get("rule", site.rule) == site.rule:
        return {}
    return {"provenance": "unknown", "epsilon": None, "default_site": None, "sink": None}
