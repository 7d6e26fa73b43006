"""Replay memory with one ring per member. Not for deciding what is stored."""

from __future__ import annotations

import numpy as np

from codeaudit_runtime.spaces import AnyArray, BoolArray, FloatArray, IntArray, ObservationSpec


class Replay:
    """S rings of `capacity` transitions: observation, action, reward, next observation, end."""

    def __init__(self, members: int, capacity: int, observation: ObservationSpec) -> None:
        shape = (members, capacity)
        self.capacity = capacity
        self.observations = np.zeros((*shape, *observation.shape), dtype=observation.dtype)
        self.following = np.zeros_like(self.observations)
        self.actions = np.zeros(shape, dtype=np.int64)
        self.rewards = np.zeros(shape, dtype=np.float32)
        self.ended = np.zeros(shape, dtype=np.float32)
        self.added = np.zeros(members, dtype=np.int64)
        self._rows = np.arange(members)

    def add(
        self,
        observations_S: AnyArray,
        actions_S: IntArray,
        rewards_S: FloatArray,
        following_S: AnyArray,
        ended_S: BoolArray,
        keep_S: BoolArray,
    ) -> None:
        """One transition for each member. Those not in `keep_S` are left out: a step that was cut short by a limit has
        no next observation to learn from."""
        rows = self._rows if keep_S.all() else self._rows[keep_S]
        places = self.added[rows] % self.capacity
        self.observations[rows, places] = observations_S[rows]
        self.following[rows, places] = following_S[rows]
        self.actions[rows, places] = actions_S[rows]
        self.rewards[rows, places] = rewards_S[rows]
        self.ended[rows, places] = ended_S[rows]
        self.added[rows] += 1

    def places(self, draws_SB: FloatArray) -> IntArray:
        """Uniform places (S × B) in what each ring holds, from uniform numbers in [0, 1)."""
        held = np.minimum(self.added, self.capacity)
        result: IntArray = (draws_SB * held[:, None]).astype(np.int64)
        return result

    def arrays(self) -> dict[str, AnyArray]:
        """What must be saved so that training can go on."""
        held = int(min(self.added.max(), self.capacity))
        names = ("observations", "following", "actions", "rewards", "ended")
        return {"added": self.added, **{name: getattr(self, name)[:, :held] for name in names}}

    def put_back(self, arrays: dict[str, AnyArray]) -> None:
        self.added[:] = arrays["added"]
        for name in ("observations", "following", "actions", "rewards", "ended"):
            saved = arrays[name]
            getattr(self, name)[:, : saved.shape[1]] = saved
