"""The walk over LibCST's nodes that counts lines; what a node becomes is for the builders. Not for use elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import libcst as cst

from codeaudit.facts import tree as t
from codeaudit.facts.order import OPERATORS, ORDER


def operator_of(node: cst.CSTNode) -> str:
    name = type(node).__name__
    return OPERATORS.get(name) or OPERATORS.get(name.removesuffix("Assign"), "?")


class Converter:
    def __init__(self, builders: Mapping[str, Builder], lines: Sequence[int] | None) -> None:
        self.builders = builders
        self.count = 1
        self.lines = lines
        self.order: dict[type, tuple[str, ...]] = {}

    @property
    def line(self) -> int:
        if self.lines is None:
            return self.count
        return self.lines[min(self.count, len(self.lines)) - 1]

    def module(self, node: cst.Module) -> tuple[t.Node, ...]:
        return body_of(self.parts(node)["body"])

    # Every value of every field passes here once, in text order.
    def part(self, value: Any) -> Any:
        if value is None or value is cst.MaybeSentinel.DEFAULT:
            return None
        kind = type(value)
        if kind is cst.SimpleWhitespace:
            if "\n" in value.value:
                self.count += value.value.count("\n")
            return None
        if kind is str:
            if "\n" in value:
                self.count += value.count("\n")
            return value
        if kind is tuple or kind is list:
            return [self.part(item) for item in value]
        if kind is cst.Newline:
            self.count += 1
            return None
        if isinstance(value, cst.CSTNode):
            return self.node(value)
        return value

    def parts(self, node: cst.CSTNode) -> dict[str, Any]:
        kind = type(node)
        order = self.order.get(kind)
        if order is None:
            order = ORDER.get(kind.__name__) or tuple(f.name for f in fields(kind))
            self.order[kind] = order
        return {name: self.part(getattr(node, name)) for name in order}

    def node(self, node: cst.CSTNode) -> Any:
        build = self.builders.get(type(node).__name__)
        if build is None:  # punctuation and whitespace: only its newlines matter
            parts = self.parts(node)
            found = [item for item in flat(parts.values()) if isinstance(item, t.Node)]
            return t.Other(found[0].line, tuple(found)) if found else None
        return build(self, node)


def flat(values: Any) -> list[Any]:
    out: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            out.extend(flat(value))
        elif value is not None:
            out.append(value)
    return out


def body_of(parts: Any) -> tuple[t.Node, ...]:
    return tuple(item for item in flat(parts) if isinstance(item, t.Node))


Builder = Callable[[Converter, Any], Any]


def registrar(table: dict[str, Builder]) -> Callable[..., Callable[[Builder], Builder]]:
    """A decorator that enters a builder into a table under the names of the nodes that it builds."""

    def builds(*names: str) -> Callable[[Builder], Builder]:
        def register(function: Builder) -> Builder:
            for name in names:
                table[name] = function
            return function

        return register

    return builds
