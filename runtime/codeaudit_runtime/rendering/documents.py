"""The same report as Markdown or as one self-contained HTML page with its plots inside. Decides nothing."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from codeaudit.text import printable
from codeaudit_runtime.measurements import CheckpointMeasurement
from codeaudit_runtime.rendering.plots import checkpoint_svg
from codeaudit_runtime.rendering.tables import RULE_LEGEND, Table, comparison_lines, rule_table, verdict_table
from codeaudit_runtime.verify import Verified

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
.confirmed { color: #1a7f37; } .refuted { color: #cf222e; } .undecided { color: #9a6700; }
figure { margin: 1rem 0; background: #fff; border-radius: 6px; } svg { max-width: 100%; height: auto; }
footer { color: #888; margin-top: 2rem; }
"""


@dataclass(frozen=True)
class Section:
    """One checkpoint's part of a document."""

    measurement: CheckpointMeasurement
    verdicts: tuple[tuple[str, str, str], ...] = ()  # kind, word, sentence


@dataclass(frozen=True)
class Document:
    title: str
    summary: tuple[Table, ...]
    sections: tuple[Section, ...]
    protocol: str


def document_from_verified(title: str, verified: Sequence[Verified], protocol: str) -> Document:
    sections = tuple(
        Section(one.measurement, tuple((v.prediction, v.verdict, v.detail) for v in one.verdicts)) for one in verified
    )
    return Document(title, (verdict_table(verified),), sections, protocol)


def document_from_measured(title: str, measured: Sequence[CheckpointMeasurement], protocol: str) -> Document:
    return Document(title, (), tuple(Section(one) for one in measured), protocol)


def markdown_text(document: Document, plots: dict[str, str]) -> str:
    """Markdown; `plots` maps a checkpoint's id and place to the path of its plot, where it was written."""
    parts = [f"# {_md(document.title)}"]
    for table in document.summary:
        parts += [_md_table(table), *map(_md, table.legend)]
    for section in document.sections:
        one = section.measurement
        table = rule_table(one)
        parts += [f"## {_md(table.title)}", _md_table(table)]
        plot = plots.get(f"{one.rows.id} {one.rows.place}")
        if plot is not None:
            parts.append(f"![Returns of each rule, and paired differences](<{plot}>)")
        lines = [f"- **{kind}: {word}.** {_md(detail)}" for kind, word, detail in section.verdicts]
        lines += [f"- {_md(line)}" for line in (*comparison_lines(one), *one.rows.notes)]
        parts.append("\n".join(lines))
    parts += map(_md, RULE_LEGEND if document.sections else ())
    return "\n\n".join([*parts, _md(document.protocol)]) + "\n"


def html_text(document: Document) -> str:
    """One page with nothing outside it."""
    body = [f"<h1>{_h(document.title)}</h1>"]
    for table in document.summary:
        body += [_html_table(table), *(f"<p><small>{_h(line)}</small></p>" for line in table.legend)]
    for section in document.sections:
        one = section.measurement
        table = rule_table(one)
        body += [
            f"<h2>{_h(table.title)}</h2>",
            _html_table(table),
            f"<figure>{checkpoint_svg(one)}</figure>",
        ]
        items = [
            f'<li><b class="{word}">{kind}: {word}</b> {_h(detail)}</li>' for kind, word, detail in section.verdicts
        ]
        items += [f"<li>{_h(line)}</li>" for line in (*comparison_lines(one), *one.rows.notes)]
        body.append(f"<ul>{''.join(items)}</ul>")
    body += [f"<p><small>{_h(line)}</small></p>" for line in (RULE_LEGEND if document.sections else ())]
    body.append(f"<footer>{_h(document.protocol)}</footer>")
    title, content = _h(document.title), "\n".join(body)
    meta = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    head = f"<head>{meta}<style>{STYLE}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>\n{content}\n</body></html>\n'


def _md(text: str) -> str:
    """Text that Markdown shows as it is."""
    shown = html.escape(printable(text), quote=False)
    for mark in "\\`*_[]|":
        shown = shown.replace(mark, f"\\{mark}")
    return shown


def _h(text: str) -> str:
    return html.escape(printable(text))


def _md_table(table: Table) -> str:
    lines = [_md_row(table.columns), "|" + " --- |" * len(table.columns), *(_md_row(row) for row in table.rows)]
    return "\n".join(lines)


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{_h(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{_h(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
