"""RiskyGrid: a walk of ten columns whose return distributions are known exactly. Not a benchmark to be won.

At each column SAFE pays 0.5 and GAMBLE pays 0.5 ± g by a fair coin; g is drawn anew for every column and episode and is
shown. Both actions have one mean, so only the shape of the return tells them apart, and the excess Wasserstein gap of a
state is positive exactly where its g is. What was won is not shown and changes nothing later, so under a fixed policy
the rest of a walk is a sum of independent coins: `exact_returns` is the answer key, and needs no roll-out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codeaudit.errors import UserError
from codeaudit_runtime.environments.protocol import EnvironmentInfo, LevelDraw, Slots, Step
from codeaudit_runtime.spaces import ActionSpec, AnyArray, FloatArray, IntArray, ObservationSpec

COLUMNS = 10
SAFE, GAMBLE = 0, 1
PAY = 0.5
SCALES: dict[str, tuple[float, ...]] = {
    "riskygrid": (0.0, 0.5, 1.0, 1.5, 2.0),
    "riskygrid:faint": (0.0, 0.05, 0.1, 0.2, 0.4),
}
_U64 = NDArray[np.uint64]


@dataclass(frozen=True)
class GridState:
    """One slot's whole state: what a snapshot holds."""

    scales: tuple[float, ...]
    column: int
    seed: int
    index: int


@dataclass(frozen=True)
class ExactReturns:
    """A finite return distribution: values ascending (K,) and their probabilities (K,)."""

    values: FloatArray
    probabilities: FloatArray


