"""Quantile networks with a leading axis of members, several agents in one batched product. Not for training loops.

Axis letters: S members (seeds), B batch, A actions, Q quantiles. A member's numbers never enter another's: every
product is batched over S.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from codeaudit.errors import UserError

FILTERS, KERNEL, HIDDEN = 16, 3, 128
SCREEN_KERNEL, SCREEN_STRIDE = 8, 4  # the first convolution of Mnih et al. (2015)
FORMAT = "codeaudit-quantile"  # the `format` of a saved agent


@dataclass(frozen=True)
class NetworkShape:
    """Observation (10, 10, C): the MinAtar convolution (16 filters of 3 × 3, 128 units); (F,): two layers of 128.

    (C, 84, 84) is a stack of screens, bytes: one convolution of 16 filters of 8 × 8, every fourth place, 128 units.
    """

    observation: tuple[int, ...]
    actions: int
    quantiles: int

    @property
    def screens(self) -> bool:
        """Channels first, and bytes."""
        return len(self.observation) == 3 and self.observation[0] != self.observation[1] == self.observation[2]

    @property
    def element(self) -> str:
        """The type of an observation's numbers."""
        if self.screens:
            return "uint8"
        return "bool" if len(self.observation) == 3 else "float32"

    def layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of each layer by name, in order."""
        outputs = self.actions * self.quantiles
        if self.screens:
            channels, rows, columns = self.observation
            cells = ((rows - SCREEN_KERNEL) // SCREEN_STRIDE + 1) * ((columns - SCREEN_KERNEL) // SCREEN_STRIDE + 1)
            return {
                "conv": (channels * SCREEN_KERNEL * SCREEN_KERNEL, FILTERS),
                "hidden": (cells * FILTERS, HIDDEN),
                "output": (HIDDEN, outputs),
            }
        if len(self.observation) == 3:
            rows, columns, channels = self.observation
            cells = (rows - KERNEL + 1) * (columns - KERNEL + 1)
            return {
                "conv": (channels * KERNEL * KERNEL, FILTERS),
                "hidden": (cells * FILTERS, HIDDEN),
                "output": (HIDDEN, outputs),
            }
        if len(self.observation) == 1:
            return {"first": (self.observation[0], HIDDEN), "hidden": (HIDDEN, HIDDEN), "output": (HIDDEN, outputs)}
        raise UserError(f"no network for observations of shape {list(self.observation)}")


class Members:
    """S networks of one shape, their parameters views of one flat tensor, so that an optimiser step is a few calls."""

    def __init__(self, shape: NetworkShape, members: int) -> None:
        self.shape = shape
        self.members = members
        sizes = {
            f"{name}.{part}": (members, rows, outputs)
            for name, (inputs, outputs) in shape.layers().items()
            for part, rows in (("weight", inputs), ("bias", 1))
        }
        self.flat = torch.zeros(sum(math.prod(size) for size in sizes.values()))
        pieces = torch.split(self.flat, [math.prod(size) for size in sizes.values()])
        self.parameters = {name: piece.view(size) for (name, size), piece in zip(sizes.items(), pieces, strict=True)}

    def draw(self, seeds: Sequence[int]) -> None:
        """Weights (in × out) and biases (1 × out), uniform in ±1/√in, each member from its own seed."""
        for member, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            for name, (inputs, outputs) in self.shape.layers().items():
                bound = 1 / math.sqrt(inputs)
                for part, rows in (("weight", inputs), ("bias", 1)):
                    drawn = torch.rand(rows, outputs, generator=generator)
                    self.parameters[f"{name}.{part}"][member] = (drawn * 2 - 1) * bound

    def inputs_of(self, observations_SB: Tensor) -> Tensor:
        """What the first layer multiplies: rows, or one row for each place of the convolution."""
        values = observations_SB.to(torch.float32)
        if len(self.shape.observation) == 1:
            return values
        if self.shape.screens:
            corners = values.unfold(3, SCREEN_KERNEL, SCREEN_STRIDE).unfold(4, SCREEN_KERNEL, SCREEN_STRIDE)
            rows = corners.permute(0, 1, 3, 4, 2, 5, 6)  # S B rows columns C 8 8
            return rows.reshape(self.members, -1, values.shape[2] * SCREEN_KERNEL * SCREEN_KERNEL).div_(255.0)
        patches = values.unfold(2, KERNEL, 1).unfold(3, KERNEL, 1)  # S B rows columns C 3 3
        return patches.reshape(self.members, -1, values.shape[-1] * KERNEL * KERNEL)

    def forward(self, observations_SB: Tensor, keep: list[Tensor] | None = None) -> Tensor:
        """Outputs (S × B × A × Q): quantiles, not sorted, or logits. Each layer's input is appended to `keep` for
        `backward`."""
        batch = observations_SB.shape[1]
        values = self._through(list(self.shape.layers()), observations_SB, keep)
        return values.view(self.members, batch, self.shape.actions, self.shape.quantiles)

    def backward(self, keep: Sequence[Tensor], slope_SBO: Tensor, gradients: Mapping[str, Tensor]) -> None:
        """Writes the gradients of every parameter, given the slope of the loss in the outputs (S × B × A·Q).

        By hand: at a batch of 32 the bookkeeping of autograd costs more than the arithmetic.
        """
        self._back(list(self.shape.layers()), keep, slope_SBO, gradients)

    def _through(self, names: Sequence[str], observations_SB: Tensor, keep: list[Tensor] | None) -> Tensor:
        """The named layers one after the other, with relu after all but `output`."""
        batch = observations_SB.shape[1]
        values = self.inputs_of(observations_SB)
        for name in names:
            if name != "conv":
                values = values.view(self.members, batch, -1)
            if keep is not None:
                keep.append(values)
            values = torch.baddbmm(self.parameters[f"{name}.bias"], values, self.parameters[f"{name}.weight"])
            if name != "output":
                values.relu_()
        return values

    def _back(
        self, names: Sequence[str], keep: Sequence[Tensor], slope: Tensor, gradients: Mapping[str, Tensor]
    ) -> None:
        """From the slope in the last named layer's sums (before relu) to the gradients of all of them."""
        for name, values in zip(reversed(names), reversed(keep), strict=True):
            slope = slope.view(self.members, values.shape[1], -1)
            torch.bmm(values.transpose(1, 2), slope, out=gradients[f"{name}.weight"])
            torch.sum(slope, dim=1, keepdim=True, out=gradients[f"{name}.bias"])
            if name != names[0]:
                slope = torch.bmm(slope, self.parameters[f"{name}.weight"].transpose(1, 2)).mul_(values > 0)
