"""One protocol for every policy: observations, state and episode starts in, an action distribution and next state out.

Not for choosing an action from the distribution: that is the action rule (`actions.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from codeaudit_runtime.networks import Network
from codeaudit_runtime.spaces import ActionSpec, AnyArray, BoolArray, FloatArray, IntArray

State: TypeAlias = tuple[AnyArray, ...] | None  # one array per part, axis 0 is the slot; None for a memoryless policy


@dataclass(frozen=True)
class Categorical:
    """Logits (N × actions) of a distribution over discrete actions."""

    logits_NA: FloatArray

    def probabilities(self) -> FloatArray:
        shifted = self.logits_NA - self.logits_NA.max(axis=1, keepdims=True)
        weights: FloatArray = np.exp(shifted)
        result: FloatArray = weights / weights.sum(axis=1, keepdims=True)
        return result

    def greedy(self) -> IntArray:
        result: IntArray = self.logits_NA.argmax(axis=1)
        return result

    def entropy(self) -> FloatArray:
        """Nats, shape (N,)."""
        if self.logits_NA.shape[1] < 8:  # NumPy adds fewer than eight numbers in order, whatever the axis: same bits
            logits_AN = np.ascontiguousarray(self.logits_NA.T)
            shifted = logits_AN - logits_AN.max(axis=0)
            return _entropy(shifted, axis=0)
        return _entropy(self.logits_NA - self.logits_NA.max(axis=1, keepdims=True), axis=1)


def _entropy(shifted: FloatArray, axis: int) -> FloatArray:
    """Of logits whose maximum is zero."""
    weights = np.exp(shifted)
    total = weights.sum(axis=axis)
    weights *= shifted
    result: FloatArray = np.log(total) - weights.sum(axis=axis) / total
    return result


@dataclass(frozen=True)
class ActionValues:
    """Values (N × actions); a value-based agent has no distribution of its own, so it has no entropy."""

    values_NA: FloatArray

    def greedy(self) -> IntArray:
        result: IntArray = self.values_NA.argmax(axis=1)
        return result

    def entropy(self) -> FloatArray | None:
        return None


@dataclass(frozen=True)
class Gaussian:
    """Independent normal distributions: mean (N × D) and standard deviation (N × D), not yet clipped to the box."""

    mean_ND: FloatArray
    std_ND: FloatArray

    def greedy(self) -> FloatArray:
        return self.mean_ND

    def entropy(self) -> FloatArray:
        return _gaussian_entropy(self.std_ND)


def _gaussian_entropy(std_ND: FloatArray) -> FloatArray:
    result: FloatArray = (0.5 * np.log(2 * np.pi * np.e) + np.log(std_ND)).sum(axis=1)
    return result


def gaussian_from_mean(std_D: FloatArray) -> Callable[[torch.Tensor], Gaussian]:
    """From means (N × D) to the head with the same standard deviations in every state."""

    @functools.lru_cache(maxsize=128)  # broadcasting takes as long as a layer
    def rows(count: int) -> FloatArray:
        return np.broadcast_to(std_D, (count, len(std_D)))

    return lambda mean: Gaussian(mean.numpy(), rows(mean.size(0)))


@dataclass(frozen=True)
class StateDependentNoise:
    """gSDE (Raffin et al. 2021): noise = features (N × F) times a matrix drawn from N(0, std²), std F × D."""

    mean_ND: FloatArray
    features_NF: FloatArray
    std_FD: FloatArray

    def greedy(self) -> FloatArray:
        return self.mean_ND

    def entropy(self) -> FloatArray:
        """Of the marginal over matrices: a normal with variance features² @ std²."""
        variance = (self.features_NF**2) @ (self.std_FD**2) + 1e-6
        result: FloatArray = (0.5 * np.log(2 * np.pi * np.e * variance)).sum(axis=1)
        return result


@dataclass(frozen=True)
class Chosen:
    """Actions that the policy chose itself: a user's own function, or a constant. No rule applies to them."""

    actions: AnyArray

    def greedy(self) -> AnyArray:
        return self.actions

    def entropy(self) -> FloatArray | None:
        return None


Head: TypeAlias = Categorical | ActionValues | Gaussian | StateDependentNoise | Chosen


