"""Which expression a call passes for a parameter, forwarded `*args` and `**kwargs` included; and which calls fit a
function."""

from __future__ import annotations

from collections.abc import Iterator

from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, last_name


class Arguments:
    """Arguments of the call that entered a frame."""

    def argument(self, name: str, frame: Frame) -> tuple[t.Node, Frame] | None:
        """The expression that a call passes for a parameter, and the frame to read it in; None where it passes none."""
        if frame.call is None or frame.parent is None:
            return None
        for arg in frame.call.args:
            if arg.name == name:
                return arg.value, frame.parent
        for arg in frame.bound:
            if arg.name == name:
                return arg.value, frame.bound_frame or frame.parent
        positional = [p for p in frame.function.parameters if not p.kind or p.kind == "*"]
        index = frame.skip
        for value, where in self._positional(frame, 0):
            if 0 <= index < len(positional) and positional[index].name == name:
                return value, where
            index += 1
        return self._keyword_forwarded(name, frame)

    def _positional(self, frame: Frame, depth: int) -> Iterator[tuple[t.Node, Frame]]:
        """The positional arguments of a frame's call; `*args` is replaced by what the caller itself was given there."""
        assert frame.call is not None and frame.parent is not None
        for arg in frame.call.args:
            if arg.name == "*":
                outer = frame.parent
                taken = _star_parameter(outer.function, "*")
                if depth > 4 or outer.call is None or taken is None or last_name(arg.value) != taken.name:
                    return
                named = sum(1 for p in outer.function.parameters if not p.kind)
                yield from list(self._positional(outer, depth + 1))[named:]
            elif not arg.name:
                yield arg.value, frame.parent

    def _keyword_forwarded(self, name: str, frame: Frame) -> tuple[t.Node, Frame] | None:
        """An argument that reaches the call through `**kwargs`: the caller's own, or a dict written out there."""
        for _ in range(4):
            outer = frame.parent
            if frame.call is None or outer is None:
                return None
            for arg in frame.call.args:
                written = _written(arg.value, outer, name) if arg.name == "**" else None
                if written is not None:
                    return written, outer
            if outer.call is None:
                return None
            taken = _star_parameter(outer.function, "**")
            if taken is None or not any(
                a.name == "**" and _is_rest(a.value, outer, taken.name) for a in frame.call.args
            ):
                return None
            for arg in outer.call.args:
                if arg.name == name and outer.parent is not None:
                    return arg.value, outer.parent
            frame = outer
        return None

    def passes_rest(self, frame: Frame) -> bool:
        """Whether the call that entered the frame passes `**something` or `*something`."""
        return frame.call is not None and any(a.name in ("*", "**") for a in frame.call.args)


def _written(node: t.Node, frame: Frame, key: str) -> t.Node | None:
    """The value under a key of a dict that stands here, or that a local name was last bound to."""
    if isinstance(node, t.Name):
        definitions = frame.function.flow.definitions.get(node.id, [])
        node = definitions[-1].value if definitions and not definitions[-1].selector else node
    if isinstance(node, t.Map):
        return next((v for k, v in node.items if isinstance(k, t.Const) and k.value == key), None)
    if isinstance(node, t.Call) and isinstance(node.func, t.Name) and node.func.id == "dict":
        return next((a.value for a in node.args if a.name == key), None)
    return None


def _is_rest(node: t.Node, frame: Frame, name: str) -> bool:
    """`**kwargs`, or `**converted` after `converted = {k: convert(v) for k, v in kwargs.items()}`."""
    if last_name(node) == name:
        return True
    definitions = frame.function.flow.definitions.get(node.id, []) if isinstance(node, t.Name) else []
    made = definitions[-1].value if definitions else None
    return isinstance(made, t.Comp) and any(
        isinstance(over, t.Call) and last_name(over.func) == "items" and last_name(over.func.obj) == name
        for _, over, _ in made.loops
        if isinstance(over, t.Call) and isinstance(over.func, t.Attr)
    )


def _star_parameter(function: Function, kind: str) -> t.Param | None:
    return next((p for p in function.parameters if p.kind == kind), None)


def accepts(function: Function, call: t.Call) -> bool:
    """Whether a call's arguments fit a function's parameters."""
    params = function.parameters
    if any(a.name in ("*", "**") for a in call.args):
        return True
    positional = sum(1 for a in call.args if not a.name)
    names = {p.name for p in params}
    if not any(p.kind == "**" for p in params) and any(a.name and a.name not in names for a in call.args):
        return False
    if not any(p.kind == "*" for p in params) and positional > sum(1 for p in params if not p.kind):
        return False
    given = {a.name for a in call.args}
    required = [p for p in params if p.default is None and not p.kind]
    return all(p.name in given for p in required[positional:])


def takes_keywords(function: Function, call: t.Call) -> bool:
    """Whether a function has a parameter for each keyword of a call."""
    names = {p.name for p in function.parameters}
    return any(p.kind == "**" for p in function.parameters) or all(
        a.name in names for a in call.args if a.name not in ("", "*", "**")
    )


def is_abstract(function: Function) -> bool:
    """A body that only raises, passes or has a docstring."""
    for statement in function.node.body:
        if isinstance(statement, t.Stop) and statement.kind in ("raise", "pass"):
            continue
        if isinstance(statement, t.Expr) and isinstance(statement.value, t.Const):
            continue
        return False
    return True
