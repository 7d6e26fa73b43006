"""What is chosen by a name at run time: `import_module(f"algorithms.{name}")`, `getattr(agents, args.agent)`.

Which modules and members of the program fit what stands in the code; nothing is imported."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codeaudit.facts import tree as t
from codeaudit.program.frames import ClassValue, Frame, FunctionValue, Instance, ModuleValue, Value
from codeaudit.program.index import Module, Program, last_name
from codeaudit.program.limits import unique

IMPORTERS = ("importlib.import_module", "importlib.__import__")
ANY = r"\w+"
MAX_PARTS = 12  # of a name that is put together
MAX_OPEN = 3  # parts that may be anything: more say too little, and cost too much to match
MAX_MODULES = 200
MAX_NAMES = 80  # of one module


@dataclass(frozen=True, eq=False)
class ModuleChoice(Value):
    """One of several modules; which one is decided at run time."""

    modules: tuple[Module, ...]


def chosen_modules(name: t.Node, program: Program) -> ModuleChoice | None:
    """The modules whose dotted path ends in the name; None where the code says too little of it."""
    pattern = _pattern(name, 0)
    while ANY + ANY in pattern:
        pattern = pattern.replace(ANY + ANY, ANY)
    if pattern.count(ANY) > MAX_OPEN or not re.search(r"[A-Za-z]{3}", pattern.replace(ANY, "")):
        return None
    fits = re.compile(rf"(?:.*\.)?{pattern}$")
    found = tuple(m for m in program.modules.values() if not m.package and fits.match(".".join(m.parts)))
    return ModuleChoice(found[:MAX_MODULES]) if found else None


def _pattern(node: t.Node, depth: int) -> str:
    if depth > MAX_PARTS:
        return ANY
    if isinstance(node, t.Const):
        return re.escape(str(node.value)) if isinstance(node.value, str) else ANY
    if isinstance(node, t.Other) and 0 < len(node.parts) <= MAX_PARTS:  # an f-string
        return "".join(_pattern(part, depth + 1) for part in node.parts)
    if isinstance(node, t.Op) and node.op == "+":
        return _pattern(node.left, depth + 1) + _pattern(node.right, depth + 1)
    if isinstance(node, t.Call) and isinstance(node.func, t.Attr) and isinstance(node.func.obj, t.Const):
        text = str(node.func.obj.value)
        if last_name(node.func) == "join" and node.args and isinstance(node.args[0].value, t.Seq):
            items = node.args[0].value.items
            return re.escape(text).join(_pattern(item, depth + 1) for item in items) if len(items) <= MAX_PARTS else ANY
        if last_name(node.func) == "format":
            return ANY.join(re.escape(part) for part in re.split(r"\{[^{}]*\}", text))
    return ANY


class Dynamic:
    """Members of a module of which one is picked by its name."""

    program: Program

    def types(self, node: t.Node, frame: Frame, depth: int = 0) -> list[Value]:
        raise NotImplementedError

    def member(self, owner: Value, name: str, depth: int = 0) -> list[Value]:
        raise NotImplementedError

    def lookup_global(self, name: str, module: Module, depth: int = 0, hops: int = 0) -> list[Value]:
        raise NotImplementedError

    def picked(self, node: t.Node, frame: Frame, depth: int) -> list[Value]:
        """What `getattr(owner, name)` and `globals()[name]` may be; nothing for any other expression."""
        if isinstance(node, t.Sub):
            named = isinstance(node.obj, t.Call) and last_name(node.obj.func) in ("globals", "locals")
            return self._any_of(ModuleValue(frame.function.module), node.index, depth) if named else []
        if not (isinstance(node, t.Call) and isinstance(node.func, t.Name) and node.func.id == "getattr"):
            return []
        if len(node.args) < 2:
            return []
        owners = self.types(node.args[0].value, frame, depth + 1)
        return unique(v for owner in owners for v in self._any_of(owner, node.args[1].value, depth))

    def _any_of(self, owner: Value, name: t.Node, depth: int) -> list[Value]:
        if isinstance(name, t.Const) and isinstance(name.value, str):
            return self.member(owner, name.value, depth + 1)
        if not isinstance(owner, ModuleValue):
            return []
        module = owner.module
        bound = [*module.classes, *module.imports, *module.top, *module.body.flow.definitions]
        names = [n for n in dict.fromkeys(bound) if not n.startswith("_")][:MAX_NAMES]
        found = unique(v for n in names for v in self.lookup_global(n, module, depth + 1))
        return [v for v in found if isinstance(v, (ClassValue, FunctionValue, Instance))]
