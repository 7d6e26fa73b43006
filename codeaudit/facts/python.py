"""Python source to a `tree.File`. The only module, beside the fixer, that knows LibCST. Pure: bytes in, tree out.

LibCST's own position metadata costs twice the parse, so lines are counted here: every field of every node is visited
in the order in which its text stands in the file, and newlines are added up on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import libcst as cst

from codeaudit.facts import tree as t

CORRECTION = re.compile(r"#\s*codeaudit:\s*site\b(?P<rest>.*)")
SETTING = re.compile(r"(\w+)=(\S+)\s*")


class Unparsable(Exception):
    """The file is no Python 3 source; `line` is where the parser gave up."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_python(source: str, lines: Sequence[int] | None = None) -> t.File:
    """The tree of a source text. `lines` maps its lines (from 0) to lines of the file that it was cut from (a notebook)."""
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        at = error.raw_line
        raise Unparsable("it isn't valid Python 3", lines[at - 1] if lines and 0 < at <= len(lines) else at) from None
    converter = _Converter(lines)
    body = converter.module(module)
    text_lines = source.split("\n")
    return t.File(1, body, tuple(_corrections(text_lines, lines)), len(text_lines))


def _corrections(text: list[str], lines: Sequence[int] | None) -> list[t.Correction]:
    found = []
    for number, line in enumerate(text, start=1):
        match = CORRECTION.search(line) if "codeaudit" in line else None
        if match:
            rest = match["rest"].strip()
            settings = []
            while setting := SETTING.match(rest):
                settings.append((setting[1], setting[2]))
                rest = rest[setting.end() :]
            at = lines[number - 1] if lines else number
            found.append(t.Correction(at, tuple(settings), rest.strip()))
    return found


