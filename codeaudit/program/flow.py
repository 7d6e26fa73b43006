"""What happens inside one function: definitions, calls, returns, each with the conditions and loops around it.

Only the function's own statements count; nested functions have a flow of their own. Nothing here crosses a function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from codeaudit.facts import tree as t
from codeaudit.program.handed import handed_over

Selector = tuple[int | str, ...]  # how a value is taken apart: tuple positions and keys, outermost first
Guard = tuple[t.Node, bool]  # a condition, and whether it holds here


MAX_IMPLIED = 60  # conditions that hold because earlier branches left: thousands of them say nothing more


@dataclass(frozen=True, eq=False)
class Context:
    """Where in the function's control flow a statement stands."""

    order: int  # position in reading order
    guards: tuple[Guard, ...]
    loops: tuple[t.Node, ...]  # enclosing For/While, outermost first
    withs: tuple[t.Node, ...] = ()  # enclosing With; a Try for what stands in one of its handlers

    @property
    def in_handler(self) -> bool:
        """Whether it only happens after an exception."""
        return any(isinstance(outer, t.Try) for outer in self.withs)


@dataclass(frozen=True, eq=False)
class Definition:
    """One binding of a local name (or of a dotted target such as `self.action`)."""

    name: str
    value: t.Node
    selector: Selector
    kind: str  # "assign", "augment", "loop", "with", "import", "function"
    line: int
    context: Context
    statement: t.Node

    @cached_property
    def last_line(self) -> int:
        """The last line on which a part of the value begins: from the next one on, the name has it."""
        return max((node.line for node in t.walk(self.value)), default=self.line)


@dataclass(frozen=True, eq=False)
class CallEvent:
    call: t.Call
    context: Context
    statement: t.Node


@dataclass(frozen=True, eq=False)
class ReturnEvent:
    value: t.Node | None
    context: Context
    line: int
    is_yield: bool = False


@dataclass
class Flow:
    """The statements of one function body in reading order, indexed."""

    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    calls: list[CallEvent] = field(default_factory=list)
    returns: list[ReturnEvent] = field(default_factory=list)
    subscript_stores: list[tuple[t.Sub, t.Node, Context]] = field(default_factory=list)  # target[i] = value
    functions: list[t.Def] = field(default_factory=list)
    classes: list[t.Class] = field(default_factory=list)
    lambdas: list[t.Lambda] = field(default_factory=list)
    end: int = 0

    @cached_property
    def contexts(self) -> dict[int, Context]:
        """Where each call stands, by its identity."""
        return {id(event.call): event.context for event in self.calls}

    @cached_property
    def appended(self) -> dict[str, list[t.Node]]:
        """What is put into a list one by one, by the list's name, which may be dotted: `agents.append(Agent())`."""
        found: dict[str, list[t.Node]] = {}
        for event in self.calls:
            func = event.call.func
            if isinstance(func, t.Attr) and func.name in ("append", "add") and len(event.call.args) == 1:
                found.setdefault(t.dotted(func.obj), []).append(event.call.args[0].value)
        return found


def flow_of(body: tuple[t.Node, ...]) -> Flow:
    """The flow of a list of statements (a function's body, a lambda's, or a module's)."""
    builder = _Builder()
    builder.block(body, (), (), ())
    builder.flow.end = builder.order
    return builder.flow


