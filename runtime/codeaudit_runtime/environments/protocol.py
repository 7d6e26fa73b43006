"""The one small protocol that every environment is stepped through. Not for any particular environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from codeaudit.errors import UserError
from codeaudit_runtime.spaces import ActionSpec, AnyArray, BoolArray, FloatArray, IntArray, ObservationSpec


@dataclass(frozen=True)
class LevelSet:
    """Levels `start` to `start + count`; count None: whatever the environment draws (one set named `all`)."""

    name: str = "all"
    start: int = 0
    count: int | None = None

    @property
    def label(self) -> str:
        return self.name if self.count is None else f"{self.name}={self.start}:{self.count}"


@dataclass(frozen=True)
class LevelDraw:
    """One seeded subset of a level set. The same draw gives the same levels to every policy."""

    levels: LevelSet
    seed: int


@dataclass(frozen=True)
class EnvironmentInfo:
    """What a policy and a report must know. `step_cap` ends an episode that the environment itself would not."""

    id: str
    observation: ObservationSpec
    actions: ActionSpec
    step_cap: int
    own_limit: int | None  # the environment's own time limit, in steps
    has_levels: bool = False


class Step(NamedTuple):
    """What one step gives, one entry a slot.

    Where `ended`, the episode is over with this reward. `first` says that the observation is the first of a new
    episode: in the same step as the end, or, for environments that reset on their next step, one call later; between
    the two the slot is in no episode and nothing counts. `changed` is false where no slot ended or began an episode.
    """

    observations: AnyArray
    rewards: FloatArray
    ended: BoolArray
    truncated: BoolArray
    first: BoolArray
    changed: bool


class VectorEnvironment(Protocol):
    """`slots` sub-environments that run on their own: an episode's end never waits for another slot."""

    @property
    def info(self) -> EnvironmentInfo: ...

    @property
    def slots(self) -> int: ...

    def reset(self, draw: LevelDraw) -> AnyArray:
        """Start the first episode of every slot on a level draw; observations (slots × …)."""
        ...

    def step(self, actions: AnyArray, active: IntArray) -> Step:
        """Step the slots in `active` (N,) with `actions` (N, …). Entries of other slots mean nothing."""
        ...

    def level_ids(self) -> IntArray | None:
        """The level of each slot's current episode where the environment tells, else None."""
        ...

    def seeds(self) -> IntArray | None:
        """The seed of each slot's current episode where episodes are seeded one by one, else None."""
        ...

    def snapshot(self, slot: int) -> object:
        """The whole state of one slot, random generator included."""
        ...

    def restore(self, slot: int, snapshot: object) -> None:
        """Put a snapshot back; it can be restored many times. The next step continues from it."""
        ...

    def reseed(self, slot: int, seed: int) -> None:
        """Give one slot a new random generator and leave the rest of its state."""
        ...

    def close(self) -> None: ...


class Slots:
    """What every environment here says of itself."""

    _info: EnvironmentInfo
    _slots: int

    @property
    def info(self) -> EnvironmentInfo:
        return self._info

    @property
    def slots(self) -> int:
        return self._slots

    def _refuse_level_sets(self, draw: LevelDraw) -> None:
        if draw.levels.count is not None:
            raise UserError(f"{self._info.id} has no level sets", hint="leave --levels out")
