"""Which value an expression has with the program's own defaults, and whose choice that is.

The answer is `Known` (a value, and the origin that decided it) or None. Conditions are decided with it, so an option
that is off by default leaves its branch out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Guard
from codeaudit.program.folding import Folding, Known, Origin, stronger
from codeaudit.program.frames import Frame, FunctionValue, Instance, ModuleValue
from codeaudit.program.index import Function, last_name
from codeaudit.program.options import CONFIG_NAME, Option, Options
from codeaudit.program.reaching import reaching
from codeaudit.program.resolve import Resolver

MAX_DEPTH = 24
CASTS = {"int": int, "float": float, "bool": bool, "str": str}


class Evaluator(Folding):
    """Values under the program's own defaults."""

    def __init__(self, resolver: Resolver, options: Options) -> None:
        self.resolver = resolver
        self.options = options
        self._known: dict[tuple[object, ...], Known | None] = {}
        self._busy: set[tuple[object, ...]] = set()
        self._cuts = 0  # answers cut short by a cycle aren't remembered as "not known"
        self.guessing = False  # unknown special cases (`is_atari(env)`) count as not given

    def holds(self, guard: Guard, frame: Frame) -> tuple[bool | None, Origin | None]:
        """Whether a condition holds under the defaults, and who decided it."""
        test, wanted = guard
        known = self.evaluate(test, frame)
        if known is None:
            return None, None
        return bool(known.value) == wanted, known.origin

    def likely(self, node: t.Node, frame: Frame, use: Context | None = None) -> Known | None:
        """The value; where a special case (`is_atari(env)`) can't be told, as if it weren't given."""
        known = self.evaluate(node, frame, use)
        if known is None:
            self.guessing = True
            try:
                known = self.evaluate(node, frame, use)
            finally:
                self.guessing = False
        return known

    def evaluate(self, node: t.Node, frame: Frame, use: Context | None = None) -> Known | None:
        if isinstance(node, t.Const):
            return Known(node.value, Origin("literal", frame.function.module.path, node.line))
        key = (id(node), id(use), self.guessing, *frame.key)
        if key in self._known:
            return self._known[key]
        if key in self._busy or len(self._busy) > MAX_DEPTH * 4:
            self._cuts += 1
            return None
        self._busy.add(key)
        cuts = self._cuts
        try:
            known = self._evaluate(node, frame, use)
        finally:
            self._busy.discard(key)
        if known is not None or cuts == self._cuts:
            self._known[key] = known
        return known

    def _evaluate(self, node: t.Node, frame: Frame, use: Context | None) -> Known | None:
        file = frame.function.module.path
        if isinstance(node, t.Const):
            return Known(node.value, Origin("literal", file, node.line))
        if isinstance(node, t.Name):
            return self._name(node, frame, use)
        if isinstance(node, t.Attr):
            return self._attribute(node, frame)
        if isinstance(node, t.Unary):
            inner = self.evaluate(node.value, frame, use)
            if inner is None:
                return None
            if node.op == "not":
                return Known(not inner.value, inner.origin)
            if node.op == "-" and isinstance(inner.value, (int, float)):
                return Known(-inner.value, inner.origin)
            return None
        if isinstance(node, t.Bool):
            return self._boolean(node, frame, use)
        if isinstance(node, t.Compare):
            return self._compare(node, frame, use)
        if isinstance(node, t.Cond):
            test = self.evaluate(node.test, frame, use)
            if test is None:
                return None
            chosen = self.evaluate(node.body if test.value else node.orelse, frame, use)
            return Known(chosen.value, stronger(test.origin, chosen.origin)) if chosen else None
        if isinstance(node, t.Op):
            return self._arithmetic(node, frame, use)
        if isinstance(node, t.Sub):
            return self._item(node, frame)
        if isinstance(node, t.Call):
            return self._call(node, frame, use)
        if isinstance(node, (t.Map, t.Seq)) and not node.items:
            return Known((), Origin("literal", file, node.line))
        return None

    def _name(self, node: t.Name, frame: Frame, use: Context | None) -> Known | None:
        name = node.id
        function: Function | None = frame.function
        current: Frame | None = frame
        while function is not None and current is not None:
            for fed, value, where in current.fed:
                if fed == name:
                    return self.evaluate(value, where)
            found = function.flow.definitions.get(name)
            before = use is None or current is not frame or any(d.context.order < use.order for d in found or ())
            if found and (before or function.parameter(name) is None):
                known = self._definitions(found, current, use if current is frame else None)
                if known is not None or function.parameter(name) is None:
                    return known
            if function.parameter(name) is not None:
                return self._parameter(name, current, node)
            function = function.outer
            current = current.closure or (Frame(function) if function is not None else None)
        return self._global(name, frame)

    def _global(self, name: str, frame: Frame) -> Known | None:
        found, module = self.resolver.global_definitions(name, frame.function.module)
        return self._definitions(found, Frame(module.body), None) if found else None

    def _definitions(self, found: list[Any], frame: Frame, use: Context | None) -> Known | None:
        reach = reaching(found, use, lambda guard: self.holds(guard, frame)[0])
        values: list[Known] = []
        for d, extra in reach:
            if d.kind not in ("assign", "with") or d.selector:
                item = self._selected(d, frame) if d.kind == "assign" else None
                if item is None:
                    return None
                values.append(item)
                continue
            known = self.evaluate(d.value, frame, d.context)
            if known is None:
                return None
            known = self._computed(known, d.value, frame, d.line)
            for guard in extra:  # whoever decided the condition chose this constant
                _, origin = self.holds(guard, frame)
                if origin is not None and origin.kind == "option":
                    known = Known(known.value, Origin("option", origin.file, origin.line, origin.name))
                elif origin is not None and known.origin.kind == "literal":
                    known = Known(known.value, origin)
            values.append(known)
        if not values or any(v.value != values[0].value for v in values):
            return None
        best = values[0]
        for other in values[1:]:
            best = Known(best.value, stronger(best.origin, other.origin))
        return best

    @staticmethod
    def _computed(known: Known, value: t.Node, frame: Frame, line: int) -> Known:
        """A value computed from several flags is decided on the line that computes it."""
        if known.origin.computed and not isinstance(value, (t.Name, t.Attr)):
            return Known(known.value, replace(known.origin, file=frame.function.module.path, line=line))
        return known

    def _selected(self, d: Any, frame: Frame) -> Known | None:
        node: t.Node = d.value
        for step in d.selector:
            if isinstance(node, t.Seq) and isinstance(step, int) and -len(node.items) <= step < len(node.items):
                node = node.items[step]
            else:
                return None
        return self.evaluate(node, frame, d.context)

    def _parameter(self, name: str, frame: Frame, node: t.Node) -> Known | None:
        argument = self.resolver.argument(name, frame)
        if argument is not None:
            value, where = argument
            known = self.evaluate(value, where)
            return known and self._through(known, where.function.module.path, value.line, f"passes `{name}`")
        parameter = frame.function.parameter(name)
        assert parameter is not None
        if frame.call is not None and self.resolver.passes_rest(frame):
            option = self._option(name, frame, owner="")
            if option is not None:
                return option
        owners = {frame.function.name, frame.function.owner.name if frame.function.owner else ""}
        gin = [o for o in self.options.find(name, frame.function.module) if o.file.endswith(".gin")]
        gin = [o for o in gin if o.owner.rpartition(".")[2] in owners]
        if gin:
            return self._default_of(gin[0])
        if frame.call is None or (not frame.call.args and frame.function.node.decorators):
            click = [o for o in self.options.find(name, frame.function.module) if o.kind == "click"]
            if click and click[0].module is frame.function.module:
                return self._default_of(click[0])
        if parameter.default is None:
            return None
        known = self.evaluate(parameter.default, Frame(frame.function.module.body))
        if known is None:
            return None
        return Known(known.value, Origin("default", frame.function.module.path, parameter.line, name))

    def _through(self, known: Known, file: str, line: int, what: str) -> Known:
        if len(known.origin.trail) > 8:
            return known
        return Known(known.value, replace(known.origin, trail=((file, line, what), *known.origin.trail)))

    def mode(self, frame: Frame) -> bool | None:
        """Whether the network is in training mode: the last `.eval()` or `.train()` before the call, nearest caller
        first."""
        current: Frame | None = frame.parent
        call = frame.call
        while current is not None:
            at = self._order(call, current)
            last: bool | None = None
            for event in current.function.flow.calls:
                func = event.call.func
                if event.context.order <= at and isinstance(func, t.Attr) and func.name in ("eval", "train"):
                    if not event.call.args or isinstance(event.call.args[0].value, t.Const):
                        last = func.name == "train" and not (
                            event.call.args and event.call.args[0].value.value is False  # type: ignore[attr-defined]
                        )
            if last is not None:
                return last
            call, current = current.call, current.parent
        return True

    @staticmethod
    def _order(call: t.Call | None, frame: Frame) -> int:
        """Where a call stands in the reading order of the function that makes it; its end where it isn't known."""
        context = frame.function.flow.contexts.get(id(call))
        return context.order if context is not None else 1 << 30

    def _attribute(self, node: t.Attr, frame: Frame) -> Known | None:
        if node.name == "training" and t.dotted(node).split(".")[0] == frame.function.self_name:
            mode = self.mode(frame)
            if mode is not None:
                return Known(mode, Origin("mode", frame.function.module.path, node.line, "module mode"))
        dotted = t.dotted(node)
        if dotted:
            local = self.resolver.definitions(dotted, frame)
            if local and not dotted.startswith(f"{frame.function.self_name}."):
                known = self._definitions(local[0], local[1], None)
                if known is not None:
                    return known
        owners = self.resolver.types(node.obj, frame)
        for owner in owners:
            if isinstance(owner, Instance):
                known = self._set_on_the_way(owner, node.name, frame) or self.attribute(owner, node.name)
                if known is not None:
                    return known
            elif isinstance(owner, ModuleValue):
                found = owner.module.body.flow.definitions.get(node.name)
                if found:
                    return self._definitions(found, Frame(owner.module.body), None)
        if any(isinstance(owner, Instance) and not CONFIG_NAME.match(last_name(node.obj)) for owner in owners):
            return None
        if CONFIG_NAME.match(last_name(node.obj)) or (isinstance(node.obj, t.Attr) and self._config_chain(node.obj)):
            return self._option(node.name, frame, owner=last_name(node.obj))
        if not owners and isinstance(node.obj, t.Name) and self.options.declares(node.name):
            return self._option(node.name, frame, owner=node.obj.id)
        return None

    def _config_chain(self, node: t.Node) -> bool:
        while isinstance(node, t.Attr):
            if CONFIG_NAME.match(node.name):
                return True
            node = node.obj
        return isinstance(node, t.Name) and bool(CONFIG_NAME.match(node.id))

    def _set_on_the_way(self, owner: Instance, name: str, frame: Frame) -> Known | None:
        """A value that a caller gave an object's attribute before the call: `agent.greedy = True`,
        `agent.set_greedy(True)`, `agent.eval_mode()`, or `self.is_test = True` in another method of the object."""
        setters, switches = self._setters(owner, name)
        call, current = frame.call, frame.parent
        while current is not None:
            at = self._order(call, current)
            for dotted, definitions in current.function.flow.definitions.items():
                holder, _, attribute = dotted.rpartition(".")
                own = holder == current.function.self_name
                if attribute != name or not holder or (own and current.function.name == "__init__"):
                    continue
                before = [d for d in definitions if d.context.order < at and d.kind == "assign" and not d.selector]
                if (
                    before
                    and isinstance(before[-1].statement, t.Assign)
                    and self._is_made_by(before[-1].statement, owner, current)
                ):
                    known = self.evaluate(before[-1].value, current, before[-1].context)
                    return self._as_mode(known, name) if own else known
            for event in reversed(current.function.flow.calls):
                func = event.call.func
                if event.context.order >= at or not isinstance(func, t.Attr) or func.name not in (*setters, *switches):
                    continue
                if not any(
                    isinstance(v, Instance) and v.info is owner.info for v in self.resolver.types(func.obj, current)
                ):
                    continue
                if func.name in setters:
                    value = next((a.value for a in event.call.args if a.name in ("", setters[func.name])), None)
                    return self.evaluate(value, current, event.context) if value is not None else None
                method, value = switches[func.name]
                return self._as_mode(self.evaluate(value, Frame(method, receiver=owner)), name)
            call, current = current.call, current.parent
        return None

    def _setters(self, owner: Instance, name: str) -> tuple[dict[str, str], dict[str, tuple[Function, t.Node]]]:
        """The methods that set an attribute: to a parameter of theirs (which one), or to a literal (which)."""
        setters: dict[str, str] = {}
        switches: dict[str, tuple[Function, t.Node]] = {}
        for info in self.resolver.mro(owner.info):
            for method in info.methods.values():
                if not method.self_name or method.name == "__init__":
                    continue
                for d in method.flow.definitions.get(f"{method.self_name}.{name}", ()):
                    if isinstance(d.value, t.Name) and method.parameter(d.value.id) is not None:
                        setters[method.name] = d.value.id
                    elif isinstance(d.value, t.Const) and not d.context.guards and not method.flow.returns:
                        switches[method.name] = method, d.value
        return setters, switches

    @staticmethod
    def _as_mode(known: Known | None, name: str) -> Known | None:
        """An object that switches itself: nobody who calls it chose that."""
        if known is None or known.origin.kind != "literal":
            return known
        return Known(known.value, replace(known.origin, kind="mode", name=name))

    def _is_made_by(self, statement: t.Assign, owner: Instance, frame: Frame) -> bool:
        for target in statement.targets:
            if isinstance(target, t.Attr):
                for value in self.resolver.types(target.obj, frame):
                    if isinstance(value, Instance) and value.info is owner.info:
                        return True
        return False

    def attribute(self, owner: Instance, name: str) -> Known | None:
        """The value of an object's attribute: as its constructor set it, or as its class says."""
        if self.resolver.is_counter(owner, name):
            return None  # `self.steps += 1`: its first value says nothing later
        found: list[Known] = []
        for expression, selector, frame in self.resolver.attribute_definitions(owner, name):
            if selector:
                return None
            known = self.evaluate(expression, frame)
            if known is None:
                if frame.function.name in ("__init__", "setup", "<module>"):
                    return None
                continue
            known = self._computed(known, expression, frame, expression.line)
            if frame.function is owner.info.module.body:  # a field of the class: of a dataclass, it is an option
                options = [o for o in self.options.find(name, owner.info.module) if o.module is owner.info.module]
                options = [o for o in options if o.owner == owner.info.name]
                if options:
                    line = options[0].line
                    known = Known(known.value, Origin("option", owner.info.module.path, line, name))
            found.append(known)
        if not found:
            return None
        first = next((k for k in found if k.origin.kind in ("option", "default")), found[0])
        return first

    def _option(self, name: str, frame: Frame, owner: str) -> Known | None:
        for option in self._entry_first(self.options.find(name, frame.function.module, owner=owner), frame):
            known = self._default_of(option)
            if known is not None:
                return known
        return None

    def _entry_first(self, options: list[Option], frame: Frame) -> list[Option]:
        """Declarations of the script that the chain of callers starts in come first: each script has its own parser."""
        modules = []
        current: Frame | None = frame
        while current is not None:
            modules.append(current.function.module)
            current = current.parent
        for module in reversed(modules):
            own = [o for o in options if o.module is module]
            if own:
                return [*own, *[o for o in options if o.module is not module]]
        if frame.parent is not None and modules:
            nearer = self.options.find(options[0].name, modules[-1]) if options else []
            return nearer or options
        return options

    def _default_of(self, option: Option) -> Known | None:
        origin = Origin("option", option.file, option.line, option.name)
        if option.default is None:
            return Known(option.value, origin)
        if option.module is None:
            return None
        known = self.evaluate(option.default, Frame(option.module.body))
        return Known(known.value, origin) if known is not None else None

    def _item(self, node: t.Sub, frame: Frame) -> Known | None:
        if not (isinstance(node.index, t.Const) and isinstance(node.index.value, str)):
            return None
        entries: list[Known] = []
        for literal, where in self._tables(node.obj, frame, 0):
            for key, value in literal.items:
                if isinstance(key, t.Const) and key.value == node.index.value:
                    known = self.evaluate(value, where)
                    if known is None:
                        return None
                    if CONFIG_NAME.match(last_name(node.obj)):
                        line = key.line
                        known = Known(known.value, Origin("option", where.function.module.path, line, str(key.value)))
                    entries.append(known)
        same = all(k.value == entries[0].value for k in entries)
        if entries and (same or not any(isinstance(k.value, (bool, str)) for k in entries)):
            return entries[0]  # of two tables of numbers, the one that is named first stands for both
        if entries:
            return None
        return self._option(node.index.value.replace("-", "_"), frame, owner=last_name(node.obj))

    def _tables(self, node: t.Node, frame: Frame, depth: int) -> list[tuple[t.Map, Frame]]:
        """The dicts written out for a name, through parameters and conditional choices."""
        literal, where = self.resolver.literal(node, frame)
        if isinstance(literal, t.Map):
            return [(literal, where)]
        if depth > 6:
            return []
        if isinstance(node, t.Cond):
            return self._tables(node.body, frame, depth + 1) + self._tables(node.orelse, frame, depth + 1)
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            if found is None and frame.function.parameter(node.id) is not None:
                argument = self.resolver.argument(node.id, frame)
                return self._tables(*argument, depth + 1) if argument is not None else []
            if found is None:
                definitions, module = self.resolver.global_definitions(node.id, frame.function.module)
                found = definitions, Frame(module.body)
            return [
                table for d in found[0][-1:] if not d.selector for table in self._tables(d.value, found[1], depth + 1)
            ]
        return []

    def _call(self, node: t.Call, frame: Frame, use: Context | None) -> Known | None:
        name = last_name(node.func)
        positional = [a.value for a in node.args if not a.name]
        if self.guessing and name.startswith(("is_", "has_", "_is_")):
            return Known(False, Origin("option", frame.function.module.path, node.line, name, computed=True))
        if isinstance(node.func, t.Name) and name in CASTS and len(positional) == 1:
            inner = self.evaluate(positional[0], frame, use)
            if inner is None or not isinstance(inner.value, (int, float, bool, str)):
                return None
            try:
                return Known(CASTS[name](inner.value), inner.origin)
            except ValueError:
                return None
        filled = _filling(name, positional)
        if filled is not None:
            return self.evaluate(filled, frame, use)
        if name == "getattr" and len(positional) >= 2 and isinstance(positional[1], t.Const):
            found = self._attribute(
                self.resolver.keep(t.Attr(node.line, positional[0], str(positional[1].value))), frame
            )
            fallback = len(positional) > 2 and self._config_chain(positional[0])  # what another object has isn't known
            return found or (self.evaluate(positional[2], frame, use) if fallback else None)
        if (
            name in ("get", "pop")
            and positional
            and isinstance(positional[0], t.Const)
            and isinstance(node.func, t.Attr)
        ):
            if isinstance(positional[0].value, str):
                found = self._item(self.resolver.keep(t.Sub(node.line, node.func.obj, positional[0])), frame)
                return found or (self.evaluate(positional[1], frame, use) if len(positional) > 1 else None)
        for target in self.resolver.targets(node, frame)[:2]:  # a small function that returns a value
            if isinstance(target, FunctionValue) and len(target.function.flow.returns) <= 3:
                inner_frame = self.resolver.enter(target, node, frame)
                if inner_frame is None:
                    continue
                for event in target.function.flow.returns:
                    verdicts = [self.holds(guard, inner_frame)[0] for guard in event.context.guards]
                    if event.value is not None and all(v is True for v in verdicts):
                        return self.evaluate(event.value, inner_frame, event.context)
        return None


def _filling(name: str, positional: list[t.Node]) -> t.Node | None:
    """The one value that an array is filled with or made of: `full(n, epsilon)`, `array(epsilon)`."""
    if name in ("full", "full_like", "repeat") and len(positional) >= 2:
        return positional[1] if name != "repeat" else positional[0]
    if name in ("array", "asarray", "tensor", "as_tensor", "constant", "float32") and positional:
        return positional[0]
    return None
