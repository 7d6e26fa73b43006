"""Scalars of TensorBoard event files, without TensorBoard. Not for images, histograms or graphs.

The format is small and has not changed since 2015: TFRecord frames (length, masked CRC of the length, data, masked CRC
of the data) around `Event` messages. TensorBoard itself would bring gRPC, a web server and protobuf, stops at a damaged
frame without a word, and keeps a sample of the points only. Sources: tensorflow/core/lib/io/record_writer.h,
tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.variation.readers.source import (
    Choice,
    RawCurve,
    Reading,
    last_of_equal_steps,
    trouble,
)

HINT = "was the run killed while it wrote? Leave the file out with --skip-bad"
LARGEST = 256 << 20  # bytes of one frame; a damaged length says more


class Malformed(Exception):
    """Bytes that are no message."""


def frames(path: Path) -> Iterator[bytes | memoryview]:
    """The data of each frame. UserError with the number and place of the first damaged one.

    The CRC of a frame's length is checked, which finds a lost or foreign byte anywhere before it. The CRC of the data
    is not: in pure Python it would cost more than all the rest. A changed byte inside a message can then go unseen.
    """
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise trouble(path, None, error.strerror or str(error), "check the path and its permissions") from None
    place = number = 0
    while place < len(content):
        number += 1
        why = _frame_trouble(content, place)
        if why:
            raise trouble(path, None, f"record {number} at byte {place}: {why}", HINT)
        (length,) = struct.unpack_from("<Q", content, place)
        yield content[place + 12 : place + 12 + length]
        place += 16 + length


def _frame_trouble(content: memoryview, place: int) -> str:
    if len(content) - place < 12:
        return "the file ends inside it"
    length, masked = struct.unpack_from("<QI", content, place)
    if _masked_crc(content[place : place + 8]) != masked or length > LARGEST:
        return "its length is damaged, or this is no event file"
    if len(content) - place < 16 + length:
        return "the file ends inside it"
    return ""


def _table() -> tuple[int, ...]:
    entries = []
    for index in range(256):
        for _ in range(8):
            index = (index >> 1) ^ (0x82F63B78 if index & 1 else 0)
        entries.append(index)
    return tuple(entries)


_CRC32C = _table()


def _masked_crc(data: memoryview) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int | bytes | memoryview]]:
    """(field number, value) of a protobuf message: varints as int, everything else as its bytes. Raises Malformed."""
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        wire = key & 7
        if wire == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if wire == 2:
            size, place = _varint(message, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise Malformed
        if place + size > end:
            raise Malformed
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: bytes | memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise Malformed
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def scalars_of_event(message: bytes | memoryview) -> tuple[int, list[tuple[str, float]]]:
    """The step and the (tag, value) scalars of one Event. Raises Malformed."""
    step, scalars = 0, []
    for number, value in fields(message):
        if number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >= 1 << 63 else value
        elif number == 5 and not isinstance(value, int):
            for item, inner in fields(value):
                if item == 1 and not isinstance(inner, int):
                    found = _scalar(inner)
                    if found is not None:
                        scalars.append(found)
    return step, scalars


def _scalar(message: bytes | memoryview) -> tuple[str, float] | None:
    """A Summary.Value as (tag, number): the old simple_value or a rank-0 float tensor."""
    tag, number = "", None
    for item, value in fields(message):
        if isinstance(value, int):
            continue
        if item == 1:
            tag = bytes(value).decode("utf-8", "replace")
        elif item == 2 and len(value) == 4:
            (number,) = struct.unpack("<f", value)
        elif item == 8:
            number = _tensor_scalar(value)
    return (tag, number) if number is not None else None


def _tensor_scalar(message: bytes | memoryview) -> float | None:
    dtype, content, ranks = 0, b"", 0  # type: int, bytes | memoryview, int
    for item, value in fields(message):
        if item == 1 and isinstance(value, int):
            dtype = value
        elif item == 2 and not isinstance(value, int):
            ranks = sum(number == 2 for number, _ in fields(value))
        elif item in (4, 5, 6) and not isinstance(value, int):
            content = value
    size, form = {1: (4, "<f"), 2: (8, "<d")}.get(dtype, (0, ""))
    if ranks or not size or len(content) != size:
        return None
    return float(struct.unpack(form, content)[0])


@dataclass(frozen=True)
class EventsSource:
    """The event files of one folder, which are one run. The later value of a step that was logged twice counts."""

    files: tuple[Path, ...]
    facts: Mapping[str, str]
    scalars: Mapping[str, tuple[FloatArray, FloatArray]]  # by tag: steps and values in the order of writing
    kind: str = "tensorboard"
    columns: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return self.files[0]

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(self.scalars)

    def read(self, choice: Choice) -> Reading:
        steps_T, values_T = self.scalars[choice.value]
        order = np.argsort(steps_T, kind="stable")
        steps_T, values_T, repeated = last_of_equal_steps(steps_T[order], values_T[order])
        keys = {name: self.facts.get(name, "") for name in choice.keys}
        note = f"{self.path.parent.name}: {repeated} steps were logged twice; the later value is kept"
        curve = RawCurve(keys, None, steps_T, values_T, str(self.path.parent))
        return Reading((curve,), (note,) if repeated else ())


def source_from_events(files: tuple[Path, ...], facts: Mapping[str, str]) -> EventsSource:
    """Read every scalar of the event files of one folder, oldest name first."""
    gathered: dict[str, tuple[list[float], list[float]]] = {}
    for path in files:
        for number, frame in enumerate(frames(path), start=1):
            try:
                step, scalars = scalars_of_event(frame)
            except Malformed:
                raise trouble(path, None, f"record {number} is no event", HINT) from None
            for tag, value in scalars:
                steps, values = gathered.setdefault(tag, ([], []))
                steps.append(step)
                values.append(value)
    if not gathered:
        raise trouble(files[0], None, "no scalar in it", "leave it out with --skip-bad")
    arrays = {tag: (np.array(steps, dtype=np.float64), np.array(values)) for tag, (steps, values) in gathered.items()}
    return EventsSource(files, facts, arrays)