def entropies(heads: Sequence[Head]) -> FloatArray | None:
    """The entropies of several heads of one policy, one after the other; None where it has none."""
    first = heads[0]
    if isinstance(first, Categorical):  # one call on all rows: a call a step would cost as much as the network
        return Categorical(
            np.concatenate([head.logits_NA for head in heads if isinstance(head, Categorical)])
        ).entropy()
    if isinstance(first, Gaussian):
        return _gaussian_entropy(np.concatenate([head.std_ND for head in heads if isinstance(head, Gaussian)]))
    found = [head.entropy() for head in heads]
    return None if found[0] is None else np.concatenate([part for part in found if part is not None])


class Policy(Protocol):
    """What the harness asks of an agent. A row's result may depend on the others in its batch by rounding only."""

    @property
    def actions(self) -> ActionSpec: ...

    def initial_state(self, slots: int) -> State:
        """Recurrent state for `slots` slots, or None."""
        ...

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        """Head and next state; `starts[i]` is true where row i is the first observation of an episode."""
        ...


class _LastBatch:
    """The tensor over an array that comes again and again, as the buffers of environments do."""

    def __init__(self) -> None:
        self._array: AnyArray | None = None
        self._tensor = torch.empty(0)

    def tensor(self, observations: AnyArray) -> torch.Tensor:
        """uint8 or float32; it shares the array's memory where the array has that type and is contiguous."""
        if observations is not self._array:
            tensor = torch.from_numpy(np.ascontiguousarray(observations))
            if not (tensor.dtype == torch.uint8 or tensor.dtype == torch.float32):
                return tensor.to(torch.float32)
            self._array = observations if observations.flags.c_contiguous else None
            self._tensor = tensor
        return self._tensor


@dataclass(frozen=True)
class NetworkPolicy:
    """A memoryless network, whose weights are detached, and a function from its outputs to a head."""

    actions: ActionSpec
    network: Network
    head: Callable[[torch.Tensor], Head]
    channels_first: bool = False  # the network wants N × C × H × W while the environment gives N × H × W × C
    _last: _LastBatch = field(default_factory=_LastBatch, init=False, repr=False, compare=False)

    def initial_state(self, slots: int) -> State:
        return None

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        values = self._last.tensor(observations)
        return self.head(self.network(values.permute(0, 3, 1, 2) if self.channels_first else values)), None


@dataclass(frozen=True)
class Normalized:
    """A policy behind frozen observation statistics: clip((o − mean) / √(variance + ε), ±limit)."""

    policy: Policy
    mean: FloatArray
    scale: FloatArray  # √(variance + ε)
    limit: float
    _scratch: dict[int, tuple[FloatArray, FloatArray]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def actions(self) -> ActionSpec:
        return self.policy.actions

    def initial_state(self, slots: int) -> State:
        return self.policy.initial_state(slots)

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        rows = len(observations)
        if rows not in self._scratch:
            wide = np.empty(observations.shape, np.result_type(observations, self.mean, self.scale, np.float32))
            self._scratch[rows] = wide, np.empty(observations.shape, np.float32)
        wide, normalized = self._scratch[rows]
        np.subtract(observations, self.mean, out=wide)
        np.divide(wide, self.scale, out=wide)
        np.minimum(np.maximum(wide, -self.limit, out=wide), self.limit, out=normalized, casting="same_kind")
        return self.policy(normalized, state, starts)


@dataclass(frozen=True)
class FunctionPolicy:
    """A user's own function from a batch of observations (N × …) to N actions."""

    act: Callable[[AnyArray], Any]
    actions: ActionSpec

    def initial_state(self, slots: int) -> State:
        return None

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        return Chosen(np.asarray(self.act(observations.copy()))), None  # theirs to change or to keep


@dataclass(frozen=True)
class FixedHead:
    """A policy that is blind to its observation: the same one-row head for every slot."""

    row: Head
    actions: ActionSpec

    def initial_state(self, slots: int) -> State:
        return None

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        rows = len(observations)
        row = self.row
        if isinstance(row, Categorical):
            return Categorical(np.repeat(row.logits_NA, rows, axis=0)), None
        if isinstance(row, Gaussian):
            return Gaussian(np.repeat(row.mean_ND, rows, axis=0), np.repeat(row.std_ND, rows, axis=0)), None
        return Chosen(np.repeat(row.greedy(), rows, axis=0)), None
