"""The command `claims` (an audit, `report`, `floor`): parse, call, render. It decides nothing itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from codeaudit.errors import UserError
from codeaudit_runtime.progress import unit_progress


class DefaultAudit(click.Group):
    """`claims RUN…` is `claims audit RUN…`, and so is anything else that names no subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["audit", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultAudit, name="claims", context_settings={"help_option_names": ["-h", "--help"]})
def claims() -> None:
    """Are the risk claims of a return-distribution head true? `claims RUN... --out DIR` audits them."""


FORMAT = click.option(
    "--format", "--output-format", "format_", type=click.Choice(("terminal", "json", "markdown", "html", "latex")),
    default="terminal", show_default=True, help="What to print.",
)  # fmt: skip
OUTPUT = click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the report there.")


@claims.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A killed run goes on there."
)
@click.option("--env", "environment", default="", metavar="ID", help="Environment id, where the file names none.")
@click.option(
    "--rollouts", default=2_000, show_default=True, type=click.IntRange(2), help="Restarts a state and action."
)
@click.option("--states", default=2_000, show_default=True, type=click.IntRange(7), help="Unique states to rank.")
@click.option("--draws", default=4_999, show_default=True, type=click.IntRange(99), help="Resamples a test.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of everything drawn.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes (default: all cores).")
@click.option("--executor", default="", metavar="SPEC", help="local, or dask://HOST:PORT.")
@FORMAT
@OUTPUT
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def audit(
    runs: tuple[Path, ...],
    out: Path,
    environment: str,
    rollouts: int,
    states: int,
    draws: int,
    seed: int,
    workers: int | None,
    executor: str,
    format_: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Audit agents: folders that `codeaudit train` wrote, their files, or SB3 QR-DQN archives.

    Exit code 1 where a claim is overstated.
    """  # fmt: skip
    from codeaudit_runtime.claims.audit import Settings, audit_run, open_audit, runs_of_paths
    from codeaudit_runtime.claims.beyond import save_beyond

    settings = Settings(rollouts=rollouts, states=states, draws=draws, seed=seed)
    named = runs_of_paths(runs)
    directory = open_audit(out, named, environment, settings)
    count = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for name, path in named:
        with unit_progress(quiet) as progress:
            audit_run(name, path, environment, settings, directory, count, executor, progress)
    save_beyond(named, environment, settings, directory)
    overstated = _print([out], format_, output)
    if overstated:
        raise SystemExit(1)


@claims.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@FORMAT
@OUTPUT
def report(directories: tuple[Path, ...], format_: str, output: Path | None) -> None:
    """Read finished audits again, several as one: nothing is rolled out."""
    _print(directories, format_, output)


@claims.command()
@click.option("--sigma", default=2.3, show_default=True, type=click.FloatRange(0, min_open=True), help="Return spread.")
@click.option(
    "--draws", default=1_000, show_default=True, type=click.IntRange(100), help="Pairs of samples for each n."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Also draw it (.png, .svg, .pdf).")
def floor(sigma: float, draws: int, seed: int, plot: Path | None) -> None:
    """The excess that two samples of one distribution show by chance, by the number of returns."""
    from codeaudit_runtime.claims.floor import floor_plot, floor_points

    points = floor_points((50, 100, 200, 500, 1_000, 2_000, 4_000), sigma, draws, seed)
    print(f"excess by chance, normal returns, sigma {sigma:g}: falls as n^(-1/2)\n     n    mean   95%")
    for point in points:
        print(f"{point.n:>6}  {point.mean:.4f}  {point.high:.4f}")
    if plot is not None:
        if plot.suffix not in (".png", ".svg", ".pdf"):
            raise UserError(f"{plot}: unknown kind of plot", hint="name a .png, .svg or .pdf file")
        try:
            floor_plot(points, sigma, plot)
        except OSError as error:
            raise UserError(f"{plot}: {error.strerror}", hint="check the path") from None


def _print(directories: Sequence[Path], format_: str, output: Path | None) -> int:
    """Print the report and, for one audit, keep it beside it; the number of overstated claims."""
    from codeaudit_runtime.campaign import versions
    from codeaudit_runtime.claims.page import audit_html, audit_latex
    from codeaudit_runtime.claims.rendering import report_text
    from codeaudit_runtime.claims.report import audit_from_directories, report_json

    found = audit_from_directories(directories)
    as_json = json.dumps(report_json(found, versions()), indent=2, sort_keys=True) + "\n"
    if format_ == "json":
        text = as_json
    elif format_ in ("html", "latex"):
        text = audit_html(found) if format_ == "html" else audit_latex(found)
    else:
        text = report_text(found, markdown=format_ == "markdown")
    try:
        if len(directories) == 1:
            (directories[0] / "claims.json").write_text(as_json, "utf-8")
        if output is not None:
            output.write_text(text, "utf-8")
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}", hint="check the path") from None
    if output is None:
        sys.stdout.write(text)
    return sum(state.overstated for _, states in found.games for state in states)
