"""Functions that are built from a graph (`act = function(inputs, outputs)`) and called for an action later."""

from __future__ import annotations

from dataclasses import replace

from codeaudit.evaluation.draw import Draw
from codeaudit.evaluation.sinks import Sinks
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Selector
from codeaudit.program.frames import Frame, Instance
from codeaudit.program.index import last_name


class GraphFunctions(Sinks):
    """What calling such a function gives."""

    def _trace(self, node: t.Node, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        raise NotImplementedError

    def _built(self, node: t.Call, selector: Selector, frame: Frame, depth: int) -> list[Draw]:
        """A function built from a graph, `act = function(inputs, outputs)`: calling it gives the outputs."""
        values = self._made_by(node.func, frame)
        for call, where in values:
            outputs = next((a.value for a in call.args if a.name == "outputs"), None)
            positional = [a.value for a in call.args if not a.name]
            inputs = next((a.value for a in call.args if a.name == "inputs"), positional[0] if positional else None)
            if outputs is None and len(positional) >= 2:
                outputs = positional[1]
            if outputs is None or inputs is None:
                continue
            names = [last_name(item) for item in inputs.items] if isinstance(inputs, t.Seq) else []
            given = [a.value for a in node.args if not a.name]
            fed = tuple((name, value, frame) for name, value in zip(names, given, strict=False) if name)
            where = replace(where, fed=fed)
            found = self._trace(outputs, selector, where, None, depth + 1)
            if found:
                step = (frame.function.module.path, node.line, "runs a function built from a graph")
                return [replace(d, path=(step, *d.path)) for d in found]
        return []

    def _made_by(self, func: t.Node, frame: Frame) -> list[tuple[t.Call, Frame]]:
        """The calls `function(inputs, outputs)` that made a callable."""
        found: list[tuple[t.Call, Frame]] = []
        candidates: list[tuple[t.Node, Frame]] = []
        if isinstance(func, t.Name):
            local = self.resolver.definitions(func.id, frame)
            if local:
                candidates = [(d.value, local[1]) for d in local[0]]
        elif isinstance(func, t.Attr):
            for owner in self.resolver.types(func.obj, frame):
                if isinstance(owner, Instance):
                    candidates += [(e, w) for e, _, w in self.resolver.attribute_definitions(owner, func.name)]
        for value, where in candidates:
            if isinstance(value, t.Call) and last_name(value.func) in ("function", "Function", "theano_function"):
                found.append((value, where))
        return found
