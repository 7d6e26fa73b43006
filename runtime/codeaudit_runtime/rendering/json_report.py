"""The JSON reports `codeaudit.verify/1`, `codeaudit.evaluate/1` and `codeaudit.floor/1`. Not for other formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from codeaudit.predictions import Prediction
from codeaudit_runtime.episodes import EpisodeRow, returns_of
from codeaudit_runtime.measurements import (
    Against,
    CheckpointMeasurement,
    FirstFinished,
    PairedMeasurement,
    RuleMeasurement,
)
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.statistics import Comparison, estimate_from_clusters, estimate_from_values, kish_effective_n
from codeaudit_runtime.verify import Verified


def verify_report(
    entry: str,
    commit: str,
    predictions: Sequence[Prediction],
    verified: Sequence[Verified],
    plan: Plan,
    changes: Sequence[str],
    versions: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "schema": "codeaudit.verify/1",
        "entry": entry,
        "commit": commit,
        "predictions": [prediction.to_json() for prediction in predictions],
        **plan_fields(plan, changes, versions),
        "checkpoints": [
            {
                **_checkpoint(one.measurement),
                "fits": one.fits or None,
                "verdicts": [finite(verdict.to_json()) for verdict in one.verdicts],
            }
            for one in verified
        ],
    }


def evaluate_report(
    measured: Sequence[CheckpointMeasurement], plan: Plan, changes: Sequence[str], versions: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "schema": "codeaudit.evaluate/1",
        **plan_fields(plan, changes, versions),
        "checkpoints": [_checkpoint(one) for one in measured],
    }


def floor_report(
    environment: str, rows: Sequence[EpisodeRow], plan: Plan, changes: Sequence[str], versions: Mapping[str, str]
) -> dict[str, Any]:
    names = list(dict.fromkeys(row.level_set for row in rows))
    return {
        "schema": "codeaudit.floor/1",
        "environment": environment,
        **plan_fields(plan, changes, versions),
        "level_sets": {name: _floor_of([row for row in rows if row.level_set == name]) for name in names},
    }


def plan_fields(plan: Plan, changes: Sequence[str], versions: Mapping[str, str]) -> dict[str, Any]:
    return {
        "plan": {"hash": plan.hash, **plan.to_json()},
        "plan_changes": list(changes),
        "versions": dict(versions),
    }


def _floor_of(rows: Sequence[EpisodeRow]) -> dict[str, Any]:
    """`sem` is over the means of the draws, `sem_episode` over episodes, `sem_level` clustered by level."""
    returns = returns_of(rows)
    draws = list(dict.fromkeys(row.draw for row in rows))
    means = [float(returns_of([row for row in rows if row.draw == draw]).mean()) for draw in draws]
    report: dict[str, Any] = {
        "mean": float(returns.mean()),
        "std": float(returns.std(ddof=1)) if len(returns) > 1 else None,
        "sem": estimate_from_values(means).sem,
        "sem_episode": estimate_from_values(returns).sem,
        "episodes": len(rows),
        "draws": [{"seed": draw, "mean": mean} for draw, mean in zip(draws, means, strict=True)],
        "length": float(np.mean([row.length for row in rows])),
        "truncated": float(np.mean([row.truncated for row in rows])),
    }
    levels = [row.level for row in rows]
    if None not in levels:
        counts = np.unique(np.array(levels), return_counts=True)[1]
        report["sem_level"] = estimate_from_clusters(returns, levels).sem
        report["levels"] = {"distinct": len(counts), "effective": kish_effective_n(counts)}
    clean: dict[str, Any] = finite(report)
    return clean


def _checkpoint(one: CheckpointMeasurement) -> dict[str, Any]:
    rows = one.rows
    report: dict[str, Any] = {"id": rows.id, "environment": rows.environment}
    if rows.levels.count is not None:
        report["levels"] = rows.levels.label
    if rows.published_environment != rows.environment:
        report["published_environment"] = rows.published_environment
    report["algorithm"] = rows.algorithm
    report["step_cap"] = rows.step_cap
    report["published"] = asdict(rows.published) if rows.published is not None else None
    report["rules"] = {rule.rule: _rule(rule) for rule in (*one.rules, one.floor)}
    if one.references:
        report["references"] = {rule.rule: _rule(rule) for rule in one.references}
    report["paired"] = [_pair(pair) for pair in one.pairs]
    report["first_finished"] = [_first(item) for item in one.first_finished]
    report["margin"] = one.margin
    report["notes"] = list(rows.notes)
    clean: dict[str, Any] = finite(report)
    return clean


def _rule(rule: RuleMeasurement) -> dict[str, Any]:
    report: dict[str, Any] = asdict(rule.summary)
    if rule.call is not None:
        report["call"] = rule.call
    if rule.floor is not None:
        report["against_floor"] = _against(rule.floor)
    if rule.published is not None:
        report["against_published"] = _against(rule.published)
    return report


def _against(against: Against) -> dict[str, Any]:
    return {
        **_comparison(against.comparison),
        "adjusted_p": against.adjusted_p,
        "equivalence_p": against.equivalence_p,
        "margin": against.margin,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return asdict(comparison)


def _pair(pair: PairedMeasurement) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "pairs": len(pair.differences),
        **_comparison(pair.returns),
        "bootstrap": [pair.low, pair.high],
        "adjusted_p": pair.adjusted_p,
        "equivalence_p": pair.equivalence_p,
        "margin": pair.margin,
        "revisits": _comparison(pair.revisits),
    }


def _first(item: FirstFinished) -> dict[str, Any]:
    return asdict(item)


def finite(value: Any) -> Any:
    """JSON has no NaN or infinity: both become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
