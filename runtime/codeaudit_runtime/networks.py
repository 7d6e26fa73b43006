"""Feed-forward networks rebuilt from plain tensors, for inference only. Not for reading files or choosing actions."""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from codeaudit.errors import UserError

Network = Callable[[Tensor], Tensor]
Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = {
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "ELU": functional.elu,
    "LeakyReLU": functional.leaky_relu,
    "SiLU": functional.silu,
    "GELU": functional.gelu,
}
IN_PLACE: Mapping[Activation, Activation] = {torch.tanh: torch.tanh_, torch.relu: torch.relu_}  # the same numbers
SCRATCH_ROWS = 256  # the largest batch whose hidden layers are kept; a small network costs little but its allocations


class Tensors:
    """Named tensors of a checkpoint that remembers which were used, so that nothing is left out unseen.

    With `weights_seed`, weights are drawn anew (normal, variance 1 / inputs) and biases are zero: an untrained twin.
    """

    def __init__(self, tensors: Mapping[str, Tensor], where: str, weights_seed: int | None = None) -> None:
        self.where = where
        self.weights_seed = weights_seed
        self._tensors = dict(tensors)
        self._used: set[str] = set()
        for name, tensor in self._tensors.items():
            if not isinstance(tensor, Tensor):
                raise UserError(f"{where}: {name!r} is not a tensor", hint="the file is no plain state dict")
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise UserError(
                    f"{where}: the weights of {name!r} hold NaN or infinite values", hint="the checkpoint is broken"
                )

    def names(self) -> list[str]:
        return list(self._tensors)

    def has(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, dimensions: int | None = None) -> Tensor:
        """The tensor as contiguous float32; UserError if it is missing or has another number of dimensions."""
        if name not in self._tensors:
            raise UserError(f"{self.where}: no tensor named {name!r}", hint="the network is not one that is known here")
        tensor = self._tensors[name]
        if dimensions is not None and tensor.dim() != dimensions:
            raise UserError(
                f"{self.where}: {name!r} has shape {list(tensor.shape)}, not {dimensions} dimensions",
                hint="the network is not one that is known here",
            )
        self._used.add(name)
        tensor = tensor.detach().to(torch.float32).contiguous()
        return tensor if self.weights_seed is None else self._drawn_anew(name, tensor)

    def _drawn_anew(self, name: str, tensor: Tensor) -> Tensor:
        if name.endswith(".bias"):
            return torch.zeros_like(tensor)
        if not name.endswith(".weight"):
            return tensor
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.weights_seed}:{name}".encode()))
        return torch.randn(tensor.shape, generator=generator) / math.sqrt(tensor[0].numel())

    def ignore(self, *prefixes: str) -> None:
        """Mark tensors as known and not needed for acting (critics, target networks)."""
        self._used.update(name for name in self._tensors if name.startswith(prefixes))

    def refuse_leftovers(self) -> None:
        left = sorted(set(self._tensors) - self._used)
        if left:
            raise UserError(
                f"{self.where}: unknown layers {', '.join(map(repr, left[:4]))}" + (" …" if len(left) > 4 else ""),
                hint="acting without them could be another policy, so the checkpoint is refused",
            )


