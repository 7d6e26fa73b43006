"""A progress line on the error stream while a person waits. Shows; measures and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

Callback = Callable[[str, int, int], None]


@contextmanager
def progress() -> Iterator[Callback]:
    """A callback (stage, done, total) for as long as the block runs; the line vanishes with it. Total 0: not known."""
    console = Console(stderr=True, highlight=False, emoji=False, markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def callback(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    shown.update(earlier, visible=False)
                tasks[stage] = shown.add_task(stage, total=total or None)
            shown.update(tasks[stage], completed=done, total=total or None)

        yield callback
