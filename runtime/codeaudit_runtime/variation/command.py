"""The command `variation`: parse, call, render. It decides nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from codeaudit.errors import UserError
from codeaudit.store import report_file
from codeaudit.text import printable
from codeaudit_runtime.variation.analysis import Settings, analyse
from codeaudit_runtime.variation.bounds import bounds_from_file, given_bounds, suite_named
from codeaudit_runtime.variation.columns import Wanted
from codeaudit_runtime.variation.curves import window_from_text
from codeaudit_runtime.variation.loading import load_curves
from codeaudit_runtime.variation.spread import METHODS

FORMATS = ("terminal", "json", "markdown", "html", "csv")
PLOT_FORMATS = ("png", "svg", "pdf")


class Listing(click.Command):
    """Lets `--compare ppo sac` take several names, up to the next option; click itself takes a fixed number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        listing = False
        for index, arg in enumerate(args):
            if arg == "--":
                return super().parse_args(ctx, [*spread, *args[index:]])
            if arg == "--compare":
                listing = True
                continue
            listing = listing and not arg.startswith("-")
            spread += ["--compare", arg] if listing else [arg]
        if args and args[-1] == "--compare":
            spread.append("--compare")  # click then says that it needs a name
        return super().parse_args(ctx, spread)


@click.command(cls=Listing, name="variation", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--value", metavar="NAME", help="Column or tag of the return (default: guessed, and named in the report)."
)
@click.option("--step", metavar="NAME", help="Column that counts steps.")
@click.option("--run", metavar="NAME", help="Column that tells runs apart; `file`: each file is one run.")
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Columns that make a task; also env_id, file, or path:1 for the first folder below PATH.",
)
@click.option(
    "--algorithm", "algorithms", multiple=True, metavar="NAME[,NAME]", help="Columns that name the algorithm."
)
@click.option(
    "--compare",
    multiple=True,
    metavar="NAME...",
    help="Algorithms side by side: entries of the algorithm column, or folders and files that begin so.",
)
@click.option("--kind", metavar="KIND", help="Read only files of this kind, where folders hold several.")
@click.option("--skip-bad", is_flag=True, help="Leave bad files out, with the reason in the report.")
@click.option("--window", default="10%", show_default=True, help="Final performance: 10%, 100000steps or 5points.")
@click.option(
    "--lengths",
    type=click.Choice(("shortest", "own")),
    default="shortest",
    show_default=True,
    help="Where the window ends: at the shortest run's last step, or at each run's own.",
)
@click.option(
    "--missing",
    type=click.Choice(("leave-out", "lowest")),
    default="leave-out",
    show_default=True,
    help="A run without a number in the window: leave it out, or count it at the lower bound.",
)
@click.option("--min", "low", type=float, metavar="M", help="Lowest return of the task.")
@click.option("--max", "high", type=float, metavar="M", help="Highest return of the task.")
@click.option(
    "--bounds", "bounds_file", type=click.Path(path_type=Path), metavar="FILE", help="YAML, `task: [low, high]`."
)
@click.option("--suite", metavar="NAME", help="Take bounds from this known suite, such as procgen-easy.")
@click.option("--inner", type=click.FloatRange(0, 100, min_open=True), default=90.0, help="IPR of the inner INNER%.")
@click.option(
    "--percentiles",
    type=click.Choice([method.replace("_", "-") for method in METHODS]),
    default="nearest-rank",
    show_default=True,
    help="Percentile definition of the table.",
)
@click.option(
    "--level", type=click.FloatRange(0.5, 1, max_open=True), default=0.95, show_default=True, help="Of intervals."
)
@click.option("--fail-under", metavar="X[%]", help="A run under X, or under X% of the way between bounds, has failed.")
@click.option(
    "--resamples", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Of the bootstrap."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the bootstrap.")
@click.option("--plot", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write plots there.")
@click.option(
    "--plot-format",
    "plot_formats",
    type=click.Choice(PLOT_FORMATS),
    multiple=True,
    help="Repeatable (default: png, svg and pdf).",
)
@click.option(
    "--format", "--output-format", "format_", type=click.Choice(FORMATS), default="terminal", show_default=True,
    help="What to print.",
)  # fmt: skip
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the report there instead of printing it.",
)  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="The shortest report.")
def variation(paths: tuple[Path, ...], format_: str, output: Path | None, quiet: bool, **options: Any) -> None:
    """How far apart are runs of the same recipe? Min-max IPR and run-wise percentile highlighting of learning curves.

    PATH is a file or folder of CSV tables (also .gz), monitor or progress files, TensorBoard event files, W&B exports,
    .npz of EvalCallback, or run directories of `codeaudit evaluate`.

    \b
    codeaudit variation data/*.csv --value return --step steps --run seed --group game,split --plot out/
    codeaudit variation runs/ --compare ppo sac --min 0 --max 1000
    """
    settings = _settings(options)
    wanted = Wanted(
        options["value"], options["step"], options["run"], _names(options["groups"]), _names(options["algorithms"])
    )
    loaded = load_curves(paths, wanted, compare=options["compare"], kind=options["kind"], skip_bad=options["skip_bad"])
    analysis = analyse(loaded.curves, settings)
    plots: tuple[Path, ...] = ()
    if options["plot"] is not None:
        from codeaudit_runtime.variation.figures import write_figures

        plots = write_figures(analysis, options["plot"], options["plot_formats"] or PLOT_FORMATS)
    with report_file(output) as file:
        if format_ == "json":
            from codeaudit_runtime.variation.json_report import json_text

            file.write(json_text(analysis, loaded))
        elif format_ == "csv":
            from codeaudit_runtime.variation.tables import csv_text

            file.write(csv_text(analysis))
        else:
            from codeaudit_runtime.variation import rendering

            if format_ == "markdown":
                pictures = [path for path in plots if path.suffix == ".png"]
                pictures = pictures or [path for path in plots if path.suffix == ".svg"]
                file.write(rendering.markdown_text(analysis, loaded, pictures))
            elif format_ == "html":
                file.write(rendering.html_text(analysis, loaded))
            else:
                rendering.print_report(analysis, loaded, file, quiet=quiet, plot=not plots)
                if plots and not quiet:
                    file.write(f"\nplots: {', '.join(printable(str(path)) for path in plots)}\n")


def _settings(options: dict[str, Any]) -> Settings:
    low, high = options["low"], options["high"]
    if (low is None) != (high is None):
        raise UserError("--min and --max go together", hint="give both, or neither")
    if low is not None:
        given_bounds(low, high)
    if options["suite"] is not None:
        suite_named(options["suite"])
    threshold, share = _threshold(options["fail_under"])
    return Settings(
        window=window_from_text(options["window"]),
        lengths=options["lengths"],
        missing=options["missing"].replace("-", "_"),
        method=options["percentiles"].replace("-", "_"),
        inner=options["inner"],
        level=options["level"],
        resamples=options["resamples"],
        seed=options["seed"],
        fail_under=threshold,
        fail_share=share,
        low=low,
        high=high,
        suite=options["suite"],
        bounds=bounds_from_file(options["bounds_file"]) if options["bounds_file"] is not None else {},
    )


def _threshold(text: str | None) -> tuple[float | None, bool]:
    if text is None:
        return None, False
    try:
        return float(text.strip().removesuffix("%")), text.strip().endswith("%")
    except ValueError:
        raise UserError(f"--fail-under {text!r} is no number", hint="for example 100, or 10%") from None


def _names(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))
