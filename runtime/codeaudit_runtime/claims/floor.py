"""The floor of the measured excess: what two samples of one distribution show by chance, by n. Not for verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class FloorPoint:
    """Mean and 95th percentile of the excess between two samples of n returns of N(0, σ²); its true value is 0."""

    n: int
    mean: float
    high: float


def floor_points(sizes: Sequence[int], sigma: float, draws: int, seed: int) -> list[FloorPoint]:
    points = []
    for n in sizes:
        rng = np.random.Generator(np.random.PCG64([seed, n]))
        values = []
        for start in range(0, draws, 100):
            count = min(100, draws - start)
            x, y = (np.sort(rng.normal(0.0, sigma, (count, n)), axis=1) for _ in range(2))
            values.append(np.abs(x - y).mean(axis=1) - np.abs((x - y).mean(axis=1)))
        excess = np.concatenate(values)
        points.append(FloorPoint(n, float(excess.mean()), float(np.quantile(excess, 0.95))))
    return points


def floor_plot(points: Sequence[FloorPoint], sigma: float, path: Path) -> None:
    """Both lines over n on logarithmic axes; they fall as n^(−1/2)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    sizes = [point.n for point in points]
    axes.loglog(sizes, [point.mean for point in points], "o-", label="mean")
    axes.loglog(sizes, [point.high for point in points], "s--", label="95th percentile")
    axes.set_xlabel("returns for each action (n)")
    axes.set_ylabel("excess by chance")
    axes.set_title(f"Floor of the measured excess, normal returns, σ = {sigma:g}")
    axes.legend(frameon=False)
    figure.savefig(path)
