"""Reports warn where a procedure is worse than it says, and the warnings are true."""

from __future__ import annotations

import numpy as np
import pytest
from codeaudit_runtime.cautions import RUNS_MEASURED, episode_cautions, run_cautions
from codeaudit_runtime.statistics import bootstrap_interval


def test_small_samples_are_warned_of_and_large_ones_are_not() -> None:
    assert any("are few" in text for text in episode_cautions(30))
    assert not any("are few" in text for text in episode_cautions(384))
    assert "69%" in run_cautions(3)[0] and "82%" in run_cautions(5)[0] and run_cautions(13) == []


@pytest.mark.parametrize(("runs", "coverage"), [(runs, coverage) for runs, _, coverage in RUNS_MEASURED])
def test_the_stated_coverage_of_a_bootstrap_over_skewed_runs(runs: int, coverage: float) -> None:
    rng = np.random.default_rng(runs)
    hits = 0
    for seed in range(1500):
        low, high = bootstrap_interval(rng.exponential(1.0, runs), resamples=400, seed=seed)
        hits += low <= 1.0 <= high
    assert hits / 1500 == pytest.approx(coverage, abs=0.04)
