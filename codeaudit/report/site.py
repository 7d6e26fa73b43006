"""The registry as a static web site: an overview that sorts and filters, and a page for each entry. Shows only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.registry.check import Checked
from codeaudit.registry.fieldwide import Row, Totals, field_rows, field_totals
from codeaudit.report import words
from codeaudit.report.grid import Cell, cell_html
from codeaudit.report.registry_tables import RULE, SET_BY, evidence_grid
from codeaudit.report.site_entry import entry_page
from codeaudit.report.site_look import SCRIPT, STYLE, page
from codeaudit.text import printable

# filter → what it says; a row that has no class of this name is hidden while the filter is on
_FILTERS = {
    "heldout": "held-out evaluation",
    "sampled": "sampled",
    "default": "nobody set the rule",
    "in-loop": "in-loop",
    "differs": "evidence differs from the publication",
    "scan-differs": "scan and record disagree",
    "verified": "checkpoints re-executed",
}


def write_site(folder: Path, results: Sequence[Checked], runs: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Write the site; the files written. The same entries, scans and runs give the same bytes. UserError for a disk."""
    pages = {"index.html": overview_page(results, runs), "style.css": _style(results), "sort.js": SCRIPT}
    for one in results:
        pages[f"entries/{one.entry.id}.html"] = entry_page(one, runs.get(one.entry.id))
    written = []
    try:
        (folder / "entries").mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            path = folder / name
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
            written.append(path)
    except OSError as error:
        raise UserError(
            f"cannot write {printable(str(folder))}: {error.strerror}", hint="choose another folder"
        ) from None
    return written


def _style(results: Sequence[Checked]) -> str:
    names = [*_FILTERS, *(f"in-{name}" for name in _collections(results))]
    rules = "".join(
        f"body:has(#f-{name}:checked) .overview tbody tr:not(.{name}) {{ display: none; }}\n" for name in names
    )
    return STYLE + rules


def _collections(results: Sequence[Checked]) -> list[str]:
    """The collections, as far as a style sheet can name them."""
    names = {one.entry.collection for one in results}
    return sorted(name for name in names if name and name.replace("-", "").isalnum() and name.isascii())


def overview_page(results: Sequence[Checked], runs: Mapping[str, Mapping[str, Any]]) -> str:
    """The first page."""
    rows = field_rows([one.entry for one in results])
    return page("codeaudit registry", "\n".join(_body(results, rows, runs)), script=True)


