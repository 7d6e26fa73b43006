"""The audit as work units in a run directory: states, restarts, statistics. Not for verdicts or words.

Units are seeded by what they are (run, state, action), so the number of workers changes nothing; each is saved when
done, so a killed run goes on, and `claims report` reads the same units again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from codeaudit.errors import UserError
from codeaudit.executor import map_units, open_executor
from codeaudit.store import RunDirectory
from codeaudit_runtime.claims.gaps import Claim, excess_of_samples, excess_of_weighted
from codeaudit_runtime.claims.heads import ReturnHead, head_from_file
from codeaudit_runtime.claims.resampling import existence, magnitude
from codeaudit_runtime.claims.restarts import RestartTask, restart_returns, restarts_part
from codeaudit_runtime.claims.states import (
    SLOTS,
    AuditedState,
    SeenState,
    choose_audited,
    claims_of_states,
    collect_states,
)
from codeaudit_runtime.claims.stored import heads_bytes
from codeaudit_runtime.claims.verdicts import StateResult, aliasing_index
from codeaudit_runtime.environments import VectorEnvironment, environment_from_id
from codeaudit_runtime.environments.riskygrid import RiskyGrid
from codeaudit_runtime.spaces import FloatArray

T = TypeVar("T")
R = TypeVar("R")
PROBES, PROBED_STATES, PROBED_STEPS = 4, 14, 50
OnUnit = Callable[[int, int, int, bool], None]


@dataclass(frozen=True)
class Settings:
    """Everything that shapes an audit's numbers; the defaults are the study's, but for `draws`."""

    states: int = 2_000
    epsilon: float = 0.05
    snapshots: int = 16
    per_stratum: int = 7
    rollouts: int = 2_000
    horizon: int = 1_000
    draws: int = 4_999  # one true claim among up to 499 pooled states could be confirmed
    level: float = 0.10
    seed: int = 0


@dataclass(frozen=True)
class RunFacts:
    """One audited agent: its file, and what its states looked like as a whole.

    `steps` and `trained_seed` are of its training, where the file says them.
    """

    name: str
    path: str
    sha256: str
    environment: str
    algorithm: str
    discount: float
    seen: int
    crossing: int  # seen states whose atoms cross
    mean_claim: float
    mean_index_paired: float
    deterministic: bool
    audited: tuple[AuditedState, ...]
    steps: int | None = None
    trained_seed: int | None = None


def runs_of_paths(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """Name and file of each RUN: a file, or all agents in a folder. Names are FOLDER/FILE and must differ."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob("*.safetensors"))
            if not found:
                raise UserError(f"{path}: no *.safetensors in it", hint="name a folder that `codeaudit train` wrote")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise UserError(f"{path}: not found", hint="check the path")
    names = [f"{file.resolve().parent.name}/{file.stem}" for file in files]
    if len(set(names)) < len(names):
        raise UserError("two runs have one name", hint="keep them in folders of different names")
    return list(zip(names, files, strict=True))


def open_audit(out: Path, runs: Sequence[tuple[str, Path]], environment: str, settings: Settings) -> RunDirectory:
    identities = {name: head_from_file(str(path), environment).sha256 for name, path in runs}
    return RunDirectory(out, {"command": "claims", "runs": identities, "environment": environment, **asdict(settings)})