class Mlp:
    """Linear layers with one activation between them; `last` is applied after the final layer where given.

    Hidden layers are written over at the next call with as many rows; what is returned is always new.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]], activation: Activation, last: Activation | None) -> None:
        self.layers = layers
        self.activation = IN_PLACE.get(activation, activation)
        self.last = None if last is None else IN_PLACE.get(last, last)
        self._affine = [(bias, weight.t()) for weight, bias in layers]
        self._scratch: dict[int, list[Tensor]] = {}

    def __call__(self, values: Tensor) -> Tensor:
        if not self._affine:
            return values
        rows = values.size(0)  # len() of a tensor takes as long as a layer of few rows
        scratch = self._scratch.get(rows)
        if scratch is None:
            scratch = self._scratch_for(rows)
        for (bias, weight), hidden in zip(self._affine, scratch, strict=False):  # all layers but the final one
            values = self.activation(torch.addmm(bias, values, weight, out=hidden))
        bias, weight = self._affine[-1]
        values = torch.addmm(bias, values, weight)
        return values if self.last is None else self.last(values)

    def _scratch_for(self, rows: int) -> list[Tensor]:
        with torch.inference_mode(mode=False):  # else it could not be written to outside that mode
            scratch = [torch.empty(rows, len(bias)) for bias, _ in self._affine[:-1]]
        if rows <= SCRATCH_ROWS:
            self._scratch[rows] = scratch
        return scratch


def linear_layer(tensors: Tensors, name: str) -> tuple[Tensor, Tensor]:
    """Weight (out × in) and bias (out) of one linear layer."""
    weight, bias = tensors.take(f"{name}.weight", 2), tensors.take(f"{name}.bias", 1)
    if weight.shape[0] != bias.shape[0]:
        raise UserError(f"{tensors.where}: weight and bias of {name!r} do not fit together")
    return weight, bias


def layer_indices(tensors: Tensors, prefix: str) -> list[int]:
    """The indices N of `prefix.N.weight`, in order."""
    pattern = re.compile(re.escape(prefix) + r"\.(\d+)\.weight")
    return sorted(int(match[1]) for name in tensors.names() if (match := pattern.fullmatch(name)))


def mlp(tensors: Tensors, prefix: str, activation: Activation, *, last: Activation | None = None) -> Mlp:
    """The layers `prefix.N` in order; UserError unless each layer's input is the output of the one before."""
    layers = [linear_layer(tensors, f"{prefix}.{index}") for index in layer_indices(tensors, prefix)]
    for (before, _), (after, _) in itertools.pairwise(layers):
        if after.shape[1] != before.shape[0]:
            raise UserError(f"{tensors.where}: the layers under {prefix!r} do not fit together")
    return Mlp(layers, activation, last)


def flat(values: Tensor) -> Tensor:
    """Observations as float32 rows."""
    return values if values.dim() == 2 and values.dtype == torch.float32 else values.to(torch.float32).flatten(1)


def chain(*stages: Network) -> Network:
    def apply(values: Tensor) -> Tensor:
        for stage in stages:
            values = stage(values)
        return values

    return apply


def scaled_image(values: Tensor) -> Tensor:
    """uint8 images (N × H × W × C or N × C × H × W, already channels first) to [0, 1]."""
    return values.to(torch.float32) / 255.0


NATURE_STRIDES = (4, 2, 1)
NATURE_KERNELS = (8, 4, 3)


def nature_cnn(tensors: Tensors, prefix: str, head: str) -> Network:
    """The three-convolution network of Mnih et al. (2015); strides are not in a tensor, so the kernels must match."""
    weights = [tensors.take(f"{prefix}.{index}.weight", 4) for index in (0, 2, 4)]
    biases = [tensors.take(f"{prefix}.{index}.bias", 1) for index in (0, 2, 4)]
    if tuple(weight.shape[2] for weight in weights) != NATURE_KERNELS:
        raise UserError(f"{tensors.where}: the convolutions under {prefix!r} are not those of the Nature network")
    dense = linear_layer(tensors, head)

    def apply(values: Tensor) -> Tensor:
        values = scaled_image(values).contiguous(memory_format=torch.channels_last)
        for weight, bias, stride in zip(weights, biases, NATURE_STRIDES, strict=True):
            values = torch.relu(functional.conv2d(values, weight, bias, stride=stride))
        return torch.relu(functional.linear(values.flatten(1), *dense))

    return apply


@dataclass(frozen=True)
class ImageNetwork:
    """A network that also says what its hidden layers put out: named, after each relu, in order; the last is the
    result."""

    outputs: Callable[[Tensor], Iterator[tuple[str, Tensor]]]

    def __call__(self, values: Tensor) -> Tensor:
        for _, last in self.outputs(values):
            values = last
        return values


