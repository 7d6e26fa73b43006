"""What each algorithm learns from one batch: targets, and the slope of its loss. Not for networks, replay or loops.

Axis letters: S members, B batch, A actions, Q quantiles or atoms, T sampled levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from codeaudit_runtime.train.implicit import ImplicitMembers, ImplicitShape
from codeaudit_runtime.train.networks import Members, NetworkShape
from codeaudit_runtime.train.recipe import CVAR, Recipe

Uniform = Callable[[int], Tensor]  # k → uniform numbers (S × B × k), each member's from its own stream


@dataclass(frozen=True)
class Batch:
    """`discounts` is γ, or zero where the episode ended. Observations S × B × …, the rest S × B."""

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    following: Tensor
    discounts: Tensor


class Learning(Protocol):
    """One algorithm."""

    def shape(self, observation: tuple[int, ...], actions: int) -> NetworkShape: ...

    def values(self, network: Members, observations_SB: Tensor) -> Tensor:
        """What actions are chosen by (S × B × A)."""
        ...

    def write_gradients(self, online: Members, target: Members, batch: Batch, uniform: Uniform, into: Members) -> None:
        """The gradients of the loss of `batch` in the parameters of `online`."""
        ...


def lower_tail(quantiles: Tensor, level: float) -> Tensor:
    """CVaR: the mean of the lowest `level` of the law with these equal-weight quantiles on the last axis."""
    count = quantiles.shape[-1]
    weights = (level * count - torch.arange(count, dtype=quantiles.dtype)).clamp(0.0, 1.0) / (level * count)
    return quantiles.sort(dim=-1).values @ weights


def quantile_huber_gradient(predicted_SBQ: Tensor, target_SBQ: Tensor, levels: Tensor | None = None) -> Tensor:
    """Gradient of Σ_i mean_j ρ_τi(target_j − predicted_i), averaged over the batch, with respect to `predicted`.

    `levels` (S × B × Q) are midpoints where they aren't given. By hand, for autograd would keep five arrays of
    S × B × Q × Q. Source: Dabney et al. 2018, equation 10, κ = 1.
    """
    count = predicted_SBQ.shape[-1]
    if levels is None:
        levels = (torch.arange(count, dtype=torch.float32) + 0.5) / count
    errors = target_SBQ.unsqueeze(-2) - predicted_SBQ.unsqueeze(-1)  # S B i j
    below = (errors < 0).to(torch.float32)
    slope = errors.clamp_(-1.0, 1.0).mul_(below.sub_(levels.unsqueeze(-1)).abs_())
    return slope.mean(dim=-1).div_(-predicted_SBQ.shape[1])


def projected(probabilities: Tensor, rewards: Tensor, discounts: Tensor, low: float, high: float) -> Tensor:
    """The law of r + γZ put back on Z's support, K atoms from `low` to `high` (Bellemare et al. 2017, Algorithm 1).

    Returns beyond the support count as its ends. Shapes: … × K, …, ….
    """
    atoms = probabilities.shape[-1]
    width = (high - low) / (atoms - 1)
    support = torch.linspace(low, high, atoms)
    moved = (rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * support).clamp_(low, high)
    places = ((moved - low) / width).clamp_(0, atoms - 1)
    lower = places.floor()
    share = places - lower
    result = torch.zeros_like(probabilities)
    result.scatter_add_(-1, lower.long(), probabilities * (1 - share))
    result.scatter_add_(-1, (lower + 1).clamp_(max=atoms - 1).long(), probabilities * share)
    return result


def of_action(values_SBAQ: Tensor, actions_SB: Tensor) -> Tensor:
    index = actions_SB[..., None, None].expand(*actions_SB.shape, 1, values_SBAQ.shape[-1])
    return values_SBAQ.gather(2, index).squeeze(2)


def only_of_action(slope_SBQ: Tensor, actions_SB: Tensor, actions: int) -> Tensor:
    """S × B × A × Q, zero but for the action taken."""
    members, batch, count = slope_SBQ.shape
    whole = torch.zeros(members, batch, actions, count)
    index = actions_SB[..., None, None].expand(members, batch, 1, count)
    return whole.scatter_(2, index, slope_SBQ.unsqueeze(2))


@dataclass(frozen=True)
class QuantileLearning:
    """QR-DQN (Dabney et al. 2018, Algorithm 1); with `risk`, actions and targets are chosen by the CVaR at it."""

    quantiles: int
    risk: float | None = None

    def shape(self, observation: tuple[int, ...], actions: int) -> NetworkShape:
        return NetworkShape(observation, actions, self.quantiles)

    def values(self, network: Members, observations_SB: Tensor) -> Tensor:
        return self._choosing(network.forward(observations_SB))

    def _choosing(self, quantiles: Tensor) -> Tensor:
        return quantiles.mean(dim=-1) if self.risk is None else lower_tail(quantiles, self.risk)

    def write_gradients(self, online: Members, target: Members, batch: Batch, uniform: Uniform, into: Members) -> None:
        ahead = target.forward(batch.following)
        ahead = of_action(ahead, self._choosing(ahead).argmax(dim=-1))
        goal = ahead.mul_(batch.discounts.unsqueeze(-1)).add_(batch.rewards.unsqueeze(-1))
        keep: list[Tensor] = []
        outputs = online.forward(batch.observations, keep)
        slope = quantile_huber_gradient(of_action(outputs, batch.actions), goal)
        online.backward(keep, only_of_action(slope, batch.actions, outputs.shape[2]).flatten(2), into.parameters)


@dataclass(frozen=True)
class CategoricalLearning:
    """C51 (Bellemare et al. 2017): cross-entropy against the projected law of the greedy next action."""

    atoms: int
    low: float
    high: float

    def shape(self, observation: tuple[int, ...], actions: int) -> NetworkShape:
        return NetworkShape(observation, actions, self.atoms)

    def values(self, network: Members, observations_SB: Tensor) -> Tensor:
        return network.forward(observations_SB).softmax(dim=-1) @ torch.linspace(self.low, self.high, self.atoms)

    def write_gradients(self, online: Members, target: Members, batch: Batch, uniform: Uniform, into: Members) -> None:
        ahead = target.forward(batch.following).softmax(dim=-1)
        best = (ahead @ torch.linspace(self.low, self.high, self.atoms)).argmax(dim=-1)
        goal = projected(of_action(ahead, best), batch.rewards, batch.discounts, self.low, self.high)
        keep: list[Tensor] = []
        outputs = online.forward(batch.observations, keep)
        slope = (of_action(outputs, batch.actions).softmax(dim=-1) - goal) / outputs.shape[1]
        online.backward(keep, only_of_action(slope, batch.actions, outputs.shape[2]).flatten(2), into.parameters)


@dataclass(frozen=True)
class ImplicitLearning:
    """IQN (Dabney et al. 2018b): `samples` levels for predictions and as many for targets; acting at midpoints."""

    quantiles: int
    samples: int

    def shape(self, observation: tuple[int, ...], actions: int) -> NetworkShape:
        return ImplicitShape(observation, actions, self.quantiles)

    def values(self, network: Members, observations_SB: Tensor) -> Tensor:
        assert isinstance(network, ImplicitMembers)
        return network.means(observations_SB)

    def write_gradients(self, online: Members, target: Members, batch: Batch, uniform: Uniform, into: Members) -> None:
        assert isinstance(online, ImplicitMembers)
        assert isinstance(target, ImplicitMembers)
        levels, theirs = uniform(self.samples), uniform(self.samples)
        best = target.means(batch.following).argmax(dim=-1)
        ahead = of_action(target.at_levels(batch.following, theirs), best)
        goal = ahead.mul_(batch.discounts.unsqueeze(-1)).add_(batch.rewards.unsqueeze(-1))
        keep: list[Tensor] = []
        outputs = online.at_levels(batch.observations, levels, keep)
        slope = quantile_huber_gradient(of_action(outputs, batch.actions), goal, levels)
        online.backward_at_levels(keep, only_of_action(slope, batch.actions, outputs.shape[2]), into.parameters)


def learning_of(recipe: Recipe) -> Learning:
    if recipe.algorithm == "c51":
        low, high = recipe.support_limits()
        return CategoricalLearning(recipe.quantiles, low, high)
    if recipe.algorithm == "iqn":
        return ImplicitLearning(recipe.quantiles, recipe.samples)
    return QuantileLearning(recipe.quantiles, CVAR if recipe.algorithm == "qrdqn-cvar" else None)
