"""Checkpoints are rebuilt from tensors and plain fields; nothing of a file is ever run."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from codeaudit_runtime.checkpoints import Checkpoint, checkpoint_from_bytes
from codeaudit_runtime.checkpoints.source import verified_bytes
from codeaudit_runtime.policies import ActionValues, Categorical, Gaussian, StateDependentNoise
from made_agents import (
    linear_tensors,
    mlp_tensors,
    ppo_archive,
    ppo_tensors,
    sb3_archive,
    sb3_data,
    sha256,
    space,
    torch_bytes,
)
from torch import nn

from codeaudit.errors import UserError

DISCRETE = space("Discrete", n=3)
BOX = space("Box", dtype="float32", shape=[2])


def load(content: bytes, name: str = "agent.zip", **options: Any) -> Checkpoint:
    return checkpoint_from_bytes(content, name, sha256(content), **options)


def head_of(checkpoint: Checkpoint, observations: np.ndarray) -> Any:
    return checkpoint.policy(observations, None, np.ones(len(observations), dtype=bool))[0]


def reference(tensors: dict[str, Any], prefix: str, activation: type[nn.Module], last: bool) -> nn.Sequential:
    """The same layers as an ordinary torch module."""
    indices = sorted({int(name.split(".")[-2]) for name in tensors if name.startswith(f"{prefix}.")})
    modules: list[nn.Module] = []
    for index in indices:
        weight = tensors[f"{prefix}.{index}.weight"]
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({"weight": weight, "bias": tensors[f"{prefix}.{index}.bias"]})
        modules += [linear, activation()]
    return nn.Sequential(*(modules if last else modules[:-1]))


OBSERVATIONS = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


def test_actor_critic_gives_the_logits_of_its_network() -> None:
    tensors = ppo_tensors(4, 3)
    checkpoint = load(sb3_archive(tensors, sb3_data(4, DISCRETE)))
    head = head_of(checkpoint, OBSERVATIONS)
    trunk = reference(tensors, "mlp_extractor.policy_net", nn.Tanh, last=True)(torch.from_numpy(OBSERVATIONS))
    expected = trunk @ tensors["action_net.weight"].T + tensors["action_net.bias"]
    assert isinstance(head, Categorical)
    np.testing.assert_allclose(head.logits_NA, expected.detach().numpy(), rtol=1e-5)
    assert (checkpoint.discount, checkpoint.value_based) == (0.98, False)


def test_shared_layers_and_another_activation_are_followed() -> None:
    tensors = {
        **mlp_tensors("mlp_extractor.shared_net", [4, 6]),
        **mlp_tensors("mlp_extractor.policy_net", [6, 5], seed=5),
        **linear_tensors("action_net", 5, 3),
    }
    kwargs = {"activation_fn": "<class 'torch.nn.modules.activation.ReLU'>"}
    head = head_of(load(sb3_archive(tensors, sb3_data(4, DISCRETE, policy_kwargs=kwargs))), OBSERVATIONS)
    hidden = reference(tensors, "mlp_extractor.shared_net", nn.ReLU, last=True)(torch.from_numpy(OBSERVATIONS))
    hidden = reference(tensors, "mlp_extractor.policy_net", nn.ReLU, last=True)(hidden)
    expected = hidden @ tensors["action_net.weight"].T + tensors["action_net.bias"]
    np.testing.assert_allclose(head.logits_NA, expected.detach().numpy(), rtol=1e-5)


def test_continuous_and_state_dependent_heads() -> None:
    plain = load(sb3_archive({**ppo_tensors(4, 2), "log_std": torch.tensor([0.0, 1.0])}, sb3_data(4, BOX)))
    head = head_of(plain, OBSERVATIONS)
    assert isinstance(head, Gaussian) and not plain.state_dependent_noise
    np.testing.assert_allclose(head.std_ND[0], [1.0, np.e], rtol=1e-6)
    gsde = load(sb3_archive({**ppo_tensors(4, 2), "log_std": torch.zeros(8, 2)}, sb3_data(4, BOX, sde_sample_freq=4)))
    noisy = head_of(gsde, OBSERVATIONS)
    assert isinstance(noisy, StateDependentNoise) and gsde.state_dependent_noise
    assert (noisy.features_NF.shape, noisy.std_FD.shape, gsde.noise_period) == ((5, 8), (8, 2), 4)


@pytest.mark.parametrize(("name", "network", "quantiles"), [("q_net", "q_net", 1), ("quantile_net", "quantile_net", 5)])
def test_value_networks(name: str, network: str, quantiles: int) -> None:
    tensors = mlp_tensors(f"{name}.{network}", [4, 8, 3 * quantiles])
    target = {key.replace(f"{name}.", f"{name}_target.", 1): value for key, value in tensors.items()}
    checkpoint = load(sb3_archive({**tensors, **target}, sb3_data(4, DISCRETE, exploration_rate=0.1)))
    head = head_of(checkpoint, OBSERVATIONS)
    output = reference(tensors, f"{name}.{network}", nn.ReLU, last=False)(torch.from_numpy(OBSERVATIONS))
    expected = output.reshape(5, quantiles, 3).mean(1).detach().numpy()
    assert isinstance(head, ActionValues) and checkpoint.value_based and checkpoint.exploration_rate == 0.1
    np.testing.assert_allclose(head.values_NA, expected, rtol=1e-5)


def test_random_weights_keep_the_shape_and_change_the_policy() -> None:
    content = ppo_archive()
    untrained = [load(content, weights_seed=seed) for seed in (1, 1, 2)]
    logits = [head_of(item, OBSERVATIONS).logits_NA for item in (load(content), *untrained)]
    assert all(values.shape == (5, 2) for values in logits)
    assert np.array_equal(logits[1], logits[2])
    assert not np.array_equal(logits[0], logits[1]) and not np.array_equal(logits[1], logits[3])


def test_wrong_hash_is_refused_before_anything_is_parsed() -> None:
    with pytest.raises(UserError, match="sha256"):
        verified_bytes(b"not even a zip", "0" * 64, "agent.zip")


@pytest.mark.parametrize("cut", [0, 10, 400, -30])
def test_a_truncated_archive_is_one_clear_error(cut: int) -> None:
    with pytest.raises(UserError, match=r"agent\.zip"):
        load(ppo_archive()[:cut])


def test_flipped_bytes_never_give_another_kind_of_error() -> None:
    content = ppo_archive()
    for position in range(30, len(content), 97):
        broken = bytearray(content)
        broken[position] ^= 0xFF
        try:
            load(bytes(broken))
        except UserError as error:
            assert "agent.zip" in str(error)


def test_unknown_layers_are_refused() -> None:
    tensors = {**ppo_tensors(4, 3), "features_extractor.attention.weight": torch.zeros(2, 2)}
    with pytest.raises(UserError, match=r"unknown layers 'features_extractor\.attention\.weight'"):
        load(sb3_archive(tensors, sb3_data(4, DISCRETE)))


def test_nan_weights_are_refused() -> None:
    tensors = ppo_tensors(4, 3)
    tensors["action_net.bias"][1] = float("nan")
    with pytest.raises(UserError, match="NaN"):
        load(sb3_archive(tensors, sb3_data(4, DISCRETE)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"action_space": space("MultiDiscrete", nvec="[2 3]")}, "MultiDiscrete"),
        ({"action_space": space("Discrete", n=7)}, "outputs for 7 discrete"),
        ({"policy_kwargs": {"activation_fn": "<function <lambda> at 0x7f>"}}, "activation"),
        ({"policy_kwargs": {"squash_output": True}}, "squashed"),
    ],
)
def test_what_would_be_another_policy_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(sb3_archive(ppo_tensors(4, 3), {**sb3_data(4, DISCRETE), **changed}))


class Bomb:
    """Pickles to a call that leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_that_would_run_code_does_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    data = sb3_data(4, DISCRETE)
    for payload in (torch_bytes({"w": Bomb(trace)}), pickle.dumps(Bomb(trace))):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("data", json.dumps(data))
            archive.writestr("policy.pth", payload)
        with pytest.raises(UserError, match="more than plain tensors") as refused:
            load(buffer.getvalue())
        assert "\n" not in str(refused.value) and "torch.load" not in str(refused.value)
        with pytest.raises(UserError):
            load(payload, "agent.pt")
    assert not trace.exists()
    pickle.loads(pickle.dumps(Bomb(trace)))  # the same payload does run where it is unpickled
    assert trace.exists()


