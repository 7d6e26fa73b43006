"""How far a question is followed, and sets of answers without doubles."""

from __future__ import annotations

from collections.abc import Iterable

from codeaudit.program.frames import ClassValue, FunctionValue, Instance, Library, ModuleValue, Value

MAX_DEPTH = 60
MAX_VALUES = 12


def unique(values: Iterable[Value]) -> list[Value]:
    seen: set[tuple[object, ...]] = set()
    out: list[Value] = []
    for value in values:
        if isinstance(value, Instance):
            key: tuple[object, ...] = ("i", id(value.info), id(value.call))
        elif isinstance(value, FunctionValue):
            receiver = value.receiver
            key = ("f", id(value.function), id(receiver.info) if isinstance(receiver, Instance) else 0,
                   id(receiver.call) if isinstance(receiver, Instance) else 0)  # fmt: skip
        elif isinstance(value, Library):
            key = ("l", value.name, id(value.call))
        elif isinstance(value, ClassValue):
            key = ("c", id(value.info))
        elif isinstance(value, ModuleValue):
            key = ("m", value.module.path)
        else:
            key = (id(value),)
        if key not in seen:
            seen.add(key)
            out.append(value)
    return out
