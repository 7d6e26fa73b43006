"""What stands together in a report: sites that share a line, and the evidence they share. No format, no colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.report.words import steps
from codeaudit.scan import Scan
from codeaudit.text import printable

Step = tuple[Place, str]


@dataclass(frozen=True)
class SiteView:
    """One site with the steps that it does not share with its neighbours on the line."""

    number: int  # counts from 1 through the whole report
    site: EvaluationSite
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class LineView:
    """All sites of one line of code, and the evidence that is the same for each of them."""

    place: Place
    function: str
    shared: tuple[Step, ...]
    sites: tuple[SiteView, ...]


def lines(sites: Sequence[EvaluationSite]) -> list[LineView]:
    """The sites grouped by the line on which their call begins, in the order of the report."""
    views: list[LineView] = []
    number = 0
    for (file, line), group in groupby(sites, key=lambda site: (site.file, site.line)):
        members = list(group)
        chains = [steps(site) for site in members]
        shared = [step for step in chains[0] if all(step in chain for chain in chains[1:])] if members[1:] else []
        numbered = []
        for site, chain in zip(members, chains, strict=True):
            number += 1
            numbered.append(SiteView(number, site, tuple(step for step in chain if step not in shared)))
        views.append(LineView(Place(file, line), members[0].function, tuple(shared), tuple(numbered)))
    return views


def excerpt(scan: Scan, place: Place) -> list[tuple[int, str]]:
    """The source lines to show at a step: (line number, text), dedented; no more than the statement there has."""
    numbered = []
    depth = 0
    for number, raw in enumerate(scan.excerpts.get(place, ()), place.line):
        text = printable(raw.rstrip().expandtabs(4))
        numbered.append((number, text))
        depth += _brackets_opened(text)
        if depth <= 0 and not text.endswith("\\"):
            break
    while numbered and not numbered[-1][1].strip():
        numbered.pop()
    indents = [len(text) - len(text.lstrip()) for _, text in numbered if text.strip()]
    margin = min(indents, default=0)
    return [(number, text[margin:]) for number, text in numbered]


def _brackets_opened(text: str) -> int:
    """How many brackets of a line stay open. Strings count too: this decides what is shown and nothing else."""
    return sum(text.count(bracket) for bracket in "([{") - sum(text.count(bracket) for bracket in ")]}")
