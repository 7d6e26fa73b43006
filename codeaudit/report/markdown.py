"""The scan report as Markdown, to attach to a review or an issue. Shows the same as the terminal report, no more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit import __version__
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.report import words
from codeaudit.report.layout import LineView, Step, excerpt, lines
from codeaudit.report.links import blob_url
from codeaudit.scan import Scan
from codeaudit.text import printable


def scan_to_markdown(scan: Scan) -> str:
    """The whole report. Text of the audited repository is escaped: it can't add links, HTML or headings."""
    return "\n".join(_parts(scan)) + "\n"


def _parts(scan: Scan) -> Iterator[str]:
    yield f"# Evaluation sites of {_plain(scan.target.repo)}"
    yield ""
    state = " and the files of the working tree as they are" if scan.target.dirty else ""
    yield f"Commit `{scan.target.commit or 'none yet'}`{state}, read by codeaudit {__version__}."
    yield ""
    yield f"**{words.verdict(scan.summary, scan.sites)}**"
    views = lines(scan.sites)
    if views:
        yield from ("", "| # | call | rule | whose choice | procedure | role | agent |", "|" + "---|" * 7)
        for view in views:
            for site in view.sites:
                yield f"| {site.number} | {_place(scan, view.place)} | {_row(site.site)} |"
    for view in views:
        yield ""
        yield from _line(scan, view)
    if scan.notes:
        yield from ("", "## Notes", "", *(f"- {_plain(note)}" for note in scan.notes))
    if scan.skipped:
        yield from ("", "## Left out", "")
        yield from (
            f"- {_plain(reason)}: {', '.join(map(_code, places))}" for reason, places in words.skipped_words(scan)
        )
    if scan.predictions:
        yield from ("", f"Predictions that a run could test: {words.prediction_words(scan.predictions)}.")


def _row(site: EvaluationSite) -> str:
    whose = words.PROVENANCE[site.provenance].partition(":")[0]
    said = (
        words.rule_words(site),
        whose,
        words.PROCEDURE[site.procedure],
        words.ROLE[site.role],
        words.AGENT[site.agent],
    )
    return " | ".join(said)


def _line(scan: Scan, view: LineView) -> Iterator[str]:
    numbers = ", ".join(str(site.number) for site in view.sites)
    function = "module level" if view.function == "<module>" else f"in {_code(view.function)}"
    yield f"## {numbers}. {_place(scan, view.place)} {function}"
    yield ""
    yield from _steps(scan, view.shared)
    for site_view in view.sites:
        site = site_view.site
        confidence = "" if site.confidence == "high" else f" ({site.confidence} confidence)"
        yield f"**{words.rule_words(site)}**, {words.PROVENANCE[site.provenance]}{confidence}."
        if site.unknown:
            yield f"Not decided: {_plain(site.unknown)}."
        if site.corrected:
            yield f"Set by a comment in the code: {_plain(site.corrected)}."
        yield ""
        yield from _steps(scan, site_view.steps)


def _steps(scan: Scan, steps: tuple[Step, ...]) -> Iterator[str]:
    for place, what in steps:
        yield f"- {_place(scan, place)} {_plain(what)}"
        shown = excerpt(scan, place)
        if shown:
            source = [f"{number} {text}" for number, text in shown]
            fence = "`" * max(3, 1 + max(map(_longest_backticks, source)))
            language = "python" if place.file.endswith(".py") else ""
            yield from ("", f"  {fence}{language}", *(f"  {line}" for line in source), f"  {fence}", "")
    if steps:
        yield ""


def _place(scan: Scan, place: Place) -> str:
    shown = _code(words.place_words(place))
    url = blob_url(scan.target, place)
    return f"[{shown}](<{url}>)" if url else shown


def _code(text: str) -> str:
    """A code span that holds `text` whatever backticks and pipes are in it."""
    text = printable(text).replace("|", "\\|")
    fence = "`" * (1 + _longest_backticks(text))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _plain(text: str) -> str:
    """Prose with nothing in it that Markdown would read."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", printable(text))


def _longest_backticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
