"""Operators on known values: and, or, comparisons, arithmetic; and whose choice their result is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from codeaudit.facts import tree as t
from codeaudit.program.flow import Context
from codeaudit.program.frames import Frame

STRENGTH = {"literal": 0, "mode": 1, "default": 2, "option": 3}


@dataclass(frozen=True)
class Origin:
    """Who decided a value: a literal in the code, a parameter's default, an option, or the module's mode."""

    kind: str  # "literal", "default", "option", "mode"
    file: str
    line: int
    name: str = ""
    computed: bool = False  # from several flags, or from a flag and the kind of environment
    trail: tuple[tuple[str, int, str], ...] = ()  # (file, line, what) from the use to the origin


@dataclass(frozen=True)
class Known:
    value: Any
    origin: Origin


def stronger(a: Origin, b: Origin) -> Origin:
    """Whose choice a composed value is; of two literals, the one that was passed from farther away."""
    return a if (STRENGTH[a.kind], len(a.trail)) >= (STRENGTH[b.kind], len(b.trail)) else b


class Folding:
    """Values of composed expressions; `evaluate` gives those of their parts."""

    guessing: bool

    def evaluate(self, node: t.Node, frame: Frame, use: Context | None = None) -> Known | None:
        raise NotImplementedError

    def _boolean(self, node: t.Bool, frame: Frame, use: Context | None) -> Known | None:
        left, right = self.evaluate(node.left, frame, use), self.evaluate(node.right, frame, use)
        stop = node.op == "or"
        for side in (left, right):
            if side is not None and bool(side.value) == stop:
                if left is not None and right is not None:
                    return Known(side.value, self._both(left.origin, right.origin, node, frame))
                return side
        if left is not None and right is not None:
            return Known(right.value, self._both(left.origin, right.origin, node, frame))
        if self.guessing and (left or right):
            known = left or right
            assert known is not None
            # `flag or is_special(env)`: the special case isn't the default one.
            origin = replace(
                known.origin, kind="option", file=frame.function.module.path, line=node.line, computed=True
            )
            return Known(known.value if stop else False, origin)
        return None

    def _both(self, a: Origin, b: Origin, node: t.Node, frame: Frame) -> Origin:
        """The origin of a value computed from two: two options make the line that joins them the deciding one."""
        if a.kind == b.kind == "option" and (a.file, a.line) != (b.file, b.line):
            return Origin("option", frame.function.module.path, node.line, f"{a.name} and {b.name}", computed=True)
        return stronger(a, b)

    def _compare(self, node: t.Compare, frame: Frame, use: Context | None) -> Known | None:
        if len(node.ops) != 1:
            return None
        op, other = node.ops[0]
        left = self.evaluate(node.left, frame, use)
        if op in ("in", "not in") and left is not None and isinstance(other, t.Seq):
            items = [self.evaluate(item, frame, use) for item in other.items]
            if all(item is not None for item in items):
                inside = any(item is not None and item.value == left.value for item in items)
                return Known(inside == (op == "in"), left.origin)
            return None
        right = self.evaluate(other, frame, use)
        if left is None or right is None:
            return None
        try:
            tests: dict[str, Callable[[], Any]] = {
                "==": lambda: left.value == right.value,
                "!=": lambda: left.value != right.value,
                "is": lambda: left.value is right.value or left.value == right.value,
                "is not": lambda: not (left.value is right.value or left.value == right.value),
                "<": lambda: left.value < right.value,
                ">": lambda: left.value > right.value,
                "<=": lambda: left.value <= right.value,
                ">=": lambda: left.value >= right.value,
                "in": lambda: left.value in right.value,
                "not in": lambda: left.value not in right.value,
                "match": lambda: left.value == right.value,
            }
            result = tests[op]()
        except (TypeError, KeyError):
            return None
        return Known(result, stronger(left.origin, right.origin))

    def _arithmetic(self, node: t.Op, frame: Frame, use: Context | None) -> Known | None:
        left, right = self.evaluate(node.left, frame, use), self.evaluate(node.right, frame, use)
        if node.op == "*":  # zero times anything
            for side in (left, right):
                if side is not None and isinstance(side.value, (int, float)) and side.value == 0:
                    return side
        if left is None or right is None:
            return None
        if not (isinstance(left.value, (int, float)) and isinstance(right.value, (int, float))):
            if node.op == "+" and isinstance(left.value, str) and isinstance(right.value, str):
                return Known((left.value + right.value)[:200], stronger(left.origin, right.origin))
            return None
        try:
            sums: dict[str, Callable[[], Any]] = {
                "+": lambda: left.value + right.value,
                "-": lambda: left.value - right.value,
                "*": lambda: left.value * right.value,
                "/": lambda: left.value / right.value,
                "//": lambda: left.value // right.value,
                "%": lambda: left.value % right.value,
                "**": lambda: float(left.value) ** right.value if abs(right.value) < 64 else None,
            }
            value = sums.get(node.op, lambda: None)()
        except (ArithmeticError, TypeError, ValueError):
            return None
        return (
            None if value is None or isinstance(value, complex) else Known(value, stronger(left.origin, right.origin))
        )
