"""The claims report as data: `codeaudit.claims/1`. Not for running anything; it reads stored units."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.claims.audit import RunFacts, Settings, facts_from_json, results_of_run
from codeaudit_runtime.claims.decisions import ALPHAS, Decisions, decisions
from codeaudit_runtime.claims.detector import Detection, detection
from codeaudit_runtime.claims.recalibration import Recalibration, recalibration
from codeaudit_runtime.claims.siblings import Siblings, siblings
from codeaudit_runtime.claims.stored import StoredState, stored_states
from codeaudit_runtime.claims.verdicts import GameSummary, StateResult, summarise


@dataclass(frozen=True)
class Repairs:
    """What follows for one game from its stored laws and returns, beyond the verdicts."""

    decisions: tuple[Decisions, ...]
    recalibration: Recalibration
    siblings: Siblings


@dataclass(frozen=True)
class Audit:
    """Everything stored of one audit, and the verdicts that follow. `repairs` and `stored` are by game; `detection`
    is of all games, by run and by game left out."""

    settings: Settings
    runs: tuple[RunFacts, ...]
    games: tuple[tuple[GameSummary, tuple[StateResult, ...]], ...]
    repairs: tuple[Repairs, ...]
    stored: tuple[tuple[StoredState, ...], ...]
    detection: tuple[Detection, ...]


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
    games, stored, related = [], [], []
    for key in dict.fromkeys((one.environment, one.algorithm) for one in facts):
        by_run = {one.name: results_of_run(run, one) for one in facts if (one.environment, one.algorithm) == key}
        states = [state for results in by_run.values() for state in results]
        summary = summarise(*key, states, settings.draws, settings.level, settings.seed)
        games.append((summary, tuple(states)))
        real, kept = list(summary.real), []
        for name, results in by_run.items():
            kept += stored_states(run, name, results, real[: len(results)])
            del real[: len(results)]
        stored.append(tuple(kept))
        related.append(siblings(states, [claims for name in by_run for claims in _sibling_claims(run, name)]))
    repairs = tuple(
        Repairs(
            tuple(decisions(kept, alpha, settings.seed) for alpha in ALPHAS),
            recalibration(states, summary.real, settings.seed),
            others,
        )
        for (summary, states), kept, others in zip(games, stored, related, strict=True)
    )
    return Audit(settings, facts, tuple(games), repairs, tuple(stored), _detection(games, stored))


def _sibling_claims(run: RunDirectory, name: str) -> list[list[float]]:
    content = run.unit(f"{name}/siblings")
    if content is None:
        raise UserError(f"{name}: the audit is not finished", hint="run the same `codeaudit claims` again")
    claims: list[list[float]] = json.loads(content)
    return claims


def _detection(
    games: Sequence[tuple[GameSummary, tuple[StateResult, ...]]], stored: Sequence[tuple[StoredState, ...]]
) -> tuple[Detection, ...]:
    """Only what can be left out: a run of several, a game of several."""
    states = [state for kept in stored for state in kept]
    by_run = [state.result.run for state in states]
    by_game = [summary.environment for (summary, _), kept in zip(games, stored, strict=True) for _ in kept]
    return tuple(
        detection(states, groups, left_out)
        for left_out, groups in (("run", by_run), ("game", by_game))
        if len(set(groups)) > 1
    )


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
                **asdict(repairs),
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
            for (summary, states), repairs in zip(audit.games, audit.repairs, strict=True)
        ],
        "detection": [asdict(one) for one in audit.detection],
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
