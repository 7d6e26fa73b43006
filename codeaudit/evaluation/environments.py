"""Where the environment of a rollout is made; not whether it is set apart (apart.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codeaudit.evaluation import words
from codeaudit.evaluation.contexts import contexts
from codeaudit.evaluation.draws import Tracer
from codeaudit.evaluation.sites import Place
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context
from codeaudit.program.folding import Known
from codeaudit.program.frames import Frame, FunctionValue, Instance
from codeaudit.program.index import Function, last_name
from codeaudit.program.reaching import in_comprehension
from codeaudit.program.resolve import Resolver
from codeaudit.program.values import Evaluator


@dataclass(frozen=True, eq=False)
class Made:
    """The call that makes an environment, and the names under which the environment travelled to the step."""

    call: t.Call | None
    frame: Frame
    names: tuple[str, ...]
    optional: bool = False  # an optional parameter that no caller fills

    @property
    def place(self) -> Place | None:
        return Place(self.frame.function.module.path, self.call.line) if self.call is not None else None


class Makers:
    def __init__(self, resolver: Resolver, evaluator: Evaluator) -> None:
        self.resolver = resolver
        self.evaluator = evaluator

    def made(self, node: t.Node, frame: Frame, use: Context | None = None) -> list[Made]:
        """The calls that make the environment an expression means, in this frame; the latest before the use, where
        told."""
        found: list[Made] = []
        if use is not None and isinstance(node, t.Name):
            before = [
                d
                for d in frame.function.flow.definitions.get(node.id, ())
                if d.context.order < use.order and not d.selector
            ]
            making = [d for d in before if d.kind in ("assign", "with") and not _names_itself(d.value, node.id)]
            if len(making) > 1 and not making[-1].context.guards:
                self._follow(making[-1].value, frame, (node.id,), found, 0, set())
                if found:
                    return found
        self._follow(node, frame, (), found, 0, set())
        return found

    def _follow(
        self,
        node: t.Node,
        frame: Frame,
        names: tuple[str, ...],
        found: list[Made],
        depth: int,
        seen: set[tuple[int, ...]],
    ) -> None:
        key = (id(node), *frame.key)
        if depth > 16 or key in seen or len(found) > 8:
            return
        seen.add(key)
        name = last_name(node)
        if isinstance(node, t.Name):
            self._name(node, frame, (*names, name), found, depth, seen)
        elif isinstance(node, t.Attr):
            dotted = t.dotted(node)
            local = self.resolver.definitions(dotted, frame) if dotted else None
            if local:
                for d in local[0][-3:]:
                    self._follow(d.value, local[1], (*names, name), found, depth + 1, seen)
                if found:
                    return
            for owner in self.resolver.types(node.obj, frame):
                if isinstance(owner, Instance):
                    for expression, selector, where in self.resolver.attribute_definitions(owner, node.name):
                        if not selector:
                            self._follow(expression, where, (*names, name), found, depth + 1, seen)
            if not found and name in ("unwrapped", "env", "venv", "envs"):
                self._follow(node.obj, frame, names, found, depth + 1, seen)
        elif isinstance(node, t.Call):
            inner = self.wrapped(node, frame)
            if inner is not None:
                self._follow(inner, frame, names, found, depth + 1, seen)
                if found:
                    return
            if isinstance(node.func, t.Attr) and last_name(node.func) in ("items", "values"):
                held = self._held(node.func.obj, frame, None)
                for value, where in held:
                    self._follow(value, where, (*names, last_name(node.func.obj)), found, depth + 1, seen)
                if held:
                    return
            if isinstance(node.func, t.Attr) and last_name(node.func) in ("unwrapped", "to", "reset", "__enter__"):
                self._follow(node.func.obj, frame, names, found, depth + 1, seen)
                return
            found.append(Made(node, frame, names))
        elif isinstance(node, t.Sub):
            stored = self._held(node.obj, frame, self.evaluator.evaluate(node.index, frame))
            for value, where in stored:
                self._follow(value, where, names, found, depth + 1, seen)
            if not stored:
                self._follow(node.obj, frame, names, found, depth + 1, seen)
        elif isinstance(node, t.Cond):
            self._follow(node.body, frame, names, found, depth + 1, seen)
            self._follow(node.orelse, frame, names, found, depth + 1, seen)
        elif isinstance(node, t.Bool):
            self._follow(node.left, frame, names, found, depth + 1, seen)
            self._follow(node.right, frame, names, found, depth + 1, seen)
        elif isinstance(node, t.Comp):
            self._follow(node.element, frame, names, found, depth + 1, seen)
        elif isinstance(node, t.Seq):
            for item in node.items[:2]:
                self._follow(item, frame, names, found, depth + 1, seen)

    def random_wrapper(self, made: Made, tracer: Tracer) -> tuple[Known, Place] | None:
        """A wrapper, put on where the environment is made, that replaces actions by random ones: how often, and
        where."""
        if made.call is None:
            return None
        frames = [(made.call, made.frame)]
        for value in self.resolver.targets(made.call, made.frame)[:1]:
            inner = self.resolver.enter(value, made.call, made.frame) if isinstance(value, FunctionValue) else None
            if inner is not None:
                frames.extend(
                    (e.call, inner)
                    for e in inner.function.flow.calls
                    if not any(self.evaluator.holds(g, inner)[0] is False for g in e.context.guards)
                )
        for call, frame in frames:
            for value in self.resolver.types(call, frame):
                if not isinstance(value, Instance) or value.call is not call:
                    continue
                for name in ("action", "step", "act"):
                    method = self.resolver.method(value.info, name)
                    if method is None:
                        continue
                    inside = Frame(method, receiver=value)
                    random = any(
                        last_name(e.call.func) in ("sample", "randint", "choice", "randrange")
                        for e in method.flow.calls
                    )
                    for node in t.walk_body(method.node.body) if random else ():
                        chance = tracer.epsilon_of(node.test, inside) if isinstance(node, (t.If, t.Cond)) else None
                        known = self.evaluator.evaluate(chance[0], chance[1]) if chance is not None else None
                        if known is not None:
                            return known, Place(method.module.path, node.line)
        return None

    def creations(self, functions: Iterable[Function]) -> list[Made]:
        """Every call that makes an environment under a name that isn't one for a test."""
        found: list[Made] = []
        for function in functions:
            for name, definitions in function.flow.definitions.items():
                tail = name.rpartition(".")[2]
                if (
                    not words.ENVIRONMENT.search(tail)
                    or words.HELDOUT_NAME.search(tail)
                    or tail.lower().startswith(("test", "eval"))
                ):
                    continue
                for d in definitions:
                    if d.kind == "assign" and isinstance(d.value, t.Call):
                        found.extend(self.made(d.value, Frame(function)))
        return found

    def _held(self, holder: t.Node, frame: Frame, key: Known | None) -> list[tuple[t.Node, Frame]]:
        """What a dict of environments holds under a key: `envs["test"] = make(…)`; everything where the key isn't
        known. One that is an object's is filled in any of its methods."""
        where = frame
        for _ in range(4):  # a dict that is handed down
            if not isinstance(holder, t.Name) or holder.id in where.function.flow.definitions:
                break
            argument = self.resolver.argument(holder.id, where)
            if argument is None:
                break
            holder, where = argument
        name = t.dotted(holder)
        filling = [where]
        if isinstance(holder, t.Attr) and t.dotted(holder.obj) == where.function.self_name:
            owners = [v for v in self.resolver.types(holder.obj, where) if isinstance(v, Instance)]
            methods = [m for o in owners for c in self.resolver.mro(o.info) for m in c.methods.values()]
            filled = [m for m in methods if any(t.dotted(s.obj) == name for s, _, _ in m.flow.subscript_stores)]
            filling += [f for m in filled if m is not where.function for f in contexts(m, self.resolver)[:4]]
        stores = [
            (s.index, value, inside)
            for inside in filling
            for s, value, _ in inside.function.flow.subscript_stores
            if name and t.dotted(s.obj) == name
        ]
        for d in where.function.flow.definitions.get(name, ()):
            if isinstance(d.value, t.Map):
                stores.extend((k, v, where) for k, v in d.value.items if k is not None)
        named = [s for s in stores if isinstance(s[0], t.Const)]
        exact = [s for s in named if key is not None and s[0].value == key.value]  # type: ignore[attr-defined]
        if key is not None and not exact and len(named) == len(stores):
            return []
        return [(v, inside) for _, v, inside in exact or stores]

    def _name(
        self,
        node: t.Name,
        frame: Frame,
        names: tuple[str, ...],
        found: list[Made],
        depth: int,
        seen: set[tuple[int, ...]],
    ) -> None:
        function: Function | None = frame.function
        current: Frame | None = frame
        while function is not None and current is not None:
            definitions = [
                d for d in function.flow.definitions.get(node.id, ()) if d.kind in ("assign", "with", "loop")
            ]
            if definitions:
                for d in (in_comprehension(definitions, node.line) or definitions)[:4]:
                    value: t.Node = d.value
                    for step in d.selector:
                        if isinstance(value, t.Seq) and isinstance(step, int) and step < len(value.items):
                            value = value.items[step]
                    self._follow(value, current, names, found, depth + 1, seen)
                return
            parameter = function.parameter(node.id)
            if parameter is not None:
                argument = self.resolver.argument(node.id, current)
                if argument is not None:
                    self._follow(argument[0], argument[1], names, found, depth + 1, seen)
                elif current.call is not None and parameter.default is not None:
                    found.append(Made(None, current, names, optional=True))
                elif current.parent is None:
                    found.append(Made(None, current, names, optional=parameter.default is not None))
                return
            function = function.outer
            current = current.closure or (Frame(function) if function is not None else None)
        module = frame.function.module
        if frame.function is not module.body:
            for d in module.body.flow.definitions.get(node.id, ())[:3]:
                self._follow(d.value, Frame(module.body), names, found, depth + 1, seen)

    def wrapped(self, call: t.Call, frame: Frame) -> t.Node | None:
        """The environment that a wrapper is put around, if the call is one: an argument that is itself an
        environment."""
        for arg in call.args[:3]:
            if arg.name not in ("", "env", "venv", "envs", "environment"):
                continue
            value = arg.value
            if isinstance(value, (t.Name, t.Attr)) and words.ENVIRONMENT.search(last_name(value)):
                if isinstance(value, t.Attr) and last_name(value.obj) in (
                    "args",
                    "cfg",
                    "config",
                    "self",
                    "FLAGS",
                    "opt",
                ):
                    if last_name(value.obj) != "self":
                        continue  # `args.env` is a name of an environment
                if isinstance(value, t.Name) and self._is_text(value, frame):
                    continue
                return value
            if isinstance(value, t.Call) and (
                words.ENVIRONMENT.search(last_name(value.func))
                or last_name(value.func) in ("make", "DummyVecEnv", "SubprocVecEnv")
                or last_name(value.func).endswith(("Env", "Wrapper", "Monitor"))
            ):
                return value
        return None

    def _is_text(self, node: t.Name, frame: Frame) -> bool:
        known = self.evaluator.evaluate(node, frame)
        return known is not None and isinstance(known.value, str)


def _names_itself(node: t.Node, name: str) -> bool:
    """A wrapper around the same environment: `env = Monitor(env)`."""
    return any(isinstance(p, t.Name) and p.id == name for p in t.walk(node))
