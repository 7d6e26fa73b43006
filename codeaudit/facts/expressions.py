"""LibCST's expressions to `tree` nodes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import libcst as cst

from codeaudit.facts import tree as t
from codeaudit.facts.converter import Builder, Converter, body_of, flat, operator_of, registrar
from codeaudit.facts.order import ORDER

BUILDERS: dict[str, Builder] = {}
_builds = registrar(BUILDERS)


def _opened(c: Converter, node: Any) -> int:
    """The line on which an expression begins: that of its first parenthesis, as Python's own parser says for calls
    it is
    the first token inside."""
    for bracket in node.lpar:
        c.part(bracket.whitespace_after)
    return c.line


def _expression(c: Converter, node: Any) -> tuple[int, dict[str, Any]]:
    line = _opened(c, node)
    kind = type(node)
    order = c.order.get(kind)
    if order is None:
        order = tuple(n for n in (ORDER.get(kind.__name__) or tuple(f.name for f in fields(kind))) if n != "lpar")
        c.order[kind] = order
    parts = {}
    for name in order:
        if name == "rpar":
            if not isinstance(node, cst.Call):  # a call ends before the parentheses around it: `_call` reads them
                c.part(node.rpar)
        else:
            parts[name] = c.part(getattr(node, name))
    return line, parts


@_builds("Name")
def _name(c: Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    if node.value in ("True", "False", "None"):
        return t.Const(line, {"True": True, "False": False, "None": None}[node.value])
    return t.Name(line, node.value)


@_builds("Integer", "Float", "Imaginary")
def _number(c: Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    text = node.value.replace("_", "")
    try:
        return t.Const(line, int(text, 0))
    except ValueError:
        try:
            return t.Const(line, float(text))
        except ValueError:
            return t.Const(line, text)


@_builds("SimpleString")
def _string(c: Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    value = node.evaluated_value if "\\" in node.value or node.value[0] not in "\"'" else node.raw_value
    return t.Const(line, value if isinstance(value, str) else "")


@_builds("Ellipsis")
def _ellipsis(c: Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    return t.Const(line, "...")


@_builds("ConcatenatedString")
def _concatenated(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    left, right = parts["left"], parts["right"]
    if isinstance(left, t.Const) and isinstance(right, t.Const):
        return t.Const(line, f"{left.value}{right.value}")
    return t.Other(line, (left, right))


@_builds("FormattedString", "TemplatedString")
def _formatted(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Other(line, body_of(parts["parts"]))


@_builds("FormattedStringText", "TemplatedStringText")
def _formatted_text(c: Converter, node: Any) -> t.Node:
    line = c.line
    c.part(node.value)
    return t.Const(line, node.value)


@_builds("Attribute")
def _attribute(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Attr(line, parts["value"], node.attr.value)


@_builds("Arg")
def _arg(c: Converter, node: Any) -> t.Node:
    parts = c.parts(node)
    value = parts["value"]
    return t.Arg(value.line, node.star or (node.keyword.value if node.keyword else ""), value)


@_builds("Call")
def _call(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    end = c.line
    c.part(node.rpar)
    return t.Call(line, _local(parts["func"]), tuple(parts["args"]), end)


def _local(func: t.Node) -> t.Node:
    """What ray's `Worker.options(…).remote(…)` calls: `Worker`, wherever it runs."""
    if not isinstance(func, t.Attr) or func.name != "remote":
        return func
    called = func.obj
    if isinstance(called, t.Call) and isinstance(called.func, t.Attr) and called.func.name == "options":
        called = called.func.obj
    return called if isinstance(called, (t.Name, t.Attr)) else func


