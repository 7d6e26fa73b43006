"""A progress line on the error stream: units, steps a second, time left. Shows; measures nothing that is reported."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


@contextmanager
def unit_progress(quiet: bool) -> Iterator[Callable[[int, int, int, bool], None] | None]:
    """A callback (units done, all units, steps of this unit, whether it ran now); None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("rolling out"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=None, rate="")
        began, steps, kept = time.monotonic(), 0, 0

        def callback(done: int, units: int, fresh_steps: int, fresh: bool) -> None:
            nonlocal steps, kept
            steps += fresh_steps if fresh else 0
            kept += 0 if fresh else 1
            rate = f"{steps / max(time.monotonic() - began, 1e-9):,.0f} steps/s"
            shown.update(task, completed=done, total=units, rate=f"{rate}, {kept} kept" if kept else rate)

        yield callback
