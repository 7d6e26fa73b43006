"""A user's own gymnasium.vector.VectorEnv behind the vector protocol, whatever its autoreset mode is."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from codeaudit.errors import UserError
from codeaudit_runtime.environments.gymnasium_slots import (
    DEFAULT_STEP_CAP,
    action_spec_from_space,
    observation_spec_from_space,
)
from codeaudit_runtime.environments.protocol import EnvironmentInfo, LevelDraw, Step
from codeaudit_runtime.spaces import AnyArray, BoolArray, IntArray


class GymnasiumVector:
    """Steps every slot each time, for a VectorEnv can do nothing else; the harness ignores those that are done.

    Next-step autoreset (Gymnasium's default): the call after an end ignores that slot's action, pays nothing and gives
    the first observation of the next episode, so `first` comes one call after `ended`.
    """

    def __init__(self, environment: VectorEnv[Any, Any, Any], step_cap: int | None = None) -> None:
        name = environment.spec.id if environment.spec is not None else type(environment).__name__
        mode = environment.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._mode = mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)
        self._environment = environment
        limit = environment.spec.max_episode_steps if environment.spec is not None else None
        self._info = EnvironmentInfo(
            id=name,
            observation=observation_spec_from_space(environment.single_observation_space, name),
            actions=action_spec_from_space(environment.single_action_space, name),
            step_cap=step_cap or limit or DEFAULT_STEP_CAP,
            own_limit=limit,
        )
        space = environment.single_action_space
        self._actions = np.zeros((environment.num_envs, *(space.shape or ())), dtype=space.dtype)
        self._waiting: BoolArray = np.zeros(environment.num_envs, dtype=bool)

    @property
    def info(self) -> EnvironmentInfo:
        return self._info

    @property
    def slots(self) -> int:
        return int(self._environment.num_envs)

    def reset(self, draw: LevelDraw) -> AnyArray:
        self._waiting[:] = False
        observations, _ = self._environment.reset(seed=draw.seed)
        return np.asarray(observations)

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        self._actions[active] = actions
        observations, rewards, terminated, truncated, _ = self._environment.step(self._actions)
        terminated, truncated = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
        ended: BoolArray = (terminated | truncated) & ~self._waiting
        first: BoolArray
        if self._mode is AutoresetMode.NEXT_STEP:
            first = self._waiting.copy()
            self._waiting = ended.copy()
        elif self._mode is AutoresetMode.SAME_STEP:
            first = ended
        else:
            first = ended
            if ended.any():
                observations, _ = self._environment.reset(options={"reset_mask": ended})
        changed = bool(ended.any() or first.any())
        return Step(
            np.asarray(observations), np.asarray(rewards, dtype=float), ended, truncated & ~terminated, first, changed
        )

    def level_ids(self) -> IntArray | None:
        return None

    def seeds(self) -> IntArray | None:
        return None

    def snapshot(self, slot: int) -> object:
        raise UserError("a Gymnasium vector environment has no snapshots", hint="give the environment's id instead")

    def restore(self, slot: int, snapshot: object) -> None:
        raise UserError("a Gymnasium vector environment has no snapshots", hint="give the environment's id instead")

    def reseed(self, slot: int, seed: int) -> None:
        raise UserError("one slot of a Gymnasium vector environment cannot be reseeded")

    def close(self) -> None:
        self._environment.close()
