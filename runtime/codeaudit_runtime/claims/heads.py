"""A return-distribution head as one function: observations in, quantiles out. Not for claims about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import gymnasium
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.checkpoints import checkpoint_from_bytes
from codeaudit_runtime.checkpoints.safetensors_file import header_metadata
from codeaudit_runtime.checkpoints.source import bytes_of_file, verified_bytes
from codeaudit_runtime.networks import Tensors
from codeaudit_runtime.policies import NetworkPolicy
from codeaudit_runtime.spaces import AnyArray, FloatArray, IntArray
from codeaudit_runtime.train.networks import FORMAT, Members, NetworkShape

BATCH = 2_048


@dataclass(frozen=True)
class ReturnHead:
    """`network` maps observations (N × …) to quantiles (N × actions × Q), not sorted."""

    sha256: str
    algorithm: str
    environment: str
    discount: float
    actions: int
    network: Callable[[Tensor], Tensor]

    def quantiles_NAQ(self, observations: AnyArray) -> FloatArray:
        with torch.inference_mode():
            parts = [
                self.network(torch.from_numpy(np.ascontiguousarray(observations[start : start + BATCH]))).numpy()
                for start in range(0, len(observations), BATCH)
            ]
        result: FloatArray = np.concatenate(parts)
        return result

    def act(self, observations: AnyArray) -> IntArray:
        """The audited policy: greedy in the mean of the quantiles."""
        result: IntArray = self.quantiles_NAQ(observations).mean(axis=2).argmax(axis=1)
        return result


@lru_cache(maxsize=8)
def head_from_file(path: str, environment: str = "", sha256: str = "") -> ReturnHead:
    """The head in a file that `codeaudit train` wrote or in an SB3 QR-DQN archive.

    `environment` overrides what the file says; an SB3 archive says nothing, and then its name is tried. UserError where
    the file holds no such head, or its environment is unknown.
    """
    content, digest = verified_bytes(bytes_of_file(Path(path)), sha256, path)
    shown = printable(path)
    if path.endswith(".safetensors"):
        return _own_head(content, digest, environment, shown)
    checkpoint = checkpoint_from_bytes(content, shown, digest)
    policy = checkpoint.policy
    if checkpoint.algorithm != "qrdqn" or not isinstance(policy, NetworkPolicy):
        raise UserError(f"{shown}: {checkpoint.algorithm} has no return-distribution head", hint="QR-DQN is audited")
    name = environment or Path(path).stem
    if not environment and name not in gymnasium.registry:
        raise UserError(f"{shown}: the file does not name its environment", hint="add --env ID")
    count, network = policy.actions.size, policy.network
    if checkpoint.discount is None:
        raise UserError(f"{shown}: the file does not name its discount")

    def quantiles(observations: Tensor) -> Tensor:
        outputs = network(observations if observations.dtype == torch.uint8 else observations.to(torch.float32))
        return outputs.view(len(outputs), -1, count).transpose(1, 2)

    return ReturnHead(digest, "qrdqn", name, checkpoint.discount, count, quantiles)


def _own_head(content: bytes, digest: str, environment: str, shown: str) -> ReturnHead:
    facts = header_metadata(content, shown)
    if facts.get("format") != FORMAT:
        raise UserError(f"{shown}: no quantile agent of `codeaudit train distributional`")
    try:
        observation = tuple(int(size) for size in facts["observation"].split(","))
        shape = NetworkShape(observation, int(facts["actions"]), int(facts["quantiles"]))
        discount, layers = float(facts["discount"]), shape.layers()
        name = environment or facts["environment"]
        tensors = Tensors(load(content), shown)
    except (KeyError, ValueError) as error:
        raise UserError(f"{shown}: its header is broken ({printable(str(error))})", hint="train it again") from None
    except (SafetensorError, TypeError) as error:
        raise UserError(f"{shown}: the tensors cannot be read ({error})", hint="fetch the file again") from None
    for layer, (inputs, outputs) in layers.items():  # before memory is taken for what the header claims
        for part, rows in (("weight", inputs), ("bias", 1)):
            if tuple(tensors.take(f"{layer}.{part}", 2).shape) != (rows, outputs):
                raise UserError(f"{shown}: {layer}.{part} has another shape than its header says")
    tensors.refuse_leftovers()
    network = Members(shape, 1)
    for parameter, value in network.parameters.items():
        value[0] = tensors.take(parameter)
    return ReturnHead(
        digest, facts.get("algorithm", "qrdqn"), name, discount, shape.actions,
        lambda observations: network.forward(observations.unsqueeze(0))[0],
    )  # fmt: skip
