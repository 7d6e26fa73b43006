"""Classes of a program: bases, methods in resolution order, subclasses. It asks `types` what a base expression is."""

from __future__ import annotations

from codeaudit.facts import tree as t
from codeaudit.program.frames import ClassValue, Frame, Library, Value
from codeaudit.program.index import ClassInfo, Function, Program


class Classes:
    """Questions about classes; the resolver answers what an expression is."""

    program: Program
    _mro: dict[int, list[ClassInfo]]

    def types(self, node: t.Node, frame: Frame, depth: int = 0) -> list[Value]:
        raise NotImplementedError

    def bases(self, info: ClassInfo) -> list[ClassInfo]:
        found = []
        for base in info.node.bases:
            for value in self.types(base, Frame(info.module.body)):
                if isinstance(value, ClassValue) and value.info is not info:
                    found.append(value.info)
        return found

    def mro(self, info: ClassInfo) -> list[ClassInfo]:
        """The class and its bases in the program, nearest first; cycles are cut."""
        known = self._mro.get(id(info))
        if known is not None:
            return known
        order: list[ClassInfo] = []
        self._mro[id(info)] = order
        queue = [info]
        while queue:
            current = queue.pop(0)
            if any(current is seen for seen in order):
                continue
            order.append(current)
            queue.extend(self.bases(current))
        return order

    def library_bases(self, info: ClassInfo) -> list[str]:
        """The names of library classes that the class derives from, at any distance."""
        names = []
        for current in self.mro(info):
            for base in current.node.bases:
                for value in self.types(base, Frame(current.module.body)):
                    if isinstance(value, Library):
                        names.append(value.name)
        return names

    def method(self, info: ClassInfo, name: str) -> Function | None:
        for current in self.mro(info):
            if name in current.methods:
                return current.methods[name]
        return None

    def subclasses(self, info: ClassInfo) -> list[ClassInfo]:
        """All classes of the program that derive from this one."""
        found: list[ClassInfo] = []
        queue = [info]
        while queue:
            current = queue.pop()
            for candidate in self.program.subclasses_by_name.get(current.name, ()):
                if (
                    candidate is not info
                    and all(candidate is not c for c in found)
                    and current in self.bases(candidate)
                ):
                    found.append(candidate)
                    queue.append(candidate)
        return found
