"""The claims report as data: `codeaudit.claims/1`. Not for running anything; it reads stored units."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.claims.audit import RunFacts, Settings, facts_from_json, results_of_run
from codeaudit_runtime.claims.verdicts import GameSummary, StateResult, summarise


@dataclass(frozen=True)
class Audit:
    """Everything stored of one audit, and the verdicts that follow."""

    settings: Settings
    runs: tuple[RunFacts, ...]
    games: tuple[tuple[GameSummary, tuple[StateResult, ...]], ...]


def audit_from_directory(path: Path) -> Audit:
    """Reads a finished audit; UserError where the folder holds none or it is not finished."""
    try:
        manifest: dict[str, Any] = json.loads((path / "manifest.json").read_text("utf-8"))
        if manifest.get("command") != "claims":
            raise ValueError
        settings = Settings(**{field.name: manifest[field.name] for field in fields(Settings)})
        names = sorted(manifest["runs"])
    except OSError:
        raise UserError(f"{path}: no audit in it", hint="name the folder given to `codeaudit claims --out`") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise UserError(f"{path}/manifest.json: not of an audit of claims") from None
    run = RunDirectory(path, manifest)
    facts = tuple(facts_from_json(run.unit(f"{name}/facts"), name) for name in names)
    games = []
    for key in dict.fromkeys((one.environment, one.algorithm) for one in facts):
        states = [
            state for one in facts if (one.environment, one.algorithm) == key for state in results_of_run(run, one)
        ]
        games.append((summarise(*key, states, settings.draws, settings.level, settings.seed), tuple(states)))
    return Audit(settings, facts, tuple(games))


def report_json(audit: Audit, versions: Mapping[str, str]) -> dict[str, Any]:
    """The published report; numbers that do not exist are null."""
    report = {
        "schema": "codeaudit.claims/1",
        "settings": asdict(audit.settings),
        "versions": dict(versions),
        "runs": [{key: value for key, value in asdict(run).items() if key != "audited"} for run in audit.runs],
        "games": [
            {
                **{key: value for key, value in asdict(summary).items() if key != "real"},
                "states": [
                    {
                        **asdict(state),
                        "real": real,
                        "overstated": state.overstated,
                        "overstated_by_study": state.overstated_by_study,
                    }
                    for state, real in zip(states, summary.real, strict=True)
                ],
            }
            for summary, states in audit.games
        ],
    }
    finite: dict[str, Any] = _finite(report)
    return finite


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
