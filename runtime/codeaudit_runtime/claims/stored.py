"""What an audit keeps of a state beside verdicts: observation, learned laws, true returns. Not for analysis."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.claims.verdicts import StateResult
from codeaudit_runtime.spaces import AnyArray, FloatArray


@dataclass(frozen=True)
class Law:
    """A discrete return distribution: values ascending (K,) and their weights (K,), which add up to one."""

    values: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class StoredState:
    """One audited state. The pairs are of the actions ranked first and second by mean; returns are as rolled out."""

    result: StateResult
    real: bool
    observation: AnyArray
    learned: tuple[Law, Law]
    returns: tuple[FloatArray, FloatArray]


def heads_bytes(observations_N: AnyArray, laws_NAK: FloatArray, support_K: FloatArray | None) -> bytes:
    """The unit that holds the audited states' observations and learned laws, in their order."""
    buffer = io.BytesIO()
    support = np.zeros(0) if support_K is None else support_K
    np.savez(buffer, observations=observations_N, laws=laws_NAK, support=support)
    return buffer.getvalue()


def audited_observations(run: RunDirectory, name: str) -> AnyArray:
    """Observations of a run's audited states, in their order."""
    return _heads(run, name)[0]


def _heads(run: RunDirectory, name: str) -> tuple[AnyArray, FloatArray, FloatArray]:
    content = run.unit(f"{name}/heads")
    if content is None:
        raise UserError(f"{name}: the audit holds no learned laws", hint="run the same `codeaudit claims` again")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["observations"], arrays["laws"], arrays["support"]


def stored_states(run: RunDirectory, name: str, states: list[StateResult], real: list[bool]) -> list[StoredState]:
    """The states of one run; UserError where the audit was made before this was kept, or is damaged."""
    observations, laws, support = _heads(run, name)
    found = []
    for place, (state, exists) in enumerate(zip(states, real, strict=True)):
        first, second = (law_of_row(laws[place][action], support) for action in state.actions)
        x, y = (_returns(run, f"{name}/returns/{state.index}/{action}") for action in state.actions)
        found.append(StoredState(state, exists, observations[place], (first, second), (x, y)))
    return found


def law_of_row(law_K: FloatArray, support: FloatArray | None) -> Law:
    """Of one action as a head gives it: quantiles, or (with a support) probabilities."""
    law = np.asarray(law_K, dtype=np.float64)
    if support is not None and len(support):
        return Law(np.asarray(support, dtype=np.float64), law / law.sum())
    return Law(np.sort(law), np.full(len(law), 1 / len(law)))


def _returns(run: RunDirectory, key: str) -> FloatArray:
    content = run.unit(key)
    if content is None:
        raise UserError(f"{run.path}: {key} is missing or damaged", hint="run the same `codeaudit claims` again")
    result: FloatArray = np.load(io.BytesIO(content), allow_pickle=False)
    return result
