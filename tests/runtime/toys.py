"""Small Gymnasium environments whose returns can be worked out by hand."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Counter(gymnasium.Env[Any, Any]):
    """An episode lasts `1 + seed-drawn number below 6` steps and pays 1 a step; the observation is the step number."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, longest: int = 6) -> None:
        self.longest = longest
        self.observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.actions: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 1 + int(self.np_random.integers(self.longest))
        self.count = 0
        return np.array([0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(int(action))
        self.count += 1
        self.left -= 1
        return np.array([self.count], np.float32), 1.0, self.left == 0, False, {}


class Looper(gymnasium.Env[Any, Any]):
    """Never ends by itself. Action 1 moves along ten places, action 0 stays; each step pays 1 at place 5, else 0."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 10, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return np.array([0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = (self.place + int(action)) % 10
        return np.array([self.place], np.float32), float(self.place == 5), False, False, {}
