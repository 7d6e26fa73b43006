"""Whether the code sets an environment apart from the one that is trained on: other levels, another task or split."""

from __future__ import annotations

import re
from functools import cached_property

from codeaudit.evaluation import words
from codeaudit.evaluation.environments import Made, Makers
from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame, FunctionValue, Instance, LambdaValue, Value
from codeaudit.program.index import Function, last_name

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
# An option that names what is played, and not how much of it.
TEST_TASK = re.compile(
    r"(?!.*(^|_)(num|n|count|seeds?|interval|freq\w*|episodes?|steps?|workers?|proc\w*)(_|$))"
    r".*(^|_)(envs?|tasks?|levels?|games?|maps?|scenarios?|mazes?)(_(names?|ids?|list|set))?$",
    re.I,
)
MAX_SOURCES = 60  # expressions that an environment's task is looked for in
MODES = ("mode", "phase")  # may be a split of levels or just a name: what the factory does with it tells
SEPARATING = re.compile(
    r"(level|distribution|background|split|theme|difficult|maze|scenario|scene|unseen|resource|video|color|distract|seen|heldout|held_out|world)",
    re.I,
)


class Environments(Makers):
    """Questions about two environments, or about one and the switches it is made with."""

    def signature(self, made: Made) -> dict[str, tuple[str, object]]:
        """The arguments that choose levels, tasks or splits: name → (source text, value where known)."""
        call = made.call
        if call is None:
            return {}
        names: list[str] = []
        for value in self.resolver.targets(call, made.frame)[:1]:
            if isinstance(value, FunctionValue):
                names = [p.name for p in value.function.parameters]
            elif isinstance(value, LambdaValue):
                names = [p.name for p in value.node.params]
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
        if self.test_switch(call, made.frame) or self._named_by_test_option(call, made.frame):
            return True
        mine = self.signature(made)
        for key, (_, value) in mine.items():
            if SWITCH.match(key) and self._says_test(key, value) and self._separates(call, key, made.frame):
                return True
        mine = {k: v for k, v in mine.items() if k not in MODES or self._separates(call, k, made.frame)}
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
            levels = {k: v for k, (_, v) in self.signature(made).items() if "level" in k or k == "split"}
            if levels and _UNKNOWN not in levels.values():
                sets.add(repr(sorted(levels.items())))
        return len(sets) > 1

    def plays_every_level(self, made: Made) -> bool:
        """`num_levels=0`: ProcGen then draws from all levels, whatever was trained on."""
        return self.signature(made).get("num_levels", ("", _UNKNOWN))[1] == 0

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
        reached = self.resolver.targets(call, frame)
        short = [v for v in reached if isinstance(v, LambdaValue)]
        if short:
            return any(self._decides_levels((v.node.body,), v.frame, key, 0) for v in short)
        targets = [v for v in reached if isinstance(v, FunctionValue)]
        for instance in self.resolver.types(call, frame):
            if isinstance(instance, Instance):
                init = self.resolver.method(instance.info, "__init__")
                if init is not None:
                    targets.append(FunctionValue(init, instance))
        if not targets:
            return True
        return any(self._used_for_levels(v.function, key, 0) for v in targets)

    def _used_for_levels(self, function: Function, key: str, depth: int) -> bool:
        return self._decides_levels(function.node.body, Frame(function), key, depth)

    def _decides_levels(self, body: tuple[t.Node, ...], frame: Frame, key: str, depth: int) -> bool:
        if depth > 2:
            return False
        others = self._other_suites(body, frame)
        for node in t.walk_body(body):
            if id(node) in others:
                continue
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
                        for value in self.resolver.targets(node, frame)[:1]:
                            name = _parameter_of(value, node, arg)
                            if isinstance(value, FunctionValue) and name:
                                if self._used_for_levels(value.function, name, depth + 1):
                                    return True
        return False

    def _other_suites(self, body: tuple[t.Node, ...], frame: Frame) -> set[int]:
        """What stands under `elif suite == "…":` for a suite that isn't known to be chosen: no fact about this one."""
        found: set[int] = set()
        for node in t.walk_body(body):
            if not (isinstance(node, t.If) and _asks_for(node.test)):
                continue
            for other in node.orelse:
                if isinstance(other, t.If) and _asks_for(other.test):
                    known = self.evaluator.evaluate(other.test, frame)
                    if known is None or not known.value:
                        found |= {id(part) for part in t.walk_body(other.body)}
        return found

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

    def _named_by_test_option(self, call: t.Call, frame: Frame) -> bool:
        """Whether its task comes from an option that is for tests: `make(name)` for the names in `args.test_envs`."""
        todo: list[tuple[t.Node, Frame]] = [(arg.value, frame) for arg in call.args]
        seen: set[tuple[object, ...]] = set()
        while todo and len(seen) < MAX_SOURCES:
            node, where = todo.pop()
            if (key := (id(node), *where.key)) in seen:
                continue
            seen.add(key)
            if isinstance(node, t.Attr):
                if TEST_TASK.match(node.name) and words.HELDOUT_NAME.search(node.name):
                    return True
                if not isinstance(node.obj, t.Name):  # `args.test_envs.split(",")`
                    todo.append((node.obj, where))
                continue
            if not isinstance(node, t.Name):
                todo.extend((child, where) for child in t.children(node))
                continue
            found = self.resolver.definitions(node.id, where)
            if found is not None:
                todo.extend((d.value, found[1]) for d in found[0])
                continue
            current: Frame | None = where
            while current is not None and current.function.parameter(node.id) is None:
                current = current.closure
            argument = self.resolver.argument(node.id, current) if current is not None else None
            if argument is not None:
                todo.append(argument)
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


def _parameter_of(value: Value, call: t.Call, arg: t.Arg) -> str:
    """The name of the parameter that an argument is given to; none where the function takes no such argument."""
    if arg.name or not isinstance(value, FunctionValue):
        return arg.name
    names = [p.name for p in value.function.parameters if not p.kind]
    at = [a for a in call.args if not a.name].index(arg)
    return names[at] if at < len(names) else ""


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


_UNKNOWN = _Unknown()


def _asks_for(test: t.Node) -> bool:
    """`suite == "atari"`."""
    if not (isinstance(test, t.Compare) and len(test.ops) == 1 and test.ops[0][0] == "=="):
        return False
    return isinstance(test.ops[0][1], t.Const) and isinstance(test.ops[0][1].value, str)


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
