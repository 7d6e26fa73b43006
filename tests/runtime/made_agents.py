"""Agents made on the spot, in the formats that real ones come in; and a small scan report."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import torch

Tensors = Mapping[str, Any]


def torch_bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def space(kind: str, **fields: Any) -> dict[str, Any]:
    return {":type:": f"<class 'gym.spaces.{kind.lower()}.{kind}'>", ":serialized:": "gAR9lC4=", **fields}


def sb3_archive(tensors: Tensors, data: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", torch_bytes(dict(tensors)))
        archive.writestr("_stable_baselines3_version", "2.0.0")
    return buffer.getvalue()


def sb3_data(observations: int, actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "policy_kwargs": {},
        "gamma": 0.98,
        "observation_space": space("Box", dtype="float32", shape=[observations]),
        "action_space": actions,
        **more,
    }


def mlp_tensors(prefix: str, sizes: list[int], seed: int = 0) -> dict[str, Any]:
    """Linear layers `prefix.0`, `prefix.2`, … with random weights."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        tensors[f"{prefix}.{2 * layer}.weight"] = torch.randn(outputs, inputs, generator=generator)
        tensors[f"{prefix}.{2 * layer}.bias"] = torch.randn(outputs, generator=generator)
    return tensors


def linear_tensors(name: str, inputs: int, outputs: int, seed: int = 1) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    return {
        f"{name}.weight": torch.randn(outputs, inputs, generator=generator),
        f"{name}.bias": torch.randn(outputs, generator=generator),
    }


def ppo_tensors(observations: int, outputs: int, width: int = 8) -> dict[str, Any]:
    return {
        **mlp_tensors("mlp_extractor.policy_net", [observations, width, width]),
        **mlp_tensors("mlp_extractor.value_net", [observations, width, width], seed=2),
        **linear_tensors("action_net", width, outputs),
        **linear_tensors("value_net", width, 1, seed=3),
    }


def ppo_archive(observations: int = 4, actions: int = 2) -> bytes:
    return sb3_archive(ppo_tensors(observations, actions), sb3_data(observations, space("Discrete", n=actions)))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def scan_report(*expectations: tuple[str, str], site_file: str = "evaluate.py") -> dict[str, Any]:
    predictions = [
        {"id": f"p{number}", "site": "s", "kind": kind, "expectation": text}
        for number, (kind, text) in enumerate(expectations)
    ]
    return {
        "schema": "codeaudit.scan/1",
        "target": {"commit": "a" * 40},
        "sites": [{"id": "s", "file": site_file}],
        "predictions": predictions,
    }