# The order in which the fields of a node stand in the text, where it isn't the order of the dataclass.
ORDER: dict[str, tuple[str, ...]] = {
    "Module": ("header", "body", "footer"),
    "SimpleStatementLine": ("leading_lines", "body", "trailing_whitespace"),
    "SimpleStatementSuite": ("leading_whitespace", "body", "trailing_whitespace"),
    "IndentedBlock": ("header", "body", "footer"),
    "If": ("leading_lines", "whitespace_before_test", "test", "whitespace_after_test", "body", "orelse"),
    "Else": ("leading_lines", "whitespace_before_colon", "body"),
    "For": (
        "leading_lines", "asynchronous", "whitespace_after_for", "target", "whitespace_before_in", "whitespace_after_in",
        "iter", "whitespace_before_colon", "body", "orelse",
    ),
    "While": ("leading_lines", "whitespace_after_while", "test", "whitespace_before_colon", "body", "orelse"),
    "With": (
        "leading_lines", "asynchronous", "whitespace_after_with", "lpar", "items", "rpar", "whitespace_before_colon", "body",
    ),
    "WithItem": ("item", "asname", "comma"),
    "Try": ("leading_lines", "whitespace_before_colon", "body", "handlers", "orelse", "finalbody"),
    "TryStar": ("leading_lines", "whitespace_after_try", "whitespace_before_colon", "body", "handlers", "orelse", "finalbody"),
    "ExceptHandler": ("leading_lines", "whitespace_after_except", "type", "name", "whitespace_before_colon", "body"),
    "ExceptStarHandler": (
        "leading_lines", "whitespace_after_except", "whitespace_after_star", "type", "name", "whitespace_before_colon", "body",
    ),
    "Finally": ("leading_lines", "whitespace_before_colon", "body"),
    "FunctionDef": (
        "leading_lines", "decorators", "lines_after_decorators", "asynchronous", "whitespace_after_def", "name",
        "whitespace_after_name", "type_parameters", "whitespace_before_params", "params", "returns",
        "whitespace_before_colon", "body",
    ),
    "Decorator": ("leading_lines", "whitespace_after_at", "decorator", "trailing_whitespace"),
    "ClassDef": (
        "leading_lines", "decorators", "lines_after_decorators", "whitespace_after_class", "name", "whitespace_after_name",
        "type_parameters", "lpar", "bases", "keywords", "rpar", "whitespace_before_colon", "body",
    ),
    "Match": (
        "leading_lines", "whitespace_after_match", "subject", "whitespace_before_colon", "whitespace_after_colon", "cases",
        "footer",
    ),
    "MatchCase": (
        "leading_lines", "whitespace_after_case", "pattern", "whitespace_before_if", "whitespace_after_if", "guard",
        "whitespace_before_colon", "body",
    ),
    "Parameters": ("posonly_params", "posonly_ind", "params", "star_arg", "kwonly_params", "star_kwarg"),
    "Param": ("star", "whitespace_after_star", "name", "annotation", "equal", "default", "comma", "whitespace_after_param"),
    "ParamStar": ("comma",),
    "Annotation": ("whitespace_before_indicator", "whitespace_after_indicator", "annotation"),
    "Assign": ("targets", "value", "semicolon"),
    "AssignTarget": ("target", "whitespace_before_equal", "whitespace_after_equal"),
    "AnnAssign": ("target", "annotation", "equal", "value", "semicolon"),
    "Return": ("whitespace_after_return", "value", "semicolon"),
    "Raise": ("whitespace_after_raise", "exc", "cause", "semicolon"),
    "Assert": ("whitespace_after_assert", "test", "comma", "msg", "semicolon"),
    "Del": ("whitespace_after_del", "target", "semicolon"),
    "Import": ("whitespace_after_import", "names", "semicolon"),
    "ImportFrom": (
        "whitespace_after_from", "relative", "module", "whitespace_before_import", "whitespace_after_import", "lpar", "names",
        "rpar", "semicolon",
    ),
    "Call": ("lpar", "func", "whitespace_after_func", "whitespace_before_args", "args", "rpar"),
    "Arg": ("star", "whitespace_after_star", "keyword", "equal", "value", "comma", "whitespace_after_arg"),
    "Attribute": ("lpar", "value", "dot", "attr", "rpar"),
    "BinaryOperation": ("lpar", "left", "operator", "right", "rpar"),
    "BooleanOperation": ("lpar", "left", "operator", "right", "rpar"),
    "UnaryOperation": ("lpar", "operator", "expression", "rpar"),
    "Comparison": ("lpar", "left", "comparisons", "rpar"),
    "ComparisonTarget": ("operator", "comparator"),
    "IfExp": (
        "lpar", "body", "whitespace_before_if", "whitespace_after_if", "test", "whitespace_before_else",
        "whitespace_after_else", "orelse", "rpar",
    ),
    "Lambda": ("lpar", "whitespace_after_lambda", "params", "colon", "body", "rpar"),
    "Subscript": ("lpar", "value", "whitespace_after_value", "lbracket", "slice", "rbracket", "rpar"),
    "SubscriptElement": ("slice", "comma"),
    "Slice": ("lower", "first_colon", "upper", "second_colon", "step"),
    "Tuple": ("lpar", "elements", "rpar"),
    "List": ("lpar", "lbracket", "elements", "rbracket", "rpar"),
    "Set": ("lpar", "lbrace", "elements", "rbrace", "rpar"),
    "Dict": ("lpar", "lbrace", "elements", "rbrace", "rpar"),
    "DictElement": ("key", "whitespace_before_colon", "whitespace_after_colon", "value", "comma"),
    "StarredDictElement": ("whitespace_before_value", "value", "comma"),
    "Element": ("value", "comma"),
    "StarredElement": ("lpar", "whitespace_before_value", "value", "rpar", "comma"),
    "ListComp": ("lpar", "lbracket", "elt", "for_in", "rbracket", "rpar"),
    "SetComp": ("lpar", "lbrace", "elt", "for_in", "rbrace", "rpar"),
    "GeneratorExp": ("lpar", "elt", "for_in", "rpar"),
    "DictComp": (
        "lpar", "lbrace", "key", "whitespace_before_colon", "whitespace_after_colon", "value", "for_in", "rbrace", "rpar",
    ),
    "CompFor": (
        "whitespace_before", "asynchronous", "whitespace_after_for", "target", "whitespace_before_in", "whitespace_after_in",
        "iter", "ifs", "inner_for_in",
    ),
    "CompIf": ("whitespace_before", "whitespace_before_test", "test"),
    "ConcatenatedString": ("lpar", "left", "whitespace_between", "right", "rpar"),
    "FormattedString": ("lpar", "parts", "rpar"),
    "FormattedStringExpression": (
        "whitespace_before_expression", "expression", "equal", "whitespace_after_expression", "format_spec",
    ),
    "NamedExpr": ("lpar", "target", "whitespace_before_walrus", "whitespace_after_walrus", "value", "rpar"),
    "Await": ("lpar", "whitespace_after_await", "expression", "rpar"),
    "Yield": ("lpar", "whitespace_after_yield", "value", "rpar"),
    "From": ("whitespace_before_from", "whitespace_after_from", "item"),
    "Name": ("lpar", "value", "rpar"),
    "Integer": ("lpar", "value", "rpar"),
    "Float": ("lpar", "value", "rpar"),
    "SimpleString": ("lpar", "value", "rpar"),
}  # fmt: skip

