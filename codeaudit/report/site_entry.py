"""The site's page of one entry: record and evidence in context, what was printed, what a run measured. Shows only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.registry.check import Checked
from codeaudit.registry.comparison import SiteComparison
from codeaudit.report import words
from codeaudit.report.grid import Cell, cell_html
from codeaudit.report.registry_tables import TONE, place_url, site_remarks
from codeaudit.report.site_look import page
from codeaudit.report.site_plots import returns_plot
from codeaudit.text import printable

_CONTEXT = 3  # lines above and below a place
_VERDICT_TONE = {"confirmed": "good", "refuted": "bad", "undecided": "faint"}


def entry_page(one: Checked, run: Mapping[str, Any] | None) -> str:
    """The whole page. Text of the audited repository is escaped."""
    return page(f"{one.entry.title} · codeaudit registry", "\n".join(_body(one, run)), root="../")


def _body(one: Checked, run: Mapping[str, Any] | None) -> Iterator[str]:
    entry, record = one.entry, one.entry.classification
    yield '<nav><a href="../index.html">All codebases</a></nav>'
    yield f"<h1>{_text(entry.title)}</h1>"
    if record:
        sites = [item.site for item in record.sites]
        yield f'<p class="strong">{_text(words.verdict(record.summary, sites))}</p>'
    yield "<dl>"
    for name, value in _facts(one):
        yield f"<dt>{name}</dt><dd>{value}</dd>"
    yield "</dl>"
    if record and record.note:
        yield f"<p>{_text(record.note)}</p>"
    yield from _published(one)
    yield from _sites(one)
    if run is not None:
        yield from _run_or_trouble(run)
    if entry.notes:
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{_text(note)}</li>" for note in entry.notes) + "</ul>"
    yield "<h2>Look for yourself</h2>"
    yield f"<pre><span>codeaudit registry check {escape(entry.id)}</span>"
    yield f"<span>codeaudit scan {escape(f'{entry.slug}@{entry.commit}')}</span></pre>"


def _facts(one: Checked) -> Iterator[tuple[str, str]]:
    entry = one.entry
    if entry.venue:
        yield "venue", _link(entry.paper, entry.venue) if entry.paper else _text(entry.venue)
    yield "repository", f"{_link(entry.url, entry.slug)} at commit <code>{escape(entry.commit)}</code>"
    for item in entry.dependencies:
        why = f", {_text(item.why)}" if item.why else ""
        yield (
            "dependency",
            f"{_text(item.name)}: {_link(item.url, item.url)} at <code>{escape(item.commit[:12])}</code>{why}",
        )
    state = "checked against the code" if entry.reviewed else '<span class="doubt">unreviewed draft</span>'
    if entry.classification and not entry.classification.complete:
        state += "; the sites are a selection"
    yield "record", state
    yield "fresh scan", _outcome(one)


def _outcome(one: Checked) -> str:
    if one.comparison is None:
        return f'<span class="bad">failed</span>: {_text(one.failure)}'
    tone = "good" if one.outcome == "agrees" else "faint" if one.outcome == "nothing on record" else "bad"
    said = f'<span class="{tone}">{one.outcome}</span>'
    remarks = [f"{item.what}: record {item.recorded}, scan {item.found}" for item in one.comparison.summary]
    remarks += one.notes
    return said + "".join(f"<br>{_text(remark)}" for remark in remarks)


def _published(one: Checked) -> Iterator[str]:
    printed = one.entry.published
    if printed is None:
        return
    yield "<h2>What was published</h2>"
    yield f"<p>{_text(printed.source)} prints:</p><dl>"
    rows = (
        ("commit", printed.commit),
        ("evidence", printed.evidence),
        ("stochastic", printed.stochastic),
        ("in-loop", printed.in_loop),
    )
    yield "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in rows if value) + "</dl>"
    if printed.differences:
        yield "<p>The code says otherwise in this:</p><ul>"
        yield "".join(f'<li class="doubt">{_text(item)}</li>' for item in printed.differences) + "</ul>"
    if one.comparison and one.comparison.printed:
        yield '<table class="cards"><thead><tr><th>printed</th><th>status</th><th>what the code says</th></tr></thead>'
        yield "<tbody>"
        for item in one.comparison.printed:
            tone = "doubt" if item.status in ("moved", "not found") else TONE[item.status]
            yield (
                f'<tr><td data-label="printed"><code>{_text(item.printed)}</code></td>'
                f'<td data-label="status"><span class="{tone}">{item.status}</span></td>'
                f'<td data-label="the code">{_text(item.detail)}</td></tr>'
            )
        yield "</tbody></table>"


def _sites(one: Checked) -> Iterator[str]:
    record = one.entry.classification
    if record is None:
        return
    yield f"<h2>{words.count(len(record.sites), 'evaluation site')} on record</h2>"
    compared = {site.id: site for site in one.comparison.sites if site.recorded} if one.comparison else {}
    for item in record.sites:
        yield from _site(one, item.site, item.note, compared.get(item.site.id))
    extra = [site for site in one.comparison.sites if site.recorded is None] if one.comparison else []
    if extra:
        yield "<h2>Found by the scan, not on record</h2><ul>"
        for site in extra:
            assert site.found is not None
            place = Place(site.found.file, site.found.line)
            yield f"<li>{_place(one, place)} {_text('; '.join(site_remarks(site)))}</li>"
        yield "</ul>"


def _site(one: Checked, site: EvaluationSite, note: str, compared: SiteComparison | None) -> Iterator[str]:
    place = Place(site.file, site.line)
    badge = f' <span class="badge {TONE[compared.status]}">scan {compared.status}</span>' if compared else ""
    function = "module level" if site.function == "<module>" else _text(site.function)
    yield f'<section id="{escape(site.id)}"><h3>{_place(one, place)} <span class="faint">{function}</span>{badge}</h3>'
    classes = (words.rule_words(site), words.ROLE[site.role], words.PROCEDURE[site.procedure], words.AGENT[site.agent])
    yield f"<div><span class=strong>{escape(classes[0])}</span> · {escape(' · '.join(classes[1:]))}</div>"
    yield f'<div class="faint">{escape(words.PROVENANCE[site.provenance])}</div>'
    yield "<ol>"
    for step, what in words.steps(site):
        yield f"<li>{_place(one, step)} {_text(what)}{_context(one, step)}</li>"
    yield "</ol>"
    if note:
        yield f"<p>{_text(note)}</p>"
    remarks = site_remarks(compared) if compared else []
    if remarks:
        yield '<ul class="doubt">' + "".join(f"<li>{_text(remark)}</li>" for remark in remarks) + "</ul>"
    yield "</section>"


def _context(one: Checked, place: Place) -> str:
    shown = [(number, printable(text.expandtabs(4))) for number, text in one.lines.around(place, _CONTEXT)]
    if not any(number == place.line for number, _ in shown):
        return ""
    margin = min((len(text) - len(text.lstrip()) for _, text in shown if text.strip()), default=0)
    digits = len(str(shown[-1][0]))
    rows = []
    for number, text in shown:
        here = ' class="here"' if number == place.line else ""
        rows.append(f"<span{here}><i>{number:>{digits}}</i>  {escape(text[margin:])}</span>")
    return f"<pre>{''.join(rows)}</pre>"


def _run_or_trouble(run: Mapping[str, Any]) -> list[str]:
    try:
        return list(_run(run))
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # of another version, or edited by hand
        return [f"<p>The report of its verification can't be shown: it lacks {_text(str(error))}.</p>"]


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    plan = run["plan"]
    episodes = len(plan["draws"]) * plan["episodes_per_draw"]
    yield "<h2>Re-executed checkpoints</h2>"
    yield (
        f"<p>Each action rule over {episodes} episodes ({len(plan['draws'])} draws), with 95% intervals. The dashed "
        "line is the published mean; uniform_random is the floor.</p>"
    )
    for one in run["checkpoints"]:
        yield f"<section><h3>{_text(str(one['id']))} <span class='faint'>{_text(str(one['environment']))}</span></h3>"
        yield returns_plot(one)
        yield "<ul>"
        for verdict in one["verdicts"]:
            tone = _VERDICT_TONE.get(verdict["verdict"], "")
            said = f'<span class="{tone}">{_text(verdict["verdict"])}</span>'
            yield f"<li><code>{_text(verdict['prediction'])}</code> {said}: {_text(verdict['detail'])}</li>"
        yield "</ul></section>"


def _place(one: Checked, place: Place) -> str:
    return f"<code>{cell_html(Cell(words.place_words(place), '', place_url(one.entry, place)))}</code>"


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}">{_text(text)}</a>'


def _text(text: str) -> str:
    return escape(printable(text))
