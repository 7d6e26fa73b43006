"""The first state of every level of a set, and what is in a saved ProcGen state. Not for rolling out policies.

The layout of a saved state follows the release's own writer (procgen 0.10.7: game.cpp, basic-abstract-game.cpp,
entity.cpp and grid.h): little-endian integers and floats of four bytes, strings with their length before them.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.environments.procgen_slots import NEW_LEVEL, ProcgenSlots
from codeaudit_runtime.environments.protocol import LevelDraw, LevelSet
from codeaudit_runtime.spaces import AnyArray

SLOTS = 64  # of the vector that collects first states
MOST_CALLS = 5_000  # new levels that are asked for before giving up: a set of 10,000 is seen long before
VERSION = 0
OPTIONS, GENERATORS, GAME_STATE, AFTER_ENTITIES, AFTER_ASSETS = 17, 2, 15, 19, 9  # four-byte fields between strings
ENTITY_FIELDS, ENTITY_KEPT = 31, 7  # of an entity: place, speed, size and type; not its picture
LONGEST_SET = 10_000


@dataclass(frozen=True)
class FirstState:
    """A level, as it is before the first action."""

    level: int
    state: bytes
    picture: bytes  # 64 × 64 × 3

    @property
    def snapshot(self) -> tuple[bytes, int]:
        return self.state, 0


def first_states(environment_id: str, levels: LevelSet) -> tuple[FirstState, ...]:
    """Every level of the set, in order. Levels come at random, so new ones are asked for until all were seen."""
    if levels.count is None or levels.count > LONGEST_SET:
        raise UserError(f"--levels {levels.label}: at most {LONGEST_SET:,} levels can be compared one by one")
    slots = ProcgenSlots(environment_id, min(SLOTS, levels.count))
    found: dict[int, FirstState] = {}
    try:
        observations = slots.reset(LevelDraw(levels, 0))
        everyone = np.arange(slots.slots)
        for _ in range(MOST_CALLS):
            for slot, level in enumerate(slots.level_ids().tolist()):
                if level not in found:
                    state = slots.state(slot)
                    found[level] = FirstState(level, state, observations[slot].tobytes())
            if len(found) == levels.count:
                return tuple(found[level] for level in sorted(found))
            observations = slots.step(np.full(slots.slots, NEW_LEVEL), everyone).observations
    finally:
        slots.close()
    raise UserError(f"{environment_id}: {levels.count - len(found)} levels of {levels.label} were never drawn")


class _Reader:
    def __init__(self, state: bytes) -> None:
        self.state, self.place = state, 0

    def integers(self, count: int) -> tuple[int, ...]:
        found = struct.unpack_from(f"<{count}i", self.state, self.place)
        self.place += 4 * count
        return found

    def skip(self, fields: int) -> None:
        self.place += 4 * fields

    def string(self) -> bytes:
        (length,) = self.integers(1)
        self.place += length
        return self.state[self.place - length : self.place]

    def raw(self, fields: int) -> bytes:
        self.place += 4 * fields
        return self.state[self.place - 4 * fields : self.place]


def layout_digest(state: bytes) -> bytes:
    """What is where: the grid, and each entity's place, speed, size and type. Themes, backgrounds, seeds and random
    generators are left out. ValueError where the state is not written as that of release 0.10.7."""
    try:
        reader = _Reader(state)
        (version,) = reader.integers(1)
        if version != VERSION:
            raise ValueError(f"saved states of version {version}")
        reader.string()
        reader.skip(OPTIONS)
        _skip_generators(reader, GENERATORS)
        reader.skip(GAME_STATE)
        _, entities = reader.integers(2)
        digest = hashlib.blake2b(digest_size=16)
        for _ in range(entities):
            digest.update(reader.raw(ENTITY_KEPT))
            reader.skip(ENTITY_FIELDS - ENTITY_KEPT)
        reader.skip(AFTER_ENTITIES)
        _skip_generators(reader, 1)
        reader.skip(AFTER_ASSETS)
        width, height, cells = reader.integers(3)
        if width * height != cells:
            raise ValueError(f"a grid of {width} × {height} with {cells} cells")
        digest.update(struct.pack("<2i", width, height) + reader.raw(cells))
        return digest.digest()
    except struct.error as error:
        raise ValueError(str(error)) from None


def _skip_generators(reader: _Reader, count: int) -> None:
    for _ in range(count):
        reader.skip(1)
        reader.string()


def restored(slots: ProcgenSlots, states: list[tuple[bytes, int]]) -> AnyArray:
    """Put one saved state into each slot; the pictures of all of them."""
    for slot, snapshot in enumerate(states):
        slots.restore(slot, snapshot)
    return slots.observations()