OPERATORS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "FloorDivide": "//", "Modulo": "%", "Power": "**",
    "MatrixMultiply": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LeftShift": "<<", "RightShift": ">>",
    "And": "and", "Or": "or", "Not": "not", "Minus": "-", "Plus": "+", "BitInvert": "~",
    "Equal": "==", "NotEqual": "!=", "LessThan": "<", "GreaterThan": ">", "LessThanEqual": "<=", "GreaterThanEqual": ">=",
    "In": "in", "NotIn": "not in", "Is": "is", "IsNot": "is not",
}  # fmt: skip


def _operator(node: cst.CSTNode) -> str:
    name = type(node).__name__
    return OPERATORS.get(name) or OPERATORS.get(name.removesuffix("Assign"), "?")


class _Converter:
    def __init__(self, lines: Sequence[int] | None) -> None:
        self.count = 1
        self.lines = lines
        self.order: dict[type, tuple[str, ...]] = {}

    @property
    def line(self) -> int:
        if self.lines is None:
            return self.count
        return self.lines[min(self.count, len(self.lines)) - 1]

    def module(self, node: cst.Module) -> tuple[t.Node, ...]:
        return _body(self.parts(node)["body"])

    # Every value of every field passes here once, in text order.
    def part(self, value: Any) -> Any:
        if value is None or value is cst.MaybeSentinel.DEFAULT:
            return None
        kind = type(value)
        if kind is cst.SimpleWhitespace:
            if "\n" in value.value:
                self.count += value.value.count("\n")
            return None
        if kind is str:
            if "\n" in value:
                self.count += value.count("\n")
            return value
        if kind is tuple or kind is list:
            return [self.part(item) for item in value]
        if kind is cst.Newline:
            self.count += 1
            return None
        if isinstance(value, cst.CSTNode):
            return self.node(value)
        return value

    def parts(self, node: cst.CSTNode) -> dict[str, Any]:
        kind = type(node)
        order = self.order.get(kind)
        if order is None:
            order = ORDER.get(kind.__name__) or tuple(f.name for f in fields(kind))  # type: ignore[arg-type]
            self.order[kind] = order
        return {name: self.part(getattr(node, name)) for name in order}

    def node(self, node: cst.CSTNode) -> Any:
        build = BUILD.get(type(node).__name__)
        if build is None:  # punctuation and whitespace: only its newlines matter
            parts = self.parts(node)
            found = [item for item in _flat(parts.values()) if isinstance(item, t.Node)]
            return t.Other(found[0].line, tuple(found)) if found else None
        return build(self, node)


def _flat(values: Any) -> list[Any]:
    out: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            out.extend(_flat(value))
        elif value is not None:
            out.append(value)
    return out


def _body(parts: Any) -> tuple[t.Node, ...]:
    return tuple(item for item in _flat(parts) if isinstance(item, t.Node))


