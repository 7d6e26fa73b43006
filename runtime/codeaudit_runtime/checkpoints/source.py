"""Where a checkpoint's bytes come from: a file or a git blob, hashed before anything is parsed. Parses nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from codeaudit.errors import UserError

MAX_BYTES = 4 << 30


@dataclass(frozen=True)
class Source:
    """One file of a checkpoint: its path (inside the checkpoint folder, or absolute) and its expected hash."""

    path: str
    sha256: str = ""
    git: str = ""  # "owner/name@commit:path", where the same bytes lie


def bytes_of_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: larger than {MAX_BYTES >> 30} GiB")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint="check the path") from None


def verified_bytes(content: bytes, expected: str, where: str) -> tuple[bytes, str]:
    """The bytes and their sha256; UserError if `expected` is given and differs."""
    actual = hashlib.sha256(content).hexdigest()
    if expected and actual != expected.lower():
        raise UserError(
            f"{where}: sha256 is {actual}, not {expected}", hint="the file is another one than the registry means"
        )
    return content, actual
