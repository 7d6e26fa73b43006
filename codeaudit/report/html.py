"""The scan report as one HTML page without external parts, for a browser. Shows the same as the terminal report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from codeaudit import __version__
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.report import words
from codeaudit.report.layout import LineView, Step, excerpt, lines
from codeaudit.report.links import blob_url
from codeaudit.scan import Scan
from codeaudit.text import printable

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --faint: #5b6472; --page: #ffffff; --card: #f6f7f9; --edge: #d9dee5;
  --link: #0b5cad; --rule: #7a2a8c; --unknown: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --faint: #9aa4b2; --page: #14181f; --card: #1c222c;
  --edge: #323b49; --link: #7db8f5; --rule: #d79be6; --unknown: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 0 0 .3rem; }
.faint { color: var(--faint); } .verdict { font-size: 1.1rem; font-weight: 600; }
a { color: var(--link); } code, pre { font: .85rem/1.45 ui-monospace, monospace; }
section { border: 1px solid var(--edge); border-radius: .5rem; background: var(--card);
  padding: .9rem 1rem; margin: 1rem 0; }
.rule { color: var(--rule); font-weight: 600; } .unknown { color: var(--unknown); }
ol { padding-left: 1.3rem; margin: .5rem 0; } li { margin: .35rem 0; }
pre { margin: .25rem 0; overflow-x: auto; padding: .4rem .6rem; border-left: 3px solid var(--edge);
  background: var(--page); overflow-wrap: normal; }
pre span { color: var(--faint); user-select: none; }
.site { margin-top: .6rem; }
"""


def scan_to_html(scan: Scan) -> str:
    """The whole page. Text of the audited repository is escaped; no script, nothing is loaded from elsewhere."""
    body = "\n".join(_body(scan))
    title = escape(f"Evaluation sites of {printable(scan.target.repo)}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _body(scan: Scan) -> Iterator[str]:
    state = " and the files of the working tree as they are" if scan.target.dirty else ""
    yield f"<h1>Evaluation sites of {_text(scan.target.repo)}</h1>"
    commit = escape(scan.target.commit or "none yet")
    yield f'<p class="faint">commit <code>{commit}</code>{state}, read by codeaudit {__version__}</p>'
    yield f'<p class="verdict">{_text(words.verdict(scan.summary, scan.sites))}</p>'
    if scan.sites:
        yield f'<p class="faint">{_text(words.sites_words(scan.sites))}</p>'
    for view in lines(scan.sites):
        yield from _line(scan, view)
    if scan.notes:
        yield from _list("Notes", (_text(note) for note in scan.notes))
    if scan.skipped:
        rows = (
            f"{_text(reason)}: " + ", ".join(f"<code>{escape(place)}</code>" for place in places)
            for reason, places in words.skipped_words(scan)
        )
        yield from _list("Left out", rows)
    if scan.predictions:
        said = words.prediction_words(scan.predictions)
        yield f'<p class="faint">Predictions that a run could test: {_text(said)}.</p>'


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    yield f"<section><h2>{title}</h2><ul>"
    yield from (f"<li>{item}</li>" for item in items)
    yield "</ul></section>"


def _line(scan: Scan, view: LineView) -> Iterator[str]:
    function = "module level" if view.function == "<module>" else _text(view.function)
    numbers = ", ".join(str(site.number) for site in view.sites)
    anchor = view.sites[0].number
    heading = f'{numbers}. {_place(scan, view.place)} <span class="faint">{function}</span>'
    yield f'<section id="site-{anchor}"><h2>{heading}</h2>'
    yield from _steps(scan, view.shared)
    for site_view in view.sites:
        yield f'<div class="site">{_classes(site_view.site)}</div>'
        yield from _steps(scan, site_view.steps)
    yield "</section>"


def _classes(site: EvaluationSite) -> str:
    def said(text: str, known: bool, style: str = "") -> str:
        style = style if known else "unknown"
        return f'<span class="{style}">{escape(text)}</span>' if style else escape(text)

    classes = (
        said(words.rule_words(site), site.rule != "unknown", "rule"),
        said(words.ROLE[site.role], site.role != "unknown"),
        said(words.PROCEDURE[site.procedure], site.procedure != "unknown"),
        said(words.AGENT[site.agent], True),
    )
    confidence = "" if site.confidence == "high" else f' <span class="faint">({site.confidence} confidence)</span>'
    parts = [" · ".join(classes), said(words.PROVENANCE[site.provenance], site.provenance != "unknown") + confidence]
    if site.unknown:
        parts.append(f'<span class="unknown">not decided:</span> {_text(site.unknown)}')
    if site.corrected:
        parts.append(f"set by a comment in the code: {_text(site.corrected)}")
    return "<br>".join(parts)


def _steps(scan: Scan, steps: tuple[Step, ...]) -> Iterator[str]:
    if not steps:
        return
    yield "<ol>"
    for place, what in steps:
        shown = excerpt(scan, place)
        rows = "\n".join(f"<span>{number}</span> {escape(text)}" for number, text in shown)
        code = f"<pre>{rows}</pre>" if shown else ""
        yield f"<li>{_place(scan, place)} {_text(what)}{code}</li>"
    yield "</ol>"


def _place(scan: Scan, place: Place) -> str:
    shown = f"<code>{escape(words.place_words(place))}</code>"
    url = blob_url(scan.target, place)
    return f'<a href="{escape(url)}">{shown}</a>' if url else shown


def _text(text: str) -> str:
    return escape(printable(text))