def mixed(seeds: _U64, salt: int) -> _U64:
    """A 64-bit hash of each seed and a number (splitmix64, Steele, Lea & Flood 2014). Wraps by intent."""
    with np.errstate(over="ignore"):
        z: _U64 = seeds + np.uint64(((salt + 1) * 0x9E3779B97F4A7C15) % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def observation_of(scales: AnyArray, column: int) -> AnyArray:
    """One-hot column, then the ten scales: float32 (20,)."""
    observation = np.zeros(2 * COLUMNS, dtype=np.float32)
    observation[column] = 1.0
    observation[COLUMNS:] = scales
    return observation


class RiskyGrid(Slots):
    """Every slot at once, as arrays. A slot's chance is a hash of its seed and column, so reseeding costs nothing."""

    stochastic = True

    def __init__(self, environment_id: str, slots: int, step_cap: int | None = None) -> None:
        if environment_id not in SCALES:
            raise UserError(f"{environment_id!r} is no RiskyGrid", hint=", ".join(SCALES))
        self._levels = np.array(SCALES[environment_id], dtype=np.float64)
        self._cap = min(step_cap or COLUMNS, COLUMNS)
        self._info = EnvironmentInfo(
            id=environment_id,
            observation=ObservationSpec((2 * COLUMNS,), "float32"),
            actions=ActionSpec("discrete", 2),
            step_cap=self._cap,
            own_limit=None,
        )
        self._slots = slots
        self._draw_seed = 0
        self._scales = np.zeros((slots, COLUMNS))
        self._column = np.zeros(slots, dtype=np.int64)
        self._seed = np.zeros(slots, dtype=np.uint64)
        self._index = np.zeros(slots, dtype=np.int64)
        self._none = np.zeros(slots, dtype=bool)
        self._observations = np.zeros((slots, 2 * COLUMNS), dtype=np.float32)

    def reset(self, draw: LevelDraw) -> AnyArray:
        self._refuse_level_sets(draw)
        self._draw_seed = draw.seed
        self._index[:] = -1
        self._start(np.arange(self._slots))
        return self._observations.copy()

    def _start(self, which: IntArray) -> None:
        """Begin the next episode of some slots."""
        self._index[which] += 1
        base = mixed(np.full(len(which), self._draw_seed, dtype=np.uint64), 0)
        seeds = mixed(base ^ mixed(which.astype(np.uint64), 1), 2) ^ self._index[which].astype(np.uint64)
        self._seed[which] = mixed(seeds, 3)
        for column in range(COLUMNS):
            level = mixed(self._seed[which], 100 + column) % np.uint64(len(self._levels))
            self._scales[which, column] = self._levels[level.astype(np.int64)]
        self._column[which] = 0
        self._show(which)

    def _show(self, which: IntArray) -> None:
        self._observations[which, :COLUMNS] = 0.0
        self._observations[which, self._column[which]] = 1.0
        self._observations[which, COLUMNS:] = self._scales[which]

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        column = self._column[active]
        gambles = np.asarray(actions) == GAMBLE
        won = np.zeros(len(active), dtype=bool)
        for value in np.unique(column):
            here = column == value
            won[here] = (mixed(self._seed[active[here]], int(value)) >> np.uint64(63)) == 1
        stake = self._scales[active, column]
        rewards = np.zeros(self._slots)
        rewards[active] = PAY + np.where(gambles, np.where(won, stake, -stake), 0.0)
        self._column[active] += 1
        over = active[self._column[active] >= self._cap]
        going = active[self._column[active] < self._cap]
        self._show(going)
        if not len(over):
            return Step(self._observations, rewards, self._none, self._none, self._none, False)
        ended = self._none.copy()
        ended[over] = True
        truncated = ended.copy() if self._cap < COLUMNS else self._none
        self._start(over)
        return Step(self._observations, rewards, ended, truncated, ended, True)

    def level_ids(self) -> IntArray | None:
        return None

    def seeds(self) -> IntArray | None:
        return (self._seed >> np.uint64(1)).astype(np.int64)

    def snapshot(self, slot: int) -> object:
        return GridState(
            tuple(self._scales[slot].tolist()), int(self._column[slot]), int(self._seed[slot]), int(self._index[slot])
        )

    def restore(self, slot: int, snapshot: object) -> None:
        assert isinstance(snapshot, GridState)
        self._scales[slot], self._column[slot] = snapshot.scales, snapshot.column
        self._seed[slot], self._index[slot] = snapshot.seed, snapshot.index
        self._show(np.array([slot]))

    def reseed(self, slot: int, seed: int) -> None:
        self._seed[slot] = mixed(np.array([seed], dtype=np.uint64), 4)[0]

    def exact_returns(
        self, snapshot: object, action: int, act: Callable[[AnyArray], IntArray], discount: float
    ) -> ExactReturns:
        """The answer key from a snapshot: `action` is forced, then `act` (observations → actions) to the end."""
        assert isinstance(snapshot, GridState)
        scales = np.array(snapshot.scales)
        later = np.array([observation_of(scales, column) for column in range(snapshot.column + 1, COLUMNS)])
        actions = [action, *(np.asarray(act(later)).tolist() if len(later) else [])]
        gambled = zip(actions, scales[snapshot.column :].tolist(), strict=True)
        return sum_of_coins([scale if chosen == GAMBLE else 0.0 for chosen, scale in gambled], discount)

    def close(self) -> None:
        pass


def sum_of_coins(stakes: list[float], discount: float) -> ExactReturns:
    """The law of Σ γ^k (0.5 ± stakes[k]) with fair, independent coins; values within 1e-12 are one."""
    values, probabilities = np.zeros(1), np.ones(1)
    for step, stake in enumerate(stakes):
        weight = discount**step
        if stake == 0.0:
            values = values + weight * PAY
            continue
        values = np.concatenate([values + weight * (PAY - stake), values + weight * (PAY + stake)])
        probabilities = np.concatenate([probabilities, probabilities]) / 2
        order = np.argsort(values, kind="stable")
        values, probabilities = values[order], probabilities[order]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(values) > 1e-12]))
        values, probabilities = values[starts], np.add.reduceat(probabilities, starts)
    return ExactReturns(values, probabilities)
