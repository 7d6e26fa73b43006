"""Options and outputs that mean the same in every command. Decides nothing; imports click alone at the top."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codeaudit.errors import UserError
from codeaudit.store import report_file as report_file

if TYPE_CHECKING:
    from codeaudit.report.grid import Grid

F = TypeVar("F", bound=Callable[..., Any])

FINE, DISAGREES, ERROR = 0, 1, 2

cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="CODEAUDIT_CACHE",
    metavar="DIR",
    help="Where clones and parsed files are kept (default: the user's cache folder).",
)
mirror_option = click.option(
    "--mirror",
    "mirrors",
    type=click.Path(path_type=Path),
    multiple=True,
    envvar="CODEAUDIT_MIRROR",
    metavar="DIR",
    help="A folder of git repositories named OWNER+NAME, tried first; repeatable.",
)
output_option = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report there instead of printing it.",
)
workers_option = click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N", help="Processes that work (default: all cores)."
)
with_option = click.option(
    "--with",
    "dependencies",
    multiple=True,
    metavar="NAME=TARGET",
    help="Look into the source of a dependency too; repeatable.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress, and the shortest report.")


def format_option(*formats: str) -> Callable[[F], F]:
    """`--format` and its alias, the first of `formats` being the default."""
    return click.option(
        "--format",
        "--output-format",
        "format_",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="What to print.",
    )


def workers_by_default() -> int:
    """As many as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def named_targets(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=TARGET` options as a mapping."""
    named: dict[str, str] = {}
    for pair in pairs:
        name, equals, target = pair.partition("=")
        if not (equals and name and target):
            raise UserError(
                f"--with {pair!r} is not NAME=TARGET", hint="for example --with baselines=owner/baselines@0a1b2c3d"
            )
        if name in named:
            raise UserError(f"--with names {name} twice", hint="give each dependency once")
        named[name] = target
    return named


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Any]:
    """A callback (stage, done, total) that draws on the terminal's error stream; None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from codeaudit.report.progress import progress

    with progress() as callback:
        yield callback


def write_json(report: dict[str, Any], output: Path | None) -> None:
    """A JSON report, ASCII only."""
    import json

    with report_file(output) as file:
        file.write(json.dumps(report, indent=2, ensure_ascii=True, allow_nan=False) + "\n")


def write_grids(grids: list[Grid], format_: str, output: Path | None) -> None:
    """Tables as terminal text, Markdown or LaTeX; for CSV the first of them."""
    from codeaudit.report.grid import grid_to_csv, grids_to_latex, grids_to_markdown
    from codeaudit.report.registry_terminal import print_grids

    with report_file(output) as file:
        if format_ == "markdown":
            file.write(grids_to_markdown(grids))
        elif format_ == "latex":
            file.write(grids_to_latex(grids))
        elif format_ == "csv":
            file.write(grid_to_csv(grids[0]))
        else:
            print_grids(grids, file)
