"""Plots: what is drawn bold, that an Axes goes in and comes out, and that files are the same bytes every time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from codeaudit_runtime.variation import performance_profile, plot_profiles, plot_runs
from codeaudit_runtime.variation.analysis import Analysis, Settings, analyse
from codeaudit_runtime.variation.curves import Curve
from codeaudit_runtime.variation.figures import figures, write_figures
from codeaudit_runtime.variation.numerals import number, ordinal
from codeaudit_runtime.variation.terminal_plot import curves_canvas, strips
from matplotlib.figure import Figure


def many(runs: int, points: int = 30, tasks: tuple[str, ...] = ("a",), algorithms: tuple[str, ...] = ("",)) -> Analysis:
    """Runs whose height is their number."""
    steps = np.arange(points, dtype=float)
    curves = [
        Curve(task, algorithm, str(run), steps, run + np.sin(steps), "made")
        for task in tasks
        for algorithm in algorithms
        for run in range(runs)
    ]
    return analyse(curves, Settings(low=-1, high=runs + 1, resamples=100))


def test_whole_runs_at_the_percentiles_are_bold_and_the_rest_is_behind() -> None:
    axes = Figure().subplots()
    steps = [np.arange(3.0)] * 40
    values = [np.full(3, float(run)) for run in range(40)]
    finals = np.roll(np.arange(40.0), 7)  # the final score ranks runs, not what is drawn
    assert plot_runs(steps, values, finals, axes=axes) is axes
    drawn = [float(line.get_ydata()[0]) for line in axes.lines]
    assert [finals[int(height)] for height in drawn] == [1, 19, 37]
    assert len(axes.collections[0].get_segments()) == 37
    assert len({line.get_color() for line in axes.lines}) == len({line.get_marker() for line in axes.lines}) == 3
    assert axes.collections[0].get_zorder() < axes.lines[0].get_zorder()


def test_an_axes_is_made_where_none_is_given() -> None:
    axes = plot_runs([np.arange(2.0)], [np.arange(2.0)], [1.0])
    assert axes.figure is not None and len(axes.lines) == 3
    profile = performance_profile([1.0, 2.0], [0.0, 1.5, 3.0])
    assert len(plot_profiles([("x", profile)]).lines) == 1
    with pytest.raises(ValueError, match="as many curves"):
        plot_runs([np.arange(2.0)], [np.arange(2.0)], [1.0, 2.0])


def test_a_long_curve_keeps_its_extremes() -> None:
    values = np.zeros(50_000)
    values[12_345], values[31_000] = 9.0, -7.0
    line = plot_runs([np.arange(50_000.0)], [values], [0.0]).lines[0]
    assert (max(line.get_ydata()), min(line.get_ydata())) == (9.0, -7.0)
    assert len(line.get_xdata()) < 1000
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 49_999)


def test_gaps_break_a_line_and_are_not_filled() -> None:
    line = plot_runs([np.arange(3.0)], [np.array([1.0, math.inf, 3.0])], [3.0]).lines[0]
    assert np.isnan(line.get_ydata()[1])


def test_files_have_the_same_bytes_every_time(tmp_path: Path) -> None:
    first = write_figures(many(5), tmp_path / "one")
    second = write_figures(many(5), tmp_path / "two")
    assert [path.name for path in first] == [
        f"{name}.{form}" for name in ("runs", "profiles") for form in ("png", "svg", "pdf")
    ]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    heads = [path.read_bytes()[:5] for path in first[:3]]
    assert (heads[0], heads[1], heads[2]) == (b"\x89PNG\r", b"<?xml", b"%PDF-")


def test_algorithms_stand_side_by_side_and_share_an_axis() -> None:
    (_, figure), _ = figures(many(3, tasks=("a", "b"), algorithms=("x", "y")))
    titles = [axes.get_title(loc="left").partition("\n")[0] for axes in figure.axes]
    assert titles == ["a · x", "a · y", "b · x", "b · y"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_many_tasks_go_on_several_pages() -> None:
    names = [name for name, _ in figures(many(1, points=2, tasks=tuple(f"t{i}" for i in range(40))))]
    assert names == ["runs-1", "profiles-1", "runs-2", "profiles-2"]


def test_terminal_plot_shows_the_three_runs_among_the_others() -> None:
    group = many(40, points=200).groups[0]
    canvas = curves_canvas(group, width=50, height=20)
    text = "".join(canvas.lines)
    assert {mark: mark in text for mark in "▼●▲·"} == dict.fromkeys("▼●▲·", True)
    rows = {mark: next(row for row, line in enumerate(canvas.lines) if mark in line) for mark in "▼●▲"}
    assert rows["▲"] < rows["●"] < rows["▼"]
    assert len({len(line) for line in canvas.lines[:21]}) == 1
    assert "run 1, " in canvas.key and "run 37, " in canvas.key


def test_strips_put_scores_between_the_bounds() -> None:
    canvas = strips(many(3, tasks=("a", "b", "c", "d")).groups)
    assert len(canvas.lines) == 4
    assert canvas.lines[0].index("▼") < canvas.lines[0].index("●") < canvas.lines[0].index("▲")


def test_numbers_and_ordinals() -> None:
    assert [ordinal(p) for p in (1, 2, 3, 5, 11, 12, 21, 50, 95, 2.5)] == [
        "1st", "2nd", "3rd", "5th", "11th", "12th", "21st", "50th", "95th", "2.5th",
    ]  # fmt: skip
    assert [number(x) for x in (None, math.nan, 0.0, 0.01234, 1.236, -45.67, 1234.4, 2.5e7)] == [
        "–", "–", "0.00", "0.0123", "1.24", "-45.7", "1,234", "2.5e+07",
    ]  # fmt: skip
