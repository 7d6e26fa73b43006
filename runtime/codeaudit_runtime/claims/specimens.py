"""Which states show best what an audit found. Pure; not for drawing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codeaudit_runtime.claims.stored import StoredState

OF_A_KIND = 2


@dataclass(frozen=True)
class Specimen:
    """A state and what it is a case of."""

    kind: str
    why: str
    state: StoredState


@dataclass(frozen=True)
class _Kind:
    name: str
    why: str
    shows: Callable[[StoredState], bool]
    clearness: Callable[[StoredState], float]


KINDS = (
    _Kind(
        "an invented risk",
        "The head claims a trade-off; its returns show none, and the claim is above what they allow.",
        lambda one: one.result.overstated and not one.real and not doomed(one),
        lambda one: one.result.claim - one.result.truth_limit,
    ),
    _Kind(
        "a doomed state",
        "Every future returns the same, whatever is done; what the head claims here cannot be true.",
        lambda one: doomed(one) and one.result.overstated,
        lambda one: one.result.claim,
    ),
    _Kind(
        "real, but overstated",
        "There is a trade-off, smaller than claimed.",
        lambda one: one.result.overstated and one.real,
        lambda one: one.result.claim - one.result.truth_limit,
    ),
    _Kind(
        "a true claim",
        "There is a trade-off, and the claim is within what the returns allow.",
        lambda one: one.real and not one.result.overstated and one.result.claim >= one.result.truth / 2,
        lambda one: one.result.claim,
    ),
    _Kind(
        "an unseen risk",
        "There is a trade-off, and the head claims less than half of it.",
        lambda one: one.real and one.result.claim < one.result.truth / 2,
        lambda one: one.result.truth - one.result.claim,
    ),
)


def doomed(state: StoredState) -> bool:
    """All returns of both actions are one number."""
    first, second = state.returns
    return bool((first == first[0]).all() and (second == first[0]).all())


def clearest(states: Sequence[StoredState]) -> list[Specimen]:
    """At most `OF_A_KIND` states of each kind, the clearest first; a state is shown once."""
    chosen: list[Specimen] = []
    for kind in KINDS:
        fitting = sorted(filter(kind.shows, states), key=lambda one: (-kind.clearness(one), one.result.run))
        chosen += [Specimen(kind.name, kind.why, one) for one in fitting[:OF_A_KIND]]
    return chosen