def audit_run(
    name: str,
    path: Path,
    environment: str,
    settings: Settings,
    run: RunDirectory,
    workers: int,
    executor: str,
    on_unit: OnUnit | None = None,
) -> None:
    """All units of one agent that are not there yet."""  # fmt: skip
    head = head_from_file(str(path), environment)
    seeds = (settings.seed, int(head.sha256[:12], 16))
    seen: list[SeenState] = []
    if any(run.unit(f"{name}/{part}") is None for part in ("facts", "exact", "heads")):
        seen, facts, exact = _looked_at(name, path, head, settings, seeds)
        observations = np.stack([seen[state.index].observation for state in facts.audited])
        support = None if head.support is None else head.support.numpy()
        run.save(f"{name}/heads", heads_bytes(observations, head.laws_NAK(observations), support))
        run.save(f"{name}/exact", json.dumps(exact).encode())
        run.save(f"{name}/facts", json.dumps(asdict(facts)).encode())
    facts = facts_from_json(run.unit(f"{name}/facts"), name)
    pairs = [(state, action) for state in facts.audited for action in (state.claim.first, state.claim.second)]
    missing = [pair for pair in pairs if run.unit(_returns_key(name, *pair)) is None]
    if missing and not seen:
        seen = _seen_states(head, settings, seeds)
    tasks = []
    for state, action in missing:
        snapshots = tuple(seen[state.index].snapshots)
        count = len(snapshots) if facts.deterministic else settings.rollouts
        seed = (*seeds, 3, state.index, action)
        tasks.append(
            RestartTask(str(path), head.sha256, head.environment, snapshots, action, count, settings.horizon, seed)
        )

    def keep(index: int, returns: FloatArray) -> None:
        run.save(_returns_key(name, *missing[index]), _bytes(returns))
        if on_unit is not None:
            on_unit(index + 1, len(missing), 0, True)

    with open_executor(executor, workers) as pool:
        map_units(pool, restart_returns, tasks, on_done=keep)
        unknown = [state for state in facts.audited if run.unit(_result_key(name, state)) is None]
        exact = json.loads(run.unit(f"{name}/exact") or b"{}")
        work = [
            StatisticsTask(
                name, state,
                returns_of_state(run, name, state, state.claim.first),
                returns_of_state(run, name, state, state.claim.second),
                exact.get(str(state.index)), facts.deterministic, settings.draws, (*seeds, 4, state.index),
            )
            for state in unknown
        ]  # fmt: skip
        map_units(
            pool,
            state_result,
            work,
            on_done=lambda index, result: run.save(
                _result_key(name, unknown[index]), json.dumps(asdict(result)).encode()
            ),
        )


@dataclass(frozen=True)
class StatisticsTask:
    """Both actions' returns of one state, and the claim."""

    run: str
    state: AuditedState
    first: FloatArray
    second: FloatArray
    exact: float | None
    deterministic: bool
    draws: int
    seed: tuple[int, ...]


def state_result(task: StatisticsTask) -> StateResult:
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(task.seed)))
    state, claim = task.state, task.state.claim
    truth = excess_of_samples(task.first, task.second)
    exists = existence(task.first, task.second, truth, task.draws, rng)
    size = magnitude(task.first, task.second, claim.excess, task.draws, rng)
    indices = [aliasing_index(returns, state.snapshots) for returns in (task.first, task.second)]
    defined = [value for value in indices if value is not None]
    single = task.deterministic and state.snapshots == 1  # nothing is random: the truth is known, and so is the verdict
    return StateResult(
        run=task.run,
        index=state.index,
        rank=state.rank,
        stratum=state.stratum,
        actions=(claim.first, claim.second),
        claim=claim.excess,
        index_paired=claim.index_paired,
        crossed=claim.crossed,
        mean_gap=claim.mean_gap,
        snapshots=state.snapshots,
        returns=len(task.first),
        truth=truth,
        truth_limit=size.limit,
        truth_low=size.low,
        truth_high=size.high,
        null_95=exists.null_95,
        existence_p=exists.p,
        existence_draws=exists.draws,
        half_sample_p=exists.half_p,
        magnitude_p=(0.0 if claim.excess > truth + 1e-6 else 1.0) if single else size.p,
        aliasing=sum(defined) / len(defined) if defined and not task.deterministic else None,
        exact=task.exact,
        deterministic=task.deterministic,
    )


def _seen_states(head: ReturnHead, settings: Settings, seeds: tuple[int, ...]) -> list[SeenState]:
    environment = environment_from_id(head.environment, SLOTS)
    try:
        if environment.info.actions.kind != "discrete" or environment.info.actions.size != head.actions:
            raise UserError(
                f"{head.environment} has {environment.info.actions.describe()}, the agent {head.actions}",
                hint="name the agent's environment with --env ID",
            )
        return collect_states(
            head, environment, settings.states, settings.epsilon, settings.snapshots, seeds[0] + seeds[1]
        )
    finally:
        environment.close()


