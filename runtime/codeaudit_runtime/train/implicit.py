"""The implicit quantile network (IQN), members on a leading axis. Not for its loss or training loop.

Source: Dabney et al. 2018b, equation 4: the features of a state times an embedding of the level τ by cosines. Here the
features are the network's last hidden layer. Axis letters: S members, B batch, A actions, T levels, H hidden units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from codeaudit_runtime.train.networks import HIDDEN, Members, NetworkShape

COSINES = 64


@dataclass(frozen=True)
class ImplicitShape(NetworkShape):
    """`quantiles` is the number of midpoint levels at which the network is read for acting and auditing."""

    def layers(self) -> dict[str, tuple[int, int]]:
        layers = super().layers()
        return {**layers, "output": (HIDDEN, self.actions), "embedding": (COSINES, HIDDEN)}


class ImplicitMembers(Members):
    """S implicit quantile networks."""

    def __init__(self, shape: ImplicitShape, members: int) -> None:
        super().__init__(shape, members)
        self._trunk = [name for name in shape.layers() if name not in ("output", "embedding")]
        self._midpoints = ((torch.arange(shape.quantiles) + 0.5) / shape.quantiles).expand(members, 1, -1)

    def forward(self, observations_SB: Tensor, keep: list[Tensor] | None = None) -> Tensor:
        """Quantiles at the midpoint levels (S × B × A × Q), not sorted."""
        batch = observations_SB.shape[1]
        features, embedded = self._through(self._trunk, observations_SB, keep), self._embedded(self._midpoints)
        return self._quantiles(features.unsqueeze(2) * embedded, batch)

    def means(self, observations_SB: Tensor) -> Tensor:
        """The mean over the midpoint levels (S × B × A), without all its quantiles: the output is linear in them."""
        features = self._through(self._trunk, observations_SB, None)
        products = features * self._embedded(self._midpoints).mean(dim=2)
        return torch.baddbmm(self.parameters["output.bias"], products, self.parameters["output.weight"])

    def at_levels(self, observations_SB: Tensor, levels_SBT: Tensor, keep: list[Tensor] | None = None) -> Tensor:
        """Quantiles (S × B × A × T) at levels of their own; `keep` gets what `backward_at_levels` needs."""
        features = self._through(self._trunk, observations_SB, keep)
        embedded = self._embedded(levels_SBT)
        if keep is not None:
            keep += [features, levels_SBT, embedded]
        return self._quantiles(features.unsqueeze(2) * embedded, observations_SB.shape[1])

    def backward_at_levels(self, keep: list[Tensor], slope_SBAT: Tensor, gradients: Mapping[str, Tensor]) -> None:
        """Writes the gradients of every parameter, given the slope of the loss in the quantiles."""
        features, levels, embedded = keep[-3:]
        members, batch, _, count = slope_SBAT.shape
        slope = slope_SBAT.transpose(2, 3).reshape(members, batch * count, -1)
        products = (features.unsqueeze(2) * embedded).view(members, batch * count, -1)
        torch.bmm(products.transpose(1, 2), slope, out=gradients["output.weight"])
        torch.sum(slope, dim=1, keepdim=True, out=gradients["output.bias"])
        back = torch.bmm(slope, self.parameters["output.weight"].transpose(1, 2)).view(embedded.shape)
        to_embedding = (back * features.unsqueeze(2)).mul_(embedded > 0).view(members, batch * count, -1)
        torch.bmm(_cosines(levels).view(members, batch * count, -1).transpose(1, 2), to_embedding,
                  out=gradients["embedding.weight"])  # fmt: skip
        torch.sum(to_embedding, dim=1, keepdim=True, out=gradients["embedding.bias"])
        self._back(self._trunk, keep[:-3], (back * embedded).sum(dim=2).mul_(features > 0), gradients)

    def _embedded(self, levels_SBT: Tensor) -> Tensor:
        """S × B × T × H."""
        members, batch, count = levels_SBT.shape
        rows = _cosines(levels_SBT).view(members, batch * count, -1)
        sums = torch.baddbmm(self.parameters["embedding.bias"], rows, self.parameters["embedding.weight"])
        return sums.relu_().view(members, batch, count, -1)

    def _quantiles(self, products_SBTH: Tensor, batch: int) -> Tensor:
        rows = products_SBTH.reshape(self.members, -1, HIDDEN)
        sums = torch.baddbmm(self.parameters["output.bias"], rows, self.parameters["output.weight"])
        return sums.view(self.members, batch, -1, self.shape.actions).transpose(2, 3)


def _cosines(levels: Tensor) -> Tensor:
    """cos(π i τ) for i = 0 … 63, on a new last axis."""
    return torch.cos(levels.unsqueeze(-1) * (torch.arange(COSINES) * math.pi))


def implicit_or_plain(shape: NetworkShape, members: int) -> Members:
    return ImplicitMembers(shape, members) if isinstance(shape, ImplicitShape) else Members(shape, members)
