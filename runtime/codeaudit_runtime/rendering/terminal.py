"""Tables on a terminal, or plain text where there is none. Not for progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from codeaudit.text import printable
from codeaudit_runtime.measurements import CheckpointMeasurement
from codeaudit_runtime.rendering.tables import (
    RULE_LEGEND,
    Table,
    comparison_lines,
    detail_lines,
    rule_table,
    verdict_table,
)
from codeaudit_runtime.verify import Verified

COLOURS = {"confirmed": "green", "refuted": "red", "undecided": "yellow"}


def _console(file: IO[str]) -> Console:
    console = Console(file=file, highlight=False)
    return console if console.is_terminal else Console(file=file, highlight=False, width=200)


def _print_table(console: Console, table: Table) -> None:
    shown = RichTable(title=escape(table.title), title_justify="left", show_edge=False, pad_edge=False)
    for column in table.columns:
        shown.add_column(column, overflow="fold")
    for row in table.rows:
        shown.add_row(*(escape(printable(cell)) for cell in row))
    console.print(shown)


def _print_legend(console: Console, legend: Sequence[str]) -> None:
    for line in legend:
        console.print(f"[dim]{escape(line)}[/]")


def print_verified(verified: Sequence[Verified], protocol: str, file: IO[str], *, quiet: bool) -> None:
    console = _console(file)
    if not quiet:
        for one in verified:
            _print_one(console, one.measurement)
        _print_legend(console, RULE_LEGEND)
        console.print()
        for checkpoint, verdict, detail in detail_lines(verified):
            kind, _, word = verdict.partition(": ")
            console.print(
                f"{escape(printable(checkpoint))}  {kind} [{COLOURS[word]}]{word}[/]  {escape(printable(detail))}"
            )
        console.print()
    table = verdict_table(verified)
    _print_table(console, table)
    if not quiet:
        _print_legend(console, table.legend)
        console.print(f"\n{escape(protocol)}")


def print_measured(measured: Sequence[CheckpointMeasurement], protocol: str, file: IO[str], *, quiet: bool) -> None:
    console = _console(file)
    for one in measured:
        _print_one(console, one)
    if not quiet:
        _print_legend(console, RULE_LEGEND)
        console.print(f"\n{escape(protocol)}")


def print_floor(table: Table, protocol: str, file: IO[str], *, quiet: bool) -> None:
    console = _console(file)
    _print_table(console, table)
    if not quiet:
        _print_legend(console, table.legend)
        console.print(f"\n{escape(protocol)}")


def _print_one(console: Console, one: CheckpointMeasurement) -> None:
    _print_table(console, rule_table(one))
    for line in (*comparison_lines(one), *one.rows.notes):
        console.print(f"  {escape(printable(line))}")
    console.print()
