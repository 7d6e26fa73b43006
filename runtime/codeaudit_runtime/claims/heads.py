"""A return-distribution head as one function: observations in, return laws out. Not for claims about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
from codeaudit_runtime.claims.gaps import Claim, claim_from_probabilities, claim_from_quantiles
from codeaudit_runtime.networks import Tensors
from codeaudit_runtime.policies import NetworkPolicy
from codeaudit_runtime.spaces import AnyArray, FloatArray, IntArray
from codeaudit_runtime.train.agents import ReturnAgent, agent_from_tensors, values_of_laws
from codeaudit_runtime.train.networks import FORMAT

ZOO_ATARI = "NoFrameskip-v4"
BATCH, MOST_NUMBERS = 2_048, 2_048_000  # observations at a time, and the numbers in them


@dataclass(frozen=True)
class ReturnHead:
    """`network` maps observations (N × …) to N × actions × K: quantiles, not sorted, or probabilities on `support`."""

    sha256: str
    algorithm: str
    environment: str
    discount: float
    actions: int
    network: Callable[[Tensor], Tensor]
    support: Tensor | None = None
    risk: float | None = None  # acts by the CVaR at this level, else by the mean
    agent: ReturnAgent | None = None  # with its weights, where `codeaudit train` wrote it

    def laws_NAK(self, observations: AnyArray) -> FloatArray:
        with torch.inference_mode():
            parts = [self._laws(part) for part in _batches(observations)]
        result: FloatArray = torch.cat(parts).numpy()
        return result

    def claims(self, observations: AnyArray) -> list[Claim]:
        """The claim of each observation."""
        laws = self.laws_NAK(observations)
        if self.support is None:
            return [claim_from_quantiles(one) for one in laws]
        return [claim_from_probabilities(self.support.numpy(), one) for one in laws]

    def act(self, observations: AnyArray) -> IntArray:
        """The audited policy: greedy in the mean, or in the CVaR where the agent was trained so."""
        with torch.inference_mode():
            parts = [
                values_of_laws(self._laws(part), self.support, self.risk).argmax(dim=1)
                for part in _batches(observations)
            ]
        result: IntArray = torch.cat(parts).numpy()
        return result

    def _laws(self, observations: AnyArray) -> Tensor:
        return self.network(torch.from_numpy(np.ascontiguousarray(observations)))


def _batches(observations: AnyArray) -> Iterator[AnyArray]:
    """Screens are large: fewer of them at a time."""
    size = max(1, min(BATCH, MOST_NUMBERS // max(1, observations[0].size))) if len(observations) else 1
    return (observations[start : start + size] for start in range(0, len(observations), size))


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
    name = environment or _named_environment(Path(path).stem)
    if not environment and name not in gymnasium.registry and not name.startswith("atari/"):
        raise UserError(f"{shown}: the file does not name its environment", hint="add --env ID")
    count, network = policy.actions.size, policy.network
    if checkpoint.discount is None:
        raise UserError(f"{shown}: the file does not name its discount")

    def quantiles(observations: Tensor) -> Tensor:
        outputs = network(observations if observations.dtype == torch.uint8 else observations.to(torch.float32))
        return outputs.view(len(outputs), -1, count).transpose(1, 2)

    return ReturnHead(digest, "qrdqn", name, checkpoint.discount, count, quantiles)


def _named_environment(stem: str) -> str:
    """What a file of the zoo is named after; `SpaceInvadersNoFrameskip-v4` is `atari/space_invaders` here."""
    if not stem.endswith(ZOO_ATARI):
        return stem
    return "atari/" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", stem.removesuffix(ZOO_ATARI)).lower()


def _own_head(content: bytes, digest: str, environment: str, shown: str) -> ReturnHead:
    facts = header_metadata(content, shown)
    if facts.get("format") != FORMAT:
        raise UserError(f"{shown}: no agent of `codeaudit train distributional`")
    try:
        tensors = Tensors(load(content), shown)
    except (SafetensorError, TypeError, ValueError) as error:
        raise UserError(f"{shown}: the tensors cannot be read ({error})", hint="fetch the file again") from None
    agent = agent_from_tensors(tensors, facts, shown)
    name = environment or agent.environment
    return ReturnHead(
        digest, agent.algorithm, name, agent.discount, agent.actions, agent.network, agent.support, agent.risk, agent
    )
