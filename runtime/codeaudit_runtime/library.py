"""`codeaudit_runtime.evaluate`: a user's own policy under the harness, beside the floor. Not for checkpoint files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from codeaudit_runtime.actions import rule_from_text
from codeaudit_runtime.environments import LevelDraw, LevelSet, VectorEnvironment, environment_from_id
from codeaudit_runtime.environments.gymnasium_slots import GymnasiumSlots
from codeaudit_runtime.environments.gymnasium_vector import GymnasiumVector
from codeaudit_runtime.episodes import EpisodeRow
from codeaudit_runtime.measure import FLOOR, UNIFORM, default_slots
from codeaudit_runtime.measurements import CheckpointMeasurement, CheckpointRows, measure_checkpoints
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.policies import FunctionPolicy, Policy
from codeaudit_runtime.rollout import Agent, Quota, rollout
from codeaudit_runtime.spaces import AnyArray
from codeaudit_runtime.statistics import Call

Act = Callable[[AnyArray], Any]
Environment = str | VectorEnvironment | VectorEnv[Any, Any, Any] | Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Evaluation:
    """What the harness measured. Returns are undiscounted, in the environment's reward units."""

    measurement: CheckpointMeasurement
    rows: tuple[EpisodeRow, ...]
    floor_rows: tuple[EpisodeRow, ...]

    @property
    def mean(self) -> float:
        return self.measurement.rules[0].summary.mean

    @property
    def std(self) -> float:
        return self.measurement.rules[0].summary.std

    @property
    def interval(self) -> tuple[float, float]:
        """95% percentile bootstrap interval of the mean, over episodes."""
        summary = self.measurement.rules[0].summary
        return summary.low, summary.high

    @property
    def floor(self) -> float:
        return self.measurement.floor.summary.mean

    @property
    def call(self) -> Call | None:
        """above, below, equivalent or not_distinguishable, against the floor."""
        return self.measurement.rules[0].call

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.mean:.2f} ± {self.std:.2f} [{low:.2f}, {high:.2f}] over {len(self.rows)} episodes; "
            f"floor {self.floor:.2f}: {self.call}"
        )


def evaluate(
    act: Act | Policy,
    environment: Environment,
    *,
    episodes: int = 384,
    rule: str = "own",
    draws: Sequence[int] = (11, 12, 13),
    slots: int | None = None,
    burn_in: int = 1,
    step_cap: int | None = None,
    name: str = "agent",
) -> Evaluation:
    """Measure `act` and a uniform-random policy on the same seeded draws, with a fixed, even quota for every slot.

    `act` maps observations (N, …) of N slots to N actions, or is a `Policy` to which `rule` is applied. `environment`
    is an id, a function that makes one Gymnasium environment, a gymnasium VectorEnv or a `VectorEnvironment`. Raises
    UserError where the spaces are not supported.
    """
    plan = Plan(draws=tuple(draws), slots=slots, burn_in=burn_in, step_cap=step_cap).with_episodes(episodes)
    vector = _vector(environment, plan)
    policy = act if _is_policy(act) else FunctionPolicy(act, vector.info.actions)  # type: ignore[arg-type]
    agent = Agent(name, policy, rule_from_text(rule))  # type: ignore[arg-type]
    quota = Quota(plan.episodes_per_draw, plan.burn_in)
    own: list[EpisodeRow] = []
    floor: list[EpisodeRow] = []
    for seed in plan.draws:
        draw = LevelDraw(LevelSet(), seed)
        own += rollout(agent, vector, draw, quota, seed)
        floor += rollout(Agent(FLOOR, None, UNIFORM), vector, draw, quota, seed)
    info = vector.info
    rows = CheckpointRows(name, info.id, info.id, "own", False, info.step_cap, {rule: own}, floor, {})
    return Evaluation(measure_checkpoints([rows], plan)[0], tuple(own), tuple(floor))


def _is_policy(act: object) -> bool:
    return hasattr(act, "initial_state") and hasattr(act, "actions")


def _vector(environment: Environment, plan: Plan) -> VectorEnvironment:
    if isinstance(environment, str):
        slots = min(plan.slots or default_slots(environment), plan.episodes_per_draw)
        return environment_from_id(environment, slots, step_cap=plan.step_cap)
    if isinstance(environment, VectorEnv):
        return GymnasiumVector(environment, plan.step_cap)
    if isinstance(environment, GymnasiumSlots | GymnasiumVector) or hasattr(environment, "level_ids"):
        return environment  # type: ignore[return-value]
    slots = min(plan.slots or default_slots(""), plan.episodes_per_draw)
    name = getattr(environment, "__name__", "environment")
    return GymnasiumSlots(name, environment, slots, plan.step_cap)
