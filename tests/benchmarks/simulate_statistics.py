"""Error rates and coverage of every procedure by simulation: three, six, twelve runs; normal, skewed, 0/10 and equal.

Run: python tests/benchmarks/simulate_statistics.py [--repeats 2000]. Prints a Markdown table, asserts nothing. A value
is marked where it is off its nominal value by more than three simulation errors, on the side that misleads.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np
from codeaudit_runtime.statistics import (
    bootstrap_interval,
    estimate_from_clusters,
    estimate_from_values,
    fisher,
    holm,
    paired,
    stouffer,
    tost_p,
    welch,
)

Draw = Callable[[np.random.Generator, int], np.ndarray]
RUNS = (3, 6, 12)
EPISODES = 384

# Each has mean 1 (0/10: mean 1 is one success in ten) and, except for `equal`, some spread.
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(1.0, 1.0, n),
    "skewed": lambda rng, n: rng.exponential(1.0, n),
    "0/10": lambda rng, n: 10.0 * (rng.random(n) < 0.1),
    "equal": lambda rng, n: np.ones(n),
}
Row = tuple[str, str, str, float, float, bool]  # procedure, distribution, size, found, nominal, higher is worse


def run_means(draw: Draw, rng: np.random.Generator, runs: int, effect: float = 0.5) -> np.ndarray:
    """Means of independent runs: a run's own level, drawn from the distribution around 1, plus its episodes' noise."""
    own = 1.0 + effect * (draw(rng, runs) - 1.0)
    return np.array([level + (draw(rng, EPISODES) - 1.0).mean() for level in own])


def simulate(repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for name, draw in DISTRIBUTIONS.items():
        for runs in RUNS:
            rejected = passed = covered = t_covered = combined_f = combined_s = 0
            for _ in range(repeats):
                values = run_means(draw, rng, runs)
                floor = draw(rng, EPISODES)
                own, reference = estimate_from_values(values), estimate_from_values(floor)
                comparison = welch(own, reference)
                rejected += comparison.p < 0.05
                t_covered += comparison.low <= 0 <= comparison.high
                shifted = estimate_from_values(values + 0.5)  # exactly at the margin: no equivalence is true
                passed += tost_p(shifted, reference, 0.5) < 0.05
                low, high = bootstrap_interval(values, resamples=1000, seed=int(rng.integers(2**31)))
                covered += low <= 1.0 <= high
                p_values = rng.random(runs)
                combined_f += fisher(p_values, range(runs)) < 0.05
                combined_s += stouffer(p_values, range(runs)) < 0.05
            size = f"{runs} runs"
            yield "floor: Welch, run means", name, size, rejected / repeats, 0.05, True
            yield "floor: Welch interval covers", name, size, t_covered / repeats, 0.95, False
            yield "floor: TOST at the margin", name, size, passed / repeats, 0.05, True
            yield "percentile bootstrap over runs covers", name, size, covered / repeats, 0.95, False
            if name == "normal":
                yield "Fisher", "uniform p", size, combined_f / repeats, 0.05, True
                yield "Stouffer", "uniform p", size, combined_s / repeats, 0.05, True
        yield from one_run(name, draw, repeats, rng)
    yield from families(repeats, rng)
    yield from clustered(repeats, rng)


def one_run(name: str, draw: Draw, repeats: int, rng: np.random.Generator) -> Iterator[Row]:
    """The unit is the episode: one agent against the floor, against a printed number, and its two rules in pairs."""
    for episodes in (30, EPISODES):
        rejected = passed = covered = pair = 0
        for _ in range(repeats):
            values, floor, other = draw(rng, episodes), draw(rng, EPISODES), draw(rng, episodes)
            own, reference = estimate_from_values(values), estimate_from_values(floor)
            rejected += welch(own, reference).p < 0.05
            passed += tost_p(estimate_from_values(values + 0.5), reference, 0.5) < 0.05
            pair += paired(values - other).p < 0.05
            low, high = bootstrap_interval(values, resamples=1000, seed=int(rng.integers(2**31)))
            covered += low <= 1.0 <= high
        size = f"{episodes} episodes"
        yield "one run: Welch, episodes", name, size, rejected / repeats, 0.05, True
        yield "one run: TOST at the margin", name, size, passed / repeats, 0.05, True
        yield "one run: paired t", name, size, pair / repeats, 0.05, True
        yield "one run: percentile bootstrap covers", name, size, covered / repeats, 0.95, False


def families(repeats: int, rng: np.random.Generator) -> Iterator[Row]:
    """Any false rejection among sixteen true nulls, before and after Holm."""
    plain = adjusted = 0
    for _ in range(repeats):
        p_values = [
            welch(
                estimate_from_values(rng.exponential(1.0, EPISODES)),
                estimate_from_values(rng.exponential(1.0, EPISODES)),
            ).p
            for _ in range(16)
        ]
        plain += min(p_values) < 0.05
        adjusted += min(holm(p_values)) < 0.05
    yield "sixteen tests, unadjusted: any false rejection", "skewed", "384 episodes", plain / repeats, 0.05, True
    yield "sixteen tests, Holm: any false rejection", "skewed", "384 episodes", adjusted / repeats, 0.05, True


def clustered(repeats: int, rng: np.random.Generator) -> Iterator[Row]:
    """384 draws of 200 or 100 deterministic levels out of a generator: interval of the generator's mean."""
    from scipy import stats

    for levels in (200, 100):
        plain = robust = 0
        for _ in range(repeats):
            returns_L = rng.exponential(1.0, levels)
            drawn = rng.integers(0, levels, EPISODES)
            values = returns_L[drawn]
            for kind, estimate in (
                ("plain", estimate_from_values(values)),
                ("robust", estimate_from_clusters(values, drawn.tolist())),
            ):
                half = float(stats.t.ppf(0.975, estimate.df)) * estimate.sem
                hit = abs(estimate.mean - 1.0) <= half
                plain += hit and kind == "plain"
                robust += hit and kind == "robust"
        size = f"{levels} levels"
        yield "generator's mean: episode SEM covers", "skewed", size, plain / repeats, 0.95, False
        yield "generator's mean: SEM clustered by level covers", "skewed", size, robust / repeats, 0.95, False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    print("| procedure | distribution | size | found | nominal | |\n| --- | --- | --- | --- | --- | --- |")
    for procedure, distribution, size, found, nominal, higher_is_worse in simulate(repeats):
        error = 3 * math.sqrt(nominal * (1 - nominal) / repeats)
        off = found - nominal > error if higher_is_worse else nominal - found > error
        print(
            f"| {procedure} | {distribution} | {size} | {found:.3f} | {nominal} | {'off' if off else ''} |", flush=True
        )


if __name__ == "__main__":
    main()