def test_serialized_fields_are_never_unpickled(tmp_path: Path) -> None:
    import base64

    trace = tmp_path / "ran"
    payload = base64.b64encode(pickle.dumps(Bomb(trace))).decode()
    data = sb3_data(4, {**DISCRETE, ":serialized:": payload}, lr_schedule={":serialized:": payload})
    load(sb3_archive(ppo_tensors(4, 3), data))
    assert not trace.exists()


def test_too_many_members_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(1000):
            archive.writestr(f"member{number}", b"")
    with pytest.raises(UserError, match="members"):
        load(buffer.getvalue())


def changed_zip(content: bytes, **members: bytes) -> bytes:
    """A zip file with members added or replaced, all of them compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, members.pop(name, None) or old.read(name))
        for name, value in members.items():
            new.writestr(name, value)
    return buffer.getvalue()


def test_names_in_an_archive_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    names = (
        "../owned",
        str(tmp_path / "owned"),
        "..\\owned",
        "a/../../owned",
        "policy.pth/../owned",
        "new\nline",
        "\x1b[2J",
    )
    load(changed_zip(ppo_archive(), **dict.fromkeys(names, b"x")))
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]


def test_archives_that_unpack_without_end_are_refused() -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(ppo_archive())) as archive:
        inner_bytes = archive.read("policy.pth")
    bomb = bytes(64 << 20)
    with zipfile.ZipFile(io.BytesIO(inner_bytes)) as archive:
        data = next(name for name in archive.namelist() if "/data/" in name)
    for member in (data, "archive/more"):
        inner = changed_zip(inner_bytes, **{member: bomb})
        assert len(inner) < 1 << 20
        for content, name in ((inner, "agent.pt"), (changed_zip(ppo_archive(), **{"policy.pth": inner}), "agent.zip")):
            with pytest.raises(UserError, match="unpack to more than the file holds"):
                load(content, name)


def test_sizes_that_an_archive_only_claims_are_refused() -> None:
    content = bytearray(ppo_archive())
    entry = content.index(b"PK\x01\x02")
    for claimed in (0xFFFF_FFFE, 0, 3):
        content[entry + 24 : entry + 28] = claimed.to_bytes(4, "little")  # unpacked size in the central directory
        with pytest.raises(UserError, match=r"agent\.zip"):
            load(bytes(content))


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 20, 1 << 20), (8, 1 << 34)])
def test_tensors_of_absurd_shape_are_refused(shape: tuple[int, ...]) -> None:
    """Few bytes with stride 0: looking whether all of them are finite would need terabytes."""
    tensors = {**mlp_tensors("network", [4, 8, 2]), "network.0.weight": torch.zeros(1).expand(shape)}
    content = torch_bytes(tensors)
    assert len(content) < 1 << 14
    with pytest.raises(UserError, match=r"tensor 'network\.0\.weight' of .* is larger than its file"):
        load(content, "agent.pt")
    old = io.BytesIO()
    torch.save(tensors, old, _use_new_zipfile_serialization=False)
    with pytest.raises(UserError, match="larger than its file"):
        load(old.getvalue(), "agent.pt")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_no_numbers_are_refused_in_every_format(value: float) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {**mlp_tensors("actor", [4, 8, 2]), **mlp_tensors("critic", [4, 8, 1])}
    tensors["actor.0.weight"][0, 0] = value
    for content, name in (
        (safetensors.save(tensors, {"format": "cleanrl-ppo"}), "agent.safetensors"),
        (torch_bytes(tensors), "agent.pt"),
    ):
        with pytest.raises(UserError, match=r"agent.*(NaN|infinite)"):
            load(content, name)


HEADER = {"format": "cleanrl-ppo"}
LIES: dict[str, tuple[Any, bytes]] = {
    "past the end": ({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 1 << 50]}}, bytes(16)),
    "absurd shape": ({"a": {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 16]}}, bytes(16)),
    "wrong shape": ({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 16]}}, bytes(16)),
    "negative": ({"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}, bytes(16)),
    "backwards": ({"a": {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}}, bytes(16)),
    "overlapping": (
        {name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for name in ("a", "b")},
        bytes(16),
    ),
    "a hole": ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}, bytes(16)),
    "unknown type": ({"a": {"dtype": "PICKLE", "shape": [4], "data_offsets": [0, 16]}}, bytes(16)),
    "no tensor": ({"a": "b"}, b""),
    "more bytes": ({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, bytes(4096)),
    "a list": ([1, 2], b""),
    "deep": ("[" * 100_000, b""),
    "no text": (b"\xff\xfe{}", b""),
}


@pytest.mark.parametrize(("header", "data"), LIES.values(), ids=LIES)
def test_lies_in_a_safetensors_header_are_refused(header: Any, data: bytes) -> None:
    if isinstance(header, dict):
        header = json.dumps({"__metadata__": HEADER, **header})
    elif isinstance(header, list):
        header = json.dumps(header)
    text = header if isinstance(header, bytes) else header.encode()
    for length in (len(text), len(text) + 1, (1 << 63) + 1, 0):
        content = length.to_bytes(8, "little") + text + data
        with pytest.raises(UserError, match=r"agent\.safetensors") as refused:
            load(content, "agent.safetensors")
        assert "\n" not in str(refused.value)


def test_cleanrl_agents_by_their_parameter_names() -> None:
    discrete = {**mlp_tensors("actor", [4, 8, 2]), **mlp_tensors("critic", [4, 8, 1])}
    logits = head_of(load(torch_bytes(discrete), "agent.cleanrl_model"), OBSERVATIONS)
    expected = reference(discrete, "actor", nn.Tanh, last=False)(torch.from_numpy(OBSERVATIONS)).detach().numpy()
    np.testing.assert_allclose(logits.logits_NA, expected, rtol=1e-5)
    continuous = {**mlp_tensors("actor_mean", [4, 8, 2]), "actor_logstd": torch.zeros(1, 2)}
    assert isinstance(head_of(load(torch_bytes(continuous), "agent.pt"), OBSERVATIONS), Gaussian)
    values = mlp_tensors("network", [4, 8, 2])
    assert load(torch_bytes(values), "agent.pt").value_based


def test_named_architecture_for_plain_tensors() -> None:
    tensors = {name.removeprefix("x."): value for name, value in mlp_tensors("x", [4, 8, 2]).items()}
    with pytest.raises(UserError, match="--architecture"):
        load(torch_bytes(tensors), "agent.pt")
    checkpoint = load(torch_bytes(tensors), "agent.pt", architecture="mlp-relu")
    assert checkpoint.policy.actions.size == 2


def test_safetensors_name_their_network_in_the_header() -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {**mlp_tensors("actor", [4, 8, 2]), **mlp_tensors("critic", [4, 8, 1])}
    content = safetensors.save(tensors, {"format": "cleanrl-ppo"})
    assert isinstance(head_of(load(content, "agent.safetensors"), OBSERVATIONS), Categorical)
    with pytest.raises(UserError, match="architecture 'strange' is unknown"):
        load(safetensors.save(tensors, {"format": "strange"}), "agent.safetensors")
    for cut in (4, 40, len(content) - 8):
        with pytest.raises(UserError, match=r"agent\.safetensors"):
            load(content[:cut], "agent.safetensors")


def test_what_a_policy_said_stays_and_a_buffer_that_is_filled_anew_is_read_anew() -> None:
    """Layers and input tensors are kept between calls; heads must not share them."""
    policy = load(ppo_archive()).policy
    buffer, starts = np.zeros((3, 4), np.float32), np.zeros(3, dtype=bool)
    first, _ = policy(buffer, None, starts)
    assert isinstance(first, Categorical)
    said = first.logits_NA.copy()
    buffer += 1.0
    second, _ = policy(buffer, None, starts)
    alone, _ = load(ppo_archive()).policy(buffer.copy(), None, starts)
    assert isinstance(second, Categorical) and isinstance(alone, Categorical)
    assert (first.logits_NA == said).all() and (second.logits_NA == alone.logits_NA).all()
    assert (second.logits_NA != said).any()
