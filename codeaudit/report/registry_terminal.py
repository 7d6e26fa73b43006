"""Registry entries and grids in a terminal. Shows what is on record; compares and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.console import Console, RenderableType
from rich.text import Text

from codeaudit.registry.entries import RegistryEntry
from codeaudit.registry.lines import SourceLines
from codeaudit.registry.record import entry_as_scan
from codeaudit.report.grid import Grid, grid_renderable
from codeaudit.report.statement import Statement
from codeaudit.report.terminal import console_on, scan_renderables
from codeaudit.report.words import place_words
from codeaudit.text import printable


def print_grids(grids: Sequence[Grid], file: IO[str]) -> None:
    console = console_on(file)
    for index, grid in enumerate(grids):
        if index:
            console.print()
        console.print(grid_renderable(grid))


def print_entry(entry: RegistryEntry, lines: SourceLines, file: IO[str]) -> None:
    """An entry with its evidence, as a scan is shown, then what was printed about it."""
    console = Console(file=file, highlight=False, emoji=False, markup=False)
    for part in (*_head(entry), *scan_renderables(entry_as_scan(entry, lines), quiet=True), *_published(entry)):
        console.print(part)
    if entry.checkpoints:
        console.print(Text(f"\n{len(entry.checkpoints)} checkpoints; `codeaudit verify {entry.id}` re-executes them"))


def _head(entry: RegistryEntry) -> list[RenderableType]:
    said = ", ".join(part for part in (entry.venue, entry.paper) if part)
    head = Text.assemble((printable(entry.title), "bold"), f"  {printable(entry.id)}")
    if said:
        head.append(f"  {printable(said)}", "dim")
    if not entry.reviewed:
        head.append("  unreviewed draft", "yellow")
    parts: list[RenderableType] = [head]
    if entry.classification and not entry.classification.complete:
        parts.append(Text("The sites are a selection.", "yellow"))
    for one in entry.dependencies:
        parts.append(Text(f"{one.name}: {printable(one.url)} at {one.commit[:12]}", "dim"))
    return [*parts, Text()]


def _published(entry: RegistryEntry) -> list[RenderableType]:
    printed = entry.published
    if printed is None:
        return []
    parts: list[RenderableType] = [Text("\nPublished", "bold"), Text(printable(printed.source), "dim")]
    rows = (
        ("commit", printed.commit),
        ("evidence", printed.evidence),
        ("stochastic", printed.stochastic),
        ("in-loop", printed.in_loop),
    )
    parts += [Text.assemble((f"  {name:11}", "dim"), printable(value)) for name, value in rows if value]
    for line in printed.lines:
        text = Text.assemble("  ", (place_words(line.at), "blue"), f"  {printable(line.shows)}")
        if line.moved_to is not None:
            text.append(f"; {place_words(line.moved_to)} is meant: {printable(line.why)}", "yellow")
        parts.append(text)
    parts += [Text(f"  Difference: {printable(one)}", "yellow") for one in printed.differences]
    return parts


def print_statement(statement: Statement, file: IO[str]) -> None:
    """The paragraphs with their questions marked, then how many questions are open."""
    console = Console(file=file, highlight=False, emoji=False, markup=False)
    for paragraph in statement.paragraphs:
        text = Text(printable(paragraph))
        text.highlight_regex(r"\[[^\]]*\?\]", "bold yellow")
        console.print(text, "\n", sep="")
    open_ones = len(statement.questions)
    console.print(
        Text(f"{open_ones} open questions stand in square brackets." if open_ones else "No open questions.", "dim")
    )
