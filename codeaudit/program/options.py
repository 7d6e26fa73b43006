"""Options that a program declares: argparse, absl, click, dataclasses, plain dicts, configuration files. And their
defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codeaudit.facts import tree as t
from codeaudit.program.index import Module, Program, last_name

CONFIG_CLASS = re.compile(r"(args|arguments|config|cfg|params|options|settings|hparams|hyperparam\w*|flags)$", re.I)
CONFIG_NAME = re.compile(
    r"^_*(args?|arguments?|config\w*|conf|cfg|\w*_cfg|\w*_config|params|parameters|opts?|options|settings|hparams|hyper\w*|hps?|flags|"
    r"default\w*|variant|kwargs|\w+_kwargs|\w+_params|parsed_args|cli_args|FLAGS|eval_args|train_args)$",
    re.I,
)
DATACLASSES = {"dataclass", "dataclasses.dataclass", "chex.dataclass", "struct.dataclass", "flax.struct.dataclass",
               "attr.s", "attrs.define", "define", "configclass", "pydantic.dataclasses.dataclass"}  # fmt: skip
ACTIONS = {"store_true": False, "store_false": True}
RANK = {"argparse": 0, "flags": 0, "click": 0, "dataclass": 1, "yaml": 2, "class": 3, "dict": 4, "assigned": 5}


@dataclass(frozen=True, eq=False)
class Option:
    name: str
    default: t.Node | None  # an expression of the module, or None: the default is `value`
    value: Any
    file: str
    line: int
    kind: str
    module: Module | None
    owner: str = ""  # the class or section that it stands in

    @property
    def module_is_dependency(self) -> bool:
        return self.module is not None and bool(self.module.package)


class Options:
    """The option declarations of a program, by name."""

    def __init__(self, program: Program, configs: Mapping[str, Sequence[tuple[str, Any, int]]]) -> None:
        self._by_name: dict[str, list[Option]] = {}
        self._found: dict[tuple[str, str, str], list[Option]] = {}
        self._imported: dict[str, set[str]] = {}
        self.program = program
        for module in program.modules.values():
            for option in _declared(module):
                self._by_name.setdefault(option.name, []).append(option)
        for path, leaves in sorted(configs.items()):
            for dotted, value, line in leaves:
                owner, _, name = dotted.rpartition(".")
                option = Option(name.replace("-", "_"), None, value, path, line, "yaml", None, owner)
                self._by_name.setdefault(option.name, []).append(option)

    def find(self, name: str, near: Module, *, owner: str = "") -> list[Option]:
        """The declarations that `args.name`, read in a module, may mean: the best-placed kind first."""
        key = (name, near.path, owner)
        if key not in self._found:
            self._found[key] = self._find(name, near, owner)
        return self._found[key]

    def _find(self, name: str, near: Module, owner: str) -> list[Option]:
        found = self._by_name.get(name, [])
        if owner:
            owned = [o for o in found if o.owner.rpartition(".")[2] == owner]
            found = owned or found
        if not found:
            return []
        imported = self._imports(near)

        def distance(option: Option) -> tuple[int, int, int, str]:
            if option.module is near:
                place = 0
            elif option.module is not None and option.module.path in imported:
                place = 1
            else:
                mine, theirs = near.path.split("/")[:-1], option.file.split("/")[:-1]
                common = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
                              min(len(mine), len(theirs)))  # fmt: skip
                place = 2 + len(mine) + len(theirs) - 2 * common
            return (place if place < 2 else 2, RANK[option.kind], place, option.file)

        return sorted(found, key=lambda o: (*distance(o), o.line))

    def _imports(self, module: Module) -> set[str]:
        if module.path in self._imported:
            return self._imported[module.path]
        found = self._imported[module.path] = set()
        for source, level, name in module.imports.values():
            for dotted in (source, f"{source}.{name}" if source else name):
                target = self.program.find_module(dotted, level, module)
                if target is not None:
                    found.add(target.path)
        for source, level in module.stars:
            target = self.program.find_module(source, level, module)
            if target is not None:
                found.add(target.path)
        return found

    def unread(self) -> list[Option]:
        """Command-line options that no code of the program reads under their name."""
        read: set[str] = set()
        for module in self.program.modules.values():
            for node in t.walk(module.file):
                if isinstance(node, t.Attr):
                    read.add(node.name)
                elif isinstance(node, t.Const) and isinstance(node.value, str):
                    if not node.value.startswith("-"):
                        read.add(node.value)
                elif isinstance(node, t.Param):
                    read.add(node.name)
        return [
            option
            for name, options in sorted(self._by_name.items())
            for option in options
            if option.kind in ("argparse", "flags") and name not in read and not option.module_is_dependency
        ]

    def declares(self, name: str) -> bool:
        return name in self._by_name


def _declared(module: Module) -> list[Option]:
    found: list[Option] = []
    for function in module.functions:
        for event in function.flow.calls:
            option = _from_call(event.call, module)
            if option is not None:
                found.append(option)
        for target, stored, _ in function.flow.subscript_stores:  # config["x"] = 1
            if isinstance(target.index, t.Const) and isinstance(target.index.value, str) and _is_config(target.obj):
                found.append(Option(target.index.value, stored, None, module.path, target.line, "assigned", module))
        for name, definitions in function.flow.definitions.items():
            holder, _, attribute = name.rpartition(".")
            for d in definitions:
                if d.kind == "assign" and not d.selector:
                    if holder and CONFIG_NAME.match(holder.rpartition(".")[2]) and "self" not in holder.split(".")[:1]:
                        if not isinstance(d.value, (t.Name, t.Attr)):
                            found.append(Option(attribute, d.value, None, module.path, d.line, "assigned", module))
                    elif CONFIG_NAME.match(name.rpartition(".")[2]):
                        found.extend(_from_mapping(d.value, module))
        for returned in function.flow.returns:
            if returned.value is not None and (
                function.name.startswith("default") or CONFIG_NAME.match(function.name.rpartition("_")[2] or "x")
            ):
                found.extend(_from_mapping(returned.value, module))
    for info in module.classes.values():
        is_dataclass = any(
            t.dotted(d.func if isinstance(d, t.Call) else d) in DATACLASSES for d in info.node.decorators
        ) or any(
            last_name(b) in ("NamedTuple", "BaseModel", "BaseSettings", "TypedDict", "Tap") for b in info.node.bases
        )
        if not is_dataclass and not CONFIG_CLASS.search(info.name):
            continue
        for statement in info.node.body:
            if (
                isinstance(statement, t.Assign)
                and len(statement.targets) == 1
                and isinstance(statement.targets[0], t.Name)
            ):
                value: t.Node | None = statement.value
                if isinstance(value, t.Other) and not value.parts:
                    value = t.Const(statement.line, None)
                if isinstance(value, t.Call) and last_name(value.func) in ("field", "Field", "arg", "ib"):
                    value = next((a.value for a in value.args if a.name in ("default", "")), None)
                name = statement.targets[0].id
                kind = "dataclass" if is_dataclass else "class"
                found.append(Option(name, value, None, module.path, statement.line, kind, module, info.name))
    return found


def _is_config(node: t.Node) -> bool:
    return bool(CONFIG_NAME.match(last_name(node)))


def _from_mapping(value: t.Node, module: Module) -> list[Option]:
    found = []
    if isinstance(value, t.Map):
        for key, item in value.items:
            if isinstance(key, t.Const) and isinstance(key.value, str):
                found.append(Option(key.value, item, None, module.path, key.line, "dict", module))
                found.extend(_from_mapping(item, module))
    elif isinstance(value, t.Call) and last_name(value.func) in (
        "dict",
        "ConfigDict",
        "EasyDict",
        "Namespace",
        "SimpleNamespace",
    ):
        for arg in value.args:
            if arg.name and not arg.name.startswith("*"):
                found.append(Option(arg.name, arg.value, None, module.path, arg.line, "dict", module))
                found.extend(_from_mapping(arg.value, module))
            elif not arg.name:
                found.extend(_from_mapping(arg.value, module))
    return found


def _from_call(call: t.Call, module: Module) -> Option | None:
    name = last_name(call.func)
    keywords = {a.name: a.value for a in call.args if a.name}
    flags = [a.value for a in call.args if not a.name]
    if name in ("add_argument", "add_arg", "add", "arg") and flags and isinstance(flags[0], t.Const):
        texts = [f.value for f in flags if isinstance(f, t.Const) and isinstance(f.value, str)]
        if not texts or (name in ("add", "arg") and not texts[0].startswith("-")):
            return None
        long = next((x for x in texts if x.startswith("--")), texts[0])
        dest = keywords.get("dest")
        label = dest.value if isinstance(dest, t.Const) else long.lstrip("-").replace("-", "_")
        if not isinstance(label, str):
            return None
        action = keywords.get("action")
        default: t.Node | None = keywords.get("default")
        if (
            default is None
            and name in ("add_arg", "arg", "add")
            and len(flags) > 1
            and not isinstance(flags[1], t.Name)
        ):
            default = flags[1] if not (isinstance(flags[1], t.Const) and str(flags[1].value).startswith("-")) else None
        if default is None:
            value = ACTIONS.get(action.value) if isinstance(action, t.Const) else None
            default = t.Const(call.line, value)
        said = keywords.get("default") or action
        line = said.line if said is not None else call.line  # where the default stands, in a call of several lines
        return Option(label, default, None, module.path, line, "argparse", module)
    if (
        name.startswith("DEFINE_")
        and len(flags) >= 1
        and isinstance(flags[0], t.Const)
        and isinstance(flags[0].value, str)
    ):
        default = flags[1] if len(flags) > 1 else keywords.get("default", t.Const(call.line, None))
        return Option(flags[0].value, default, None, module.path, call.line, "flags", module)
    if name in ("option", "Option") and flags and isinstance(flags[0], t.Const) and str(flags[0].value).startswith("-"):
        texts = [str(f.value) for f in flags if isinstance(f, t.Const)]
        plain = next((x for x in texts if not x.startswith("-")), "")
        long = next((x for x in texts if x.startswith("--")), texts[0])
        label = plain or long.split("/")[0].lstrip("-").replace("-", "_")
        flag = keywords.get("is_flag")
        fallback = False if isinstance(flag, t.Const) and flag.value else None
        return Option(
            label, keywords.get("default", t.Const(call.line, fallback)), None, module.path, call.line, "click", module
        )
    if len(flags) >= 2 and isinstance(flags[0], t.Name) and "parser" in flags[0].id.lower() and "default" in keywords:
        if isinstance(flags[1], t.Const) and isinstance(
            flags[1].value, str
        ):  # a helper that adds an option to a parser
            label = flags[1].value.lstrip("-").replace("-", "_")
            return Option(label, keywords["default"], None, module.path, call.line, "argparse", module)
    return None
