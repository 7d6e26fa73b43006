"""Stable-Baselines3 zip files (PPO, A2C, DQN, QR-DQN): tensors and plain JSON fields only.

The `:serialized:` fields of its JSON are pickles and are never touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from codeaudit.errors import UserError
from codeaudit_runtime.checkpoints.archive import archive_members, member_bytes, tensors_from_bytes
from codeaudit_runtime.checkpoints.checkpoint import Checkpoint
from codeaudit_runtime.networks import (
    ACTIVATIONS,
    Activation,
    Mlp,
    Network,
    Tensors,
    chain,
    flat,
    layer_indices,
    linear_layer,
    mlp,
    nature_cnn,
)
from codeaudit_runtime.policies import (
    ActionValues,
    Categorical,
    Head,
    NetworkPolicy,
    StateDependentNoise,
    gaussian_from_mean,
)
from codeaudit_runtime.spaces import ActionSpec, ObservationSpec

FORMAT = "sb3-zip"


def checkpoint_from_sb3(content: bytes, where: str, sha256: str, weights_seed: int | None = None) -> Checkpoint:
    """The agent in an SB3 archive. UserError if it is damaged, unknown, or would need code to be read."""
    archive = archive_members(content, where)
    fields = _json_fields(member_bytes(archive, "data", where), where)
    tensors = Tensors(tensors_from_bytes(member_bytes(archive, "policy.pth", where), where), where, weights_seed)
    actions = _action_spec(fields, where)
    observation = _observation_spec(fields)
    options = fields.get("policy_kwargs") if isinstance(fields.get("policy_kwargs"), dict) else {}
    assert isinstance(options, dict)
    if options.get("squash_output"):
        raise UserError(f"{where}: squashed actions are not supported", hint="only PPO, A2C, DQN and QR-DQN are read")
    if options.get("normalize_images") is False:
        raise UserError(f"{where}: networks on unscaled images are not supported")
    if tensors.has("action_net.weight"):
        algorithm, policy = "actor-critic", _actor(tensors, actions, options, where)
    else:
        algorithm, policy = _value_network(tensors, actions, options, where)
    tensors.refuse_leftovers()
    value_based = algorithm in ("dqn", "qrdqn")
    return Checkpoint(
        format=FORMAT,
        algorithm=algorithm,
        sha256=sha256,
        policy=policy,
        observation=observation,
        value_based=value_based,
        exploration_rate=_number(fields, "exploration_rate") if value_based else None,
        discount=_number(fields, "gamma"),
        state_dependent_noise=tensors.has("log_std") and tensors.take("log_std").dim() == 2,
        noise_period=int(_number(fields, "sde_sample_freq") or -1),
    )


def _json_fields(content: bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: its `data` member is no JSON ({error})", hint="fetch the file again") from None
    if not isinstance(fields, dict):
        raise UserError(f"{where}: its `data` member is no JSON object")
    return fields


def _number(fields: dict[str, Any], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _space(fields: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    """The last word of the space's class name ("Box") and its plain fields."""
    space = fields.get(name)
    if not isinstance(space, dict):
        return "", {}
    match = re.search(r"\.(\w+)'>$", str(space.get(":type:", "")))
    return (match[1] if match else ""), space


def _shape(space: dict[str, Any]) -> tuple[int, ...] | None:
    """The shape field: a list, or (in newer files) its text "(8,)"."""
    shape = space.get("shape", space.get("_shape"))
    if isinstance(shape, str):
        shape = [int(part) for part in re.findall(r"\d+", shape)]
    if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
        return tuple(shape)
    return None


def _action_spec(fields: dict[str, Any], where: str) -> ActionSpec:
    kind, space = _space(fields, "action_space")
    if kind == "Discrete":
        count = str(space.get("n", ""))
        if count.isdecimal():
            return ActionSpec("discrete", int(count))
    if kind == "Box":
        shape = _shape(space)
        if shape is not None and len(shape) == 1:
            return ActionSpec("continuous", shape[0])
    raise UserError(
        f"{where}: action space {kind or 'unknown'!r} is not supported",
        hint="discrete and one-axis box actions are read",
    )


def _observation_spec(fields: dict[str, Any]) -> ObservationSpec | None:
    kind, space = _space(fields, "observation_space")
    shape = _shape(space)
    if kind != "Box" or shape is None:
        return None
    return ObservationSpec(shape, str(space.get("dtype", "float32")))