def leaves(body: tuple[t.Node, ...]) -> bool:
    """Whether a block always leaves the enclosing block (return, raise, break, continue)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, t.Return):
        return True
    if isinstance(last, t.Stop):
        return last.kind in ("raise", "break", "continue")
    if isinstance(last, t.Expr) and isinstance(last.value, t.Call):
        return t.dotted(last.value.func) in ("exit", "sys.exit", "quit", "os._exit")
    if isinstance(last, t.If):
        return leaves(last.body) and leaves(last.orelse)
    return False


class _Builder:
    def __init__(self) -> None:
        self.flow = Flow()
        self.order = 0

    def block(
        self, body: tuple[t.Node, ...], guards: tuple[Guard, ...], loops: tuple[t.Node, ...], withs: tuple[t.Node, ...]
    ) -> None:
        for statement in body:
            self.order += 1
            context = Context(self.order, guards, loops, withs)
            self.statement(statement, context)
            if isinstance(statement, t.If):
                self.block(statement.body, (*guards, (statement.test, True)), loops, withs)
                self.block(statement.orelse, (*guards, (statement.test, False)), loops, withs)
                if len(guards) > MAX_IMPLIED:
                    continue
                if leaves(statement.body) and not leaves(statement.orelse):
                    guards = (*guards, (statement.test, False))
                elif statement.orelse and leaves(statement.orelse) and not leaves(statement.body):
                    guards = (*guards, (statement.test, True))
            elif isinstance(statement, (t.For, t.While)):
                self.block(statement.body, guards, (*loops, statement), withs)
                self.block(statement.orelse, guards, loops, withs)
            elif isinstance(statement, t.With):
                self.block(statement.body, guards, loops, (*withs, statement))
            elif isinstance(statement, t.Try):
                self.block(statement.body, guards, loops, withs)
                for handler in statement.handlers:
                    self.block(handler, guards, loops, (*withs, statement))
                self.block(statement.orelse, guards, loops, withs)
                self.block(statement.final, guards, loops, withs)

    def statement(self, node: t.Node, context: Context) -> None:
        if isinstance(node, t.Assign):
            self.expression(node.value, context, node)
            for target in node.targets:
                self.bind(target, node.value, (), "assign", context, node)
        elif isinstance(node, t.Augment):
            self.expression(node.value, context, node)
            self.bind(node.target, t.Op(node.line, node.op, node.target, node.value), (), "augment", context, node)
        elif isinstance(node, t.Expr):
            self.expression(node.value, context, node)
        elif isinstance(node, t.Return):
            if node.value is not None:
                self.expression(node.value, context, node)
            self.flow.returns.append(ReturnEvent(node.value, context, node.line))
        elif isinstance(node, (t.If, t.While)):
            self.expression(node.test, context, node)
        elif isinstance(node, t.For):
            self.expression(node.iter, context, node)
            self.bind(node.target, node.iter, ("*",), "loop", context, node)
        elif isinstance(node, t.With):
            for item, name in node.items:
                self.expression(item, context, node)
                if name is not None:
                    self.bind(name, item, (), "with", context, node)
        elif isinstance(node, t.Def):
            self.flow.functions.append(node)
            for decorator in node.decorators:
                self.expression(decorator, context, node)
        elif isinstance(node, t.Class):
            self.flow.classes.append(node)
        elif isinstance(node, t.Stop):
            for value in node.values:
                self.expression(value, context, node)

    def bind(
        self, target: t.Node, value: t.Node, selector: Selector, kind: str, context: Context, statement: t.Node
    ) -> None:
        if isinstance(target, t.Seq):
            if (
                isinstance(value, t.Seq)
                and not selector
                and len(value.items) == len(target.items)
                and not any(isinstance(item, t.Star) for item in (*target.items, *value.items))
            ):  # a, b = x, y
                for item, part in zip(target.items, value.items, strict=True):
                    self.bind(item, part, (), kind, context, statement)
                return
            star = next((i for i, item in enumerate(target.items) if isinstance(item, t.Star)), None)
            for index, item in enumerate(target.items):
                at = index if star is None or index <= star else index - len(target.items)
                if isinstance(item, t.Star):
                    item = item.value
                    self.bind(item, value, (*selector, f"{at}:"), kind, context, statement)
                else:
                    self.bind(item, value, (*selector, at), kind, context, statement)
            return
        if isinstance(target, t.Sub):
            for step in selector:  # `out["action"], out["value"] = policy(obs)`: its part of what comes back
                if isinstance(step, int):
                    value = t.Sub(value.line, value, t.Const(value.line, step))
            self.flow.subscript_stores.append((target, value, context))
            self.expression(target.index, context, statement)
            return
        name = t.dotted(target)
        if name:
            found = Definition(name, value, selector, kind, statement.line, context, statement)
            self.flow.definitions.setdefault(name, []).append(found)

    def bound(self, name: str) -> t.Node | None:
        """What a local name was last bound to, as far as the body has been read."""
        found = self.flow.definitions.get(name)
        return found[-1].value if found and not found[-1].selector else None

    def expression(self, node: t.Node, context: Context, statement: t.Node) -> None:
        # Calls are listed innermost first, as they run. Explicit stack: hostile nesting must not hit the
        # recursion limit.
        found: list[t.Call] = []
        stack = [node]
        while stack:
            current = stack.pop()
            if isinstance(current, t.Call):
                made = handed_over(current, self.bound)
                found.extend([current] if made is None else [made, current])
            elif isinstance(current, t.Assign):  # a walrus
                for target in current.targets:
                    self.bind(target, current.value, (), "assign", context, statement)
            elif isinstance(current, t.Lambda):
                self.flow.lambdas.append(current)
            elif isinstance(current, t.Yield):
                self.flow.returns.append(ReturnEvent(current.value, context, current.line, is_yield=True))
            elif isinstance(current, t.Comp):
                for target, iterable, _ in current.loops:
                    self.bind(target, iterable, ("*",), "loop", context, statement)
            stack.extend(t.children(current))
        for call in reversed(found):
            self.flow.calls.append(CallEvent(call, context, statement))
