"""How far apart the runs of one recipe are: min-max IPR, percentile highlighting, and what readers compare them with.

Needs numpy, scipy and matplotlib, never torch. Arrays go in, small frozen data classes come out; `plot_runs` takes and
returns a matplotlib Axes. After Tanaka & Mahmood (2026), Performance Variation in Deep Reinforcement Learning.

    from codeaudit_runtime.variation import min_max_ipr, order_statistic_interval, plot_runs
    min_max_ipr(final_scores, 0, 1000).percent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeaudit_runtime.variation.centre import (
    Centre,
    Failures,
    Profile,
    bootstrap_iqm_interval,
    centre,
    failures,
    interquartile_mean,
    performance_profile,
)
from codeaudit_runtime.variation.spread import (
    IPRInterval,
    MinMaxIPR,
    OrderStatisticInterval,
    ToleranceInterval,
    ipr_interval,
    min_max_ipr,
    nearest_rank,
    order_statistic_interval,
    percentile,
    range_confidence,
    run_at_percentile,
    runs_needed,
    tolerance_interval,
)

if TYPE_CHECKING:
    from codeaudit_runtime.variation.plots import plot_profiles, plot_runs

__all__ = [
    "Centre",
    "Failures",
    "IPRInterval",
    "MinMaxIPR",
    "OrderStatisticInterval",
    "Profile",
    "ToleranceInterval",
    "bootstrap_iqm_interval",
    "centre",
    "failures",
    "interquartile_mean",
    "ipr_interval",
    "min_max_ipr",
    "nearest_rank",
    "order_statistic_interval",
    "percentile",
    "performance_profile",
    "plot_profiles",
    "plot_runs",
    "range_confidence",
    "run_at_percentile",
    "runs_needed",
    "tolerance_interval",
]


def __getattr__(name: str) -> Any:
    """The plots, loaded when first asked for: matplotlib takes longer to import than all the rest."""
    if name in ("plot_profiles", "plot_runs"):
        from codeaudit_runtime.variation import plots

        return getattr(plots, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
