"""Modules that are imported by a name put together at run time: `import_module(f"algorithms.{name}")`.

Which modules of the program fit the parts of the name that stand in the code; nothing is imported."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codeaudit.facts import tree as t
from codeaudit.program.frames import Value
from codeaudit.program.index import Module, Program, last_name

IMPORTERS = ("importlib.import_module", "importlib.__import__")
ANY = r"\w+"
MAX_PARTS = 12  # of a name that is put together
MAX_OPEN = 3  # parts that may be anything: more say too little, and cost too much to match
MAX_MODULES = 200


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
