"""True returns of one state and action: restarts from snapshots, the action forced, then the audited policy.

Not for statistics of them. A work unit is one state and action; it carries its own seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from codeaudit_runtime.claims.heads import ReturnHead, head_from_file
from codeaudit_runtime.environments import VectorEnvironment, environment_from_id
from codeaudit_runtime.spaces import AnyArray, FloatArray, IntArray

MOST_REMEMBERED = 500_000  # observations; 64 bytes each, about, for a packed MinAtar board
MOST_BYTES = 1 << 28  # of larger ones


@runtime_checkable
class Restartable(Protocol):
    """An environment that can restore and reseed in one call."""

    def restart(self, slot: int, snapshot: object, seed: int) -> None: ...


@dataclass(frozen=True)
class RestartTask:
    """One state and action of one run. `seed` is the identity of the unit: the same task gives the same returns."""

    path: str
    sha256: str
    environment: str
    snapshots: tuple[object, ...]
    action: int
    rollouts: int
    horizon: int
    seed: tuple[int, ...]


class RememberedPolicy:
    """The greedy actions of a head, each observation asked once: restarts of one state meet the same ones again.

    Greedy is a function of the observation alone, so remembering changes nothing but the cost.
    """

    def __init__(self, head: ReturnHead) -> None:
        self._head = head
        self._known: dict[bytes, int] = {}

    def __call__(self, observations: AnyArray) -> IntArray:
        rows = observations.reshape(len(observations), -1)
        packed = np.packbits(rows, axis=1) if rows.dtype == np.bool_ else np.ascontiguousarray(rows)
        keys = packed.view(np.dtype((np.void, packed.shape[1] * packed.itemsize))).ravel().tolist()
        known = self._known
        found = [known.get(key, -1) for key in keys]
        actions = np.array(found, dtype=np.int64)
        if -1 in found:
            if len(known) > min(MOST_REMEMBERED, MOST_BYTES // max(1, len(keys[0]))):
                known.clear()
            new = {keys[place]: place for place in np.flatnonzero(actions < 0).tolist()}
            answers = self._head.act(observations[list(new.values())]).tolist()
            fresh = dict(zip(new, answers, strict=True))
            known.update(fresh)
            missing = np.flatnonzero(actions < 0)
            actions[missing] = [fresh[keys[place]] for place in missing.tolist()]
        return actions


@lru_cache(maxsize=2)
def _environment(environment_id: str, slots: int) -> VectorEnvironment:
    return environment_from_id(environment_id, slots)


def restart_returns(task: RestartTask) -> FloatArray:
    """Discounted returns (rollouts,), from the snapshots in turn, to the end or the horizon."""
    head = head_from_file(task.path, task.environment, task.sha256)
    return returns_from(head, _environment(task.environment, task.rollouts), task)


def returns_from(head: ReturnHead, environment: VectorEnvironment, task: RestartTask) -> FloatArray:
    """The same in an environment of `task.rollouts` slots or more. Every restart has a random stream of its own."""
    count = task.rollouts
    _restart_all(environment, task.snapshots, task.seed, count)
    policy = RememberedPolicy(head)
    returns, weight = np.zeros(count), 1.0
    active = np.arange(count)
    actions: IntArray = np.full(count, task.action)
    for _ in range(task.horizon):
        step = environment.step(actions, active)
        returns[active] += weight * step.rewards[active]
        weight *= head.discount
        if step.changed:
            active = active[~step.ended[active]]
            if not len(active):
                break
        actions = policy(step.observations[active])
    return returns


def restarts_part(environment: VectorEnvironment, snapshot: object, steps: int, seed: tuple[int, ...]) -> bool:
    """Do restarts from one snapshot ever differ in what they show or pay, all slots given the same random actions?

    Looked at until an episode ends: the next one is another in each slot.
    """
    _restart_all(environment, (snapshot,), seed, environment.slots)
    chosen = np.random.Generator(np.random.PCG64(np.random.SeedSequence((*seed, 1))))
    everyone = np.arange(environment.slots)
    for action in chosen.integers(0, environment.info.actions.size, steps).tolist():
        step = environment.step(np.full(environment.slots, action), everyone)
        if (step.rewards != step.rewards[0]).any() or (step.ended != step.ended[0]).any():
            return True
        if step.ended[0]:
            return False
        if (step.observations != step.observations[0]).any():
            return True
    return False


def _restart_all(
    environment: VectorEnvironment, snapshots: Sequence[object], seed: tuple[int, ...], count: int
) -> None:
    """The first `count` slots from the snapshots in turn, each with a random stream of its own."""
    for slot, own in enumerate(np.random.SeedSequence(seed).generate_state(count).tolist()):
        snapshot = snapshots[slot % len(snapshots)]
        if isinstance(environment, Restartable):
            environment.restart(slot, snapshot, own)
        else:
            environment.restore(slot, snapshot)
            environment.reseed(slot, own)
