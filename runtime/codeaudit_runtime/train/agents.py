"""A trained agent from its tensors and header: observations in, return laws out. Not for files or for claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.networks import Tensors
from codeaudit_runtime.spaces import ObservationSpec
from codeaudit_runtime.train.implicit import ImplicitShape, implicit_or_plain
from codeaudit_runtime.train.learning import lower_tail
from codeaudit_runtime.train.networks import Members, NetworkShape
from codeaudit_runtime.train.recipe import CVAR

ALGORITHMS = ("qrdqn", "c51", "iqn", "qrdqn-cvar", "qrdqn-ensemble", "qrdqn-member")
MOST_MEMBERS = 64


@dataclass(frozen=True)
class ReturnAgent:
    """`network` maps observations (N × …) to N × actions × K: equal-weight quantiles, not sorted, or probabilities of
    the K atoms of `support`. An ensemble gives its quantile average. `risk`: it acts by the CVaR at that level.
    `networks` holds the weights; `steps` and `seed` are what the header says of the training, if it does."""

    algorithm: str
    environment: str
    discount: float
    observation: ObservationSpec
    actions: int
    network: Callable[[Tensor], Tensor]
    support: Tensor | None
    risk: float | None
    networks: Members
    steps: int | None = None
    seed: int | None = None

    def values(self, observations: Tensor) -> Tensor:
        """What it chooses actions by (N × actions)."""
        return values_of_laws(self.network(observations), self.support, self.risk)


def laws_of_networks(networks: Members, categorical: bool) -> Callable[[Tensor], Tensor]:
    """Observations (N × …) to the laws of all members together (N × actions × K)."""

    def laws(observations: Tensor) -> Tensor:
        outputs = networks.forward(observations.unsqueeze(0).expand(networks.members, *observations.shape))
        if networks.members > 1:
            return outputs.sort(dim=-1).values.mean(dim=0)
        return outputs[0].softmax(dim=-1) if categorical else outputs[0]

    return laws


def values_of_laws(laws_NAK: Tensor, support: Tensor | None, risk: float | None) -> Tensor:
    if support is not None:
        return laws_NAK @ support
    return laws_NAK.mean(dim=-1) if risk is None else lower_tail(laws_NAK, risk)


def agent_from_tensors(tensors: Tensors, metadata: Mapping[str, str], where: str) -> ReturnAgent:
    """UserError where the header is broken or the tensors are not what it says."""
    try:
        sizes = tuple(int(size) for size in metadata["observation"].split(","))
        actions, count = int(metadata["actions"]), int(metadata["quantiles"])
        algorithm, members = metadata.get("algorithm", "qrdqn"), int(metadata.get("members", "1"))
        shape: NetworkShape = (ImplicitShape if algorithm == "iqn" else NetworkShape)(sizes, actions, count)
        discount, environment = float(metadata["discount"]), metadata["environment"]
        steps, seed = (int(metadata[name]) if name in metadata else None for name in ("steps", "seed"))
        support = None
        if algorithm == "c51":
            low, high = map(float, metadata["support"].split(":"))
            support = torch.linspace(low, high, count)
        if min(*sizes, actions, count) < 1 or not 1 <= members <= MOST_MEMBERS:
            raise ValueError("a size is not positive")
        layers = shape.layers()
    except (KeyError, ValueError) as error:
        raise UserError(f"{where}: its header is broken ({printable(str(error))})", hint="train it again") from None
    if algorithm not in ALGORITHMS:
        raise UserError(
            f"{where}: algorithm {printable(algorithm)!r} is unknown", hint=f"known: {', '.join(ALGORITHMS)}"
        )
    prefixes = [""] if members == 1 else [f"{one}." for one in range(members)]
    for prefix in prefixes:  # before memory is taken for what the header claims
        for layer, (inputs, outputs) in layers.items():
            for part, rows in (("weight", inputs), ("bias", 1)):
                if tuple(tensors.take(f"{prefix}{layer}.{part}", 2).shape) != (rows, outputs):
                    raise UserError(f"{where}: {prefix}{layer}.{part} has another shape than its header says")
    tensors.refuse_leftovers()
    networks = implicit_or_plain(shape, members)
    for place, prefix in enumerate(prefixes):
        for parameter, value in networks.parameters.items():
            value[place] = tensors.take(f"{prefix}{parameter}")

    return ReturnAgent(
        algorithm=algorithm,
        environment=environment,
        discount=discount,
        observation=ObservationSpec(sizes, shape.element),
        actions=actions,
        network=laws_of_networks(networks, support is not None),
        support=support,
        risk=CVAR if algorithm == "qrdqn-cvar" else None,
        networks=networks,
        steps=steps,
        seed=seed,
    )
