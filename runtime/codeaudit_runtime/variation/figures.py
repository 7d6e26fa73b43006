"""Whole figures: small multiples of tasks, algorithms side by side; and their files. Not for what is in a panel."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.variation.analysis import HIGHLIGHTED, Analysis, GroupVariation
from codeaudit_runtime.variation.numerals import ordinal
from codeaudit_runtime.variation.plots import (
    BACKGROUND,
    WINDOW_COLOUR,
    plot_profiles,
    plot_runs,
    style_of_percent,
)

RC: Any = {
    "svg.hashsalt": "codeaudit", "svg.fonttype": "path", "pdf.fonttype": 42, "font.size": 8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9, "text.parse_math": False,
}  # fmt: skip
FORMATS = ("png", "svg", "pdf")
# Without dates and versions, so that the same data gives the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
PANELS_A_FIGURE = 36
PANEL = (2.5, 1.85)  # inches
FEW_SCALE = 1.6  # up to four panels are larger
LETTERS_AN_INCH = 15


def figures(analysis: Analysis) -> Iterator[tuple[str, Figure]]:
    """(name, figure): `runs` (run-wise percentile highlighting) and `profiles`, in pages where there are many tasks."""
    tasks: dict[str, list[GroupVariation]] = {}
    for group in analysis.groups:
        tasks.setdefault(group.task, []).append(group)
    algorithms = list(dict.fromkeys(group.algorithm for group in analysis.groups))
    pages = _pages(list(tasks.values()), PANELS_A_FIGURE // len(algorithms) or 1)
    for number, page in enumerate(pages, start=1):
        suffix = f"-{number}" if len(pages) > 1 else ""
        yield f"runs{suffix}", _runs_figure(page, algorithms, analysis)
        yield f"profiles{suffix}", _profiles_figure(page)


def write_figures(analysis: Analysis, folder: Path, formats: Sequence[str] = FORMATS) -> tuple[Path, ...]:
    """Write every figure in every format; the paths. Raises UserError where the folder can't be written."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(RC):
            for name, figure in figures(analysis):
                for form in formats:
                    path = folder / f"{name}.{form}"
                    figure.savefig(path, format=form, dpi=160, metadata=METADATA[form])
                    written.append(path)
    except OSError as error:
        raise UserError(
            f"{printable(str(folder))}: can't write plots: {error.strerror}", hint="choose another --plot folder"
        ) from None
    return tuple(written)


def _pages(tasks: list[list[GroupVariation]], size: int) -> list[list[list[GroupVariation]]]:
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def _runs_figure(tasks: list[list[GroupVariation]], algorithms: list[str], analysis: Analysis) -> Figure:
    """One algorithm: a grid of tasks. Several: a row a task and a column an algorithm, with the same axis in a row."""
    several = len(algorithms) > 1
    columns = len(algorithms) if several else _columns(len(tasks))
    rows = len(tasks) if several else -(-len(tasks) // columns)
    figure, grid = _grid(rows, columns, sharey="row" if several else "none")
    used = set()
    for number, groups in enumerate(tasks):
        for group in groups:
            row, column = (number, algorithms.index(group.algorithm)) if several else divmod(number, columns)
            used.add((row, column))
            _runs_panel(grid[row][column], group)
            if column == 0:
                grid[row][column].set_ylabel("return")
            if row == rows - 1 or (not several and number + columns >= len(tasks)):
                grid[row][column].set_xlabel("steps")
    _hide(grid, used)
    handles: list[Any] = []
    for percent in HIGHLIGHTED:
        style, label = style_of_percent(percent), f"{ordinal(percent)} percentile run"
        handles.append(Line2D([], [], color=style.colour, marker=style.marker, markersize=4, label=label))
    handles.append(Line2D([], [], color=BACKGROUND, alpha=0.5, linewidth=0.8, label="other runs"))
    handles.append(Patch(color=WINDOW_COLOUR, label="final window, which ranks them"))
    columns = 5 if figure.get_figwidth() > 8 else 3 if figure.get_figwidth() > 4.8 else 2
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=7)
    return figure


def _runs_panel(axes: Axes, group: GroupVariation) -> None:
    plot_runs(
        [curve.steps_T for curve in group.curves],
        [curve.values_T for curve in group.curves],
        group.scores_R,
        axes=axes,
        percents=HIGHLIGHTED,
        window=group.window,
        legend=False,
    )
    said = f"{group.n} run{'s' if group.n > 1 else ''}"
    if group.ipr is not None:
        word = "range" if group.ipr.is_range else f"IPR-{group.ipr.inner:g}"
        mark = "*" if group.bounds is not None and group.bounds.origin == "empirical" else ""
        said += f", {word} {group.ipr.percent:.0f}%{mark}"
    axes.set_title(f"{_short(group.title)}\n{said}", loc="left", linespacing=1.25)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(5))


def _profiles_figure(tasks: list[list[GroupVariation]]) -> Figure:
    columns = _columns(len(tasks))
    rows = -(-len(tasks) // columns)
    figure, grid = _grid(rows, columns, sharey="all")
    used = set()
    for number, groups in enumerate(tasks):
        row, column = divmod(number, columns)
        axes = grid[row][column]
        used.add((row, column))
        named = [(_short(group.algorithm), group.profile) for group in groups if group.profile is not None]
        plot_profiles(named, axes=axes, legend=number == 0)
        axes.set_title(_short(groups[0].task or "all runs"), loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if column == 0:
            axes.set_ylabel("share of runs ≥ score")
        if number + columns >= len(tasks):
            axes.set_xlabel("final performance")
    _hide(grid, used)
    level = tasks[0][0].centre.level
    said = f"Share of runs that reach at least a score; shaded: {level:.0%} band for all scores at once"
    lines = textwrap.wrap(said, int(figure.get_figwidth() * LETTERS_AN_INCH))
    figure.suptitle("\n".join(lines), fontsize=8, x=0.01, ha="left")
    return figure


def _grid(rows: int, columns: int, sharey: Literal["none", "all", "row"]) -> tuple[Figure, Any]:
    scale = FEW_SCALE if rows * columns <= 4 else 1.0
    size = (max(PANEL[0] * columns * scale, 4.2), PANEL[1] * rows * scale + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=sharey)


def _columns(panels: int) -> int:
    return min(panels, 4 if panels <= 16 else 6)


def _hide(grid: Any, used: set[tuple[int, int]]) -> None:
    for row, line in enumerate(grid):
        for column, axes in enumerate(line):
            if (row, column) not in used:
                axes.set_visible(False)


def _short(text: str, length: int = 34) -> str:
    shown = printable(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"