def _looked_at(
    name: str, path: Path, head: ReturnHead, settings: Settings, seeds: tuple[int, ...]
) -> tuple[list[SeenState], RunFacts, dict[str, float]]:
    """States seen, what is to be audited, and the answer key (excess by state index) where there is one."""
    seen = _seen_states(head, settings, seeds)
    claims = claims_of_states(head, seen)
    audited = choose_audited(claims, seen, settings.per_stratum, seeds[0] + seeds[1])
    environment = environment_from_id(head.environment, 1)
    deterministic = not _restarts_differ(str(path), head, environment, seen, audited, settings, seeds)
    exact: dict[str, float] = {}
    if isinstance(environment, RiskyGrid):
        for state in audited:
            snapshot, claim = seen[state.index].snapshots[0], state.claim
            laws = [
                environment.exact_returns(snapshot, action, head.act, head.discount)
                for action in (claim.first, claim.second)
            ]
            exact[str(state.index)] = excess_of_weighted(
                laws[0].values, laws[0].probabilities, laws[1].values, laws[1].probabilities
            )
    facts = RunFacts(
        name,
        path.name,
        head.sha256,
        head.environment,
        head.algorithm,
        head.discount,
        len(seen),
        sum(claim.crossed for claim in claims),
        float(np.mean([claim.excess for claim in claims])),
        float(np.mean([claim.index_paired for claim in claims])),
        deterministic,
        tuple(audited),
        None if head.agent is None else head.agent.steps,
        None if head.agent is None else head.agent.seed,
    )
    return seen, facts, exact


def _restarts_differ(
    path: str,
    head: ReturnHead,
    environment: VectorEnvironment,
    seen: Sequence[SeenState],
    audited: Sequence[AuditedState],
    settings: Settings,
    seeds: tuple[int, ...],
) -> bool:
    """Do reseeded restarts from one snapshot give different returns anywhere, or, where the policy earns the same
    whatever happens, different pictures?

    UserError where they don't although the environment is known to be stochastic: a copied generator would make every
    restart the same one, and every claim would look refuted.
    """
    task = RestartTask(path, head.sha256, head.environment, (), 0, PROBES, settings.horizon, ())
    for state in audited[:PROBED_STATES]:
        for action in (state.claim.first, state.claim.second):
            seed = (*seeds, 6, state.index, action)
            first = tuple(seen[state.index].snapshots[:1])
            returns = restart_returns(replace(task, snapshots=first, action=action, seed=seed))
            if returns.min() < returns.max():
                return True
    several = environment_from_id(head.environment, PROBES)
    try:
        for state in audited[:PROBED_STATES]:
            if restarts_part(several, seen[state.index].snapshots[0], PROBED_STEPS, (*seeds, 7, state.index)):
                return True
    finally:
        several.close()
    if getattr(environment, "stochastic", False):
        raise UserError(
            f"{head.environment} is stochastic, yet restarts from one snapshot never differed",
            hint="restarts must be reseeded; nothing was audited",
        )
    return False


def facts_from_json(content: bytes | None, name: str) -> RunFacts:
    if content is None:
        raise UserError(f"{name}: the audit holds no states of this run", hint="run `codeaudit claims` to the end")
    fields: dict[str, Any] = json.loads(content)
    audited = tuple(AuditedState(**{**state, "claim": Claim(**state["claim"])}) for state in fields.pop("audited"))
    return RunFacts(**fields, audited=audited)


def results_of_run(run: RunDirectory, facts: RunFacts) -> list[StateResult]:
    """The results in the order of the audited states; UserError where one is missing."""
    results = []
    for state in facts.audited:
        content = run.unit(_result_key(facts.name, state))
        if content is None:
            raise UserError(f"{facts.name}: the audit is not finished", hint="run the same `codeaudit claims` again")
        fields = json.loads(content)
        results.append(StateResult(**{**fields, "actions": tuple(fields["actions"])}))
    return results


def returns_of_state(run: RunDirectory, name: str, state: AuditedState, action: int) -> FloatArray:
    """The stored true returns of one state and action."""
    return _array(run, _returns_key(name, state, action))


def _result_key(name: str, state: AuditedState) -> str:
    return f"{name}/result-2/{state.index}"  # the number changes with the statistics: stored returns stay good


def _returns_key(name: str, state: AuditedState, action: int) -> str:
    return f"{name}/returns/{state.index}/{action}"


def _bytes(returns: FloatArray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, returns, allow_pickle=False)
    return buffer.getvalue()


def _array(run: RunDirectory, key: str) -> FloatArray:
    content = run.unit(key)
    if content is None:
        raise UserError(f"{run.path}: {key} is missing or damaged", hint="run the same `codeaudit claims` again")
    result: FloatArray = np.load(io.BytesIO(content), allow_pickle=False)
    return result
