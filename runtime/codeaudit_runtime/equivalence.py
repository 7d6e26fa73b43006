"""Which actions do the same thing? Clones ProcGen states, tries every action and compares. Not for choosing actions.

States come from random play. Two actions are the same in a state where pictures, rewards and ends agree over the action
and four no-ops after it; they are the same in a game where that holds in every sampled state (Keshari 2026).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.environments import LevelDraw, LevelSet
from codeaudit_runtime.environments.procgen_slots import ProcgenSlots
from codeaudit_runtime.spaces import FloatArray

ACTIONS, NOOP, NOOPS = 15, 4, 4
SLOTS, EVERY = 20, 25  # one saved state a slot after every 25 steps of random play
TRIED_AT_ONCE = 10  # states
STATES = 200  # of each level set

Classes = tuple[int, ...]  # the class of each action, numbered in order of first appearance


@dataclass(frozen=True)
class EquivalenceJob:
    """Sampled states of one game on one level set."""

    environment: str
    levels: LevelSet
    seed: int
    states: int = STATES

    @property
    def key(self) -> str:
        return f"equivalence|{self.environment}|{self.levels.start}:{self.levels.count}|{self.seed}|{self.states}"


@dataclass(frozen=True)
class Equivalence:
    """`classes` of the whole game; `per_state` the mean number of classes of one state."""

    environment: str
    classes: Classes
    per_state: float
    states: int

    @property
    def effective(self) -> int:
        return len(set(self.classes))


def tables_bytes(job: EquivalenceJob) -> bytes:
    """The classes of every sampled state (states × 15), as JSON. Raises UserError for another kind of environment."""
    if not job.environment.startswith("procgen/"):
        raise UserError(f"{job.environment}: equivalent actions are measured for ProcGen games only")
    states = _states(job)
    slots = ProcgenSlots(job.environment, TRIED_AT_ONCE * ACTIONS)
    slots.reset(LevelDraw(job.levels, job.seed))
    tables: list[Classes] = []
    for start in range(0, len(states), TRIED_AT_ONCE):
        tables += _classes_of(slots, states[start : start + TRIED_AT_ONCE])
    slots.close()
    return json.dumps(tables, separators=(",", ":")).encode()


def tables_from_bytes(content: bytes) -> list[Classes]:
    return [tuple(row) for row in json.loads(content)]


def _states(job: EquivalenceJob) -> list[Any]:
    """Saved states of random play, at even distances in time."""
    rng = np.random.Generator(np.random.PCG64(job.seed))
    slots = ProcgenSlots(job.environment, SLOTS)
    slots.reset(LevelDraw(job.levels, job.seed))
    everyone = np.arange(SLOTS)
    states: list[Any] = []
    while len(states) < job.states:
        for _ in range(EVERY):
            slots.step(rng.integers(0, ACTIONS, SLOTS), everyone)
        states += [slots.snapshot(slot) for slot in range(SLOTS)]
    slots.close()
    return states[: job.states]


def _classes_of(slots: ProcgenSlots, states: Sequence[Any]) -> Iterator[Classes]:
    count = len(states)
    for at in range(slots.slots):  # the last few states may be fewer than there are slots: the first stands in
        slots.restore(at, states[at // ACTIONS if at // ACTIONS < count else 0])
    outcomes = [hashlib.blake2b(digest_size=16) for _ in range(slots.slots)]
    everyone = np.arange(slots.slots)
    actions = np.tile(np.arange(ACTIONS), slots.slots // ACTIONS)
    for _ in range(1 + NOOPS):
        step = slots.step(actions, everyone)
        for slot, outcome in enumerate(outcomes):
            outcome.update(step.observations[slot].tobytes())
            outcome.update(np.float32(step.rewards[slot]).tobytes() + bytes([bool(step.ended[slot])]))
        actions = np.full(slots.slots, NOOP)
    for at in range(count):
        yield numbered([outcomes[at * ACTIONS + action].digest() for action in range(ACTIONS)])


def numbered(values: Sequence[object]) -> Classes:
    """Equal values get equal numbers, in order of first appearance."""
    order = {value: index for index, value in enumerate(dict.fromkeys(values))}
    return tuple(order[value] for value in values)


def equivalence_from_tables(environment: str, tables: Sequence[Classes]) -> Equivalence:
    """Two actions share a class of the game where they share one in every state."""
    together = list(zip(*tables, strict=True))
    mean = float(np.mean([len(set(row)) for row in tables]))
    return Equivalence(environment, numbered(together), mean, len(tables))


def merged_probabilities(probabilities_NA: FloatArray, classes: Classes) -> FloatArray:
    """Probabilities (N × classes) summed within classes."""
    members_AC = np.eye(len(set(classes)), dtype=probabilities_NA.dtype)[np.asarray(classes)]
    merged: FloatArray = probabilities_NA @ members_AC
    return merged


def entropy_of(probabilities_NC: FloatArray) -> FloatArray:
    """Nats, shape (N,)."""
    positive = np.maximum(probabilities_NC, 1e-30)
    result: FloatArray = -(probabilities_NC * np.log(positive)).sum(axis=1)
    return result
