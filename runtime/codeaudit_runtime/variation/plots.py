"""Run-wise percentile highlighting and performance profiles on matplotlib Axes. Decides nothing; writes no files.

Colours are Okabe & Ito's, which the common kinds of colour blindness keep apart; each highlighted line also has
markers of its own, so that a black-and-white print can be read. Dashes would be lost in the noise of a learning curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.variation.centre import Profile
from codeaudit_runtime.variation.numerals import ordinal
from codeaudit_runtime.variation.spread import Scores, run_at_percentile, scores_array

DRAWN_POINTS = 400  # of one curve; a longer one is drawn by its lowest and highest value in each of 200 stretches
MARKERS = 6  # along a highlighted line
RASTER_FROM = 60_000  # points in the background from which vector files hold a picture of it


@dataclass(frozen=True)
class Style:
    colour: str
    marker: str


STYLES: dict[float, Style] = {5.0: Style("#D55E00", "v"), 50.0: Style("#000000", "o"), 95.0: Style("#0072B2", "^")}
OTHER_STYLES = (Style("#009E73", "s"), Style("#CC79A7", "D"))
BACKGROUND = "#7A7A7A"
WINDOW_COLOUR = "#E8E8E8"
PROFILE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
PROFILE_DASHES = ("-", "--", "-.", ":")


def style_of_percent(percent: float, index: int = 0) -> Style:
    return STYLES.get(percent, OTHER_STYLES[index % len(OTHER_STYLES)])


def plot_runs(
    steps_R: Sequence[FloatArray],
    values_R: Sequence[FloatArray],
    final_scores_R: Scores,
    *,
    axes: Axes | None = None,
    percents: Sequence[float] = (5.0, 50.0, 95.0),
    window: tuple[float, float] | None = None,
    bounds: tuple[float, float] | None = None,
    legend: bool = True,
) -> Axes:
    """Draw R learning curves; those whose final performance is at `percents` (nearest rank) bold, the rest transparent.

    `steps_R` and `values_R` hold one array (T,) a run, of any lengths; NaN breaks a line. `final_scores_R` (R,) decides
    which runs are highlighted: whole runs, not percentiles taken at each step, which no run ever followed. `window`
    (first and last step) is shaded. Without `axes` a new figure is made. Source: Tanaka & Mahmood (2026).
    """
    finals_R = scores_array(final_scores_R)
    if not len(steps_R) == len(values_R) == len(finals_R):
        raise ValueError("as many curves as final scores")
    axes = axes if axes is not None else _new_axes()
    lines = [_thinned(steps, values) for steps, values in zip(steps_R, values_R, strict=True)]
    chosen = [(percent, run_at_percentile(finals_R, percent)) for percent in percents]
    rest = [line for index, line in enumerate(lines) if index not in {index for _, index in chosen}]
    if rest:
        points = sum(len(line) for line in rest)
        alpha = float(np.clip(4 / len(rest) ** 0.7, 0.04, 0.45))
        background = LineCollection(rest, colors=BACKGROUND, linewidths=0.7, alpha=alpha, zorder=1)
        background.set_rasterized(points > RASTER_FROM)
        axes.add_collection(background)
    if window is not None and window[1] > window[0]:
        axes.axvspan(*window, color=WINDOW_COLOUR, linewidth=0, zorder=0)
    for number, (percent, index) in enumerate(chosen):
        style, line = style_of_percent(percent, number), lines[index]
        label = f"{ordinal(percent)} percentile: {finals_R[index]:.3g}"
        axes.plot(line[:, 0], line[:, 1], color=style.colour, linewidth=1.2, zorder=3, label=label, marker=style.marker,
                  markersize=4, markevery=_marked(len(line), number), markeredgecolor="white",
                  markeredgewidth=0.4)  # fmt: skip
    axes.autoscale_view()
    if bounds is not None:
        for bound in bounds:
            axes.axhline(bound, color="#BBBBBB", linewidth=0.8, zorder=0)
    if legend:
        axes.legend(loc="best", frameon=False, fontsize="small")
    return axes


def plot_profiles(profiles: Sequence[tuple[str, Profile]], *, axes: Axes | None = None, legend: bool = True) -> Axes:
    """Draw performance profiles, one a named group: share of runs that reach each score, with its band."""
    axes = axes if axes is not None else _new_axes()
    for number, (name, profile) in enumerate(profiles):
        colour = PROFILE_COLOURS[number % len(PROFILE_COLOURS)]
        dash = PROFILE_DASHES[number % len(PROFILE_DASHES)]
        shares = np.array(profile.shares)
        low, high = np.clip(shares - profile.half_width, 0, 1), np.clip(shares + profile.half_width, 0, 1)
        axes.fill_between(profile.thresholds, low, high, color=colour, alpha=0.12, linewidth=0, step="post")
        axes.plot(profile.thresholds, shares, dash, color=colour, drawstyle="steps-post", label=name or "all runs")
    axes.set_ylim(-0.02, 1.02)
    if legend and len(profiles) > 1:
        axes.legend(loc="best", frameon=False, fontsize="small")
    return axes


def _marked(points: int, number: int) -> list[int]:
    """Where along a line its markers stand: a few places, others for each line, and the end."""
    apart = max(1, points // MARKERS)
    return sorted({*range(apart * (number + 1) // 4, points, apart), points - 1}) if points else []


def _thinned(steps_T: FloatArray, values_T: FloatArray) -> FloatArray:
    """Points (K, 2) that draw the same picture: the lowest and highest value of each stretch, in their order."""
    points_T2 = np.column_stack([np.asarray(steps_T, dtype=np.float64), np.asarray(values_T, dtype=np.float64)])
    points_T2[~np.isfinite(points_T2[:, 1]), 1] = np.nan
    count = len(points_T2)
    if count <= DRAWN_POINTS or np.isnan(points_T2[:, 1]).any():
        return points_T2
    stretches = DRAWN_POINTS // 2
    size = count // stretches
    body_SK = points_T2[: stretches * size, 1].reshape(stretches, size)
    starts = np.arange(stretches) * size
    picks = np.sort(np.stack([starts + body_SK.argmin(axis=1), starts + body_SK.argmax(axis=1)], axis=1), axis=1)
    kept = np.unique(np.concatenate([[0], picks.ravel(), [count - 1]]))
    thinned: FloatArray = points_T2[kept]
    return thinned


def _new_axes() -> Axes:
    """An Axes on a figure of its own, which no global state keeps alive."""
    from matplotlib.figure import Figure

    return Figure(figsize=(5.0, 3.2), layout="constrained").subplots()
