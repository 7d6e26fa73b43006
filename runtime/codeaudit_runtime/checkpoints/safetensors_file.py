"""Safetensors files whose JSON header names the network. Not for files without a known `format` in the header."""

from __future__ import annotations

import json

from safetensors import SafetensorError
from safetensors.torch import load

from codeaudit.errors import UserError
from codeaudit_runtime.checkpoints.checkpoint import Checkpoint
from codeaudit_runtime.checkpoints.state_dict import ARCHITECTURES
from codeaudit_runtime.networks import Tensors

FORMAT = "safetensors"
MAX_HEADER_BYTES = 1 << 20


def header_metadata(content: bytes, where: str) -> dict[str, str]:
    """The `__metadata__` of the header: eight bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(MAX_HEADER_BYTES, len(content) - 8):
        raise UserError(f"{where}: not a complete safetensors file", hint="fetch the file again")
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = header.get("__metadata__", {})
        return {str(key): str(value) for key, value in metadata.items()}
    except (ValueError, AttributeError, RecursionError):
        raise UserError(f"{where}: its header is no JSON", hint="fetch the file again") from None


def checkpoint_from_safetensors(
    content: bytes, where: str, sha256: str, architecture: str = "", weights_seed: int | None = None
) -> Checkpoint:
    """The agent; its architecture is the header's `format`, or `architecture` where that is given."""
    metadata = header_metadata(content, where)
    name = architecture or metadata.get("format", "")
    if name not in ARCHITECTURES:
        raise UserError(
            f"{where}: architecture {name!r} is unknown",
            hint=f"name one with --architecture: {', '.join(ARCHITECTURES)}",
        )
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, TypeError) as error:
        raise UserError(f"{where}: the tensors cannot be read ({error})", hint="fetch the file again") from None
    return ARCHITECTURES[name](Tensors(tensors, where, weights_seed), metadata, FORMAT, sha256)
