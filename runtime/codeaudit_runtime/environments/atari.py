"""Atari games as the SB3 zoo prepares them, behind the vector protocol, with native snapshots. Not for training.

In order: stickiness at each emulated frame; 1 to 30 no-ops at a new game; four frames an action, the maximum of the
last two; a lost life ends the episode, and the game goes on in the next; FIRE at the start where the game has it; gray,
84 × 84; rewards clipped to their sign; a stack of four, zeros before the first frame
(`stable_baselines3.common.atari_wrappers.AtariWrapper` and `VecFrameStack`).

One emulator serves all slots: it is given a slot's saved state when that slot is stepped, which costs far less than the
four frames.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.environments.gymnasium_slots import episode_seed
from codeaudit_runtime.environments.protocol import EnvironmentInfo, LevelDraw, Slots, Step
from codeaudit_runtime.spaces import ActionSpec, AnyArray, FloatArray, IntArray, ObservationSpec

STICKY = 0.25  # of the study; `atari/breakout:nosticky`, as the zoo trains, has none
STEP_CAP = 27_000  # 108,000 frames
FRAMES, NO_OPS, STACK, SIDE = 4, 30, 4, 84
RED, GREEN, BLUE, BITS = 9_798, 19_235, 3_735, 15  # OpenCV's fixed-point weights of gray
NO_OP, FIRE = 0, 1


class AtariSlots(Slots):
    """`atari/breakout`: bytes 4 × 84 × 84, the oldest frame first, and the game's minimal set of actions.

    A forced action goes *through* stickiness, as in MinAtar here: each frame may still repeat the action before.
    """

    def __init__(self, environment_id: str, slots: int, step_cap: int | None = None) -> None:
        game, _, variant = environment_id.removeprefix("atari/").partition(":")
        if variant not in ("", "nosticky"):
            raise UserError(f"{printable(environment_id)!r} is unknown", hint=f"atari/{printable(game)} or …:nosticky")
        self._emulator = _emulator(game)
        self._sticky = 0.0 if variant else STICKY
        self.stochastic = not variant
        self._actions: list[Any] = list(self._emulator.getMinimalActionSet())
        fires = len(self._actions) > 2 and getattr(self._actions[FIRE], "name", "") == "FIRE"
        self._opening = (FIRE, FIRE + 1) if fires else ()  # the second press is the zoo's, too
        self._power_on = self._emulator.cloneState()
        height, width = self._emulator.getScreenDims()
        self._down, self._across = area_taps(height, SIDE), area_taps(width, SIDE)
        self._screens = np.zeros((2, height, width, 3), dtype=np.uint8)
        self._info = EnvironmentInfo(
            id=environment_id,
            observation=ObservationSpec((STACK, SIDE, SIDE), "uint8"),
            actions=ActionSpec("discrete", len(self._actions)),
            step_cap=step_cap or STEP_CAP,
            own_limit=None,
        )
        self._slots = slots
        self._draw_seed = 0
        self._states: list[Any] = [self._power_on] * slots
        self._inside = 0  # the slot whose game the emulator holds
        self._generators = [np.random.Generator(np.random.PCG64(0)) for _ in range(slots)]
        self._last, self._lives = [NO_OP] * slots, [0] * slots
        self._indices, self._lengths = [0] * slots, [0] * slots
        self._seeds = np.zeros(slots, dtype=np.int64)
        self._none = np.zeros(slots, dtype=bool)
        self._observations = np.zeros((slots, STACK, SIDE, SIDE), dtype=np.uint8)

    def reset(self, draw: LevelDraw) -> AnyArray:
        self._refuse_level_sets(draw)
        self._draw_seed = draw.seed
        for slot in range(self._slots):
            self._start(slot, 0, new_game=True)
        return self._observations.copy()

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        rewards = np.zeros(self._slots)
        over: list[tuple[int, bool, bool]] = []
        for slot, action in zip(active.tolist(), np.asarray(actions).tolist(), strict=True):
            self._enter(slot)
            paid, game_over = self._press(slot, action)
            rewards[slot] = np.sign(paid)
            self._lengths[slot] += 1
            lives = self._emulator.lives()
            ended = game_over or 0 < lives < self._lives[slot]  # some games show no lives for a moment
            self._lives[slot] = lives
            if ended or self._lengths[slot] >= self._info.step_cap:
                over.append((slot, not ended, game_over))
            else:
                stack = self._observations[slot]
                stack[:-1] = stack[1:]
                stack[-1] = self._frame()
        if not over:
            return Step(self._observations, rewards, self._none, self._none, self._none, False)
        was_over, truncated = self._none.copy(), self._none.copy()
        for slot, cut_short, game_over in over:
            was_over[slot], truncated[slot] = True, cut_short
            self._start(slot, self._indices[slot] + 1, new_game=game_over or cut_short)
        return Step(self._observations, rewards, was_over, truncated, was_over, True)

    def _enter(self, slot: int) -> None:
        """Give the emulator this slot's game, and keep that of the slot it held."""
        if slot != self._inside:
            self._states[self._inside] = self._emulator.cloneState()
            self._emulator.restoreState(self._states[slot])
            self._inside = slot

    def _press(self, slot: int, action: int) -> tuple[float, bool]:
        """Four frames of one action: the sum paid, and whether the game is over. The last two screens are kept."""
        paid, last = 0.0, self._last[slot]
        repeats = (self._generators[slot].random(FRAMES) < self._sticky).tolist()
        game_over = False
        for frame, repeated in enumerate(repeats):
            if not repeated:
                last = action
            paid += self._emulator.act(self._actions[last])
            if frame >= FRAMES - 2:
                self._emulator.getScreenRGB(self._screens[frame - (FRAMES - 2)])
            if self._emulator.game_over():
                game_over = True
                break
        self._last[slot] = last
        return paid, game_over

    def _frame(self) -> AnyArray:
        return shrunk(gray(np.maximum(*self._screens)), self._down, self._across)

    def _start(self, slot: int, index: int, new_game: bool) -> None:
        """The next episode of a slot: a new game, or the next life of the same one after a no-op."""
        seed = episode_seed(self._draw_seed, slot, index)
        self._indices[slot], self._lengths[slot], self._seeds[slot] = index, 0, seed
        self._generators[slot] = np.random.Generator(np.random.PCG64(seed))
        self._enter(slot)
        if not new_game:
            new_game = self._press(slot, NO_OP)[1]
        if new_game:
            self._new_game(slot)
        for action in self._opening:
            if self._press(slot, action)[1]:
                self._new_game(slot)
        self._lives[slot] = self._emulator.lives()
        self._observations[slot] = 0
        self._observations[slot, -1] = self._frame()

    def _new_game(self, slot: int) -> None:
        self._emulator.restoreState(self._power_on)
        self._last[slot] = NO_OP
        for _ in range(int(self._generators[slot].integers(1, NO_OPS + 1))):
            self._emulator.act(self._actions[NO_OP])
        for screen in self._screens:
            self._emulator.getScreenRGB(screen)

    def level_ids(self) -> IntArray | None:
        return None

    def seeds(self) -> IntArray | None:
        return self._seeds

    def snapshot(self, slot: int) -> object:
        self._enter(slot)
        return (
            self._emulator.cloneState(),
            self._observations[slot].copy(),
            self._generators[slot].bit_generator.state,
            (self._last[slot], self._lives[slot], self._indices[slot], self._lengths[slot]),
        )

    def restore(self, slot: int, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        state, self._observations[slot], generator, counts = snapshot
        self._last[slot], self._lives[slot], self._indices[slot], self._lengths[slot] = counts
        self._generators[slot].bit_generator.state = generator
        if slot == self._inside:
            self._emulator.restoreState(state)
        else:
            self._states[slot] = state

    def restart(self, slot: int, snapshot: object, seed: int) -> None:
        """`restore` and `reseed` in one."""
        self.restore(slot, snapshot)
        self.reseed(slot, seed)

    def reseed(self, slot: int, seed: int) -> None:
        self._generators[slot] = np.random.Generator(np.random.PCG64(seed))

    def close(self) -> None:
        pass


def gray(screen: AnyArray) -> AnyArray:
    """OpenCV's gray of an RGB picture (… × 3 bytes)."""
    red, green, blue = (screen[..., channel].astype(np.uint32) for channel in range(3))
    result: AnyArray = ((red * RED + green * GREEN + blue * BLUE + (1 << (BITS - 1))) >> BITS).astype(np.uint8)
    return result


@dataclass(frozen=True)
class Taps:
    """For each smaller pixel of an axis, the pixels that it covers (covered × after) and their shares, which add up to
    one; some are 0."""

    places: IntArray
    shares: FloatArray


def area_taps(before: int, after: int) -> Taps:
    edges = np.arange(after + 1) * before / after
    first = np.floor(edges[:-1] + 1e-9).astype(np.int64)
    covered = int((np.ceil(edges[1:] - 1e-9) - first).max())
    places = first + np.arange(covered)[:, None]
    shared = np.minimum(edges[1:], places + 1) - np.maximum(edges[:-1], places)
    shares = (np.clip(shared, 0, None) * after / before).astype(np.float32)
    return Taps(np.minimum(places, before - 1), shares)


def shrunk(picture: AnyArray, down: Taps, across: Taps) -> AnyArray:
    """The average over the area of each smaller pixel, in bytes: OpenCV's INTER_AREA.

    By elements and not as a matrix product, whose last bits depend on the number of threads.
    """
    rows = sum(picture[places] * shares[:, None] for places, shares in zip(down.places, down.shares, strict=True))
    rows = np.ascontiguousarray(np.asarray(rows).T)
    columns = sum(rows[places] * shares[:, None] for places, shares in zip(across.places, across.shares, strict=True))
    result: AnyArray = np.rint(columns).astype(np.uint8).T
    return result


def _emulator(game: str) -> Any:
    try:
        ale_py, roms = importlib.import_module("ale_py"), importlib.import_module("ale_py.roms")
    except ImportError:
        raise UserError("the Arcade Learning Environment is not installed", hint='pip install "rl-codeaudit[atari]"') \
            from None  # fmt: skip
    known = roms.get_all_rom_ids()
    if game not in known:
        raise UserError(f"atari/{printable(game)} is no Atari game", hint="for example atari/breakout, atari/seaquest")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", 0)
    emulator.setFloat("repeat_action_probability", 0.0)  # its generator can't be reseeded alone; ours can
    emulator.loadROM(roms.get_rom_path(game))
    emulator.reset_game()
    return emulator