def _body(results: Sequence[Checked], rows: Sequence[Row], runs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    totals = field_totals(rows)
    yield "<h1>Which policy do reported test returns measure?</h1>"
    yield (
        "<p>A reinforcement-learning codebase reports a test return. Was each action sampled, or the most likely one? "
        "Did anybody choose that? Was the checkpoint held fixed? For every codebase below, the answer rests on lines "
        "of code at a pinned commit, which a fresh scan checks.</p>"
    )
    yield from _figures(totals)
    yield "<h2>Codebases</h2>"
    yield from _filters(results, rows, runs)
    yield from _overview(results, rows, runs)
    yield from _evidence(rows)


def _figures(totals: Totals) -> Iterator[str]:
    figures = (
        (totals.codebases, "codebases"),
        (totals.heldout, "evaluate on held-out levels or a separate test environment"),
        (totals.sampled, "of these sample their actions"),
        (totals.by_default, "sample because nobody set the rule"),
        (totals.training_sampler, "sample because training's own draw is reused"),
        (totals.in_loop, "measure in-loop, across policy versions"),
    )
    yield '<ul class="figures">'
    yield from (f"<li><b>{number}</b><span>{said}</span></li>" for number, said in figures)
    yield "</ul>"


def _filters(results: Sequence[Checked], rows: Sequence[Row], runs: Mapping[str, Any]) -> Iterator[str]:
    by_id = {row.entry.id: row for row in rows}
    classes = [_classes(one, by_id.get(one.entry.id), runs) for one in results]
    yield "<fieldset><legend>show only</legend>"
    named = {**_FILTERS, **{f"in-{name}": f"collection {name}" for name in _collections(results)}}
    for name, said in named.items():
        count = sum(name in own for own in classes)
        if count:
            box = f'<input type="checkbox" id="f-{name}">'
            yield f'<label>{box} {escape(said)} <span class="faint">{count}</span></label>'
    yield "</fieldset>"


def _classes(one: Checked, row: Row | None, runs: Mapping[str, Any]) -> list[str]:
    entry = one.entry
    own = [f"in-{entry.collection}"] if entry.collection else []
    if row:
        own += ["heldout"] if row.heldout else []
        own += ["sampled"] if row.rule == "sampled" else []
        own += ["default"] if row.by_default else []
        own += ["in-loop"] if row.in_loop else []
    own += ["differs"] if entry.published and entry.published.differences else []
    own += ["scan-differs"] if one.outcome == "disagrees" else []
    own += ["verified"] if entry.id in runs else []
    return own


def _overview(results: Sequence[Checked], rows: Sequence[Row], runs: Mapping[str, Any]) -> Iterator[str]:
    by_id = {row.entry.id: row for row in rows}
    columns = (
        "codebase",
        "venue",
        "held-out",
        "action rule",
        "set by",
        "in-loop",
        "sites",
        "fresh scan",
        "publication",
    )
    yield '<table class="cards sorts overview"><thead><tr>'
    yield "".join(f"<th>{column}</th>" for column in columns) + "</tr></thead><tbody>"
    for one in results:
        row = by_id.get(one.entry.id)
        cells = _cells(one, row)
        own = " ".join(_classes(one, row, runs))
        shown = "".join(
            f'<td data-label="{name}">{cell_html(cell)}</td>' for name, cell in zip(columns, cells, strict=True)
        )
        yield f'<tr class="{escape(own)}">{shown}</tr>'
    yield "</tbody></table>"


def _cells(one: Checked, row: Row | None) -> list[Cell]:
    entry = one.entry
    outcome = {"agrees": "good", "disagrees": "bad", "failed": "bad"}.get(one.outcome, "faint")
    agreeing = sum(site.status in ("agrees", "moved") for site in one.comparison.sites) if one.comparison else 0
    recorded = len(entry.classification.sites) if entry.classification else 0
    printed = entry.published
    differs = "" if printed is None else "evidence differs" if printed.differences else "evidence agrees"
    return [
        Cell(entry.title, "strong", f"entries/{entry.id}.html"),
        Cell(entry.venue),
        Cell("yes" if row and row.heldout else "no"),
        Cell(RULE[row.rule] if row else ""),
        Cell(", ".join(SET_BY[name] for name in row.provenances) if row else ""),
        Cell(("yes" if row.in_loop else "no") if row and row.heldout else "n/a"),
        Cell(str(recorded)),
        Cell(f"{one.outcome} ({agreeing}/{recorded})" if one.comparison else one.outcome, outcome),  # type: ignore[arg-type]
        Cell(differs, "doubt" if printed and printed.differences else "faint"),
    ]


def _evidence(rows: Sequence[Row]) -> Iterator[str]:
    printed = [row for row in rows if row.entry.published]
    if not printed:
        return
    grid = evidence_grid(printed)
    yield "<h2>The lines that decide, on record and as published</h2>"
    yield '<table class="cards"><thead><tr>' + "".join(f"<th>{escape(name)}</th>" for name in grid.columns)
    yield "</tr></thead><tbody>"
    for row, cells in zip(printed, grid.rows, strict=True):
        first = Cell(cells[0].text, "strong", f"entries/{row.entry.id}.html")
        shown = "".join(
            f'<td data-label="{escape(name)}">{cell_html(cell)}</td>'
            for name, cell in zip(grid.columns, (first, *cells[1:]), strict=True)
        )
        yield f"<tr>{shown}</tr>"
    yield "</tbody></table>"
    yield from (f'<p class="faint">{_text(note)}</p>' for note in grid.notes)
    yield f'<p class="faint">{words.count(len(printed), "entry", "entries")} with published evidence.</p>'


def _text(text: str) -> str:
    return escape(printable(text))
