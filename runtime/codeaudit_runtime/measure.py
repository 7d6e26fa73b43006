"""Work units: which roll-outs a measurement consists of, and one unit's rows. Not for judging the numbers."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from codeaudit.errors import UserError
from codeaudit.executor import map_units, open_executor
from codeaudit.store import RunDirectory
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.checkpoints import Checkpoint, checkpoint_from_bytes
from codeaudit_runtime.checkpoints.normalization import normalization_from_pickle
from codeaudit_runtime.checkpoints.source import bytes_of_file, verified_bytes
from codeaudit_runtime.environments import LevelDraw, LevelSet, VectorEnvironment, environment_from_id
from codeaudit_runtime.episodes import EpisodeRow, bytes_from_rows, rows_from_bytes
from codeaudit_runtime.memory import remembering
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.policies import FixedHead
from codeaudit_runtime.references import RANDOM_WEIGHTS, reference_agent
from codeaudit_runtime.rollout import Agent, Quota, rollout

FLOOR = "floor"  # the name in the rows of the uniform-random policy, which belongs to no checkpoint
UNIFORM = ActionRule("uniform_random")


@dataclass(frozen=True)
class AgentFiles:
    """Where a worker reads an agent from. Paths are local; the hashes were verified and are verified again."""

    path: str
    sha256: str
    architecture: str = ""
    normalization: str = ""
    normalization_sha256: str = ""


@dataclass(frozen=True)
class Unit:
    """One roll-out of fixed size, seeded by what it is and never by who runs it."""

    name: str  # the checkpoint's id, or FLOOR
    files: AgentFiles | None
    reference: str  # "" for the agent itself; else a stricter reference, as in references.py
    environment: str
    levels: LevelSet
    draw: int
    rule: ActionRule
    slots: int
    episodes: int
    burn_in: int
    step_cap: int | None

    @property
    def identity(self) -> str:
        """Everything that shapes the returns. The agent is its bytes, by their hash: its name plays no part."""
        agent = f"{self.files.sha256}+{self.files.normalization_sha256}" if self.files is not None else "-"
        size = f"{self.episodes}/{self.slots}/{self.burn_in}/{self.step_cap}"
        return (
            f"{agent}|{self.reference}|{self.environment}|{self.levels.label}|{self.draw}|{self.rule.identity}|{size}"
        )

    @property
    def key(self) -> str:
        """What its rows are kept under: they carry the name too."""
        return f"{self.name}|{self.identity}"

    @property
    def action_seed(self) -> int:
        return int.from_bytes(hashlib.sha256(self.identity.encode()).digest()[:8], "little")


@functools.lru_cache(maxsize=32)
def load_agent(files: AgentFiles, weights_seed: int | None = None) -> Checkpoint:
    """The agent behind its frozen normalisation. UserError for a wrong hash or a file that cannot be trusted."""
    content, digest = verified_bytes(bytes_of_file(Path(files.path)), files.sha256, files.path)
    checkpoint = checkpoint_from_bytes(content, files.path, digest, files.architecture, weights_seed)
    if not files.normalization:
        return checkpoint
    where = files.normalization
    pickled, _ = verified_bytes(bytes_of_file(Path(where)), files.normalization_sha256, where)
    normalization = normalization_from_pickle(pickled, where)
    if normalization is None:
        return checkpoint
    observation = checkpoint.observation
    if observation is not None and observation.shape != normalization.mean.shape:
        raise UserError(
            f"{where}: statistics of shape {list(normalization.mean.shape)} for observations {observation.describe()}",
            hint="do the statistics belong to this checkpoint?",
        )
    return replace(checkpoint, policy=normalization.applied_to(checkpoint.policy))


def default_slots(environment_id: str) -> int:
    """Many slots pay where one network call is dear (images); a burn-in episode a slot is the price of each."""
    return 64 if environment_id.startswith("procgen/") else 16


def check_fit(checkpoint: Checkpoint, environment: VectorEnvironment, name: str) -> None:
    """UserError unless observations and actions are those that the agent was trained with."""
    info, wanted = environment.info, checkpoint.observation
    if wanted is not None and wanted.shape != info.observation.shape:
        raise UserError(
            f"{name}: the agent reads {wanted.describe()}, {info.id} gives {info.observation.describe()}",
            hint="is it the environment that the agent was trained on?",
        )
    if not checkpoint.policy.actions.matches(info.actions):
        raise UserError(
            f"{name}: the agent has {checkpoint.policy.actions.describe()}, {info.id} has {info.actions.describe()}",
            hint="is it the environment that the agent was trained on?",
        )


@functools.lru_cache(maxsize=4)
def open_environment(environment_id: str, slots: int, step_cap: int | None) -> VectorEnvironment:
    """Kept between units: making Box2D worlds or ProcGen costs more than resetting them."""
    return environment_from_id(environment_id, slots, step_cap=step_cap)


def units_for(
    name: str,
    files: AgentFiles | None,
    environment_id: str,
    rules: Sequence[ActionRule],
    plan: Plan,
    level_sets: Sequence[LevelSet] = (LevelSet(),),
    reference: str = "",
) -> list[Unit]:
    """The units of one agent: rules × level sets × draws."""
    slots = min(plan.slots or default_slots(environment_id), plan.episodes_per_draw)
    return [
        Unit(
            name,
            files,
            reference,
            environment_id,
            levels,
            draw,
            rule,
            slots,
            plan.episodes_per_draw,
            plan.burn_in,
            plan.step_cap,
        )
        for rule in rules
        for levels in level_sets
        for draw in plan.draws
    ]


def floor_units(environment_id: str, plan: Plan, level_sets: Sequence[LevelSet] = (LevelSet(),)) -> list[Unit]:
    """The uniform-random policy on the same draws, slots and accounting as every agent of this environment."""
    return units_for(FLOOR, None, environment_id, [UNIFORM], plan, level_sets)


def run_unit(unit: Unit) -> bytes:
    """Roll one unit out; its rows as bytes."""
    torch.set_num_threads(1)
    environment = open_environment(unit.environment, unit.slots, unit.step_cap)
    draw = LevelDraw(unit.levels, unit.draw)
    seed = unit.draw if unit.reference == RANDOM_WEIGHTS else None
    checkpoint = load_agent(unit.files, seed) if unit.files is not None else None
    if checkpoint is not None:
        check_fit(checkpoint, environment, unit.name)
    policy = checkpoint.policy if checkpoint is not None else None
    if unit.reference:
        policy = reference_agent(unit.reference, checkpoint, environment, draw)
    if policy is not None and not isinstance(policy, FixedHead) and unit.environment.startswith("procgen/"):
        policy = remembering(policy)
    agent = Agent(
        name=unit.name,
        policy=policy,
        rule=unit.rule,
        noise_period=checkpoint.noise_period if checkpoint is not None else -1,
        discount=(checkpoint.discount if checkpoint is not None else None) or 0.99,
    )
    rows = rollout(agent, environment, draw, Quota(unit.episodes, unit.burn_in), unit.action_seed)
    if unit.reference:
        rows = tuple(replace(row, rule=unit.reference) for row in rows)
    return bytes_from_rows(rows)


def measure(
    units: Sequence[Unit],
    run: RunDirectory | None,
    *,
    workers: int = 1,
    executor: str = "",
    on_done: Callable[[Unit, int, bool], None] | None = None,
) -> list[tuple[EpisodeRow, ...]]:
    """The rows of every unit, in the order of the units; those already in `run` are not rolled out again.

    `on_done(unit, steps, fresh)` is called after each unit. Raises what the first failing unit raised; units that were
    finished before are kept.
    """
    contents: dict[str, bytes] = {}
    todo: list[Unit] = []
    for unit in units:
        kept = run.unit(unit.key) if run is not None else None
        if kept is None:
            todo.append(unit)
            continue
        contents[unit.key] = kept
        if on_done is not None:
            on_done(unit, _steps(kept), False)

    def finish(unit: Unit, content: bytes) -> None:
        if run is not None:
            run.save(unit.key, content)
        contents[unit.key] = content
        if on_done is not None:
            on_done(unit, _steps(content), True)

    with open_executor(executor, min(workers, max(len(todo), 1))) as pool:
        map_units(pool, run_unit, todo, on_done=lambda index, content: finish(todo[index], content))
    return [rows_from_bytes(contents[unit.key]) for unit in units]


def _steps(content: bytes) -> int:
    return sum(row.length for row in rows_from_bytes(content))