def _activation(options: dict[str, Any], default: str, where: str) -> Activation:
    text = options.get("activation_fn")
    if text is None:
        return ACTIVATIONS[default]
    match = re.search(r"\.(\w+)'>$", str(text))
    if match is None or match[1] not in ACTIVATIONS:
        raise UserError(f"{where}: activation {str(text)[:80]!r} is unknown", hint=f"known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[match[1]]


def _features(tensors: Tensors, prefix: str) -> list[Network]:
    """The features extractor under `prefix`: none for flat observations, or the Nature network."""
    if tensors.has(f"{prefix}.cnn.0.weight"):
        return [nature_cnn(tensors, f"{prefix}.cnn", f"{prefix}.linear.0")]
    return [flat]


def _actor(tensors: Tensors, actions: ActionSpec, options: dict[str, Any], where: str) -> NetworkPolicy:
    activation = _activation(options, "Tanh", where)
    own_extractor = any(name.startswith("pi_features_extractor.") for name in tensors.names())
    stages = _features(tensors, "pi_features_extractor" if own_extractor else "features_extractor")
    for part in ("shared_net", "policy_net"):  # files before SB3 1.8 may share layers between actor and critic
        if layer_indices(tensors, f"mlp_extractor.{part}"):
            stages.append(mlp(tensors, f"mlp_extractor.{part}", activation, last=activation))
    weight, bias = linear_layer(tensors, "action_net")
    tensors.ignore("mlp_extractor.value_net.", "value_net.", "vf_features_extractor.")
    if own_extractor:
        tensors.ignore("features_extractor.")  # the same weights under a second name
    if weight.shape[0] != actions.size:
        raise UserError(f"{where}: {weight.shape[0]} outputs for {actions.describe()}")

    output = Mlp([(weight, bias)], activation, None)
    if actions.kind == "discrete":
        return NetworkPolicy(actions, chain(*stages, output), lambda logits: Categorical(logits.numpy()))
    log_std = tensors.take("log_std")
    if log_std.dim() == 1:
        if len(log_std) != actions.size:
            raise UserError(f"{where}: {len(log_std)} standard deviations for {actions.describe()}")
        return NetworkPolicy(actions, chain(*stages, output), gaussian_from_mean(np.exp(log_std.numpy())))
    if options.get("use_expln"):
        raise UserError(f"{where}: gSDE with expln is not supported")
    matrix_std = torch.exp(log_std).numpy()
    if matrix_std.shape != (weight.shape[1], actions.size):
        raise UserError(
            f"{where}: gSDE weights of shape {list(matrix_std.shape)} do not fit the network",
            hint="one standard deviation for each feature and action is expected",
        )

    def state_dependent(features: torch.Tensor) -> Head:
        return StateDependentNoise(output(features).numpy(), features.numpy(), matrix_std)

    return NetworkPolicy(actions, chain(*stages), state_dependent)


def _mean_of_quantiles(quantiles: int, count: int) -> Callable[[torch.Tensor], Head]:
    """Outputs lie as (quantiles, actions); an action's value is the mean of its quantiles. DQN has one quantile."""
    return lambda output: ActionValues(output.view(len(output), quantiles, count).mean(dim=1).numpy())


def _value_network(
    tensors: Tensors, actions: ActionSpec, options: dict[str, Any], where: str
) -> tuple[str, NetworkPolicy]:
    activation = _activation(options, "ReLU", where)
    for algorithm, name in (("dqn", "q_net"), ("qrdqn", "quantile_net")):
        prefix = f"{name}.{name}"
        if not layer_indices(tensors, prefix):
            continue
        stages: list[Network] = [*_features(tensors, f"{name}.features_extractor"), mlp(tensors, prefix, activation)]
        tensors.ignore(f"{name}_target.")
        outputs = tensors.take(f"{prefix}.{layer_indices(tensors, prefix)[-1]}.bias").shape[0]
        quantiles, left = divmod(outputs, actions.size)
        if left or (algorithm == "dqn" and quantiles != 1):
            raise UserError(f"{where}: {outputs} outputs for {actions.describe()}")

        return algorithm, NetworkPolicy(actions, chain(*stages), _mean_of_quantiles(quantiles, actions.size))
    raise UserError(f"{where}: no network that is known here", hint="PPO, A2C, DQN and QR-DQN are read")
