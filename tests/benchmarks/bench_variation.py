"""Variation in a simulation with known truth, and the time for many long curves. Prints Markdown; asserts nothing.

Run: python tests/benchmarks/bench_variation.py [--samples 2000] [--curves 1000] [--points 10000] [--seed 7]

The population is bimodal, as runs of one recipe often are: a tenth fails, N(150, 10), the rest learns, N(800, 60), on a
task with bounds 0 and 1000. Its 5th percentile is the median of the failed mode, 150; its 95th lies where 85 of the 90
learning hundredths are passed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np
from codeaudit_runtime.variation import (
    centre,
    ipr_interval,
    min_max_ipr,
    order_statistic_interval,
    range_confidence,
    tolerance_interval,
)
from codeaudit_runtime.variation.analysis import Settings, analyse
from codeaudit_runtime.variation.columns import Wanted
from codeaudit_runtime.variation.figures import write_figures
from codeaudit_runtime.variation.loading import load_curves
from numpy.typing import NDArray
from scipy import stats

FAILED, LEARNED, SHARE = (150.0, 10.0), (800.0, 60.0), 0.1
RUNS = (3, 5, 10, 20, 30, 59, 86, 100, 300, 1000)
Floats = NDArray[np.float64]


def population(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.where(rng.random(shape) < SHARE, rng.normal(*FAILED, shape), rng.normal(*LEARNED, shape))


def share_below(x: float) -> float:
    return float(SHARE * stats.norm.cdf(x, *FAILED) + (1 - SHARE) * stats.norm.cdf(x, *LEARNED))


def true_percentiles() -> tuple[float, float]:
    low = stats.norm.ppf(0.05 / SHARE, *FAILED)
    high = stats.norm.ppf((0.95 - SHARE) / (1 - SHARE), *LEARNED)
    assert abs(share_below(low) - 0.05) < 1e-6 and abs(share_below(high) - 0.95) < 1e-6
    return float(low), float(high)


def simulate(samples: int, seed: int) -> None:
    low, high = true_percentiles()
    truth, mean = (high - low) / 10, SHARE * FAILED[0] + (1 - SHARE) * LEARNED[0]
    print(f"True 5th and 95th percentile {low:.1f} and {high:.1f}, IPR-90 {truth:.1f}%, mean {mean:.1f}.\n")
    print(
        "| runs | SE of mean | SE · √n | bootstrap holds the mean | IPR-90 | its 5% to 95% over samples "
        "| has a lower bound | lower bound holds | IPR interval holds | has an upper limit | range holds 90% (theory) "
        "| tolerance holds |"
    )
    print("|" + " ---: |" * 12)
    for n in RUNS:
        rng = np.random.Generator(np.random.PCG64([seed, n]))
        rows_SR = population(rng, (samples, n))
        centres = [centre(row, resamples=400, seed=index) for index, row in enumerate(rows_SR)]
        iprs = np.array([min_max_ipr(row, 0, 1000).percent for row in rows_SR])
        bounds = [order_statistic_interval(row, 5, side="lower").low for row in rows_SR]
        limits = [ipr_interval(row, 0, 1000) for row in rows_SR]
        given = [bound for bound in bounds if bound is not None]
        held = [one.low <= truth <= (math.inf if one.high is None else one.high) for one in limits]
        tolerances = [tolerance_interval(row) for row in rows_SR]
        promised = [share_below(one.high) - share_below(one.low) >= 0.9 for one in tolerances if one.holds]
        ranges = [share_below(row.max()) - share_below(row.min()) >= 0.9 for row in rows_SR]
        errors = np.mean([one.standard_error for one in centres])
        cells = [
            str(n),
            f"{errors:.1f}",
            f"{errors * math.sqrt(n):.0f}",
            f"{np.mean([one.mean_low <= mean <= one.mean_high for one in centres]):.1%}",
            f"{iprs.mean():.1f}%",
            f"{np.quantile(iprs, 0.05):.1f} to {np.quantile(iprs, 0.95):.1f}",
            f"{len(given) / samples:.0%}",
            f"{np.mean([bound <= low for bound in given]):.1%}" if given else "–",
            f"{np.mean(held):.1%}",
            f"{np.mean([one.high is not None for one in limits]):.0%}",
            f"{np.mean(ranges):.1%} ({range_confidence(n):.1%})",
            f"{np.mean(promised):.1%}" if promised else "–",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


def measure_time(curves: int, points: int, seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    finals_R = population(rng, (curves,))
    steps_T = np.arange(1, points + 1)
    rise_T = 1 - np.exp(-5 * steps_T / points)
    values_RT = finals_R[:, None] * rise_T + rng.normal(0, 15, (curves, points))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "curves.npz", task=values_RT.astype(np.float32))
        with (folder / "curves.csv").open("w") as file:
            file.write("run,step,return\n")
            for run, values_T in enumerate(values_RT):
                file.writelines(f"{run},{step},{value:.3f}\n" for step, value in zip(steps_T, values_T, strict=True))
        print(f"\n{curves:,} curves of {points:,} points:\n\n| what | seconds |\n| --- | ---: |")
        for form in ("npz", "csv"):
            began = time.perf_counter()
            loaded = load_curves([folder / f"curves.{form}"], Wanted())
            print(f"| read the .{form} ({(folder / f'curves.{form}').stat().st_size / 1e6:.0f} MB) "
                  f"| {time.perf_counter() - began:.1f} |", flush=True)  # fmt: skip
        began = time.perf_counter()
        analysis = analyse(loaded.curves, Settings(low=0, high=1000))
        print(f"| all statistics (10,000 bootstrap resamples) | {time.perf_counter() - began:.2f} |", flush=True)
        for form in ("png", "svg", "pdf"):
            began = time.perf_counter()
            write_figures(analysis, folder, (form,))
            print(f"| both figures as {form} | {time.perf_counter() - began:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--curves", type=int, default=1000)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    simulate(arguments.samples, arguments.seed)
    measure_time(arguments.curves, arguments.points, arguments.seed)


if __name__ == "__main__":
    main()
