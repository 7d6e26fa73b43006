"""Named architectures for plain state dicts: what each parameter name means. Not for reading files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch

from codeaudit.errors import UserError
from codeaudit_runtime.checkpoints.archive import tensors_from_bytes
from codeaudit_runtime.checkpoints.checkpoint import Checkpoint
from codeaudit_runtime.networks import (
    ACTIVATIONS,
    ImageNetwork,
    Network,
    Tensors,
    chain,
    flat,
    fpn_cnn,
    impala_cnn,
    linear_layer,
    mlp,
    nature_cnn,
)
from codeaudit_runtime.policies import ActionValues, Categorical, Head, NetworkPolicy, gaussian_from_mean
from codeaudit_runtime.spaces import ActionSpec, ObservationSpec
from codeaudit_runtime.train.agents import agent_from_tensors
from codeaudit_runtime.train.networks import FORMAT

Builder = Callable[[Tensors, Mapping[str, str], str, str], Checkpoint]


def _categorical(logits: torch.Tensor) -> Head:
    return Categorical(logits.numpy())


def _values(output: torch.Tensor) -> Head:
    return ActionValues(output.numpy())


def _inputs(tensors: Tensors, name: str) -> ObservationSpec:
    return ObservationSpec((int(tensors.take(name).shape[1]),), "float32")


def procgen_impala_ppo(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
    """IMPALA network with heads `actor` and `critic` over a `fc` layer; uint8 images N × 64 × 64 × 3."""
    return _procgen_ppo(tensors, impala_cnn, format_, sha256)


def procgen_fpn_ppo(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
    """The same with a feature pyramid (layers `lateral.N`, `smooth.N`) between the blocks and `fc`."""
    return _procgen_ppo(tensors, fpn_cnn, format_, sha256)


def _procgen_ppo(
    tensors: Tensors, encoder: Callable[[Tensors, int, str], ImageNetwork], format_: str, sha256: str
) -> Checkpoint:
    blocks = 0
    while tensors.has(f"blocks.{blocks}.conv.weight"):
        blocks += 1
    if not blocks:
        raise UserError(f"{tensors.where}: no convolution blocks", hint="the network is not one that is known here")
    trunk = encoder(tensors, blocks, "fc")
    weight, bias = linear_layer(tensors, "actor")
    tensors.ignore("critic.")
    tensors.refuse_leftovers()
    actions = ActionSpec("discrete", int(weight.shape[0]))

    def actor(features: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(features, weight, bias)

    return Checkpoint(
        format=format_,
        algorithm="ppo",
        sha256=sha256,
        policy=NetworkPolicy(actions, chain(trunk, actor), _categorical),
        observation=ObservationSpec((64, 64, 3), "uint8"),
        discount=0.999,
        trunk=trunk,
    )


def cleanrl_ppo(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
    """CleanRL's discrete PPO agents: `actor.N` (tanh MLP), or `network.N` (Nature CNN) with one `actor` layer."""
    stages: list[Network]
    if tensors.has("network.0.weight"):
        weight, bias = linear_layer(tensors, "actor")
        stages = [
            nature_cnn(tensors, "network", "network.7"),
            lambda features: torch.nn.functional.linear(features, weight, bias),
        ]
        size, observation = int(weight.shape[0]), None
    else:
        network = mlp(tensors, "actor", ACTIVATIONS["Tanh"])
        if not network.layers:
            raise UserError(f"{tensors.where}: no layers named `actor.N`", hint="is it a CleanRL PPO agent?")
        stages = [flat, network]
        size, observation = int(network.layers[-1][0].shape[0]), _inputs(tensors, "actor.0.weight")
    tensors.ignore("critic.")
    tensors.refuse_leftovers()
    policy = NetworkPolicy(ActionSpec("discrete", size), chain(*stages), _categorical)
    return Checkpoint("cleanrl", "ppo", sha256, policy, observation)


