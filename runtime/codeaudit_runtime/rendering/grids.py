"""Grids on a terminal, as Markdown, LaTeX or one HTML page. Decides nothing."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import IO

from rich.console import Console

from codeaudit.report.grid import Grid, cell_html, grid_renderable, grids_to_latex, grids_to_markdown
from codeaudit.text import printable
from codeaudit_runtime.rendering.documents import STYLE

TONES = ".good { color: #1a7f37; } .bad { color: #cf222e; } .doubt { color: #9a6700; }"


def write_grids(grids: Sequence[Grid], title: str, format_: str, file: IO[str], *, quiet: bool) -> None:
    """`format_`: terminal, markdown, html or latex. A quiet terminal gets the first table alone, without notes."""
    if format_ == "markdown":
        file.write(grids_to_markdown(grids, title))
    elif format_ == "latex":
        file.write(grids_to_latex(grids))
    elif format_ == "html":
        file.write(_page(grids, title))
    else:
        console = Console(file=file, highlight=False)
        if not console.is_terminal:
            console = Console(file=file, highlight=False, width=220)
        for grid in grids[:1] if quiet else grids:
            shown = grid if not quiet else Grid(grid.title, grid.columns, grid.rows)
            console.print(grid_renderable(shown))
            console.print()


def _page(grids: Sequence[Grid], title: str) -> str:
    shown = html.escape(printable(title))
    body = "\n".join(_table(grid) for grid in grids)
    meta = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{shown}</title>'
    head = f"<head>{meta}<style>{STYLE}{TONES}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>\n<h1>{shown}</h1>\n{body}\n</body></html>\n'


def _table(grid: Grid) -> str:
    head = "".join(f"<th>{html.escape(printable(column))}</th>" for column in grid.columns)
    rows = "".join("<tr>" + "".join(f"<td>{cell_html(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows)
    notes = "".join(f"<p>{html.escape(printable(note))}</p>" for note in grid.notes)
    title = html.escape(printable(grid.title))
    return f"<h2>{title}</h2>\n<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>\n{notes}"
