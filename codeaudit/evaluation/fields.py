"""What a field of a result holds that is filled in later: `out["action"] = …`, here or in a helper that is given it."""

from __future__ import annotations

from codeaudit.evaluation.draw import Draw
from codeaudit.evaluation.graphs import GraphFunctions
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Guard, Selector
from codeaudit.program.frames import Frame, FunctionValue

MAX_HELPERS = 4  # that one function hands a result to
MAX_HEIGHT = 3  # helpers within helpers
MAX_PARTS = 24  # of a list that is filled part by part


class Fields(GraphFunctions):
    """Stores under a key, followed."""

    def _decided(self, draws: list[Draw], guards: tuple[Guard, ...], frame: Frame) -> list[Draw]:
        raise NotImplementedError

    def _stored(
        self, name: str, selector: Selector, frame: Frame, use: Context | None, depth: int, height: int = 0
    ) -> list[Draw]:
        """The draws of `name[key]`, where `selector` begins with the key and a store under it is in sight."""
        if not selector or not isinstance(selector[0], str):
            return []
        flow = frame.function.flow
        draws: list[Draw] = []
        for place, value, at in flow.subscript_stores:
            index = place.index.value if isinstance(place.index, t.Const) else None
            if t.dotted(place.obj) != name or index != selector[0] or (use is not None and at.order > use.order):
                continue
            if any(self._feasible(guard, frame) is False for guard in at.guards):
                continue
            draws += self._decided(self._trace(value, selector[1:], frame, at, depth + 1), at.guards, frame)
        if draws or height >= MAX_HEIGHT:
            return draws
        handed = [(e.call, arg.value) for e in flow.calls if use is None or e.context.order <= use.order
                  for arg in e.call.args if t.dotted(arg.value) == name]  # fmt: skip
        for call, given in handed[:MAX_HELPERS]:
            for target in self.resolver.targets(call, frame):
                inner = self.resolver.enter(target, call, frame) if isinstance(target, FunctionValue) else None
                parameter = self._parameter_of(given, inner) if inner is not None else ""
                if inner is not None and parameter:
                    draws += self._stored(parameter, selector, inner, None, depth + 1, height + 1)
        return draws

    def _appended(self, name: str, frame: Frame, depth: int) -> list[Draw]:
        """The draws of a list's parts, each under the conditions that it is put in under."""
        draws: list[Draw] = []
        parts = {id(part) for part in frame.function.flow.appended.get(name, [])[:MAX_PARTS]}
        for event in frame.function.flow.calls if parts else ():
            if event.call.args and id(event.call.args[0].value) in parts:
                found = self._trace(event.call.args[0].value, (), frame, event.context, depth + 1)
                draws += self._decided(found, event.context.guards, frame)
        return draws

    def _parameter_of(self, given: t.Node, inner: Frame) -> str:
        """The parameter under which a helper knows an argument; empty where that can't be told."""
        for parameter in inner.function.parameters:
            argument = self.resolver.argument(parameter.name, inner)
            if argument is not None and argument[0] is given:
                return parameter.name
        return ""
