"""MinAtar games behind the vector protocol, with snapshots that cost microseconds. Not for training or rendering.

A game's generator is held in two places (the wrapper and the game), and its last action, which stickiness repeats,
survives a reset in the package itself. Here a slot has one pooled generator that both places share, the last action is
part of every snapshot, and a new episode begins with no action to repeat (no-op).
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.environments.gymnasium_slots import episode_seed
from codeaudit_runtime.environments.protocol import EnvironmentInfo, LevelDraw, Slots, Step
from codeaudit_runtime.spaces import ActionSpec, AnyArray, IntArray, ObservationSpec

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
STICKY = 0.1
STEP_CAP = 10_000
_SHARED = "random"  # the attribute that holds the generator: never part of a snapshot


class MinAtarSlots(Slots):
    """`minatar/breakout`: 10 × 10 × C booleans, all six actions, sticky 0.1, difficulty ramping.

    A forced action goes *through* stickiness: the environment may still repeat the last action. A head is trained on
    the actions that were chosen, so what it says of an action includes that chance, and the truth must too.
    """

    stochastic = True

    def __init__(self, environment_id: str, slots: int, step_cap: int | None = None) -> None:
        game = environment_id.removeprefix("minatar/")
        if game not in GAMES:
            known = ", ".join(f"minatar/{name}" for name in GAMES)
            raise UserError(f"{environment_id!r} is no MinAtar game", hint=known)
        module = _game_module(game)
        self._games: list[Any] = [module.Env(ramping=True) for _ in range(slots)]
        self._generators = [np.random.RandomState(0) for _ in range(slots)]
        for one, generator in zip(self._games, self._generators, strict=True):
            one.random = generator
        shape = tuple(int(size) for size in self._games[0].state_shape())
        self._info = EnvironmentInfo(
            id=environment_id,
            observation=ObservationSpec(shape, "bool"),
            actions=ActionSpec("discrete", 6),
            step_cap=step_cap or STEP_CAP,
            own_limit=None,
        )
        self._slots = slots
        self._draw_seed = 0
        self._last = [0] * slots
        self._indices = [0] * slots
        self._lengths = [0] * slots
        self._seeds = np.zeros(slots, dtype=np.int64)
        self._none = np.zeros(slots, dtype=bool)
        self._observations = np.zeros((slots, *shape), dtype=bool)

    def reset(self, draw: LevelDraw) -> AnyArray:
        self._refuse_level_sets(draw)
        self._draw_seed = draw.seed
        for slot in range(self._slots):
            self._start(slot, 0)
        return self._observations.copy()

    def _start(self, slot: int, index: int) -> None:
        seed = episode_seed(self._draw_seed, slot, index)
        self._indices[slot], self._lengths[slot], self._seeds[slot], self._last[slot] = index, 0, seed, 0
        self._generators[slot].seed(seed)
        game = self._games[slot]
        game.reset()
        self._observations[slot] = game.state()

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        games, generators, last, lengths = self._games, self._generators, self._last, self._lengths
        observations, cap = self._observations, self._info.step_cap
        rewards = np.zeros(self._slots)
        over: list[tuple[int, bool]] = []
        for slot, chosen in zip(active.tolist(), np.asarray(actions).tolist(), strict=True):
            action = last[slot] if generators[slot].random_sample() < STICKY else chosen
            last[slot] = action
            game = games[slot]
            reward, terminal = game.act(action)
            if reward:
                rewards[slot] = reward
            lengths[slot] += 1
            if terminal or lengths[slot] >= cap:
                over.append((slot, not terminal))
            else:
                observations[slot] = game.state()
        if not over:
            return Step(observations, rewards, self._none, self._none, self._none, False)
        ended, truncated = self._none.copy(), self._none.copy()
        for slot, cut_short in over:
            ended[slot], truncated[slot] = True, cut_short
            self._start(slot, self._indices[slot] + 1)
        return Step(observations, rewards, ended, truncated, ended, True)

    def level_ids(self) -> IntArray | None:
        return None

    def seeds(self) -> IntArray | None:
        return self._seeds

    def snapshot(self, slot: int) -> object:
        fields = {name: _copied(value) for name, value in vars(self._games[slot]).items() if name != _SHARED}
        return (
            fields,
            self._generators[slot].get_state(legacy=True),
            self._last[slot],
            self._indices[slot],
            self._lengths[slot],
        )

    def restore(self, slot: int, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        _, state, *_ = snapshot
        self._generators[slot].set_state(state)
        self._put_back(slot, snapshot)

    def restart(self, slot: int, snapshot: object, seed: int) -> None:
        """`restore` and `reseed` in one, without setting a generator state that is thrown away at once."""
        self._put_back(slot, snapshot)
        self._generators[slot].seed(seed)

    def _put_back(self, slot: int, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        fields, _, self._last[slot], self._indices[slot], self._lengths[slot] = snapshot
        game = self._games[slot]
        own = vars(game)
        for name, value in fields.items():
            own[name] = value if type(value) in _PLAIN else _copied(value)
        self._observations[slot] = game.state()

    def reseed(self, slot: int, seed: int) -> None:
        self._generators[slot].seed(seed % 2**32)

    def close(self) -> None:
        pass


_PLAIN = (int, float, bool, str, type(None))


def _copied(value: Any) -> Any:
    """A copy of the plain containers that a game holds; the constant tables of names are copied too, for safety."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_copied(item) for item in value)
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, np.generic):
        return value
    raise UserError(f"a MinAtar game holds a {type(value).__name__}, which cannot be put in a snapshot")


def _game_module(game: str) -> Any:
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # without seaborn the package warns that it can't draw, which nobody asked
    try:
        return importlib.import_module(f"minatar.environments.{game}")
    except ImportError:
        raise UserError("MinAtar is not installed", hint='pip install "rl-codeaudit[minatar]"') from None
    finally:
        logging.root.setLevel(level)
