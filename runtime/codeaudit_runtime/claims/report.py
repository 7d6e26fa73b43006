"""The claims report as data: `codeaudit.claims/1`. Not for running anything; it reads stored units."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.claims.audit import RunFacts, Settings, facts_from_json, results_of_run
from codeaudit_runtime.claims.beyond import stored_beyond
from codeaudit_runtime.claims.decisions import ALPHAS, Decisions, decisions
from codeaudit_runtime.claims.detector import Detection, detection
from codeaudit_runtime.claims.distillation import Distillation, DistilledState, distillation
from codeaudit_runtime.claims.probes import Probe, Trend, probe, trends
from codeaudit_runtime.claims.recalibration import Recalibration, recalibration
from codeaudit_runtime.claims.siblings import Siblings, siblings
from codeaudit_runtime.claims.stored import StoredState, stored_states
from codeaudit_runtime.claims.verdicts import GameSummary, StateResult, summarise


@dataclass(frozen=True)
class Repairs:
    """What follows for one game from its stored laws and returns, beyond the verdicts."""

    decisions: tuple[Decisions, ...]
    recalibration: Recalibration
    distillation: Distillation
    siblings: Siblings


@dataclass(frozen=True)
class Audit:
    """Everything stored of one audit or several, and the verdicts that follow.

    `repairs` and `stored` are by game, `probes` by run; `detection` is of all games, by run and by game left out.
    `settings.rollouts` is the smallest of the audits.
    """

    settings: Settings
    runs: tuple[RunFacts, ...]
    games: tuple[tuple[GameSummary, tuple[StateResult, ...]], ...]
    repairs: tuple[Repairs, ...]
    stored: tuple[tuple[StoredState, ...], ...]
    probes: tuple[Probe, ...]
    trends: tuple[Trend, ...]
    detection: tuple[Detection, ...]


def audit_from_directories(paths: Sequence[Path]) -> Audit:
    """Reads finished audits as one; UserError where a folder holds none, it is not finished, or they don't fit
    together: settings that differ in more than the number of roll-outs, or two runs of one name."""
    opened = [_opened(path) for path in paths]
    settings = min((one for one, _, _ in opened), key=lambda one: one.rollouts)
    home: dict[str, RunDirectory] = {}
    for path, (own, run, names) in zip(paths, opened, strict=True):
        if replace(own, rollouts=settings.rollouts) != settings:
            raise UserError(f"{path}: audited with other settings than {paths[0]}", hint="report them one by one")
        for name in names:
            if name in home:
                raise UserError(f"{path}: another audit here has a run {name!r}, too", hint="name each audit once")
            home[name] = run
    facts = tuple(facts_from_json(run.unit(f"{name}/facts"), name) for name, run in home.items())
    games, repairs, stored, probes = [], [], [], []
    for key in dict.fromkeys(map(_recipe, facts)):
        own_facts = [one for one in facts if _recipe(one) == key]
        by_run = {one.name: results_of_run(home[one.name], one) for one in own_facts}
        states = [state for results in by_run.values() for state in results]
        summary = summarise(key, states, settings.draws, settings.level, settings.seed)
        games.append((summary, tuple(states)))
        real, kept = list(summary.real), []
        claims: list[list[float]] = []
        distilled: list[DistilledState | None] = []
        for name, results in by_run.items():
            kept += stored_states(home[name], name, results, real[: len(results)])
            del real[: len(results)]
            theirs, fitted, score = stored_beyond(home[name], name)
            claims += theirs
            distilled += fitted
            probes.append(probe(name, *key, score, results))
        stored.append(tuple(kept))
        repairs.append(
            Repairs(
                tuple(decisions(kept, alpha, settings.seed) for alpha in ALPHAS),
                recalibration(states, summary.real, settings.seed),
                distillation(states, summary.real, distilled),
                siblings(states, claims),
            )
        )
    return Audit(
        settings,
        facts,
        tuple(games),
        tuple(repairs),
        tuple(stored),
        tuple(probes),
        trends(probes, settings.seed),
        _detection(facts, games, stored),
    )


def _opened(path: Path) -> tuple[Settings, RunDirectory, list[str]]:
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
    return settings, RunDirectory(path, manifest), names


def _recipe(facts: RunFacts) -> tuple[str, str, int | None]:
    """What seeds have in common. Agents of another age are another game: their claims are not pooled."""
    return facts.environment, facts.algorithm, facts.steps


def _detection(
    facts: Sequence[RunFacts],
    games: Sequence[tuple[GameSummary, tuple[StateResult, ...]]],
    stored: Sequence[tuple[StoredState, ...]],
) -> tuple[Detection, ...]:
    """Only what can be left out: a run of several, a game of several. An agent at several ages is one run."""
    states = [state for kept in stored for state in kept]
    trained = {
        one.name: one.name if one.trained_seed is None else f"{one.environment} {one.algorithm} {one.trained_seed}"
        for one in facts
    }
    by_run = [trained[state.result.run] for state in states]
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
        "probes": [asdict(one) for one in audit.probes],
        "trends": [asdict(one) for one in audit.trends],
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
