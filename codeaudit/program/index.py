"""Modules, classes and functions of a program, and what a name means in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent, Flow, flow_of

Source = tuple[str, int, str]  # of an import: module, leading dots, name


@dataclass(eq=False)
class Module:
    path: str
    file: t.File
    parts: tuple[str, ...]
    package: str = ""  # the NAME of a dependency, "" for the audited repository
    functions: list[Function] = field(default_factory=list)  # every function in it, nested ones too
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    top: dict[str, Function] = field(default_factory=dict)
    imports: dict[str, Source] = field(default_factory=dict)  # by the name that it is bound to
    rivals: dict[str, list[Source]] = field(default_factory=dict)  # what other branches bind to the same name
    stars: list[tuple[str, int]] = field(default_factory=list)

    @cached_property
    def body(self) -> Function:
        """The module's own statements, as a function without parameters."""
        node = t.Def(1, "<module>", (), self.file.body, (), None, self.file.lines)
        return Function("<module>", node, self, None, None)


@dataclass(eq=False)
class ClassInfo:
    name: str
    node: t.Class
    module: Module
    methods: dict[str, Function] = field(default_factory=dict)
    outer: Function | None = None

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.node.body)


@dataclass(eq=False)
class Function:
    name: str
    node: t.Def
    module: Module
    owner: ClassInfo | None
    outer: Function | None  # the enclosing function, for closures
    inner: dict[str, Function] = field(default_factory=dict)
    inner_classes: dict[str, ClassInfo] = field(default_factory=dict)

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.node.body)

    @property
    def qualified(self) -> str:
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @cached_property
    def is_static(self) -> bool:
        return any(t.dotted(d) == "staticmethod" for d in self.node.decorators)

    @cached_property
    def is_property(self) -> bool:
        return any(
            t.dotted(d) in ("property", "cached_property", "functools.cached_property") for d in self.node.decorators
        )

    @cached_property
    def parameters(self) -> tuple[t.Param, ...]:
        """The parameters a caller fills: without `self` or `cls`."""
        params = self.node.params
        if self.owner is not None and not self.is_static and params and not params[0].kind:
            return params[1:]
        return params

    @cached_property
    def self_name(self) -> str:
        params = self.node.params
        if self.owner is not None and not self.is_static and params and not params[0].kind:
            return params[0].name
        return ""

    def parameter(self, name: str) -> t.Param | None:
        return next((p for p in self.parameters if p.name == name), None)

    @cached_property
    def assigned(self) -> frozenset[str]:
        return frozenset(self.flow.definitions)


@dataclass(frozen=True, eq=False)
class CallSite:
    function: Function  # where the call stands
    event: CallEvent

    @property
    def call(self) -> t.Call:
        return self.event.call


