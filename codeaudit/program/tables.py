"""Dicts and sequences written out somewhere in a program: which one a name stands for, and what it holds.

What an element is, the resolver says."""

from __future__ import annotations

from codeaudit.facts import tree as t
from codeaudit.program.flow import Definition
from codeaudit.program.frames import Frame
from codeaudit.program.index import Module, Program
from codeaudit.program.limits import MAX_DEPTH


class Tables:
    """Questions about literals; the resolver says what a local name is bound to."""

    program: Program

    def definitions(self, name: str, frame: Frame) -> tuple[list[Definition], Frame] | None:
        raise NotImplementedError

    def argument(self, name: str, frame: Frame) -> tuple[t.Node, Frame] | None:
        raise NotImplementedError

    def entries(self, node: t.Node, frame: Frame, depth: int) -> tuple[list[tuple[t.Node | None, t.Node]], Frame]:
        """The keys and values of a dict: as written out, and as filled in later, `REGISTRY["ppo"] = PPO`."""
        node, frame = self._handed_over(node, frame, depth)
        table, where = self.literal(node, frame, depth)
        entries = list(table.items) if isinstance(table, t.Map) else []
        if isinstance(node, t.Name):
            name = node.id
            local = self.definitions(name, frame)
            if local is None:
                definitions, module = self.global_definitions(name, frame.function.module)
                where = Frame(module.body)
                name = definitions[0].name if definitions else name
            else:
                where = local[1]
            entries += [
                (target.index, value)
                for target, value, _ in where.function.flow.subscript_stores
                if isinstance(target.obj, t.Name) and target.obj.id == name
            ]
        return entries, where

    def _handed_over(self, node: t.Node, frame: Frame, depth: int) -> tuple[t.Node, Frame]:
        """What a bare parameter is, where the caller says: the caller's expression, in the caller's frame."""
        while isinstance(node, t.Name) and depth < MAX_DEPTH and self.definitions(node.id, frame) is None:
            argument = self.argument(node.id, frame)
            if argument is None:
                break
            node, frame, depth = *argument, depth + 1
        return node, frame

    def literal(self, node: t.Node, frame: Frame, depth: int = 0) -> tuple[t.Map | t.Seq | None, Frame]:
        """The dict or sequence written out for a name, and the frame to read its items in."""
        if isinstance(node, (t.Map, t.Seq)):
            return node, frame
        if isinstance(node, t.Name) and depth < MAX_DEPTH:
            local = self.definitions(node.id, frame)
            if local:
                definitions, where = local
            else:
                definitions, module = self.global_definitions(node.id, frame.function.module)
                where = Frame(module.body)
            for d in definitions:
                if not d.selector and isinstance(d.value, (t.Map, t.Seq)):
                    return d.value, where
        return None, frame

    def global_definitions(self, name: str, module: Module) -> tuple[list[Definition], Module]:
        """The assignments of a module-level name, followed through imports, and the module they stand in."""
        for _ in range(8):
            found = module.body.flow.definitions.get(name)
            if found:
                return found, module
            target: Module | None = None
            if name in module.imports:
                source, level, original = module.imports[name]
                target = self.program.find_module(source, level, module) if original else None
                name = original
            else:
                for source, level in module.stars:
                    candidate = self.program.find_module(source, level, module)
                    if candidate is not None and name in candidate.body.flow.definitions:
                        target = candidate
            if target is None:
                break
            module = target
        return [], module
