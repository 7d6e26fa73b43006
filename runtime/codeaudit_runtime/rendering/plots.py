"""Plots as SVG text: returns per rule with floor and published value, and paired differences. Decides nothing."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from codeaudit_runtime.episodes import returns_of
from codeaudit_runtime.measurements import CheckpointMeasurement
from codeaudit_runtime.spaces import FloatArray

STYLE: Any = {"svg.hashsalt": "codeaudit", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
COLOURS = ("#2166ac", "#b2552b", "#5a8f29", "#7b5aa6")
FLOOR_COLOUR = "#777777"


def checkpoint_svg(one: CheckpointMeasurement) -> str:
    """Left: one strip a rule, with its mean and interval, the floor's, the published mean. Right: paired differences.

    The same measurement gives the same text.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _distributions(left, one)
        _differences(right, one)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _distributions(axes: Axes, one: CheckpointMeasurement) -> None:
    groups = [(rule, returns_of(one.rows.rules[rule.rule])) for rule in one.rules]
    groups.append((one.floor, returns_of(one.rows.floor)))
    for row, (rule, returns) in enumerate(groups):
        colour = FLOOR_COLOUR if rule is one.floor else COLOURS[row % len(COLOURS)]
        axes.scatter(returns, row + _spread(returns), s=4, alpha=0.35, color=colour, linewidths=0, rasterized=True)
        summary = rule.summary
        axes.plot([summary.low, summary.high], [row, row], color="black", linewidth=2, solid_capstyle="butt")
        axes.plot([summary.mean], [row], "|", color="black", markersize=12, markeredgewidth=2)
    if one.rows.published is not None:
        label = f"published {one.rows.published.mean:g}"
        axes.axvline(one.rows.published.mean, color="#c51b7d", linewidth=1.2, linestyle="--", label=label)
        axes.legend(loc="best", frameon=False, fontsize=8)
    axes.set_yticks(range(len(groups)), [rule.rule for rule, _ in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlabel("return of one episode")


def _spread(returns: FloatArray) -> FloatArray:
    """Offsets that keep points apart, the same every time."""
    rng = np.random.Generator(np.random.PCG64(len(returns)))
    return rng.uniform(-0.28, 0.28, len(returns))


def _differences(axes: Axes, one: CheckpointMeasurement) -> None:
    if not one.pairs:
        axes.set_axis_off()
        return
    pair = one.pairs[0]
    differences = np.array(pair.differences)
    spread = float(np.ptp(differences)) if len(differences) else 0.0
    axes.hist(differences, bins=30 if spread > 0 else 1, color=COLOURS[0], alpha=0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvspan(-pair.margin, pair.margin, color="#cccccc", alpha=0.5, linewidth=0, label="margin")
    axes.axvline(pair.returns.difference, color="#c51b7d", linewidth=1.5, label=f"mean {pair.returns.difference:+.3g}")
    axes.set_xlabel(f"{pair.first} − {pair.second}, paired")
    axes.set_ylabel("episodes")
    axes.legend(loc="best", frameon=False, fontsize=8)
