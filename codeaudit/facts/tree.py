"""The syntax tree that the analysis reads: a small subset of Python, with the line on which each node begins.

It keeps what decides an action and drops the rest (types, formatting, operators' precedence). Nodes are written once
and never changed afterwards; they aren't frozen dataclasses because a scan makes hundreds of thousands of them.
`encode` and `decode` turn a tree into plain tuples and back, so that it can be cached and sent between processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True, eq=False)
class Node:
    line: int


# --- expressions ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Name(Node):
    id: str


@dataclass(slots=True, eq=False)
class Const(Node):
    value: Any  # str, int, float, bool, None; Ellipsis is the string "..."


@dataclass(slots=True, eq=False)
class Attr(Node):
    obj: Node
    name: str


@dataclass(slots=True, eq=False)
class Arg(Node):
    name: str  # "" positional, "*" and "**" for unpacking, else the keyword
    value: Node


@dataclass(slots=True, eq=False)
class Call(Node):
    func: Node
    args: tuple[Arg, ...]
    end_line: int


@dataclass(slots=True, eq=False)
class Sub(Node):
    obj: Node
    index: Node


@dataclass(slots=True, eq=False)
class Seq(Node):
    items: tuple[Node, ...]  # tuple, list or set


@dataclass(slots=True, eq=False)
class Map(Node):
    items: tuple[tuple[Node | None, Node], ...]  # key None: **unpacking


@dataclass(slots=True, eq=False)
class Op(Node):
    op: str
    left: Node
    right: Node


@dataclass(slots=True, eq=False)
class Unary(Node):
    op: str
    value: Node


@dataclass(slots=True, eq=False)
class Bool(Node):
    op: str  # "and", "or"
    left: Node
    right: Node


@dataclass(slots=True, eq=False)
class Compare(Node):
    left: Node
    ops: tuple[tuple[str, Node], ...]


@dataclass(slots=True, eq=False)
class Cond(Node):
    test: Node
    body: Node
    orelse: Node


@dataclass(slots=True, eq=False)
class Param(Node):
    name: str
    default: Node | None
    kind: str  # "", "*", "**", "kw"
    annotation: Node | None


@dataclass(slots=True, eq=False)
class Lambda(Node):
    params: tuple[Param, ...]
    body: Node


@dataclass(slots=True, eq=False)
class Comp(Node):
    element: Node
    loops: tuple[tuple[Node, Node, tuple[Node, ...]], ...]  # target, iterable, conditions


@dataclass(slots=True, eq=False)
class Star(Node):
    value: Node


@dataclass(slots=True, eq=False)
class Yield(Node):
    value: Node | None


@dataclass(slots=True, eq=False)
class Other(Node):
    parts: tuple[Node, ...]  # f-strings, slices, await, walrus targets: what they contain


# --- statements ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Assign(Node):
    targets: tuple[Node, ...]
    value: Node
    annotation: Node | None


@dataclass(slots=True, eq=False)
class Augment(Node):
    target: Node
    op: str
    value: Node


@dataclass(slots=True, eq=False)
class Expr(Node):
    value: Node


@dataclass(slots=True, eq=False)
class Return(Node):
    value: Node | None


@dataclass(slots=True, eq=False)
class If(Node):
    test: Node
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class For(Node):
    target: Node
    iter: Node
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class While(Node):
    test: Node
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class With(Node):
    items: tuple[tuple[Node, Node | None], ...]
    body: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Try(Node):
    body: tuple[Node, ...]
    handlers: tuple[tuple[Node, ...], ...]
    orelse: tuple[Node, ...]
    final: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Def(Node):
    name: str
    params: tuple[Param, ...]
    body: tuple[Node, ...]
    decorators: tuple[Node, ...]
    returns: Node | None
    end_line: int


@dataclass(slots=True, eq=False)
class Class(Node):
    name: str
    bases: tuple[Node, ...]
    body: tuple[Node, ...]
    decorators: tuple[Node, ...]
    end_line: int


@dataclass(slots=True, eq=False)
class Import(Node):
    module: str  # "" for `import a.b`
    level: int  # leading dots
    names: tuple[tuple[str, str], ...]  # (name, bound as); ("*", "*") for a star import


@dataclass(slots=True, eq=False)
class Stop(Node):
    kind: str  # "raise", "break", "continue", "pass", "global", "assert", "del"
    values: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Correction(Node):
    """A `# codeaudit: site rule=greedy reason` comment: a person's word on the site on its line or the next."""

    word: str  # "site", unless it is misspelt
    settings: tuple[tuple[str, str], ...]
    reason: str


@dataclass(slots=True, eq=False)
class File(Node):
    body: tuple[Node, ...]
    corrections: tuple[Correction, ...]
    lines: int


NODES: tuple[type[Node], ...] = (
    Name, Const, Attr, Arg, Call, Sub, Seq, Map, Op, Unary, Bool, Compare, Cond, Param, Lambda, Comp, Star, Yield,
    Other,
    Assign, Augment, Expr, Return, If, For, While, With, Try, Def, Class, Import, Stop, Correction, File,
)  # fmt: skip
_TAG = {kind: tag for tag, kind in enumerate(NODES)}
_FIELDS = {kind: tuple(f.name for f in fields(kind)) for kind in NODES}


def encode(value: Any) -> Any:
    """A tree as nested tuples (nodes) and lists (sequences), which `marshal` can store."""
    kind = type(value)
    if kind in _TAG:
        return (_TAG[kind], *[encode(getattr(value, name)) for name in _FIELDS[kind]])
    if kind is tuple:
        return [encode(item) for item in value]
    return value


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    kind = type(value)
    if kind is tuple:
        return NODES[value[0]](*[decode(item) if type(item) in (tuple, list) else item for item in value[1:]])
    if kind is list:
        return tuple([decode(item) for item in value])
    return value


def children(node: Node) -> Iterator[Node]:
    """The nodes directly inside a node, in field order."""
    for name in _FIELDS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif type(value) is tuple:
            yield from _inside(value)


def _inside(value: tuple[Any, ...]) -> Iterator[Node]:
    for item in value:
        if isinstance(item, Node):
            yield item
        elif type(item) is tuple:
            yield from _inside(item)


def walk(node: Node, *, into_functions: bool = True) -> Iterator[Node]:
    """The node and everything below it, parents first; without `into_functions`, nested functions and classes are
    left out."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not into_functions and current is not node and isinstance(current, (Def, Class)):
            continue
        stack.extend(reversed(list(children(current))))


def walk_body(body: tuple[Node, ...]) -> Iterator[Node]:
    """Everything in a list of statements, without what lies in nested functions and classes (their headers
    included)."""
    for statement in body:
        yield statement
        if not isinstance(statement, (Def, Class)):
            for child in children(statement):
                yield from walk(child, into_functions=False) if not isinstance(child, (Def, Class)) else (child,)


def dotted(node: Node) -> str:
    """`a.b.c` for a chain of names, else ""."""
    parts: list[str] = []
    while isinstance(node, Attr):
        parts.append(node.name)
        node = node.obj
    if isinstance(node, Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return ""
