"""Attributes of objects of the program: where they are assigned, and in which frame to read what is assigned."""

from __future__ import annotations

from codeaudit.facts import tree as t
from codeaudit.program.classes import Classes
from codeaudit.program.flow import Selector
from codeaudit.program.frames import Frame, Instance, Value
from codeaudit.program.index import Function, last_name
from codeaudit.program.limits import MAX_VALUES, unique


class Attributes(Classes):
    """Questions about attributes; the resolver says what an expression taken apart is."""

    def _select(self, node: t.Node, selector: Selector, frame: Frame, depth: int) -> list[Value]:
        raise NotImplementedError

    def attribute_values(self, owner: Instance, name: str, depth: int) -> list[Value]:
        values: list[Value] = []
        for expression, selector, frame in self.attribute_definitions(owner, name):
            values.extend(self._select(expression, selector, frame, depth + 1))
            if len(values) > MAX_VALUES:
                break
        return unique(values) or self._held(owner, name, depth)

    def _held(self, owner: Instance, name: str, depth: int) -> list[Value]:
        """What one of a list is, that begins empty: `self.agents.append(Agent())`."""
        values: list[Value] = []
        for info in self.mro(owner.info):
            for method in info.methods.values():
                for item in method.flow.appended.get(f"{method.self_name}.{name}", [])[:MAX_VALUES]:
                    values.extend(self._select(item, (), self.method_frame(owner, method), depth + 1))
        return unique(values)

    def attribute_definitions(self, owner: Instance, name: str) -> list[tuple[t.Node, Selector, Frame]]:
        """The assignments `self.name = …` in the object's class and bases, each with the frame to read it in."""
        found: list[tuple[t.Node, Selector, Frame]] = []
        for info in self.mro(owner.info):
            for method in info.methods.values():
                if not method.self_name:
                    continue
                for d in method.flow.definitions.get(f"{method.self_name}.{name}", ()):
                    if d.kind != "augment":
                        found.append((d.value, d.selector, self.method_frame(owner, method)))
            for d in info.flow.definitions.get(name, ()):
                found.append((d.value, d.selector, Frame(info.module.body)))
        return found or self._through_library(owner, name)

    def is_counter(self, owner: Instance, name: str) -> bool:
        """Whether methods change an attribute in place."""
        return any(
            d.kind == "augment"
            for info in self.mro(owner.info)
            for method in info.methods.values()
            if method.self_name
            for d in method.flow.definitions.get(f"{method.self_name}.{name}", ())
        )

    def _through_library(self, owner: Instance, name: str) -> list[tuple[t.Node, Selector, Frame]]:
        """An attribute that a library's base class sets: the constructor's argument of the same name."""
        own = self.method(owner.info, "__init__")
        if own is not None:
            frame = self.method_frame(owner, own)
            for event in own.flow.calls:
                if last_name(event.call.func) == "__init__":
                    for arg in event.call.args:
                        if arg.name == name:
                            return [(arg.value, (), frame)]
        if owner.call is not None and owner.frame is not None:
            for arg in owner.call.args:
                if arg.name == name and (own is None or own.parameter(name) is None):
                    return [(arg.value, (), owner.frame)]
        return []

    def method_frame(self, owner: Instance, method: Function) -> Frame:
        """A method as it ran on this object: `__init__` with the arguments of the constructor call, where known."""
        if method.name in ("__init__", "setup", "__post_init__") and owner.call is not None and owner.frame is not None:
            own = self.method(owner.info, "__init__")
            if own is method or own is None:
                return Frame(method, parent=owner.frame, call=owner.call, receiver=owner)
            # A base class's constructor, called through super().__init__(…) in the class's own.
            first = Frame(own, parent=owner.frame, call=owner.call, receiver=owner)
            for event in own.flow.calls:
                func = event.call.func
                if isinstance(func, t.Attr) and func.name == "__init__":
                    skip = 0 if isinstance(func.obj, t.Call) else -1
                    return Frame(method, parent=first, call=event.call, receiver=owner, skip=skip)
        return Frame(method, receiver=owner)