def cleanrl_ppo_continuous(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
    """CleanRL's continuous PPO agent: `actor_mean.N` (tanh MLP) and `actor_logstd` (1 × D)."""
    network = mlp(tensors, "actor_mean", ACTIVATIONS["Tanh"])
    if not network.layers:
        raise UserError(f"{tensors.where}: no layers named `actor_mean.N`", hint="is it a continuous CleanRL agent?")
    std = np.exp(tensors.take("actor_logstd").flatten().numpy())
    tensors.ignore("critic.")
    tensors.refuse_leftovers()
    actions = ActionSpec("continuous", int(network.layers[-1][0].shape[0]))
    if len(std) != actions.size:
        raise UserError(f"{tensors.where}: {len(std)} standard deviations for {actions.describe()}")
    policy = NetworkPolicy(actions, chain(flat, network), gaussian_from_mean(std))
    return Checkpoint("cleanrl", "ppo", sha256, policy, _inputs(tensors, "actor_mean.0.weight"))


def cleanrl_dqn(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
    """CleanRL's DQN on flat observations: `network.N` (ReLU MLP)."""
    network = mlp(tensors, "network", ACTIVATIONS["ReLU"])
    if not network.layers:
        raise UserError(f"{tensors.where}: no layers named `network.N`", hint="is it a CleanRL DQN agent?")
    tensors.refuse_leftovers()
    actions = ActionSpec("discrete", int(network.layers[-1][0].shape[0]))
    policy = NetworkPolicy(actions, chain(flat, network), _values)
    observation = _inputs(tensors, "network.0.weight")
    return Checkpoint("cleanrl", "dqn", sha256, policy, observation, value_based=True)


def return_agent(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
    """An agent of `codeaudit train distributional`; its header says the rest."""
    agent = agent_from_tensors(tensors, metadata, tensors.where)
    policy = NetworkPolicy(ActionSpec("discrete", agent.actions), agent.values, _values)
    return Checkpoint(
        format_, agent.algorithm, sha256, policy, agent.observation, value_based=True, discount=agent.discount
    )


def _plain_mlp(activation: str) -> Builder:
    def build(tensors: Tensors, metadata: Mapping[str, str], format_: str, sha256: str) -> Checkpoint:
        prefixes = {name.rsplit(".", 2)[0] for name in tensors.names() if name.count(".") >= 2}
        bare = all(name.split(".")[0].isdecimal() for name in tensors.names())
        if bare:
            tensors = Tensors({f"layers.{name}": tensors.take(name) for name in tensors.names()}, tensors.where)
            prefixes = {"layers"}
        if len(prefixes) != 1:
            raise UserError(f"{tensors.where}: a plain network has its layers as N.weight or NAME.N.weight")
        prefix = prefixes.pop()
        network = mlp(tensors, prefix, ACTIVATIONS[activation])
        tensors.refuse_leftovers()
        actions = ActionSpec("discrete", int(network.layers[-1][0].shape[0]))
        observation = ObservationSpec((int(network.layers[0][0].shape[1]),), "float32")
        policy = NetworkPolicy(actions, chain(flat, network), _categorical)
        return Checkpoint(format_, "policy network", sha256, policy, observation)

    return build


ARCHITECTURES: Mapping[str, Builder] = {
    "procgen-impala-ppo": procgen_impala_ppo,
    "procgen-fpn-ppo": procgen_fpn_ppo,
    "cleanrl-ppo": cleanrl_ppo,
    "cleanrl-ppo-continuous": cleanrl_ppo_continuous,
    "cleanrl-dqn": cleanrl_dqn,
    FORMAT: return_agent,
    "mlp-tanh": _plain_mlp("Tanh"),
    "mlp-relu": _plain_mlp("ReLU"),
}


def architecture_from_names(tensors: Tensors) -> str:
    """The one architecture whose parameter names these are; UserError if none."""
    names = tensors.names()
    if any(name.startswith("actor_mean.") for name in names):
        return "cleanrl-ppo-continuous"
    if (
        any(name.startswith("actor.") for name in names)
        and tensors.has("critic.0.weight" if tensors.has("actor.0.weight") else "critic.weight")
        and not tensors.has("blocks.0.conv.weight")
    ):
        return "cleanrl-ppo"
    if tensors.has("blocks.0.conv.weight"):
        return "procgen-fpn-ppo" if tensors.has("lateral.0.weight") else "procgen-impala-ppo"
    if tensors.has("network.0.weight"):
        return "cleanrl-dqn"
    raise UserError(
        f"{tensors.where}: unknown layers ({', '.join(map(repr, names[:3]))} …)",
        hint=f"name the network with --architecture: {', '.join(ARCHITECTURES)}",
    )


def checkpoint_from_state_dict(
    content: bytes, where: str, sha256: str, architecture: str = "", weights_seed: int | None = None
) -> Checkpoint:
    """A `torch.save`d dictionary of tensors, with a named architecture or one told by its parameter names."""
    tensors = Tensors(tensors_from_bytes(content, where), where, weights_seed)
    name = architecture or architecture_from_names(tensors)
    if name not in ARCHITECTURES:
        raise UserError(f"architecture {name!r} is unknown", hint=f"known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name](tensors, {}, "state-dict", sha256)
