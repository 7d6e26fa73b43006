"""Where the environment of a rollout is made, and whether the code sets it apart from the one that is trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from codeaudit.evaluation import words
from codeaudit.evaluation.draws import Tracer
from codeaudit.evaluation.sites import Place
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context
from codeaudit.program.folding import Known
from codeaudit.program.frames import Frame, FunctionValue, Instance
from codeaudit.program.index import Function, last_name
from codeaudit.program.resolve import Resolver
from codeaudit.program.values import Evaluator

LEVELS = re.compile(
    r"(num_levels|start_level|(^|_)levels?(_|$)|level_seeds?|^seeds$|full_dist\w*|distribution_mode|split|^phase$|^mode$|background\w*|"
    r"intensity|theme|difficult\w*|maze\w*|^maps?$|scenario|^task(_name|_id|s)?$|env_name|env_id|^env$|^id$|domain\w*|resource_files|"
    r"color_mode|distract\w*|^game$|unseen|context|variation|themes?|scene\w*|^world)",
    re.I,
)
SWITCH = re.compile(
    r"^(is_?)?(test|eval|evaluate|evaluation|valid|validation|train|training|heldout|full_distribution)(_env|_mode|ing|_worker|_set|_levels)?$",
    re.I,
)
TEST_RANK = re.compile(r"^(is_?)?(test|eval)_?(rank|worker|process|proc|actor)s?$", re.I)
SEPARATING = re.compile(
    r"(level|distribution|background|split|theme|difficult|maze|scenario|scene|unseen|resource|video|color|distract|seen|heldout|held_out|world)",
    re.I,
)


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


class Environments:
    def __init__(self, resolver: Resolver, evaluator: Evaluator) -> None:
        self.resolver = resolver
        self.evaluator = evaluator

    # --- where it is made -------------------------------------------------------------------------------------------

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
            if isinstance(node.func, t.Attr) and last_name(node.func) in ("unwrapped", "to", "reset", "__enter__"):
                self._follow(node.func.obj, frame, names, found, depth + 1, seen)
                return
            found.append(Made(node, frame, names))
        elif isinstance(node, t.Sub):
            stored = self._stored(node, frame)
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

    def _stored(self, node: t.Sub, frame: Frame) -> list[tuple[t.Node, Frame]]:
        """What a dict of environments holds under a key: `envs["test"] = make(…)`; everything where the key isn't
        known."""
        key = self.evaluator.evaluate(node.index, frame)
        holder, where = node.obj, frame
        for _ in range(4):  # a dict that is handed down
            if not isinstance(holder, t.Name) or holder.id in where.function.flow.definitions:
                break
            argument = self.resolver.argument(holder.id, where)
            if argument is None:
                break
            holder, where = argument
        name = t.dotted(holder)
        stores = [
            (s.index, value) for s, value, _ in where.function.flow.subscript_stores if name and t.dotted(s.obj) == name
        ]
        for d in where.function.flow.definitions.get(name, ()):
            if isinstance(d.value, t.Map):
                stores.extend((k, v) for k, v in d.value.items if k is not None)
        exact = [v for k, v in stores if key is not None and isinstance(k, t.Const) and k.value == key.value]
        return [(v, where) for v in (exact or [v for _, v in stores])]

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
                for d in definitions[:4]:
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

    # --- is it set apart? -------------------------------------------------------------------------------------------

    def signature(self, made: Made) -> dict[str, tuple[str, object]]:
        """The arguments that choose levels, tasks or splits: name → (source text, value where known)."""
        call = made.call
        if call is None:
            return {}
        names: list[str] = []
        for value in self.resolver.targets(call, made.frame)[:1]:
            if isinstance(value, FunctionValue):
                names = [p.name for p in value.function.parameters]
        if not names:
            for instance in self.resolver.types(call, made.frame)[:1]:
                if isinstance(instance, Instance):
                    init = self.resolver.method(instance.info, "__init__")
                    names = [p.name for p in init.parameters] if init else []
        out: dict[str, tuple[str, object]] = {}
        index = 0
        for arg in call.args:
            key = arg.name
            if not key:
                key = names[index] if index < len(names) else ("id" if index == 0 else f"#{index}")
                index += 1
            if LEVELS.search(key) or SWITCH.match(key):
                known = self.evaluator.evaluate(arg.value, made.frame)
                out[key] = (source_text(arg.value), known.value if known is not None else _UNKNOWN)
        return out

    def set_apart(self, made: Made, training: list[Made]) -> bool:
        """Whether the environment's levels, task or split differ from those of the training environments."""
        call = made.call
        if call is None:
            return False
        if self.test_switch(call, made.frame):
            return True
        mine = self.signature(made)
        for key, (_, value) in mine.items():
            if SWITCH.match(key) and self._says_test(key, value) and self._separates(call, key, made.frame):
                return True
        root = made.frame.root.function.module
        related = [o for o in training if o.frame.root.function.module is root] or [
            o for o in training if o.frame.function.module is made.frame.function.module
        ]
        for other in related or training:
            if other.call is None:
                continue
            if other.call is call:
                if other.frame.function is not made.frame.function or other.frame.key == made.frame.key:
                    continue
            elif last_name(other.call.func) != last_name(call.func):
                continue
            theirs = self.signature(other)
            if not related:  # another script: its tasks are its own, only level sets can be compared
                theirs = {k: v for k, v in theirs.items() if "level" in k or k == "seeds"}
            if self._differs(mine, theirs):
                return True
        return any(
            words.HELDOUT_NAME.search(last_name(arg.value)) and LEVELS.search(arg.name or last_name(arg.value))
            for arg in call.args
            if isinstance(arg.value, (t.Attr, t.Name))
        )

    def _differs(self, mine: dict[str, tuple[str, object]], theirs: dict[str, tuple[str, object]]) -> bool:
        for key in mine.keys() | theirs.keys():
            if SWITCH.match(key) or key not in mine or key not in theirs:
                if ("level" in key or key == "seeds") and (key in mine) != (key in theirs):
                    return True
                continue
            a, b = mine[key], theirs[key]
            known = a[1] is not _UNKNOWN and b[1] is not _UNKNOWN
            if a[0] == b[0] and (not known or a[1] == b[1]):
                continue
            if a[1] is not _UNKNOWN and b[1] is not _UNKNOWN:
                # A literal zero beside an option that happens to default to zero still says "all levels".
                literal = a[0].lstrip("-").isdigit() != b[0].lstrip("-").isdigit()
                if a[1] != b[1] or (literal and "level" in key):
                    return True
                continue
            if (
                any(w in a[0].lower() for w in ("test", "eval", "unseen", "valid", "heldout"))
                or "level" in key
                or "seeds" in key
            ):
                return True
            if _UNKNOWN in (a[1], b[1]) and a[1] is not b[1] and key not in ("env_name", "env_id", "env", "id", "game"):
                return True
        return False

    def several_level_sets(self, environments: list[Made]) -> bool:
        """Whether one roll-out is entered with level sets that differ, as a measure of training and of other levels."""
        sets = set()
        for made in environments:
            levels = {k: v for k, (_, v) in self.signature(made).items() if "level" in k}
            if levels and _UNKNOWN not in levels.values():
                sets.add(repr(sorted(levels.items())))
        return len(sets) > 1

    @staticmethod
    def _says_test(key: str, value: object) -> bool:
        low = key.lower()
        if value is _UNKNOWN or value is None:
            return False
        if "train" in low:
            return value is False or value == 0
        if isinstance(value, str):
            return any(w in value.lower() for w in ("test", "eval", "valid"))
        return bool(value)

    def _separates(self, call: t.Call, key: str, frame: Frame) -> bool:
        """Whether a test switch changes levels or tasks in the function it is given to; a library's is believed."""
        targets = [v for v in self.resolver.targets(call, frame) if isinstance(v, FunctionValue)]
        for instance in self.resolver.types(call, frame):
            if isinstance(instance, Instance):
                init = self.resolver.method(instance.info, "__init__")
                if init is not None:
                    targets.append(FunctionValue(init, instance))
        if not targets:
            return True
        return any(self._used_for_levels(v.function, key, 0) for v in targets)

    def _used_for_levels(self, function: Function, key: str, depth: int) -> bool:
        if depth > 2:
            return False
        for node in t.walk_body(function.node.body):
            if isinstance(node, (t.If, t.Cond)) and _mentions(node.test, key):
                inside = t.walk(node)
                if any(
                    SEPARATING.search(_word(part))
                    for part in inside
                    if isinstance(part, (t.Name, t.Attr, t.Arg, t.Const))
                ):
                    return True
            elif isinstance(node, t.Call):
                for arg in node.args:
                    if _mentions(arg.value, key):
                        if SEPARATING.search(arg.name):
                            return True
                        for value in self.resolver.targets(node, Frame(function))[:1]:
                            if isinstance(value, FunctionValue) and arg.name:
                                if self._used_for_levels(value.function, arg.name, depth + 1):
                                    return True
        return False

    @cached_property
    def has_test_rank(self) -> bool:
        """Whether some process of a distributed training run is set apart as a test rank with levels of its own."""
        for module in self.resolver.program.modules.values():
            for node in t.walk(module.file):
                if isinstance(node, (t.If, t.Cond)) and any(
                    TEST_RANK.search(last_name(p)) for p in t.walk(node.test) if isinstance(p, (t.Name, t.Attr))
                ):
                    body = node.body if isinstance(node, t.If) else ()
                    for part in body:
                        if isinstance(part, t.Assign) and any("level" in last_name(x).lower() for x in part.targets):
                            return True
        return False

    def test_switch(self, call: t.Call, frame: Frame) -> bool:
        """An argument whose value is chosen by a test flag: `num_levels = 0 if is_test_worker else n`."""
        for arg in call.args:
            for test in self._tests_of(arg.value, frame):
                for part in t.walk(test):
                    if isinstance(part, (t.Name, t.Attr)) and re.search(
                        r"(test|eval|heldout|valid)", last_name(part), re.I
                    ):
                        if LEVELS.search(arg.name or "") or LEVELS.search(last_name(arg.value)):
                            return True
        return False

    def _tests_of(self, node: t.Node, frame: Frame) -> list[t.Node]:
        if isinstance(node, t.Cond):
            return [node.test]
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            if found:
                return [x for d in found[0] for x in ([d.value.test] if isinstance(d.value, t.Cond) else [])] + [
                    guard[0] for d in found[0] for guard in d.context.guards if len(found[0]) > 1
                ]
        return []


def _names_itself(node: t.Node, name: str) -> bool:
    """A wrapper around the same environment: `env = Monitor(env)`."""
    return any(isinstance(p, t.Name) and p.id == name for p in t.walk(node))


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


_UNKNOWN = _Unknown()


def _mentions(node: t.Node, name: str) -> bool:
    return any(last_name(p) == name for p in t.walk(node) if isinstance(p, (t.Name, t.Attr)))


def _word(node: t.Node) -> str:
    if isinstance(node, t.Arg):
        return node.name
    if isinstance(node, t.Const):
        return node.value if isinstance(node.value, str) and len(node.value) < 40 else ""
    return last_name(node)


def source_text(node: t.Node) -> str:
    """A short canonical text of an expression, for comparing two arguments."""
    if isinstance(node, t.Const):
        return repr(node.value)
    dotted = t.dotted(node)
    if dotted:
        return dotted
    inner = ",".join(source_text(c) for c in t.children(node))
    return f"{type(node).__name__}({inner})"[:200]
