"""Which states are audited: an ε-greedy roll-out to unique states, and strata by claim. Not for their truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codeaudit_runtime.claims.gaps import Claim
from codeaudit_runtime.claims.heads import ReturnHead
from codeaudit_runtime.environments import LevelDraw, LevelSet, VectorEnvironment
from codeaudit_runtime.spaces import AnyArray

STRATA = (0.5, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)  # upper ends, in percent of the states ranked by claim
TOP_STRATA = STRATA[:2]
SLOTS = 8
MOST_STEPS_A_STATE = 200  # of all slots together; small worlds don't have as many states as are asked for


@dataclass
class SeenState:
    """One observation and snapshots of the environment where it was seen."""

    observation: AnyArray
    snapshots: list[object] = field(default_factory=list)


@dataclass(frozen=True)
class AuditedState:
    """A state drawn from a stratum: its index among the states seen, its rank by claim (0 is the largest)."""

    index: int
    rank: int
    stratum: float
    claim: Claim
    snapshots: int


def collect_states(
    head: ReturnHead, environment: VectorEnvironment, wanted: int, epsilon: float, snapshots: int, seed: int
) -> list[SeenState]:
    """States in the order in which they were first seen, at most `wanted`, each with 1 to `snapshots` snapshots."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    slots = environment.slots
    active = np.arange(slots)
    seen: dict[bytes, SeenState] = {}
    observations = environment.reset(LevelDraw(LevelSet(), int(rng.integers(2**31))))
    for _ in range(max(1, wanted * MOST_STEPS_A_STATE // slots)):
        for slot in range(slots):
            key = observations[slot].tobytes()
            state = seen.get(key)
            if state is None:
                if len(seen) == wanted:
                    break
                state = seen[key] = SeenState(observations[slot].copy())
            if len(state.snapshots) < snapshots:
                state.snapshots.append(environment.snapshot(slot))
        if len(seen) == wanted:
            break
        explores = rng.random(slots) < epsilon
        uniform = rng.integers(0, environment.info.actions.size, slots)
        actions = np.where(explores, uniform, head.act(observations))
        observations = environment.step(actions, active).observations
    return list(seen.values())


def claims_of_states(head: ReturnHead, states: Sequence[SeenState]) -> list[Claim]:
    return head.claims(np.stack([state.observation for state in states]))


def choose_audited(
    claims: Sequence[Claim], states: Sequence[SeenState], per_stratum: int, seed: int
) -> list[AuditedState]:
    """`per_stratum` states of each rank stratum, drawn without replacement; fewer where a stratum holds fewer."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    order = sorted(range(len(claims)), key=lambda index: (-claims[index].excess, index))
    chosen, start = [], 0
    for upper in STRATA:
        stop = max(start, round(len(order) * upper / 100))
        ranks = rng.permutation(np.arange(start, stop))[:per_stratum]
        for rank in sorted(ranks.tolist()):
            index = order[rank]
            chosen.append(AuditedState(index, rank, upper, claims[index], len(states[index].snapshots)))
        start = stop
    return chosen
