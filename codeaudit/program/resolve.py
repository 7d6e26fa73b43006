"""What an expression is and which functions a call reaches. Demand-driven: nothing is computed that nobody asks for.

Answers are sets of possibilities. An empty answer means "not known", never "nothing".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from codeaudit.facts import tree as t
from codeaudit.program.arguments import Arguments, is_abstract, takes_keywords
from codeaudit.program.callers import Callers
from codeaudit.program.dynamic import IMPORTERS, Dynamic, ModuleChoice, chosen_modules
from codeaudit.program.flow import Definition, Selector
from codeaudit.program.frames import (
    ClassValue,
    Frame,
    FunctionValue,
    Instance,
    LambdaValue,
    Library,
    ModuleValue,
    Value,
)
from codeaudit.program.functional import Functional
from codeaudit.program.index import CallSite, ClassInfo, Function, Module, Program, Source, last_name
from codeaudit.program.limits import MAX_DEPTH, MAX_VALUES, unique
from codeaudit.program.reaching import live
from codeaudit.program.tables import Tables

Made = TypeVar("Made", bound=t.Node)

# Wrappers that give back what they are given: the value of f(x, …) is x.
TRANSPARENT = {
    "jit", "compile", "DataParallel", "DistributedDataParallel", "deepcopy", "copy", "vmap", "pmap", "no_grad",
    "script", "trace", "function", "remote", "checkify", "inference_mode", "unwrap_model", "prepare", "freeze", "cast",
    "share_memory", "wraps",
}  # fmt: skip

# Methods that give back their own object (`net.to(device)`), as seen from the value's type.
CHAINED = {
    "to",
    "cuda",
    "cpu",
    "eval",
    "train",
    "float",
    "double",
    "half",
    "share_memory",
    "requires_grad_",
    "apply",
    "unwrapped",
}


class Resolver(Arguments, Functional, Callers, Tables, Dynamic):
    """Names to values, calls to functions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._types: dict[tuple[object, ...], tuple[Value, ...]] = {}
        self._busy: set[tuple[object, ...]] = set()
        self._callers: dict[int, list[CallSite]] = {}
        self._mro: dict[int, list[ClassInfo]] = {}
        self._asking: set[int] = set()
        self._passed: dict[tuple[int, str], list[Value]] = {}
        self._kept: list[t.Node] = []
        self._cuts = 0  # answers cut short by a cycle or by depth: what depends on one isn't remembered as "nothing"

    def keep(self, node: Made) -> Made:
        """A node made on the way. Answers are remembered by a node's identity, so it must live as long as they do."""
        self._kept.append(node)
        return node

    def lookup_global(self, name: str, module: Module, depth: int = 0, hops: int = 0) -> list[Value]:
        """What a top-level name of a module is."""
        if name in module.top:
            return [FunctionValue(module.top[name])]
        if name in module.classes and module.classes[name].outer is None:
            return [ClassValue(module.classes[name])]
        if name in module.imports:
            found = self._imported(module.imports[name], module, depth, hops)
            for rival in module.rivals.get(name, ()):  # another branch imports something else under this name
                more = self._imported(rival, module, depth, hops)
                found = [*found, *[v for v in more if not isinstance(v, Library)]]
            return unique(found)
        definitions = module.body.flow.definitions.get(name)
        if definitions:
            frame = Frame(module.body)
            return unique(v for d in definitions[-3:] for v in self._of_definition(d, (), frame, depth + 1))
        for star, level in module.stars:
            target = self.program.find_module(star, level, module)
            if target is not None and hops < 6:
                found = self.lookup_global(name, target, depth + 1, hops + 1)
                if found:
                    return found
        return []

    def _imported(self, wanted: Source, module: Module, depth: int, hops: int) -> list[Value]:
        source, level, name = wanted
        if hops > 8:
            return []
        if not name:  # import a.b [as c]
            target = self.program.find_module(source, 0, module)
            return [ModuleValue(target)] if target else [Library(source)]
        target = self.program.find_module(source, level, module)
        if target is not None:
            found = self.lookup_global(name, target, depth + 1, hops + 1)
            if found:
                return found
        submodule = self.program.find_module(f"{source}.{name}" if source else name, level, module)
        if submodule is not None:
            return [ModuleValue(submodule)]
        return [] if target is not None else [Library(f"{source}.{name}" if source else name)]

    def definitions(self, name: str, frame: Frame) -> tuple[list[Definition], Frame] | None:
        """The bindings of a local name and the frame they stand in: this function's, else an enclosing function's."""
        function: Function | None = frame.function
        current: Frame | None = frame
        while function is not None and current is not None:
            found = function.flow.definitions.get(name)
            if found:
                return found, current
            if function.node.params and any(p.name == name for p in function.node.params):
                return None
            function = function.outer
            current = current.closure or (Frame(function) if function is not None else None)
        return None

    def _name(self, name: str, frame: Frame, depth: int, line: int) -> list[Value]:
        function: Function | None = frame.function
        current: Frame | None = frame
        while function is not None and current is not None:
            if name == function.self_name:
                if current.receiver is not None:
                    return [current.receiver]
                return [Instance(function.owner)] if function.owner else []
            found = function.flow.definitions.get(name)
            if found:
                found = self._chosen(live(found, line) if current is frame else found, current)
                values = unique(v for d in found[-6:] for v in self._of_definition(d, (), current, depth + 1))
                values = values or self._elements(name, current, depth)
                if values or function.parameter(name) is None:
                    return values
            if name in function.inner:
                return [FunctionValue(function.inner[name], closure=current)]
            if name in function.inner_classes:
                return [ClassValue(function.inner_classes[name])]
            if function.parameter(name) is not None:
                return self._parameter(name, current, depth + 1)
            function = function.outer
            current = current.closure or (Frame(function) if function is not None else None)
        return self.lookup_global(name, frame.function.module, depth)

    def _chosen(self, definitions: list[Definition], frame: Frame) -> list[Definition]:
        """The definitions that the call's own literals leave: `if deterministic: policy = Mean(policy)`."""
        chosen: list[Definition] = []
        for d in definitions:
            verdicts = [self.told(guard, frame) for guard in d.context.guards]
            if False in verdicts:
                continue
            if verdicts and all(verdicts) and not d.context.loops and d.kind == "assign":
                chosen = []
            chosen.append(d)
        return chosen or definitions

    def told(self, guard: tuple[t.Node, bool], frame: Frame) -> bool | None:
        """Whether a condition on a bare parameter holds by the literal that the call passes or leaves to a default."""
        test, held = guard
        while isinstance(test, t.Unary) and test.op == "not":
            test, held = test.value, not held
        if not isinstance(test, t.Name) or frame.call is None:
            return None
        parameter = frame.function.parameter(test.id)
        if parameter is None or test.id in frame.function.flow.definitions:
            return None
        argument = self.argument(test.id, frame)
        value = argument[0] if argument is not None else parameter.default
        if self.passes_rest(frame) and argument is None:
            return None
        return bool(value.value) is held if isinstance(value, t.Const) else None

    def _elements(self, name: str, frame: Frame, depth: int) -> list[Value]:
        """What one of a list is, that begins empty."""
        items = frame.function.flow.appended.get(name, [])[:MAX_VALUES]
        return unique(v for item in items for v in self.types(item, frame, depth + 1))

    def _parameter(self, name: str, frame: Frame, depth: int) -> list[Value]:
        argument = self.argument(name, frame)
        if argument is not None:
            node, where = argument
            return self.types(node, where, depth)
        parameter = frame.function.parameter(name)
        if frame.parent is None and depth < MAX_DEPTH:
            values = self._from_callers(frame.function, name, depth)
            if values:
                return values
        if parameter is not None and parameter.annotation is not None:
            annotated = self.types(parameter.annotation, Frame(frame.function.module.body), depth + 1)
            found = [Instance(v.info) for v in annotated if isinstance(v, ClassValue)]
            if found:
                return list(found)
        if parameter is not None and parameter.default is not None and not isinstance(parameter.default, t.Const):
            return self.types(parameter.default, Frame(frame.function.module.body), depth + 1)
        return []

    def _from_callers(self, function: Function, name: str, depth: int) -> list[Value]:
        """What any caller passes for a parameter. Remembered per parameter, whatever cut it short: without that, a
        chain
        of parameters costs the product of its callers."""
        key = (id(function), name)
        known = self._passed.get(key)
        if known is not None:
            return known
        self._passed[key] = []
        values: list[Value] = []
        for site in self.callers(function)[:MAX_VALUES]:
            if site.function is function:
                continue
            outer = Frame(site.function)
            argument = self.argument(name, Frame(function, parent=outer, call=site.call))
            if argument is not None:
                values.extend(self.types(argument[0], outer, depth + 2))
        self._passed[key] = unique(values)[:MAX_VALUES]
        return self._passed[key]

    def _of_definition(self, d: Definition, selector: Selector, frame: Frame, depth: int) -> list[Value]:
        if d.kind == "augment":
            return []
        return self._select(d.value, (*d.selector, *selector), frame, depth)

    def _select(self, node: t.Node, selector: Selector, frame: Frame, depth: int) -> list[Value]:
        selector = tuple(s for s in selector if s != "*")
        if not selector:
            return self.types(node, frame, depth)
        return self._remembered(
            (id(node), selector, *frame.key), depth, lambda: self._taken_apart(node, selector, frame, depth)
        )

    def _taken_apart(self, node: t.Node, selector: Selector, frame: Frame, depth: int) -> list[Value]:
        if (
            isinstance(node, t.Seq)
            and isinstance(selector[0], int)
            and -len(node.items) <= selector[0] < len(node.items)
        ):
            return self._select(node.items[selector[0]], selector[1:], frame, depth)
        if isinstance(node, t.Call) and last_name(node.func) in ("items", "values") and isinstance(node.func, t.Attr):
            entries, where = self.entries(node.func.obj, frame, depth + 1)
            if entries:
                rest = selector[1:] if last_name(node.func) == "items" and selector[0] == 1 else selector
                return unique(v for _, item in entries for v in self._select(item, rest, where, depth + 1))
        if isinstance(node, t.Call) and depth < MAX_DEPTH:
            values: list[Value] = []
            for target in self.targets(node, frame, depth + 1)[:4]:
                if isinstance(target, FunctionValue):
                    inner = self.enter(target, node, frame)
                    if inner is not None:
                        for event in target.function.flow.returns:
                            if event.value is not None:
                                values.extend(self._select(event.value, selector, inner, depth + 2))
            return unique(values)
        if isinstance(node, t.Name) and depth < MAX_DEPTH:
            found = self.definitions(node.id, frame)
            if found:
                return unique(v for d in found[0][-3:] for v in self._of_definition(d, selector, found[1], depth + 1))
            argument = self.argument(node.id, frame)
            if argument is not None:
                return self._select(argument[0], selector, argument[1], depth + 1)
        return []

    def types(self, node: t.Node, frame: Frame, depth: int = 0) -> list[Value]:
        """What the expression may be, in this frame."""
        return self._remembered((id(node), *frame.key), depth, lambda: self._types_of(node, frame, depth))

    def _remembered(self, key: tuple[object, ...], depth: int, answer: Callable[[], list[Value]]) -> list[Value]:
        """An answer, kept; a question inside itself, or too deep, has none for now."""
        if depth > MAX_DEPTH:
            self._cuts += 1
            return []
        if key in self._types:
            return list(self._types[key])
        if key in self._busy:
            self._cuts += 1
            return []
        self._busy.add(key)
        cuts = self._cuts
        try:
            values = unique(answer())[:MAX_VALUES]
        finally:
            self._busy.discard(key)
        if values or cuts == self._cuts:
            self._types[key] = tuple(values)
        return values

    def _types_of(self, node: t.Node, frame: Frame, depth: int) -> list[Value]:
        if isinstance(node, t.Name):
            return self._name(node.id, frame, depth, node.line)
        if isinstance(node, t.Attr):
            return self._attribute(node, frame, depth)
        if isinstance(node, t.Call):
            return self._call(node, frame, depth)
        if isinstance(node, t.Lambda):
            return [LambdaValue(node, frame)]
        if isinstance(node, t.Cond):
            return self.types(node.body, frame, depth + 1) + self.types(node.orelse, frame, depth + 1)
        if isinstance(node, t.Bool):
            return self.types(node.left, frame, depth + 1) + self.types(node.right, frame, depth + 1)
        if isinstance(node, t.Sub):
            return self._subscript(node, frame, depth)
        if isinstance(node, t.Comp):
            return self.types(node.element, frame, depth + 1)
        if isinstance(node, t.Seq):  # a list of agents or of environments: what one of them is
            return [v for item in node.items[:6] for v in self.types(item, frame, depth + 1)]
        if isinstance(node, t.Other) and len(node.parts) == 1 and isinstance(node.parts[0], t.Assign):
            return self.types(node.parts[0].value, frame, depth + 1)
        return []

    def _subscript(self, node: t.Sub, frame: Frame, depth: int) -> list[Value]:
        """An element of a dict or list written out somewhere: `ALGOS["ppo"]`, `agents[0]`."""
        if isinstance(node.index, t.Const) and isinstance(node.index.value, int):
            found = self._select(node.obj, (node.index.value,), frame, depth + 1)
            if found:
                return found
        entries, where = self.entries(node.obj, frame, depth + 1)
        if entries:
            values = [v for _, v in entries]
            if isinstance(node.index, t.Const):
                exact = [v for k, v in entries if isinstance(k, t.Const) and k.value == node.index.value]
                values = exact or values
            return [v for item in values for v in self.types(item, where, depth + 1)]
        return self.picked(node, frame, depth) or self.types(node.obj, frame, depth + 1)

    def _attribute(self, node: t.Attr, frame: Frame, depth: int) -> list[Value]:
        name = t.dotted(node)
        if name:  # `agent.policy = …` in this very function, `library.learn = …` in this module
            found = self.definitions(name, frame)
            if not found and name in frame.function.module.body.flow.definitions:
                found = frame.function.module.body.flow.definitions[name], Frame(frame.function.module.body)
            if found:
                values = unique(v for d in found[0][-3:] for v in self._of_definition(d, (), found[1], depth + 1))
                if values:
                    return values
        return unique(
            v for owner in self.types(node.obj, frame, depth + 1) for v in self.member(owner, node.name, depth + 1)
        )

    def member(self, owner: Value, name: str, depth: int = 0) -> list[Value]:
        """What `owner.name` is."""
        if isinstance(owner, ModuleValue):
            found = self.lookup_global(name, owner.module)
            if not found:
                sub = self.program.find_module(".".join((*owner.module.parts, name)), 0, owner.module)
                found = [ModuleValue(sub)] if sub else []
            return found
        if isinstance(owner, ModuleChoice):
            return [v for module in owner.modules for v in self.lookup_global(name, module)]
        if isinstance(owner, Library):
            applied = self.applied(owner, name, depth)
            return applied or [Library(f"{owner.name}.{name}", owner.call, owner.frame)]
        if isinstance(owner, ClassValue):
            method = self.method(owner.info, name)
            return [FunctionValue(method)] if method else []
        if isinstance(owner, Instance):
            method = self.method(owner.info, name)
            if method is not None:
                if method.is_property:
                    inner = Frame(method, receiver=owner)
                    return unique(
                        v
                        for event in method.flow.returns
                        if event.value is not None
                        for v in self.types(event.value, inner, depth + 1)
                    )
                return [FunctionValue(method, receiver=owner)]
            return self.attribute_values(owner, name, depth) or self.applied(owner, name, depth)
        return []

    def _call(self, node: t.Call, frame: Frame, depth: int) -> list[Value]:
        values: list[Value] = []
        name = last_name(node.func)
        if isinstance(node.func, t.Attr) and name in CHAINED:
            chained = [v for v in self.types(node.func.obj, frame, depth + 1) if isinstance(v, (Instance, Library))]
            kept: list[Value] = [
                v
                for v in chained
                if not (isinstance(v, Instance) and (self.method(v.info, name) or self.applied(v, name, depth)))
            ]
            if kept:
                return kept
        if name == "partial" and node.args:
            return [
                replace(f, bound=tuple(node.args[1:]), bound_frame=frame) if isinstance(f, FunctionValue) else f
                for v in self.types(node.args[0].value, frame, depth + 1)
                for f in (list(self._callable(v)) or [v])
            ]
        if name == "super" and frame.function.owner is not None:
            receiver = frame.receiver if isinstance(frame.receiver, Instance) else Instance(frame.function.owner)
            return [Instance(base, receiver.call, receiver.frame) for base in self.bases(frame.function.owner)]
        values.extend(self.created(node, frame, depth))
        values.extend(self.picked(node, frame, depth))
        callee = self.by_method(node, frame, depth) or self.types(node.func, frame, depth + 1)
        for value in callee:
            if isinstance(value, ClassValue):
                values.append(Instance(value.info, node, frame))
            elif isinstance(value, FunctionValue):
                inner = self.enter(value, node, frame)
                if inner is None or depth > MAX_DEPTH - 3:
                    continue
                for event in value.function.flow.returns:
                    if event.value is not None and not any(self.told(g, inner) is False for g in event.context.guards):
                        values.extend(self.types(event.value, inner, depth + 2))
                if not values and isinstance(value.receiver, Instance) and value.function.name in CHAINED:
                    values.append(value.receiver)
            elif isinstance(value, LambdaValue):
                values.extend(self.types(value.node.body, value.frame, depth + 2))
            elif isinstance(value, Library):
                tail = value.name.rpartition(".")[2]
                modules = (
                    chosen_modules(node.args[0].value, self.program) if value.name in IMPORTERS and node.args else None
                )
                if modules is not None:
                    values.append(modules)
                elif tail in TRANSPARENT and node.args:
                    values.extend(self.types(node.args[0].value, frame, depth + 1))
                else:
                    values.append(Library(value.name, node, frame))
            elif isinstance(value, Instance):
                called = self.method(value.info, "__call__") or self.method(value.info, "forward")
                if called is not None:
                    inner = Frame(called, parent=frame, call=node, receiver=value)
                    for event in called.flow.returns[:3]:
                        if event.value is not None:
                            values.extend(self.types(event.value, inner, depth + 2))
        if not callee and name in TRANSPARENT and node.args:
            return self.types(node.args[0].value, frame, depth + 1)
        return unique(values)

    def targets(self, call: t.Call, frame: Frame, depth: int = 0) -> list[Value]:
        """The functions of the program that a call may reach (as FunctionValue or LambdaValue), or a Library name.

        A class gives its constructor's object, which is no function: `types` says what it is."""
        found: list[Value] = []
        for value in self.by_method(call, frame, depth) or self.types(call.func, frame, depth + 1):
            found.extend(self._callable(value))
        fitting = [v for v in found if not isinstance(v, FunctionValue) or v.ahead or takes_keywords(v.function, call)]
        return unique(fitting or found)

    def _callable(self, value: Value) -> Iterator[Value]:
        if isinstance(value, (FunctionValue, LambdaValue, Library)):
            yield value
        elif isinstance(value, Instance):
            for name in ("__call__", "forward", "call", "apply"):
                method = self.method(value.info, name)
                if method is not None:
                    yield FunctionValue(method, receiver=value)
                    return

    def dispatched(self, value: FunctionValue) -> list[FunctionValue]:
        """The overrides that a call through a base class may reach, when only the base is known."""
        receiver = value.receiver
        if not isinstance(receiver, Instance) or receiver.call is not None:
            return [value]
        overriding = []
        for sub in self.subclasses(receiver.info):
            method = sub.methods.get(value.function.name)
            if method is not None:
                overriding.append(FunctionValue(method, receiver=Instance(sub)))
        if overriding and is_abstract(value.function):
            return overriding
        return [value, *overriding]

    def enter(self, value: FunctionValue, call: t.Call, frame: Frame) -> Frame | None:
        """The frame of the called function; None where the function is already being followed."""
        if frame.inside(value.function) or frame.depth > MAX_DEPTH:
            return None
        skip = 0
        if value.receiver is None and value.function.self_name:
            skip = -1  # Class.method(obj, …): the first argument is self
        positional = sum(1 for a in value.bound if not a.name)
        return Frame(
            value.function,
            parent=frame,
            call=call,
            receiver=value.receiver,
            closure=value.closure,
            bound=tuple(a for a in value.bound if a.name),
            bound_frame=value.bound_frame,
            skip=(positional or skip) - value.ahead,
        )