class Program:
    """All files of one snapshot (and of dependencies read with it), joined by names."""

    def __init__(
        self, files: Mapping[str, t.File], dependencies: Mapping[str, Mapping[str, t.File]] | None = None
    ) -> None:
        self.modules: dict[str, Module] = {}
        self._by_tail: dict[str, list[Module]] = {}
        for path, file in sorted(files.items()):
            self._add(path, file, "")
        for package, more in sorted((dependencies or {}).items()):
            for path, file in sorted(more.items()):
                self._add(f"{package}:{path}", file, package)
        self.functions: list[Function] = [f for m in self.modules.values() for f in m.functions]

    # --- building ---------------------------------------------------------------------------------------------------

    def _add(self, path: str, file: t.File, package: str) -> None:
        name = path.rpartition(":")[2] if package else path
        parts = tuple(name.removesuffix(".py").removesuffix(".ipynb").split("/"))
        if parts[-1] == "__init__":
            parts = parts[:-1]
        module = Module(path, file, parts, package)
        self.modules[path] = module
        if parts:
            self._by_tail.setdefault(parts[-1], []).append(module)
        module.functions.append(module.body)
        self._collect(module, file.body, None, None)

    def _collect(self, module: Module, body: Iterable[t.Node], owner: ClassInfo | None, outer: Function | None) -> None:
        for node in _flat(body):
            if isinstance(node, t.Def):
                function = Function(node.name, node, module, owner, outer)
                module.functions.append(function)
                if owner is not None:
                    # A property's setter has the property's name: the getter is the one that gives a value.
                    if not (
                        node.name in owner.methods and any(t.dotted(d).endswith(".setter") for d in node.decorators)
                    ):
                        owner.methods[node.name] = function
                elif outer is not None:
                    outer.inner[node.name] = function
                else:
                    module.top[node.name] = function
                self._collect(module, node.body, None, function)
            elif isinstance(node, t.Class):
                info = ClassInfo(node.name, node, module, outer=outer)
                if outer is not None:
                    outer.inner_classes[node.name] = info
                module.classes.setdefault(node.name, info)
                self._collect(module, node.body, info, outer)
            elif isinstance(node, t.Import):
                for name, bound in node.names:
                    if name == "*":
                        module.stars.append((node.module, node.level))
                    elif node.module or node.level:
                        source = (node.module, node.level, name)
                        if module.imports.setdefault(bound, source) != source:
                            module.rivals.setdefault(bound, []).append(source)
                    else:
                        module.imports.setdefault(bound, (name if bound != name.split(".")[0] else bound, 0, ""))

    # --- imports ----------------------------------------------------------------------------------------------------

    def find_module(self, dotted: str, level: int, near: Module) -> Module | None:
        """The module that an import written in `near` means, if it lies in the program."""
        wanted = tuple(dotted.split(".")) if dotted else ()
        if level:
            base = near.parts if near.path.endswith("__init__.py") else near.parts[:-1]
            base = base[: len(base) - (level - 1)] if level > 1 else base
            return self._exact((*base, *wanted), near.package)
        if not wanted:
            return None
        folder = near.parts[:-1]
        for depth in range(len(folder), -1, -1):  # the nearest folder that could be on the path
            found = self._exact((*folder[:depth], *wanted), near.package)
            if found is not None and (found is not near or depth == len(folder)):
                return found
        tails = [m for m in self._by_tail.get(wanted[-1], ()) if m.parts[-len(wanted) :] == wanted and m is not near]
        if len(wanted) == 1:  # a bare name is a file on the path, not any file of that name
            tails = [m for m in tails if len(m.parts) <= 2 or m.package]
        return min(tails, key=lambda m: (m.package != near.package, len(m.parts), m.path)) if tails else None

    def _exact(self, parts: tuple[str, ...], package: str) -> Module | None:
        if not parts:
            return None
        for module in self._by_tail.get(parts[-1], ()):
            if module.parts == parts and module.package == package:
                return module
        return None

    # --- indexes ----------------------------------------------------------------------------------------------------

    @cached_property
    def calls_by_name(self) -> dict[str, list[CallSite]]:
        """Every call, under the last name of what it calls (`act` for `self.policy.act(x)`)."""
        index: dict[str, list[CallSite]] = {}
        for function in self.functions:
            for event in function.flow.calls:
                name = last_name(event.call.func)
                if name:
                    index.setdefault(name, []).append(CallSite(function, event))
        return index

    @cached_property
    def methods_by_name(self) -> dict[str, list[Function]]:
        index: dict[str, list[Function]] = {}
        for function in self.functions:
            if function.owner is not None:
                index.setdefault(function.name, []).append(function)
        return index

    @cached_property
    def names_of_objects(self) -> dict[str, frozenset[str]]:
        """The names that objects of a class are bound to where they are made: `driver = Driver(envs)`."""
        index: dict[str, set[str]] = {}
        for function in self.functions:
            for dotted, definitions in function.flow.definitions.items():
                for d in definitions:
                    if isinstance(d.value, t.Call):
                        index.setdefault(last_name(d.value.func), set()).add(dotted.rpartition(".")[2])
        return {name: frozenset(bound) for name, bound in index.items()}

    @cached_property
    def classes(self) -> list[ClassInfo]:
        seen: dict[int, ClassInfo] = {}
        for module in self.modules.values():
            for info in module.classes.values():
                seen.setdefault(id(info), info)
        return list(seen.values())

    @cached_property
    def subclasses_by_name(self) -> dict[str, list[ClassInfo]]:
        """Classes by the last name of each base they name."""
        index: dict[str, list[ClassInfo]] = {}
        for info in self.classes:
            for base in info.node.bases:
                name = last_name(base)
                if name:
                    index.setdefault(name, []).append(info)
        return index

    @cached_property
    def names_used(self) -> frozenset[str]:
        """Every name that is read as a value somewhere: how functions travel without being called."""
        return frozenset(name for module in self.modules.values() for name in module_values(module))


@cache
def module_values(module: Module) -> frozenset[str]:
    """The names that a module passes, stores or returns as values."""
    used: set[str] = set()
    for node in t.walk(module.file):
        values: Iterable[t.Node] = ()
        if isinstance(node, t.Call):
            values = [arg.value for arg in node.args]
        elif isinstance(node, (t.Assign, t.Return)) and node.value is not None:
            values = [node.value]
        elif isinstance(node, t.Map):
            values = [value for _, value in node.items]
        elif isinstance(node, t.Seq):
            values = node.items
        used.update(last_name(v) for v in values if isinstance(v, (t.Name, t.Attr)))
    return frozenset(used)


def last_name(node: t.Node) -> str:
    if isinstance(node, t.Attr):
        return node.name
    if isinstance(node, t.Name):
        return node.id
    if isinstance(node, t.Call):  # `super().act(...)`, `make(...)(...)`
        return last_name(node.func)
    if isinstance(node, t.Sub):
        return last_name(node.obj)
    return ""


def _flat(body: Iterable[t.Node]) -> Iterator[t.Node]:
    """Statements of a block and of the control flow in it: definitions under `if` and `try` count as the block's
    own."""
    for node in body:
        yield node
        if isinstance(node, t.If):
            yield from _flat(node.body)
            yield from _flat(node.orelse)
        elif isinstance(node, (t.For, t.While)):
            yield from _flat(node.body)
            yield from _flat(node.orelse)
        elif isinstance(node, t.With):
            yield from _flat(node.body)
        elif isinstance(node, t.Try):
            yield from _flat(node.body)
            for handler in node.handlers:
                yield from _flat(handler)
            yield from _flat(node.orelse)
            yield from _flat(node.final)


def function_at(module: Module, line: int) -> Function:
    """The innermost function that a line stands in; the module's body where it stands in none."""
    around = [f for f in module.functions if f is not module.body and f.node.line <= line <= f.node.end_line]
    return max(around, key=lambda f: f.node.line, default=module.body)
