"""The report on a terminal, as Markdown and as one HTML page. Renders; decides nothing."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table as RichTable

from codeaudit.text import printable
from codeaudit_runtime.variation.analysis import Analysis
from codeaudit_runtime.variation.loading import Loaded
from codeaudit_runtime.variation.tables import Table, tables
from codeaudit_runtime.variation.terminal_plot import MARKS, OTHERS, Canvas, curves_canvas, strips
from codeaudit_runtime.variation.words import method_lines, note_lines, reading

MARK_COLOURS = {MARKS[0]: "bold dark_orange", MARKS[1]: "bold", MARKS[2]: "bold dodger_blue2", OTHERS: "dim"}
SHORT_NAME = 10  # letters of a task or algorithm that stay on one line
SHORT_HEAD = 7  # letters; a longer head of a column goes on two lines
CURVES_UP_TO = 3  # groups whose curves fit a terminal; more get one line each
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; white-space: nowrap; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #8884; }
th.name, td.name { text-align: left; }
figure { margin: 1rem 0; background: #fff; border-radius: 6px; } svg { max-width: 100%; height: auto; }
footer { color: #777; margin-top: 2rem; }
"""


def print_report(analysis: Analysis, loaded: Loaded, file: IO[str], *, quiet: bool, plot: bool) -> None:
    """Tables, a plot where asked, the reading, the method and notes; `quiet` prints the first table only."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, width=200)
    first, *others = tables(analysis)
    _print_table(console, first)
    if quiet:
        return
    for table in others:
        console.print()
        _print_table(console, table)
    if plot:
        _print_plot(console, analysis)
    for title, lines in _sections(analysis, loaded):
        console.print(f"\n[bold]{title}[/]")
        for line in lines:
            console.print(f"  {escape(printable(line))}", soft_wrap=not console.is_terminal)


def _print_plot(console: Console, analysis: Analysis) -> None:
    groups = analysis.groups
    width = max(30, min(console.width, 100) - 14)
    if len(groups) <= CURVES_UP_TO:
        canvases: list[Canvas] = [curves_canvas(group, width=width) for group in groups]
    else:
        canvases = [strips(groups)]
    for canvas in canvases:
        console.print(f"\n[bold]{escape(printable(canvas.title))}[/]")
        for line in canvas.lines:
            console.print(_coloured(line), soft_wrap=True)
        console.print(escape(printable(canvas.key)), soft_wrap=True)


def _coloured(line: str) -> str:
    shown = escape(printable(line))
    for mark, style in MARK_COLOURS.items():
        shown = shown.replace(mark, f"[{style}]{mark}[/]")
    return shown


def _print_table(console: Console, table: Table) -> None:
    """In a narrow terminal without rules; names fold where they must, numbers always stay whole."""
    shown = RichTable(title=escape(table.title), title_justify="left", show_edge=False, pad_edge=False)
    for index, title in enumerate(table.columns):
        head = title if len(title) <= SHORT_HEAD else title.replace(" ", "\n", 1)
        widest = max(len(line) for line in (*head.split("\n"), *(printable(row[index]) for row in table.rows)))
        if index < table.left:
            shown.add_column(escape(head), overflow="fold", min_width=min(widest, SHORT_NAME))
        else:
            shown.add_column(escape(head), no_wrap=True, justify="right", min_width=widest)
    for row in table.rows:
        shown.add_row(*(escape(printable(cell)) for cell in row))
    unbounded = console.options.update(max_width=1000)
    if Measurement.get(console, unbounded, shown).minimum > console.width:
        shown.box, shown.padding = None, (0, 1)
    if Measurement.get(console, unbounded, shown).minimum > console.width:
        for column in shown.columns:
            column.no_wrap = True  # or Rich takes the width of the names to nothing
    needed = Measurement.get(console, unbounded, shown).minimum
    console.print(shown, width=max(needed, console.width), crop=False)


def _sections(analysis: Analysis, loaded: Loaded) -> list[tuple[str, list[str]]]:
    return [
        ("Reading", reading(analysis)),
        ("How the numbers were made", method_lines(analysis)),
        ("Files and notes", note_lines(analysis, loaded)),
    ]


def markdown_text(analysis: Analysis, loaded: Loaded, plots: Sequence[Path] = ()) -> str:
    """Markdown; `plots` are pictures that have been written, linked as they were named."""
    parts = ["# Performance variation", *(_md_table(table) for table in tables(analysis))]
    parts += [f"![{path.stem}](<{_md_path(path)}>)" for path in plots]
    for title, lines in _sections(analysis, loaded):
        parts.append(f"## {title}\n\n" + "\n".join(f"- {_md(line)}" for line in lines))
    return "\n\n".join(parts) + "\n"


def html_text(analysis: Analysis, loaded: Loaded) -> str:
    """One page with its plots inside and nothing outside it."""
    body = ["<h1>Performance variation</h1>", *(_html_table(table) for table in tables(analysis))]
    body += [f"<figure>{svg}</figure>" for svg in _svgs(analysis)]
    for title, lines in _sections(analysis, loaded):
        items = "".join(f"<li>{_h(line)}</li>" for line in lines)
        body.append(f"<h2>{title}</h2><ul>{items}</ul>")
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f"<head>{meta}<title>Performance variation</title><style>{STYLE}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>\n{chr(10).join(body)}\n</body></html>\n'


def _svgs(analysis: Analysis) -> list[str]:
    import matplotlib

    from codeaudit_runtime.variation.figures import METADATA, RC, figures

    found = []
    for name, figure in figures(analysis):
        buffer = io.StringIO()
        # A salt of its own for each figure: their ids must not meet on one page.
        with matplotlib.rc_context({**RC, "svg.hashsalt": f"codeaudit-{name}"}):
            figure.savefig(buffer, format="svg", metadata=METADATA["svg"])
        text = buffer.getvalue()
        found.append(text[text.index("<svg") :])
    return found


def _md(text: str) -> str:
    shown = html.escape(printable(text), quote=False)
    for mark in "\\`*_[]|":
        shown = shown.replace(mark, f"\\{mark}")
    return shown


def _md_path(path: Path) -> str:
    return printable(path.as_posix()).replace("<", "%3C").replace(">", "%3E")


def _md_table(table: Table) -> str:
    rule = "|" + "".join(" --- |" if index < table.left else " ---: |" for index in range(len(table.columns)))
    lines = [f"**{_md(table.title)}**", "", _md_row(table.columns), rule, *(_md_row(row) for row in table.rows)]
    return "\n".join(lines)


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _h(text: str) -> str:
    return html.escape(printable(text))


def _html_table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        names = [' class="name"' if index < table.left else "" for index in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{n}>{_h(c)}</{tag}>" for n, c in zip(names, cells, strict=True)) + "</tr>"

    body = "".join(row(cells, "td") for cells in table.rows)
    return f"<h2>{_h(table.title)}</h2><table><thead>{row(table.columns, 'th')}</thead><tbody>{body}</tbody></table>"