def convolution(tensors: Tensors, name: str, padding: int = 1) -> Network:
    weight = tensors.take(f"{name}.weight", 4).contiguous(memory_format=torch.channels_last)
    bias = tensors.take(f"{name}.bias", 1)
    return lambda values: functional.conv2d(values, weight, bias, padding=padding)


class _ImpalaBlock:
    """Convolution, max-pool, two residual sub-blocks."""

    def __init__(self, tensors: Tensors, name: str) -> None:
        self.name = name
        self.first = convolution(tensors, f"{name}.conv")
        self.residuals = [
            (convolution(tensors, f"{name}.res{r}.conv0"), convolution(tensors, f"{name}.res{r}.conv1")) for r in (0, 1)
        ]

    def __call__(self, values: Tensor) -> Generator[tuple[str, Tensor], None, tuple[Tensor, Tensor]]:
        """Yields hidden outputs, returns the block's own, after and before the relu."""
        values = functional.max_pool2d(self.first(values), kernel_size=3, stride=2, padding=1)
        shown = torch.relu(values)
        yield f"{self.name}.conv", shown
        for index, (inner, outer) in enumerate(self.residuals):
            hidden = torch.relu(inner(shown))
            yield f"{self.name}.res{index}.conv0", hidden
            values = values + outer(hidden)
            shown = torch.relu(values)
            yield f"{self.name}.res{index}", shown
        return shown, values


def impala_cnn(tensors: Tensors, blocks: int, head: str) -> ImageNetwork:
    """The IMPALA network (Espeholt et al. 2018) without normalisation; images N × H × W × 3 in uint8."""
    stages = [_ImpalaBlock(tensors, f"blocks.{block}") for block in range(blocks)]
    dense = linear_layer(tensors, head)

    def outputs(images: Tensor) -> Iterator[tuple[str, Tensor]]:
        values = scaled_image(images).permute(0, 3, 1, 2)  # a view: channels last in memory already
        shown = values
        for stage in stages:
            shown, values = yield from stage(values)
        # The recipe flattens channels first; `contiguous` undoes the channels-last layout before that.
        yield head, torch.relu(functional.linear(shown.contiguous().flatten(1), *dense))

    return ImageNetwork(outputs)


FPN_CELLS = 4  # rows and columns of a pooled pyramid level


def fpn_cnn(tensors: Tensors, blocks: int, head: str) -> ImageNetwork:
    """A feature pyramid (Lin et al. 2017) on the blocks of `impala_cnn`, its smoothed levels pooled to 4 × 4 and
    joined, the finest first; images N × H × W × 3 in uint8."""
    stages = [_ImpalaBlock(tensors, f"blocks.{block}") for block in range(blocks)]
    laterals = [convolution(tensors, f"lateral.{block}", padding=0) for block in range(blocks)]
    smooths = [convolution(tensors, f"smooth.{block}") for block in range(blocks)]
    dense = linear_layer(tensors, head)

    def outputs(images: Tensor) -> Iterator[tuple[str, Tensor]]:
        values = scaled_image(images).permute(0, 3, 1, 2)
        shown, scales = values, []
        for stage in stages:
            shown, values = yield from stage(values)
            scales.append(shown)
        level, pooled = None, []
        for index in reversed(range(blocks)):
            side = laterals[index](scales[index])
            level = side if level is None else side + functional.interpolate(level, scale_factor=2.0, mode="nearest")
            smoothed = torch.relu(smooths[index](level))
            yield f"smooth.{index}", smoothed
            pooled.append(functional.adaptive_avg_pool2d(smoothed, FPN_CELLS).contiguous().flatten(1))
        yield head, torch.relu(functional.linear(torch.cat(pooled[::-1], dim=1), *dense))

    return ImageNetwork(outputs)
