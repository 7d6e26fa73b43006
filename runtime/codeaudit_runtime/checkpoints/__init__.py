"""Safe loading of checkpoints: bytes in, a policy out, and nothing of the file is ever run."""

from __future__ import annotations

from pathlib import Path

from codeaudit.errors import UserError
from codeaudit_runtime.checkpoints.checkpoint import Checkpoint
from codeaudit_runtime.checkpoints.sb3 import checkpoint_from_sb3
from codeaudit_runtime.checkpoints.state_dict import checkpoint_from_state_dict

SUFFIXES = (".zip", ".safetensors", ".pt", ".pth", ".bin", ".cleanrl_model")

__all__ = ["Checkpoint", "checkpoint_from_bytes"]


def checkpoint_from_bytes(
    content: bytes, name: str, sha256: str, architecture: str = "", weights_seed: int | None = None
) -> Checkpoint:
    """The agent in a file called `name`. Raises UserError, with the file named, for anything that cannot be trusted.

    `weights_seed` gives the same network with weights drawn anew: a reference, not the agent.
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".safetensors":
        from codeaudit_runtime.checkpoints.safetensors_file import checkpoint_from_safetensors

        return checkpoint_from_safetensors(content, name, sha256, architecture, weights_seed)
    if suffix == ".zip":
        return checkpoint_from_sb3(content, name, sha256, weights_seed)
    if suffix in SUFFIXES:
        return checkpoint_from_state_dict(content, name, sha256, architecture, weights_seed)
    raise UserError(f"{name}: unknown kind of checkpoint", hint=f"files end in {', '.join(SUFFIXES)}")
