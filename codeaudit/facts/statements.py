"""LibCST's statements to `tree` nodes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import libcst as cst

from codeaudit.facts import tree as t
from codeaudit.facts.converter import Builder, Converter, body_of, flat, operator_of, registrar
from codeaudit.facts.order import ORDER

BUILDERS: dict[str, Builder] = {}
_builds = registrar(BUILDERS)


def _statement(c: Converter, node: Any) -> tuple[int, dict[str, Any]]:
    for empty in getattr(node, "leading_lines", ()):
        c.part(empty)
    line = c.line
    kind = type(node)
    order = c.order.get(kind)
    if order is None:
        named = ORDER.get(kind.__name__) or tuple(f.name for f in fields(kind))
        order = tuple(name for name in named if name != "leading_lines")
        c.order[kind] = order
    return line, {name: c.part(getattr(node, name)) for name in order}


@_builds("SimpleStatementLine", "SimpleStatementSuite", "IndentedBlock")
def _block(c: Converter, node: Any) -> Any:
    return [item for item in flat([c.parts(node)["body"]]) if isinstance(item, t.Node)]


@_builds("Expr")
def _expr(c: Converter, node: Any) -> t.Node:
    line = c.line
    return t.Expr(line, c.parts(node)["value"])


@_builds("Assign")
def _assign(c: Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    return t.Assign(line, tuple(parts["targets"]), parts["value"], None)


@_builds("AssignTarget")
def _assign_target(c: Converter, node: Any) -> Any:
    return c.parts(node)["target"]


@_builds("AssignEqual")
def _assign_equal(c: Converter, node: Any) -> Any:
    c.parts(node)


@_builds("AnnAssign")
def _ann_assign(c: Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    value = parts["value"] if parts["value"] is not None else t.Other(line, ())
    return t.Assign(line, (parts["target"],), value, parts["annotation"])


@_builds("AugAssign")
def _augment(c: Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    return t.Augment(line, parts["target"], operator_of(node.operator), parts["value"])


@_builds("Return")
def _return(c: Converter, node: Any) -> t.Node:
    line = c.line
    return t.Return(line, c.parts(node)["value"])


@_builds("Raise", "Break", "Continue", "Pass", "Global", "Nonlocal", "Assert", "Del")
def _stop(c: Converter, node: Any) -> t.Node:
    line = c.line
    return t.Stop(line, type(node).__name__.lower(), body_of(c.parts(node).values()))


@_builds("If")
def _if(c: Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.If(line, parts["test"], body_of([parts["body"]]), body_of([parts["orelse"]]))


@_builds("Else", "Finally", "ExceptHandler", "ExceptStarHandler")
def _clause(c: Converter, node: Any) -> Any:
    _, parts = _statement(c, node)
    return list(body_of([parts["body"]]))


@_builds("For")
def _for(c: Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.For(line, parts["target"], parts["iter"], body_of([parts["body"]]), body_of([parts["orelse"]]))


@_builds("While")
def _while(c: Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.While(line, parts["test"], body_of([parts["body"]]), body_of([parts["orelse"]]))


@_builds("With")
def _with(c: Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.With(line, tuple(parts["items"]), body_of([parts["body"]]))


@_builds("WithItem")
def _with_item(c: Converter, node: Any) -> Any:
    parts = c.parts(node)
    return (parts["item"], parts["asname"])


@_builds("AsName")
def _as_name(c: Converter, node: Any) -> Any:
    parts = c.parts(node)
    return parts["name"]


@_builds("Try", "TryStar")
def _try(c: Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    handlers = tuple(body_of([handler]) for handler in parts["handlers"])
    return t.Try(line, body_of([parts["body"]]), handlers, body_of([parts["orelse"]]), body_of([parts["finalbody"]]))


@_builds("Match")
def _match(c: Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    chain: tuple[t.Node, ...] = ()
    for pattern, body in reversed(parts["cases"]):
        chain = (t.If(pattern.line, t.Compare(pattern.line, parts["subject"], (("match", pattern),)), body, chain),)
    return chain[0] if chain else t.Expr(line, parts["subject"])


@_builds("MatchCase")
def _match_case(c: Converter, node: Any) -> Any:
    line, parts = _statement(c, node)
    pattern = parts["pattern"] if isinstance(parts["pattern"], t.Node) else t.Other(line, ())
    return (pattern, body_of([parts["body"]]))


@_builds("MatchValue")
def _match_value(c: Converter, node: Any) -> Any:
    return c.parts(node)["value"]


@_builds("FunctionDef")
def _function(c: Converter, node: Any) -> t.Node:
    first, parts = _statement(c, node)
    decorators = body_of([parts["decorators"]])
    line = parts["name"].line
    del first
    return t.Def(line, node.name.value, parts["params"], body_of([parts["body"]]), decorators, parts["returns"], c.line)


@_builds("Decorator")
def _decorator(c: Converter, node: Any) -> Any:
    _, parts = _statement(c, node)
    return parts["decorator"]


@_builds("ClassDef")
def _class(c: Converter, node: Any) -> t.Node:
    _, parts = _statement(c, node)
    bases = tuple(argument.value for argument in parts["bases"])
    return t.Class(
        parts["name"].line, node.name.value, bases, body_of([parts["body"]]), body_of([parts["decorators"]]), c.line
    )


@_builds("Import")
def _import(c: Converter, node: Any) -> t.Node:
    line = c.line
    c.parts(node)
    names = []
    for alias in node.names:
        full = _dotted(alias.name)
        names.append((full, alias.asname.name.value if alias.asname else full.split(".")[0]))
    return t.Import(line, "", 0, tuple(names))


@_builds("ImportFrom")
def _import_from(c: Converter, node: Any) -> t.Node:
    line = c.line
    c.parts(node)
    if isinstance(node.names, cst.ImportStar):
        names: tuple[tuple[str, str], ...] = (("*", "*"),)
    else:
        names = tuple(
            (alias.name.value, alias.asname.name.value if alias.asname else alias.name.value)
            for alias in node.names
            if isinstance(alias.name, cst.Name)
        )
    return t.Import(line, _dotted(node.module) if node.module else "", len(node.relative), names)


def _dotted(node: Any) -> str:
    return node.value if isinstance(node, cst.Name) else f"{_dotted(node.value)}.{node.attr.value}"
