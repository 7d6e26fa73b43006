"""Are held-out levels new, and can they be played at all? Compares ProcGen levels by content. Not for agents.

A level is compared in four ways: its first picture, its first layout (grid and entities, without themes and seeds), and
both again all through fixed action sequences, for some games draw most of a level while it is played.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.environments import LevelDraw, LevelSet
from codeaudit_runtime.environments.procgen_levels import FirstState, first_states, layout_digest, restored
from codeaudit_runtime.environments.procgen_slots import ProcgenSlots
from codeaudit_runtime.spaces import AnyArray, IntArray

SEQUENCES, STEPS = 3, 64  # fixed random action sequences of so many steps
LAYOUT_EVERY = 8  # steps between two looks at the layout while playing
ACTIONS = 15
PLAYED_AT_ONCE, TRIED_AT_ONCE = 100, 20  # levels
KINDS = ("picture", "layout", "played_picture", "played_layout")


@dataclass(frozen=True)
class LevelContent:
    """Digests of one level. `ends` is the step (1 or 2) by which it has ended whatever was done, else 0."""

    level: int
    picture: str
    layout: str
    played_picture: str
    played_layout: str
    ends: int


@dataclass(frozen=True)
class LevelsJob:
    """All levels of one set."""

    environment: str
    levels: LevelSet

    @property
    def key(self) -> str:
        return f"levels|{self.environment}|{self.levels.start}:{self.levels.count}|{SEQUENCES}x{STEPS}/{LAYOUT_EVERY}"


@dataclass(frozen=True)
class Overlap:
    """How many levels of the second set are also in the first, by each kind of content."""

    first: str
    second: str
    levels: int  # of the second set
    duplicates: Mapping[str, int]
    duplicate_levels: tuple[int, ...]  # by layout, first and played: the same level in all but looks


@dataclass(frozen=True)
class SetContent:
    """One set in itself."""

    name: str
    label: str
    levels: int
    distinct: Mapping[str, int]
    short: tuple[int, ...]  # levels that end within two steps whatever is done


def content_bytes(job: LevelsJob) -> bytes:
    """The contents of every level of the set, as JSON. Raises UserError for environments without levels."""
    if not job.environment.startswith("procgen/"):
        raise UserError(f"{job.environment} has no levels to compare", hint="give --env procgen/GAME")
    try:
        states = first_states(job.environment, job.levels)
        contents = [content for part in _parts(states, PLAYED_AT_ONCE) for content in _played(job, part)]
        ends = [end for part in _parts(states, TRIED_AT_ONCE) for end in _ends(job, part)]
    except ValueError as error:
        raise UserError(
            f"{job.environment}: saved states of this ProcGen cannot be read ({error})", hint="install procgen 0.10.7"
        ) from None
    rows = [asdict(LevelContent(*content, end)) for content, end in zip(contents, ends, strict=True)]
    return json.dumps(rows, separators=(",", ":")).encode()


def contents_from_bytes(content: bytes) -> tuple[LevelContent, ...]:
    return tuple(LevelContent(**row) for row in json.loads(content))


def _parts(states: Sequence[FirstState], size: int) -> list[Sequence[FirstState]]:
    return [states[start : start + size] for start in range(0, len(states), size)]


def _opened(job: LevelsJob, count: int) -> ProcgenSlots:
    slots = ProcgenSlots(job.environment, count)
    slots.reset(LevelDraw(job.levels, 0))
    return slots


def _played(job: LevelsJob, states: Sequence[FirstState]) -> list[tuple[int, str, str, str, str]]:
    """Each level's digests, before and through the action sequences; a sequence stops where the level ends."""
    rng = np.random.Generator(np.random.PCG64(0))
    actions_KT = rng.integers(0, ACTIONS, (SEQUENCES, STEPS))
    pictures = [hashlib.blake2b(digest_size=16) for _ in states]
    layouts = [hashlib.blake2b(digest_size=16) for _ in states]
    slots = _opened(job, len(states))
    everyone = np.arange(len(states))
    for actions_T in actions_KT:
        shown = restored(slots, [one.snapshot for one in states])
        playing = np.ones(len(states), dtype=bool)
        for time in range(STEPS + 1):
            for slot in np.flatnonzero(playing).tolist():
                pictures[slot].update(shown[slot].tobytes())
                if time % LAYOUT_EVERY == 0:
                    layouts[slot].update(layout_digest(slots.state(slot)))
            if time == STEPS:
                break
            step = slots.step(np.full(len(states), actions_T[time]), everyone)
            for slot in np.flatnonzero(playing).tolist():
                told = np.float32(step.rewards[slot]).tobytes() + bytes([bool(step.ended[slot])])
                pictures[slot].update(told)
                layouts[slot].update(told)
            playing &= ~step.ended
            shown = step.observations
    slots.close()
    return [
        (
            one.level,
            hashlib.blake2b(one.picture, digest_size=16).hexdigest(),
            layout_digest(one.state).hex(),
            pictures[slot].hexdigest(),
            layouts[slot].hexdigest(),
        )
        for slot, one in enumerate(states)
    ]


def _ends(job: LevelsJob, states: Sequence[FirstState]) -> list[int]:
    """1 or 2 where every action, or every pair of actions, has ended the level by then; else 0."""
    slots = _opened(job, len(states) * ACTIONS)
    first, second = _two_steps(slots, states, np.arange(ACTIONS), np.arange(ACTIONS))
    slots.close()
    ends = [1 if first[at].all() else 2 if (first[at] | second[at]).all() else 0 for at in range(len(states))]
    doubtful = [at for at, end in enumerate(ends) if end == 2]  # only pairs of the same action were tried
    if doubtful:
        slots = _opened(job, ACTIONS**2)
        before, after = np.divmod(np.arange(ACTIONS**2), ACTIONS)
        for at in doubtful:
            first, second = _two_steps(slots, [states[at]], before, after)
            ends[at] = 2 if (first | second).all() else 0
        slots.close()
    return ends


def _two_steps(
    slots: ProcgenSlots, states: Sequence[FirstState], before_B: IntArray, after_B: IntArray
) -> tuple[AnyArray, AnyArray]:
    """Whether each level ended at the first and at the second step of each pair of actions (levels × B)."""
    restored(slots, [one.snapshot for one in states for _ in before_B])
    everyone = np.arange(slots.slots)
    first = slots.step(np.tile(before_B, len(states)), everyone).ended.copy()
    second = slots.step(np.tile(after_B, len(states)), everyone).ended.copy()
    shape = (len(states), len(before_B))
    return first.reshape(shape), second.reshape(shape)


def overlap_of(first: LevelSet, second: LevelSet, contents: Mapping[str, Sequence[LevelContent]]) -> Overlap:
    """`contents` holds both sets by name. A level of both sets by number counts as a duplicate too, as it is."""
    known = {kind: {getattr(one, kind) for one in contents[first.name]} for kind in KINDS}
    own = contents[second.name]
    counts = {kind: sum(getattr(one, kind) in known[kind] for one in own) for kind in KINDS}
    same = {(one.layout, one.played_layout) for one in contents[first.name]}
    both = tuple(one.level for one in own if (one.layout, one.played_layout) in same)
    return Overlap(first.name, second.name, len(own), counts, both)


def set_content(levels: LevelSet, contents: Sequence[LevelContent]) -> SetContent:
    distinct = {kind: len({getattr(one, kind) for one in contents}) for kind in KINDS}
    short = tuple(one.level for one in contents if one.ends)
    return SetContent(levels.name, levels.label, len(contents), distinct, short)
