"""Warnings where a procedure misleads more often than it says at the size at hand. Decides nothing about the data.

The numbers were measured by tests/benchmarks/simulate_statistics.py (4,000 repeats): error rates of Welch's floor
comparison and coverage of 95% percentile bootstrap intervals, for normal and for skewed values.
"""

from __future__ import annotations

FEW_EPISODES = 100  # at 30 skewed episodes intervals cover 92% and Welch errs in 7%; at 384 both are nominal
# runs → (largest error rate of a 5% Welch test, smallest coverage of a 95% bootstrap interval), normal or skewed runs
RUNS_MEASURED = ((3, 0.14, 0.69), (6, 0.11, 0.82), (12, 0.08, 0.87))


def episode_cautions(episodes: int) -> list[str]:
    """For an analysis whose unit is the episode of one run."""
    found = ["one run: how much another run of the same recipe would differ is unknown"]
    if episodes < FEW_EPISODES:
        found.append(
            f"{episodes} episodes are few: where returns are skewed, 95% intervals cover about 92% at 30 episodes and "
            "5% tests err in up to 9%"
        )
    return found


def run_cautions(runs: int) -> list[str]:
    """For an analysis whose unit is the run."""
    for size, error, coverage in RUNS_MEASURED:
        if runs <= size:
            return [
                f"{runs} runs: where runs are skewed, a 5% floor comparison errs in up to {error:.0%} and a 95% "
                f"bootstrap interval covers about {coverage:.0%} (measured at {size} runs); where one run in ten is "
                "far off, worse"
            ]
    return []
