"""Members of a zip file as bytes, with limits; and tensors from such bytes. Nothing is unpickled but plain tensors."""

from __future__ import annotations

import io
import pickle
import re
import warnings
import zipfile
from typing import Any

import torch

from codeaudit.errors import UserError

MAX_MEMBERS = 256
MAX_BYTES = 2 << 30  # of all members together, unpacked


def archive_members(content: bytes, where: str) -> zipfile.ZipFile:
    """An opened archive whose declared sizes are within bounds; UserError if it is broken or too large."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UserError(f"{where}: not a complete zip file ({error})", hint="fetch the checkpoint again") from None
    members = archive.infolist()
    if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_BYTES:
        raise UserError(
            f"{where}: the archive holds more than {MAX_MEMBERS} members or unpacks to more than {MAX_BYTES >> 30} GiB",
            hint="no agent needs that; the file is refused",
        )
    return archive


def member_bytes(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    """One member; never more bytes than it declared."""
    try:
        with archive.open(name) as stream:
            return stream.read(archive.getinfo(name).file_size)
    except KeyError:
        raise UserError(
            f"{where}: the archive has no member {name!r}", hint="if it is cut short, fetch it again"
        ) from None
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise UserError(f"{where}: member {name!r} cannot be read ({error})", hint="fetch the file again") from None
    except Exception as error:  # zlib.error and lzma.LZMAError share no base class
        raise UserError(f"{where}: member {name!r} is damaged ({error})", hint="fetch the file again") from None


def tensors_from_bytes(content: bytes, where: str) -> dict[str, Any]:
    """The state dict saved by `torch.save`, through PyTorch's weights-only reader on the CPU.

    Raises UserError for anything but a dictionary, and for a pickle that asks for any other class or function.
    """
    if zipfile.is_zipfile(io.BytesIO(content)):
        # torch.save compresses nothing, so a member that is larger than the file is a bomb.
        unpacked = sum(member.file_size for member in archive_members(content, where).infolist())
        if unpacked > len(content):
            raise UserError(f"{where}: its members unpack to more than the file holds", hint="the file is refused")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how the file was written; what is wrong with it is said below
            loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise UserError(
            f"{where}: refused, for it holds more than plain tensors"
            + (f" (it asks for {asked[1][:80]})" if asked else ""),
            hint="a checkpoint that needs code to be read is not opened",
        ) from None
    except Exception as error:  # a damaged file can fail anywhere in the reader
        raise UserError(
            f"{where}: the tensors cannot be read ({type(error).__name__})", hint="fetch the file again"
        ) from None
    if not isinstance(loaded, dict):
        raise UserError(f"{where}: holds a {type(loaded).__name__}, not a dictionary of tensors")
    for name, value in loaded.items():
        # A few bytes, repeated with stride 0, can be a tensor of any size; each operation on it would unfold them.
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            if value.numel() * value.element_size() > max(len(content), value.untyped_storage().nbytes()):
                shape = " × ".join(map(str, value.shape))
                raise UserError(
                    f"{where}: tensor {str(name)!r} of {shape} is larger than its file", hint="the file is refused"
                )
    return loaded
