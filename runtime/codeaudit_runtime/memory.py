"""A policy that remembers what it said to an observation. Not for policies with a state of their own.

Why: networks on images cost far more than the games that draw them, and agents see most pictures again: four in five
steps of a sampled miner agent, nearly all of a looping greedy one. A memory lives for one roll-out, so that a unit's
numbers depend on the unit alone.
"""

from __future__ import annotations

import hashlib

import numpy as np

from codeaudit_runtime.policies import ActionValues, Categorical, Head, Policy, State
from codeaudit_runtime.spaces import ActionSpec, AnyArray, BoolArray, FloatArray

MOST = 200_000  # observations; then it starts again


class RememberingPolicy:
    """The same heads as `policy`, but for rounding, which depends on the rows that share a batch."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._rows: dict[bytes, FloatArray] = {}
        self.asked = self.computed = 0

    @property
    def actions(self) -> ActionSpec:
        return self._policy.actions

    def initial_state(self, slots: int) -> State:
        return None

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        contents = np.ascontiguousarray(observations)
        keys = [hashlib.blake2b(row.data, digest_size=16).digest() for row in contents]
        unknown = {key: row for row, key in enumerate(keys) if key not in self._rows}
        self.asked += len(keys)
        self.computed += len(unknown)
        if unknown:
            rows = list(unknown.values())
            head, _ = self._policy(contents[rows], None, starts[rows])
            values = _values(head)
            if len(self._rows) + len(unknown) > MOST:
                self._rows = {key: self._rows[key] for key in keys if key in self._rows}
            self._rows.update(zip(unknown, values, strict=True))
            self._kind = type(head)
        stacked = np.stack([self._rows[key] for key in keys])
        return (ActionValues(stacked) if self._kind is ActionValues else Categorical(stacked)), None


def _values(head: Head) -> FloatArray:
    if isinstance(head, Categorical):
        return head.logits_NA
    if isinstance(head, ActionValues):
        return head.values_NA
    raise ValueError("only heads over discrete actions are remembered")


def remembering(policy: Policy) -> Policy:
    """`policy` with a fresh memory, where it has no state and discrete actions."""
    if policy.initial_state(1) is None and policy.actions.kind == "discrete":
        return RememberingPolicy(policy)
    return policy
