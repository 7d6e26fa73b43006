"""A table as data, and its look in a terminal, Markdown, LaTeX, CSV and HTML. Knows nothing of what is in it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from codeaudit.text import printable

Tone = Literal["", "good", "bad", "doubt", "faint", "strong", "code"]

_STYLES: dict[str, str] = {
    "good": "green",
    "bad": "bold red",
    "doubt": "yellow",
    "faint": "dim",
    "strong": "bold",
    "code": "blue",
}
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "→": r"$\rightarrow$",
    "ε": r"$\varepsilon$",
    "·": r"$\cdot$",
}


@dataclass(frozen=True)
class Cell:
    """Text, how it is meant, and where it leads. Several lines are parted by newlines."""

    text: str
    tone: Tone = ""
    url: str = ""


Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """A table with a title above it and sentences below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    keep: tuple[int, ...] = ()  # columns that a terminal doesn't wrap


def grid_renderable(grid: Grid) -> RenderableType:
    """For a terminal."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", expand=False)
    for index, column in enumerate(grid.columns):
        table.add_column(column, no_wrap=index in grid.keep, overflow="fold")
    for row in grid.rows:
        table.add_row(*(_rich(cell) for cell in row))
    parts: list[RenderableType] = [Text(grid.title, "bold"), Text()] if grid.title else []
    parts.append(table)
    parts += [Text(printable(note)) for note in grid.notes]
    return Group(*parts)


def _rich(cell: Cell) -> Text:
    style = Style.parse(_STYLES.get(cell.tone, "")) + Style(link=cell.url or None)
    return Text("\n".join(printable(line) for line in cell.text.split("\n")), style)


def grids_to_markdown(grids: Sequence[Grid], title: str = "") -> str:
    """One document; text of audited repositories can't add links, HTML or rows."""
    parts: list[str] = [f"# {plain_markdown(title)}", ""] if title else []
    for grid in grids:
        parts += [*_markdown(grid), ""]
    return "\n".join(parts).rstrip("\n") + "\n"


def _markdown(grid: Grid) -> Iterator[str]:
    if grid.title:
        yield from (f"## {plain_markdown(grid.title)}", "")
    yield "| " + " | ".join(map(plain_markdown, grid.columns)) + " |"
    yield "|" + "---|" * len(grid.columns)
    for row in grid.rows:
        yield "| " + " | ".join(_markdown_cell(cell) for cell in row) + " |"
    if grid.notes:
        yield ""
    yield from (f"{plain_markdown(note)}  " for note in grid.notes)


def _markdown_cell(cell: Cell) -> str:
    text = "<br>".join(plain_markdown(line) for line in cell.text.split("\n"))
    if cell.tone in ("bad", "strong") and text:
        text = f"**{text}**"
    return f"[{text}](<{cell.url}>)" if cell.url and text else text


def plain_markdown(text: str) -> str:
    """Prose with nothing in it that Markdown would read."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", printable(text))


def grids_to_latex(grids: Sequence[Grid]) -> str:
    """Tables for `booktabs`, with `tabularx` where a column must wrap."""
    return "\n".join("\n".join(_latex(grid)) + "\n" for grid in grids)


def _latex(grid: Grid) -> Iterator[str]:
    wide = [index for index in range(len(grid.columns)) if _widest(grid, index) > 28]
    kinds = "".join("X" if index in wide else "l" for index in range(len(grid.columns)))
    yield "% needs \\usepackage{booktabs}" + (" and \\usepackage{tabularx}" if wide else "")
    yield r"\begin{table}"
    if grid.title:
        yield rf"  \caption{{{_tex(grid.title)}}}"
    yield r"  \small"
    yield rf"  \begin{{tabularx}}{{\linewidth}}{{{kinds}}}" if wide else rf"  \begin{{tabular}}{{{kinds}}}"
    yield r"    \toprule"
    yield "    " + " & ".join(map(_tex, grid.columns)) + r" \\"
    yield r"    \midrule"
    for row in grid.rows:
        yield "    " + " & ".join(_tex(cell.text) for cell in row) + r" \\"
    yield r"    \bottomrule"
    yield r"  \end{tabularx}" if wide else r"  \end{tabular}"
    yield from (f"  % {_tex(note)}" for note in grid.notes)
    yield r"\end{table}"


def _widest(grid: Grid, index: int) -> int:
    return max((len(line) for row in grid.rows for line in row[index].text.split("\n")), default=0)


def _tex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in printable(text.replace("\n", "; ")))


def grid_to_csv(grid: Grid) -> str:
    """One table, without title and notes. A cell that a spreadsheet would take for a formula gets a quote before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(grid.columns)
    for row in grid.rows:
        writer.writerow([_csv(cell.text) for cell in row])
    return out.getvalue()


def _csv(text: str) -> str:
    text = printable(text.replace("\n", "; "))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def cell_html(cell: Cell) -> str:
    """The inside of a table cell."""
    text = "<br>".join(escape(printable(line)) for line in cell.text.split("\n"))
    style = f' class="{cell.tone}"' if cell.tone else ""
    if not text:
        return ""
    if cell.url:
        return f'<a href="{escape(cell.url)}"{style}>{text}</a>'
    return f"<span{style}>{text}</span>" if style else text