@_builds("Subscript")
def _subscript(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    items = body_of(parts["slice"])
    index = items[0] if len(items) == 1 else t.Seq(line, items)
    return t.Sub(line, parts["value"], index)


@_builds("SubscriptElement")
def _subscript_element(c: Converter, node: Any) -> Any:
    return c.parts(node)["slice"]


@_builds("Index")
def _index(c: Converter, node: Any) -> Any:
    return c.parts(node)["value"]


@_builds("Slice")
def _slice(c: Converter, node: Any) -> t.Node:
    line = c.line
    return t.Other(line, body_of(c.parts(node).values()))


@_builds("Tuple", "List", "Set")
def _sequence(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Seq(line, body_of(parts["elements"]))


@_builds("Element")
def _element(c: Converter, node: Any) -> Any:
    return c.parts(node)["value"]


@_builds("StarredElement")
def _starred(c: Converter, node: Any) -> t.Node:
    line = c.line
    return t.Star(line, c.parts(node)["value"])


@_builds("Dict")
def _dict(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Map(line, tuple(parts["elements"]))


@_builds("DictElement")
def _dict_element(c: Converter, node: Any) -> Any:
    parts = c.parts(node)
    return (parts["key"], parts["value"])


@_builds("StarredDictElement")
def _starred_dict_element(c: Converter, node: Any) -> Any:
    return (None, c.parts(node)["value"])


@_builds("BinaryOperation")
def _binary(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Op(line, operator_of(node.operator), parts["left"], parts["right"])


@_builds("BooleanOperation")
def _boolean(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Bool(line, operator_of(node.operator), parts["left"], parts["right"])


@_builds("UnaryOperation")
def _unary(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    value = parts["expression"]
    op = operator_of(node.operator)
    if op == "-" and isinstance(value, t.Const) and isinstance(value.value, (int, float)) and value.value is not True:
        return t.Const(line, -value.value)
    return t.Unary(line, op, value)


@_builds("Comparison")
def _comparison(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    ops = tuple(
        (operator_of(target.operator), right)
        for target, right in zip(node.comparisons, parts["comparisons"], strict=True)
    )
    return t.Compare(line, parts["left"], ops)


@_builds("ComparisonTarget")
def _comparison_target(c: Converter, node: Any) -> Any:
    return c.parts(node)["comparator"]


@_builds("IfExp")
def _conditional(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Cond(line, parts["test"], parts["body"], parts["orelse"])


@_builds("Lambda")
def _lambda(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Lambda(line, parts["params"], parts["body"])


@_builds("Parameters")
def _parameters(c: Converter, node: Any) -> tuple[t.Param, ...]:
    found: list[t.Param] = []
    for name in ORDER["Parameters"]:
        value = c.part(getattr(node, name))
        for item in flat([value]):
            if isinstance(item, t.Param):
                if name == "kwonly_params":
                    item.kind = "kw"
                elif name in ("star_arg", "star_kwarg"):
                    item.kind = "*" if name == "star_arg" else "**"
                found.append(item)
    return tuple(found)


@_builds("Param")
def _param(c: Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    return t.Param(line, node.name.value, parts["default"], "", parts["annotation"])


@_builds("Annotation")
def _annotation(c: Converter, node: Any) -> Any:
    return c.parts(node)["annotation"]


@_builds("ListComp", "SetComp", "GeneratorExp")
def _comprehension(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Comp(line, parts["elt"], tuple(parts["for_in"]))


@_builds("DictComp")
def _dict_comprehension(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Comp(line, t.Map(line, ((parts["key"], parts["value"]),)), tuple(parts["for_in"]))


@_builds("CompFor")
def _comp_for(c: Converter, node: Any) -> Any:
    parts = c.parts(node)
    loop = (parts["target"], parts["iter"], tuple(parts["ifs"] or ()))
    return [loop, *(parts["inner_for_in"] or [])]


@_builds("CompIf")
def _comp_if(c: Converter, node: Any) -> Any:
    return c.parts(node)["test"]


@_builds("Yield")
def _yield(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Yield(line, parts["value"])


@_builds("Await")
def _await(c: Converter, node: Any) -> Any:
    _, parts = _expression(c, node)
    return parts["expression"]


@_builds("From")
def _from(c: Converter, node: Any) -> Any:
    return c.parts(node)["item"]


@_builds("NamedExpr")
def _walrus(c: Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Other(line, (t.Assign(line, (parts["target"],), parts["value"], None),))
