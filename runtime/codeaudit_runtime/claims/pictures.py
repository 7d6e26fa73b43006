"""A specimen as SVG: the state, and the learned and true distribution functions of both actions. Decides nothing."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from codeaudit_runtime.claims.stored import StoredState
from codeaudit_runtime.environments.riskygrid import COLUMNS
from codeaudit_runtime.rendering.plots import COLOURS, STYLE
from codeaudit_runtime.spaces import AnyArray, FloatArray

MOST_POINTS = 400  # of a true distribution function, so that a page of them stays small


def specimen_svg(state: StoredState) -> str:
    """The same state gives the same text."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 3))
        _board(left, state.observation)
        _functions(right, state)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _board(axes: Axes, observation: AnyArray) -> None:
    if observation.ndim == 3 and observation.dtype == np.bool_:  # a MinAtar board: one colour a channel
        channels = observation.shape[2]
        shown = np.where(observation.any(axis=2), observation.argmax(axis=2) + 1, 0)
        colours = ListedColormap(["#f2f2f2", *(matplotlib.colormaps["tab10"](index % 10) for index in range(channels))])
        axes.imshow(shown, cmap=colours, vmin=0, vmax=channels, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title("state: one colour a channel")
    elif observation.ndim == 3 and observation.dtype == np.uint8:  # screens, the newest last
        axes.imshow(observation[-1], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title("state: the newest screen")
    elif observation.shape == (2 * COLUMNS,):  # RiskyGrid, or another row of as many numbers
        here = observation[:COLUMNS].argmax()
        colours_of = [COLOURS[1] if column == here else "#bbbbbb" for column in range(COLUMNS)]
        axes.bar(np.arange(COLUMNS), observation[COLUMNS:], color=colours_of)
        axes.set_xlabel("column; coloured: here")
        axes.set_title("state: gamble scale")
    else:
        values = observation.ravel()[:200]
        axes.bar(np.arange(len(values)), values.astype(float), color="#bbbbbb")
        axes.set_title("state: observation")


def _functions(axes: Axes, state: StoredState) -> None:
    for place, action in enumerate(state.result.actions):
        law, colour = state.learned[place], COLOURS[place]
        learned = np.cumsum(law.weights)
        axes.step(law.values, learned, where="post", color=colour, linestyle="--", label=f"action {action}, learned")
        values, heights = _thinned(np.sort(state.returns[place]))
        axes.step(values, heights, where="post", color=colour, label=f"action {action}, true")
    axes.set_xlabel("discounted return")
    axes.set_ylabel("share of returns up to it")
    axes.set_title(f"claim {state.result.claim:.3f}, truth {state.result.truth:.3f}")
    axes.legend(frameon=False, fontsize=8)


def _thinned(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_POINTS)).round().astype(int))
    values = np.concatenate([ordered[:1], ordered[places]])
    return values, np.concatenate([[0.0], (places + 1) / len(ordered)])
