"""Commands that need an optional part of the install, and what to say where it is missing. Not for what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from codeaudit.errors import UserError

GROUP = "codeaudit.commands"

# a distribution's import name → (the extra that brings it, what it is for)
BROUGHT_BY: dict[str, tuple[str, str]] = {
    "numpy": ("variation", "arrays of episode returns"),
    "scipy": ("variation", "tests and intervals"),
    "matplotlib": ("variation", "plots"),
    "torch": ("runtime", "networks of checkpoints"),
    "gymnasium": ("runtime", "environments"),
    "typer": ("runtime", "the runtime commands"),
    "procgen": ("procgen", "ProcGen environments"),
    "Box2D": ("box2d", "LunarLander and its kin"),
    "minatar": ("minatar", "MinAtar environments (GPL-3.0)"),
    "ale_py": ("atari", "Atari environments"),
    "distributed": ("cluster", "work on a Dask cluster"),
}

# Known without a look into the installed packages' metadata, which costs more than a warm scan may spend.
KNOWN: dict[str, str] = {
    "verify": "Re-execute checkpoints and hold the numbers against the scan's predictions.",
    "evaluate": "Measure a checkpoint's return under one or more action rules.",
    "floor": "Measure the return of a uniform-random policy.",
    "claims": "Are the risk claims of a return-distribution head true?",
    "train": "Train small agents to audit.",
    "gap": "Generalization gaps of runs, sampled and greedy, read against the floor.",
    "entropy": "Entropy of policies on visited states, raw and merged over equivalent actions.",
    "levels": "How many held-out ProcGen levels are training levels by content?",
    "actions": "Which ProcGen actions do the same thing?",
    "floors": "Floors of several games in one table, beside published ones.",
    "curves": "Published ProcGen learning curves read against the floor.",
    "similarity": "Are two encoders alike on one batch? And a control of what such numbers cannot say.",
    "variation": "How far apart are runs of the same recipe? Learning curves in, min-max IPR and plots out.",
}
# the extra that a command needs, where that isn't `runtime`
NEEDS: dict[str, str] = {
    "variation": "variation",
    **dict.fromkeys(("gap", "entropy", "levels", "actions", "floors", "similarity"), "procgen"),
}


class Interrupted(Exception):
    """Ctrl-C inside a mounted command, on its way past that command's own command-line library."""


def install_hint(extra: str) -> str:
    """How to get an extra."""
    return f'pip install "rl-codeaudit[{extra}]"'


def mounted_names() -> list[str]:
    """Every command that some installed distribution offers, and those known to exist."""
    from importlib.metadata import entry_points

    return sorted({*KNOWN, *(point.name for point in entry_points(group=GROUP))})


def mounted(name: str) -> click.Command | None:
    """The command `name` of an optional part; None where nothing offers one."""
    if name not in KNOWN and name not in mounted_names():
        return None

    @click.command(
        name,
        help=KNOWN.get(name, ""),
        short_help=KNOWN.get(name, "Offered by another package."),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        with _said_what_is_missing(name):  # some packages are asked for only when the command runs
            _run(name, load(name), arguments)

    return command


def load(name: str) -> Any:
    """The object that an entry point names. UserError where a package that it needs is missing."""
    from importlib.metadata import entry_points

    points = list(entry_points(group=GROUP, name=name))
    if not points:
        raise UserError(f"the command `{name}` is not installed", hint=install_hint("runtime"))
    with _said_what_is_missing(name):
        return points[0].load()


@contextmanager
def _said_what_is_missing(name: str) -> Iterator[None]:
    """A package of an extra that can't be imported is said in one line; any other import error is a fault of ours."""
    try:
        yield
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in BROUGHT_BY:
            raise
        extra, purpose = BROUGHT_BY[missing]
        raise UserError(
            f"`codeaudit {name}` needs {missing} ({purpose}), which is not installed", hint=install_hint(extra)
        ) from error


def _run(name: str, offered: Any, arguments: Sequence[str]) -> None:
    if isinstance(offered, click.Command):
        offered.main(list(arguments), prog_name=f"codeaudit {name}", standalone_mode=False)
        return
    try:
        import typer
    except ImportError as error:
        raise UserError(
            f"`codeaudit {name}` needs typer, which is not installed", hint=install_hint("runtime")
        ) from error
    app = offered
    if not isinstance(app, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, context_settings={"help_option_names": ["-h", "--help"]})(_with_exit_code(offered))
    try:
        typer.main.get_command(app).main(args=list(arguments), prog_name=f"codeaudit {name}", standalone_mode=False)
    except Exception as error:
        # A usage error: Typer may bring a copy of click of its own, whose classes aren't ours.
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        raise UserError(said().rstrip("."), hint=f"see `codeaudit {name} --help`") from error


def _with_exit_code(function: Callable[..., Any]) -> Callable[..., None]:
    """The same function for typer: an int that it returns becomes the exit code, and Ctrl-C stays ours to report."""
    import functools

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            code = function(*args, **kwargs)
        except KeyboardInterrupt:
            raise Interrupted from None
        if isinstance(code, int) and code:
            raise SystemExit(code)

    return wrapped
