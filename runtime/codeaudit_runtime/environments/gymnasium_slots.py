"""Gymnasium environments behind the vector protocol, one seeded episode at a time. Not for ProcGen or MinAtar.

Single environments are stepped here rather than one of Gymnasium's vector classes: every episode then gets its own
seed, which pairs the episodes of two policies, and slots that have done their quota are no longer stepped.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from codeaudit.errors import UserError
from codeaudit_runtime.environments.protocol import EnvironmentInfo, LevelDraw, Slots, Step
from codeaudit_runtime.spaces import ActionSpec, AnyArray, IntArray, ObservationSpec

Factory: TypeAlias = Callable[[], "gymnasium.Env[Any, Any]"]
DEFAULT_STEP_CAP = 10_000


def action_spec_from_space(space: Any, where: str) -> ActionSpec:
    """Discrete(n) from 0, or a bounded one-axis Box; UserError for other spaces."""
    if isinstance(space, gymnasium.spaces.Discrete) and int(space.start) == 0:
        return ActionSpec("discrete", int(space.n))
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1 and space.is_bounded():
        low, high = tuple(map(float, space.low)), tuple(map(float, space.high))
        return ActionSpec("continuous", space.shape[0], low, high)
    raise UserError(f"{where}: action space {space} is not supported", hint="Discrete and bounded one-axis Box are")


def observation_spec_from_space(space: Any, where: str) -> ObservationSpec:
    if isinstance(space, gymnasium.spaces.Box):
        return ObservationSpec(tuple(space.shape), str(space.dtype))
    if isinstance(space, gymnasium.spaces.Discrete):
        return ObservationSpec((), str(space.dtype))
    raise UserError(f"{where}: observation space {space} is not supported", hint="Box and Discrete are")


def _missing_hint(environment_id: str, error: Exception) -> str:
    said = str(error).lower()
    if environment_id.startswith("ALE/"):
        return 'pip install "rl-codeaudit[atari]"'
    if "box2d" in said:
        return 'pip install "rl-codeaudit[box2d]"'
    return "" if "pip install" in said else "is the id right, and is the package that brings it installed?"


def factory_from_id(environment_id: str) -> Factory:
    """A function that makes the environment; UserError if it is unknown or its packages are missing."""
    try:
        gymnasium.spec(environment_id)
    except gymnasium.error.Error as error:
        raise UserError(
            f"environment {environment_id!r}: {str(error).rstrip('.')}", hint=_missing_hint(environment_id, error)
        ) from None

    def make() -> gymnasium.Env[Any, Any]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a newer version exists: a published number belongs to its own
                return _with_quick_check(gymnasium.make(environment_id, disable_env_checker=True))
        except (gymnasium.error.Error, ImportError, ModuleNotFoundError) as error:
            raise UserError(
                f"environment {environment_id!r} cannot be made ({error})", hint=_missing_hint(environment_id, error)
            ) from None

    return make


class _QuickDiscrete(gymnasium.spaces.Discrete):
    """Says of a plain int what Discrete says, in one comparison: environments ask at every step, and Gymnasium takes as
    long for its answer as for a small simulation."""

    def contains(self, x: Any) -> bool:
        return 0 <= x < self._count if type(x) is int else super().contains(x)

    @classmethod
    def like(cls, space: gymnasium.spaces.Discrete) -> _QuickDiscrete:
        quick = copy.copy(space)  # its random generator too
        quick.__class__ = cls
        assert isinstance(quick, cls)
        quick._count = int(space.n)
        return quick

    _count: int


def _with_quick_check(environment: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    inner = environment.unwrapped
    space = vars(inner).get("action_space")
    if type(space) is gymnasium.spaces.Discrete and int(space.start) == 0:
        inner.action_space = _QuickDiscrete.like(space)
    return environment


def bare_environment(environment: gymnasium.Env[Any, Any]) -> tuple[gymnasium.Env[Any, Any], int | None]:
    """The environment without the outer wrappers that only check or count, and its time limit in steps.

    The vector keeps the limit itself. Wrappers that change what is seen, done or paid stay.
    """
    limit: int | None = None
    while isinstance(environment, TimeLimit | OrderEnforcing | PassiveEnvChecker):
        if isinstance(environment, TimeLimit):
            own = int(environment._max_episode_steps)
            limit = own if limit is None else min(limit, own)
        environment = environment.env
    return environment, limit


def episode_seed(draw_seed: int, slot: int, index: int) -> int:
    """The seed of episode `index` of a slot in a draw: 31 bits, the same for every policy and number of slots."""
    return int(np.random.SeedSequence(draw_seed, spawn_key=(slot, index)).generate_state(1)[0] >> 1)


class GymnasiumSlots(Slots):
    """Independent single environments; the end of an episode and the reset to the next share one step."""

    def __init__(self, environment_id: str, factory: Factory, slots: int, step_cap: int | None = None) -> None:
        made = [bare_environment(factory()) for _ in range(slots)]
        self._environments = [environment for environment, _ in made]
        self._steps = [environment.step for environment in self._environments]
        first, limit = made[0]
        observation = observation_spec_from_space(first.observation_space, environment_id)
        self._info = EnvironmentInfo(
            id=environment_id,
            observation=observation,
            actions=action_spec_from_space(first.action_space, environment_id),
            step_cap=min(step_cap or limit or DEFAULT_STEP_CAP, limit or sys.maxsize),
            own_limit=limit,
        )
        self._slots = slots
        self._draw_seed = 0
        self._indices = [0] * slots
        self._lengths = [0] * slots
        self._seeds = np.zeros(slots, dtype=np.int64)
        self._none = np.zeros(slots, dtype=bool)
        self._observations = np.zeros((slots, *observation.shape), dtype=observation.dtype)

    def reset(self, draw: LevelDraw) -> AnyArray:
        self._refuse_level_sets(draw)
        self._draw_seed = draw.seed
        for slot in range(self._slots):
            self._start(slot, 0)
        return self._observations.copy()

    def _start(self, slot: int, index: int) -> None:
        seed = episode_seed(self._draw_seed, slot, index)
        self._indices[slot], self._lengths[slot], self._seeds[slot] = index, 0, seed
        self._observations[slot] = self._environments[slot].reset(seed=seed)[0]

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        observations, steps, lengths = self._observations, self._steps, self._lengths
        cap = self._info.step_cap
        rewards: list[Any] = [0.0] * self._slots
        over: list[tuple[int, bool]] = []
        # Environments check a plain int faster than NumPy's, and take both alike.
        plain = actions.tolist() if self._info.actions.kind == "discrete" else actions
        for slot, action in zip(active.tolist(), plain, strict=True):
            observation, rewards[slot], terminated, cut, _ = steps[slot](action)
            lengths[slot] += 1
            if terminated or cut or lengths[slot] >= cap:
                over.append((slot, not terminated))
                self._start(slot, self._indices[slot] + 1)
            else:
                observations[slot] = observation
        if not over:
            return Step(observations, np.array(rewards, dtype=np.float64), self._none, self._none, self._none, False)
        ended, truncated = self._none.copy(), self._none.copy()
        for slot, cut_short in over:
            ended[slot], truncated[slot] = True, cut_short
        return Step(observations, np.array(rewards, dtype=np.float64), ended, truncated, ended, True)

    def level_ids(self) -> IntArray | None:
        return None

    def seeds(self) -> IntArray | None:
        return self._seeds

    def snapshot(self, slot: int) -> object:
        try:
            environment = copy.deepcopy(self._environments[slot])
        except Exception as error:  # what an environment holds is not ours: Box2D worlds, for one, cannot be copied
            raise UserError(f"{self._info.id} cannot be copied ({type(error).__name__})") from None
        return (environment, self._observations[slot].copy(), self._indices[slot], self._lengths[slot])

    def restore(self, slot: int, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        environment, observation, self._indices[slot], self._lengths[slot] = snapshot
        self._environments[slot] = copy.deepcopy(environment)
        self._steps[slot] = self._environments[slot].step
        self._observations[slot] = observation

    def reseed(self, slot: int, seed: int) -> None:
        self._environments[slot].unwrapped.np_random = np.random.Generator(np.random.PCG64(seed))

    def close(self) -> None:
        for environment in self._environments:
            environment.close()
