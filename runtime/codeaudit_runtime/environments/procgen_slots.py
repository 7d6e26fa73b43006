"""ProcGen games through their own gym3 interface, behind the vector protocol. Not for Gymnasium environments.

Facts that were measured: a sub-environment's level sequence depends on `rand_seed`, not on actions or on how many
sub-environments run; `num_levels=0` means all levels and ignores `start_level`; reward and first flag come with the
next observation (gym3 order); action −1 starts a new level.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Any

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.environments.protocol import EnvironmentInfo, LevelDraw, LevelSet, Slots, Step
from codeaudit_runtime.spaces import ActionSpec, AnyArray, IntArray, ObservationSpec

MODES = ("easy", "hard", "extreme", "memory")
STEP_CAP = 10_000  # the games end their episodes themselves, most after 1,000 steps
NEW_LEVEL = -1
LARGEST_STATE = 2**20  # bytes of one saved sub-environment


class ProcgenSlots(Slots):
    """One ProcGen vector, made anew for every level draw, for a draw is its `rand_seed`.

    `procgen/miner` is easy mode, `procgen/miner:hard` another. ProcGen does not tell a time-out from another end, so
    `truncated` is set by our own step cap alone.
    """

    def __init__(self, environment_id: str, slots: int, step_cap: int | None = None) -> None:
        name, _, mode = environment_id.removeprefix("procgen/").partition(":")
        self._game, self._mode = name, mode or "easy"
        self._module = _procgen()
        if name not in self._module.env.ENV_NAMES:
            raise UserError(f"{environment_id!r} is no ProcGen game", hint=", ".join(self._module.env.ENV_NAMES))
        if self._mode not in MODES:
            raise UserError(f"{environment_id!r}: {self._mode!r} is no mode", hint=", ".join(MODES))
        self._slots = slots
        self._info = EnvironmentInfo(
            id=environment_id,
            observation=ObservationSpec((64, 64, 3), "uint8"),
            actions=ActionSpec("discrete", 15),
            step_cap=step_cap or STEP_CAP,
            own_limit=None,
            has_levels=True,
        )
        self._actions = np.zeros(slots, dtype=np.int32)
        self._lengths = np.zeros(slots, dtype=np.int64)
        self._levels = np.zeros(slots, dtype=np.int64)
        self._vector: Any = None
        self._buffer: Any = None

    def reset(self, draw: LevelDraw) -> AnyArray:
        self.close()
        levels: LevelSet = draw.levels
        self._vector = self._module.ProcgenGym3Env(
            num=self._slots,
            env_name=self._game,
            distribution_mode=self._mode,
            start_level=levels.start,
            num_levels=levels.count or 0,
            rand_seed=draw.seed,
            num_threads=0,  # one worker, one thread
        )
        self._lengths[:] = 0
        self._read_levels()
        observations: AnyArray = self._vector.observe()[1]["rgb"]
        return observations

    def _read_levels(self) -> None:
        self._levels = np.array([info["level_seed"] for info in self._vector.get_info()], dtype=np.int64)

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        self._actions[active] = actions
        # The step that reaches the cap is given up: it starts a new level instead, and pays nothing.
        cut = self._lengths + 1 >= self._info.step_cap
        self._vector.act(np.where(cut, NEW_LEVEL, self._actions))
        rewards, observation, first = self._vector.observe()
        self._lengths += 1
        changed = bool(first.any())
        if changed:
            self._lengths[first] = 0
            self._read_levels()
        return Step(observation["rgb"], rewards.astype(np.float64), first, cut, first, changed)

    def level_ids(self) -> IntArray:
        return self._levels

    def seeds(self) -> None:
        return None

    def observations(self) -> AnyArray:
        """What every slot shows now; also after `restore`."""
        shown: AnyArray = self._vector.observe()[1]["rgb"]
        return shown

    def state(self, slot: int) -> bytes:
        """The saved state of one slot, as ProcGen writes it."""
        vector = self._vector
        if self._buffer is None:
            self._buffer = vector._ffi.new(f"char[{LARGEST_STATE}]")
        size = vector.call_c_func("get_state", slot, self._buffer, LARGEST_STATE)
        return bytes(vector._ffi.buffer(self._buffer, size))

    def snapshot(self, slot: int) -> object:
        return self.state(slot), int(self._lengths[slot])

    def restore(self, slot: int, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        state, self._lengths[slot] = snapshot
        self._vector.call_c_func("set_state", slot, state, len(state))
        self._read_levels()

    def reseed(self, slot: int, seed: int) -> None:
        raise UserError("a ProcGen level has no random generator of its own to reseed")

    def close(self) -> None:
        if self._vector is not None:
            self._vector.close()
            self._vector = None


def _procgen() -> Any:
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # it brings the old gym, which prints advice when imported
            return importlib.import_module("procgen")
    except ImportError as error:
        raise UserError(
            f"ProcGen is not installed ({error})", hint='pip install "rl-codeaudit[procgen]" (Python 3.10 to 3.12)'
        ) from None
