"""The JSON report `codeaudit.variation/1`. Not for other formats; its schema lies in codeaudit/schemas."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import matplotlib
import numpy as np
import scipy

import codeaudit
from codeaudit_runtime.variation.analysis import Analysis, GroupVariation
from codeaudit_runtime.variation.loading import Loaded
from codeaudit_runtime.variation.words import method_lines, reading


def report(analysis: Analysis, loaded: Loaded) -> dict[str, Any]:
    s = analysis.settings
    found: dict[str, Any] = _finite(
        {
            "schema": "codeaudit.variation/1",
            "tool": {"name": "codeaudit", "version": codeaudit.__version__},
            "versions": {"numpy": np.__version__, "scipy": scipy.__version__, "matplotlib": matplotlib.__version__},
            "settings": {
                "window": asdict(s.window),
                "lengths": s.lengths,
                "missing": s.missing,
                "percentiles": s.method,
                "inner": s.inner,
                "tolerance_content": s.content,
                "level": s.level,
                "resamples": s.resamples,
                "seed": s.seed,
                "fail_under": s.fail_under,
                "fail_under_is_percent": s.fail_share,
                "suite": s.suite,
            },
            "inputs": [
                {
                    "path": item.path,
                    "sha256": item.sha256,
                    "kind": item.kind,
                    "curves": item.runs,
                    "value": item.columns.choice.value,
                    "step": item.columns.choice.step,
                    "run": item.columns.choice.run,
                    "task": list(item.columns.task),
                    "algorithm": list(item.columns.algorithm),
                    "guessed": list(item.columns.guessed),
                }
                for item in loaded.inputs
            ],
            "groups": [_group(group) for group in analysis.groups],
            "averages": [asdict(average) for average in analysis.averages],
            "reading": reading(analysis),
            "method": method_lines(analysis),
            "notes": list(dict.fromkeys(loaded.notes)),
            "left_out": [asdict(item) for item in (*loaded.left_out, *analysis.left_out)],
        }
    )
    return found


def json_text(analysis: Analysis, loaded: Loaded) -> str:
    return json.dumps(report(analysis, loaded), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _group(group: GroupVariation) -> dict[str, Any]:
    highlighted = {item.run for item in group.highlights}
    ipr = None
    if group.ipr is not None:
        ipr = {**asdict(group.ipr), "is_range": group.ipr.is_range}
    return {
        "task": group.task,
        "algorithm": group.algorithm,
        "n": group.n,
        "runs": [
            {"run": curve.run, "score": score, "source": curve.source, "highlighted": curve.run in highlighted}
            for curve, score in zip(group.curves, group.scores_R.tolist(), strict=True)
        ],
        "window": list(group.window),
        "bounds": asdict(group.bounds) if group.bounds is not None else None,
        "ipr": ipr,
        "ipr_interval": asdict(group.ipr_interval) if group.ipr_interval is not None else None,
        "lower_percentile_interval": asdict(group.lower),
        "upper_percentile_interval": asdict(group.upper),
        "tolerance": {**asdict(group.tolerance), "holds": group.tolerance.holds},
        "centre": asdict(group.centre),
        "failures": asdict(group.failures) if group.failures is not None else None,
        "profile": asdict(group.profile) if group.profile is not None else None,
        "highlights": [asdict(item) for item in group.highlights],
        "outside_bounds": group.outside,
        "notes": list(group.notes),
    }


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: both become null. Lone surrogates of file names become their escapes."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