Builder = Callable[[_Converter, Any], Any]
BUILD: dict[str, Builder] = {}


def _builds(*names: str) -> Callable[[Builder], Builder]:
    def register(function: Builder) -> Builder:
        for name in names:
            BUILD[name] = function
        return function

    return register


def _opened(c: _Converter, node: Any) -> int:
    """The line on which an expression begins: that of its first parenthesis, as Python's own parser says for calls it is
    the first token inside."""
    for bracket in node.lpar:
        c.part(bracket.whitespace_after)
    return c.line


def _expression(c: _Converter, node: Any) -> tuple[int, dict[str, Any]]:
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
def _name(c: _Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    if node.value in ("True", "False", "None"):
        return t.Const(line, {"True": True, "False": False, "None": None}[node.value])
    return t.Name(line, node.value)


@_builds("Integer", "Float", "Imaginary")
def _number(c: _Converter, node: Any) -> t.Node:
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
def _string(c: _Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    value = node.evaluated_value if "\\" in node.value or node.value[0] not in "\"'" else node.raw_value
    return t.Const(line, value if isinstance(value, str) else "")


@_builds("Ellipsis")
def _ellipsis(c: _Converter, node: Any) -> t.Node:
    line, _ = _expression(c, node)
    return t.Const(line, "...")


@_builds("ConcatenatedString")
def _concatenated(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    left, right = parts["left"], parts["right"]
    if isinstance(left, t.Const) and isinstance(right, t.Const):
        return t.Const(line, f"{left.value}{right.value}")
    return t.Other(line, (left, right))


@_builds("FormattedString", "TemplatedString")
def _formatted(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Other(line, _body(parts["parts"]))


@_builds("FormattedStringText", "TemplatedStringText")
def _formatted_text(c: _Converter, node: Any) -> t.Node:
    line = c.line
    c.part(node.value)
    return t.Const(line, node.value)


@_builds("Attribute")
def _attribute(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Attr(line, parts["value"], node.attr.value)


@_builds("Arg")
def _arg(c: _Converter, node: Any) -> t.Node:
    parts = c.parts(node)
    value = parts["value"]
    return t.Arg(value.line, node.star or (node.keyword.value if node.keyword else ""), value)


@_builds("Call")
def _call(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    end = c.line
    c.part(node.rpar)
    return t.Call(line, parts["func"], tuple(parts["args"]), end)


@_builds("Subscript")
def _subscript(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    items = _body(parts["slice"])
    index = items[0] if len(items) == 1 else t.Seq(line, items)
    return t.Sub(line, parts["value"], index)


@_builds("SubscriptElement")
def _subscript_element(c: _Converter, node: Any) -> Any:
    return c.parts(node)["slice"]


@_builds("Index")
def _index(c: _Converter, node: Any) -> Any:
    return c.parts(node)["value"]


@_builds("Slice")
def _slice(c: _Converter, node: Any) -> t.Node:
    line = c.line
    return t.Other(line, _body(c.parts(node).values()))


@_builds("Tuple", "List", "Set")
def _sequence(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Seq(line, _body(parts["elements"]))


@_builds("Element")
def _element(c: _Converter, node: Any) -> Any:
    return c.parts(node)["value"]


@_builds("StarredElement")
def _starred(c: _Converter, node: Any) -> t.Node:
    line = c.line
    return t.Star(line, c.parts(node)["value"])


@_builds("Dict")
def _dict(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Map(line, tuple(parts["elements"]))


@_builds("DictElement")
def _dict_element(c: _Converter, node: Any) -> Any:
    parts = c.parts(node)
    return (parts["key"], parts["value"])


@_builds("StarredDictElement")
def _starred_dict_element(c: _Converter, node: Any) -> Any:
    return (None, c.parts(node)["value"])


@_builds("BinaryOperation")
def _binary(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Op(line, _operator(node.operator), parts["left"], parts["right"])


@_builds("BooleanOperation")
def _boolean(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Bool(line, _operator(node.operator), parts["left"], parts["right"])


@_builds("UnaryOperation")
def _unary(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    value = parts["expression"]
    op = _operator(node.operator)
    if op == "-" and isinstance(value, t.Const) and isinstance(value.value, (int, float)) and value.value is not True:
        return t.Const(line, -value.value)
    return t.Unary(line, op, value)


@_builds("Comparison")
def _comparison(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    ops = tuple((_operator(target.operator), right) for target, right in zip(node.comparisons, parts["comparisons"]))
    return t.Compare(line, parts["left"], ops)


@_builds("ComparisonTarget")
def _comparison_target(c: _Converter, node: Any) -> Any:
    return c.parts(node)["comparator"]


@_builds("IfExp")
def _conditional(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Cond(line, parts["test"], parts["body"], parts["orelse"])


@_builds("Lambda")
def _lambda(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Lambda(line, parts["params"], parts["body"])


@_builds("Parameters")
def _parameters(c: _Converter, node: Any) -> tuple[t.Param, ...]:
    found: list[t.Param] = []
    for name in ORDER["Parameters"]:
        value = c.part(getattr(node, name))
        for item in _flat([value]):
            if isinstance(item, t.Param):
                if name == "kwonly_params":
                    item.kind = "kw"
                elif name in ("star_arg", "star_kwarg"):
                    item.kind = "*" if name == "star_arg" else "**"
                found.append(item)
    return tuple(found)


@_builds("Param")
def _param(c: _Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    return t.Param(line, node.name.value, parts["default"], "", parts["annotation"])


@_builds("Annotation")
def _annotation(c: _Converter, node: Any) -> Any:
    return c.parts(node)["annotation"]


@_builds("ListComp", "SetComp", "GeneratorExp")
def _comprehension(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Comp(line, parts["elt"], tuple(parts["for_in"]))


@_builds("DictComp")
def _dict_comprehension(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Comp(line, t.Seq(line, (parts["key"], parts["value"])), tuple(parts["for_in"]))


@_builds("CompFor")
def _comp_for(c: _Converter, node: Any) -> Any:
    parts = c.parts(node)
    loop = (parts["target"], parts["iter"], tuple(parts["ifs"] or ()))
    return [loop, *(parts["inner_for_in"] or [])]


@_builds("CompIf")
def _comp_if(c: _Converter, node: Any) -> Any:
    return c.parts(node)["test"]


@_builds("Yield")
def _yield(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Yield(line, parts["value"])


@_builds("Await")
def _await(c: _Converter, node: Any) -> Any:
    _, parts = _expression(c, node)
    return parts["expression"]


@_builds("From")
def _from(c: _Converter, node: Any) -> Any:
    return c.parts(node)["item"]


@_builds("NamedExpr")
def _walrus(c: _Converter, node: Any) -> t.Node:
    line, parts = _expression(c, node)
    return t.Other(line, (t.Assign(line, (parts["target"],), parts["value"], None), parts["value"]))


# --- statements ----------------------------------------------------------------------------------------------------


def _statement(c: _Converter, node: Any) -> tuple[int, dict[str, Any]]:
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
def _block(c: _Converter, node: Any) -> Any:
    return [item for item in _flat([c.parts(node)["body"]]) if isinstance(item, t.Node)]


@_builds("Expr")
def _expr(c: _Converter, node: Any) -> t.Node:
    line = c.line
    return t.Expr(line, c.parts(node)["value"])


@_builds("Assign")
def _assign(c: _Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    return t.Assign(line, tuple(parts["targets"]), parts["value"], None)


@_builds("AssignTarget")
def _assign_target(c: _Converter, node: Any) -> Any:
    return c.parts(node)["target"]


@_builds("AssignEqual")
def _assign_equal(c: _Converter, node: Any) -> Any:
    c.parts(node)


@_builds("AnnAssign")
def _ann_assign(c: _Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    value = parts["value"] if parts["value"] is not None else t.Other(line, ())
    return t.Assign(line, (parts["target"],), value, parts["annotation"])


@_builds("AugAssign")
def _augment(c: _Converter, node: Any) -> t.Node:
    line = c.line
    parts = c.parts(node)
    return t.Augment(line, parts["target"], _operator(node.operator), parts["value"])


@_builds("Return")
def _return(c: _Converter, node: Any) -> t.Node:
    line = c.line
    return t.Return(line, c.parts(node)["value"])


@_builds("Raise", "Break", "Continue", "Pass", "Global", "Nonlocal", "Assert", "Del")
def _stop(c: _Converter, node: Any) -> t.Node:
    line = c.line
    return t.Stop(line, type(node).__name__.lower(), _body(c.parts(node).values()))


@_builds("If")
def _if(c: _Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.If(line, parts["test"], _body([parts["body"]]), _body([parts["orelse"]]))


@_builds("Else", "Finally", "ExceptHandler", "ExceptStarHandler")
def _clause(c: _Converter, node: Any) -> Any:
    _, parts = _statement(c, node)
    return list(_body([parts["body"]]))


@_builds("For")
def _for(c: _Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.For(line, parts["target"], parts["iter"], _body([parts["body"]]), _body([parts["orelse"]]))


@_builds("While")
def _while(c: _Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.While(line, parts["test"], _body([parts["body"]]), _body([parts["orelse"]]))


@_builds("With")
def _with(c: _Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    return t.With(line, tuple(parts["items"]), _body([parts["body"]]))


@_builds("WithItem")
def _with_item(c: _Converter, node: Any) -> Any:
    parts = c.parts(node)
    return (parts["item"], parts["asname"])


@_builds("AsName")
def _as_name(c: _Converter, node: Any) -> Any:
    parts = c.parts(node)
    return parts["name"]


@_builds("Try", "TryStar")
def _try(c: _Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    handlers = tuple(_body([handler]) for handler in parts["handlers"])
    return t.Try(line, _body([parts["body"]]), handlers, _body([parts["orelse"]]), _body([parts["finalbody"]]))


@_builds("Match")
def _match(c: _Converter, node: Any) -> t.Node:
    line, parts = _statement(c, node)
    chain: tuple[t.Node, ...] = ()
    for pattern, body in reversed(parts["cases"]):
        chain = (t.If(pattern.line, t.Compare(pattern.line, parts["subject"], (("match", pattern),)), body, chain),)
    return chain[0] if chain else t.Expr(line, parts["subject"])


@_builds("MatchCase")
def _match_case(c: _Converter, node: Any) -> Any:
    line, parts = _statement(c, node)
    pattern = parts["pattern"] if isinstance(parts["pattern"], t.Node) else t.Other(line, ())
    return (pattern, _body([parts["body"]]))


@_builds("MatchValue")
def _match_value(c: _Converter, node: Any) -> Any:
    return c.parts(node)["value"]


@_builds("FunctionDef")
def _function(c: _Converter, node: Any) -> t.Node:
    first, parts = _statement(c, node)
    decorators = _body([parts["decorators"]])
    line = parts["name"].line
    del first
    return t.Def(line, node.name.value, parts["params"], _body([parts["body"]]), decorators, parts["returns"], c.line)


@_builds("Decorator")
def _decorator(c: _Converter, node: Any) -> Any:
    _, parts = _statement(c, node)
    return parts["decorator"]


@_builds("ClassDef")
def _class(c: _Converter, node: Any) -> t.Node:
    _, parts = _statement(c, node)
    bases = tuple(argument.value for argument in parts["bases"])
    return t.Class(parts["name"].line, node.name.value, bases, _body([parts["body"]]), _body([parts["decorators"]]), c.line)


@_builds("Import")
def _import(c: _Converter, node: Any) -> t.Node:
    line = c.line
    c.parts(node)
    names = []
    for alias in node.names:
        full = _dotted(alias.name)
        names.append((full, alias.asname.name.value if alias.asname else full.split(".")[0]))
    return t.Import(line, "", 0, tuple(names))


@_builds("ImportFrom")
def _import_from(c: _Converter, node: Any) -> t.Node:
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
