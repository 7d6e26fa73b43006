"""Fixtures of the runtime tests: the folder of real checkpoints where it exists, a toy agent and a toy registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the runtime extra is not installed")
pytest.importorskip("gymnasium", reason="the runtime extra is not installed")

from made_agents import ppo_archive, sha256  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_checkpoints(shared_folder: Path) -> Path:
    return shared_folder / "checkpoints"


@pytest.fixture
def cartpole_agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent.zip"
    path.write_bytes(ppo_archive())
    return path


@pytest.fixture
def registry(tmp_path: Path) -> Callable[..., Path]:
    """Writes a registry entry `toy` with one CartPole agent; the folder of the entry, which also holds the agent."""

    def write(published: str = "{mean: 20.0, std: 8.0, episodes: 100}", digest: str = "") -> Path:
        folder = tmp_path / "registry"
        folder.mkdir(exist_ok=True)
        content = ppo_archive()
        (folder / "toy-agent.zip").write_bytes(content)
        (folder / "toy.yaml").write_text(
            f"""id: toy
title: A toy
repository: {{url: "https://example.org/owner/toy", commit: {"a" * 40}}}
published: {{site: evaluate.py}}
checkpoints:
- id: toy-CartPole
  source: {{file: toy-agent.zip, sha256: {digest or sha256(content)}}}
  format: sb3-zip
  algorithm: ppo
  environment: CartPole-v1
  published: {published}
"""
        )
        return folder

    return write
