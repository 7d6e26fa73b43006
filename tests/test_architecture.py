"""The floors of the house: imports only point down, no file imports itself round a corner, each half keeps to itself.

Computed from the syntax trees of our own files, so that an import inside a function or under TYPE_CHECKING counts too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "codeaudit"
RUNTIME = ROOT / "runtime" / "codeaudit_runtime"

# From the ground up; a room may import from the rooms of lower floors and from itself.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "text"),
    ("isolation", "target", "store"),
    ("executor",),
    ("git",),
    ("snapshot",),
    ("facts",),
    ("program",),
    ("evaluation",),
    ("findings", "predictions", "verdicts"),
    ("rules",),
    ("scan",),
    ("lint",),
    ("registry", "fix"),
    ("report",),
    ("extras",),
    ("doctor",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
BASE_INSTALL = {"click", "libcst", "rich", "yaml"}
ONLY_INSIDE_FUNCTIONS = {"typer", "distributed"}  # of an extra; a clear message where they are missing
RUNTIME_MAY_USE = {
    "snapshot", "registry", "predictions", "verdicts", "store", "executor", "report",  # as DESIGN says
    "errors", "text", "target",  # the ground: how a snapshot is asked for and how a person is told
}  # fmt: skip
LONGEST_MODULE = 500


@dataclass(frozen=True)
class Import:
    """One import statement's target, as a dotted name."""

    name: str
    line: int
    inside_function: bool


def modules(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


def dotted(path: Path) -> str:
    base = RUNTIME.parent if RUNTIME in path.parents else ROOT
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> tuple[Import, ...]:
    return tuple(_walk(ast.parse(path.read_text("utf-8")), path, inside=False))


def _walk(node: ast.AST, path: Path, inside: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        within = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, within) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                package = dotted(path).split(".")
                package = package if path.name == "__init__.py" else package[:-1]
                base = ".".join([*package[: len(package) - child.level + 1], *([base] if base else [])])
            for alias in child.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in known() else base, child.lineno, within)
        yield from _walk(child, path, within)


@cache
def known() -> frozenset[str]:
    """The dotted names of all our modules."""
    return frozenset(dotted(path) for path in (*modules(STATIC), *modules(RUNTIME)))


def room(name: str) -> str:
    """`codeaudit.facts.python` stands in the room `facts`; the package itself in the room ``."""
    return name.split(".")[1] if "." in name else ""


def where(path: Path, item: Import) -> str:
    return f"{path.relative_to(ROOT)}:{item.line} imports {item.name}"


def all_imports(package: Path) -> Iterator[tuple[Path, Import]]:
    """Every import of a half, with the file it stands in."""
    for path in modules(package):
        for item in imports(path):
            yield path, item


def test_every_room_has_a_floor() -> None:
    homeless = {room(dotted(path)) for path in modules(STATIC)} - {*FLOOR_OF, ""}
    assert not homeless, "add them to FLOORS and to ARCHITECTURE.md"


def test_imports_only_point_down() -> None:
    wrong = [
        where(path, item)
        for path, item in all_imports(STATIC)
        if (here := room(dotted(path)))  # the package itself may name things of any floor
        and item.name.startswith("codeaudit.")
        and room(item.name) != here
        and FLOOR_OF.get(room(item.name), 99) >= FLOOR_OF.get(here, 99)
    ]
    assert not wrong


def test_no_files_import_each_other() -> None:
    """Also not by way of a third. The package itself is left out: it only offers names, on first use."""
    graph = {
        dotted(path): {item.name for item in imports(path) if item.name in known()}
        for path in (*modules(STATIC), *modules(RUNTIME))
    }
    done: set[str] = {"codeaudit"}

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name not in done:
            for below in sorted(graph[name]):
                visit(below, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_static_half_needs_the_base_install_only() -> None:
    allowed = {"codeaudit", *sys.stdlib_module_names, *BASE_INSTALL}
    wrong = [
        where(path, item)
        for path, item in all_imports(STATIC)
        if (package := item.name.partition(".")[0]) not in allowed
        and not (package in ONLY_INSIDE_FUNCTIONS and item.inside_function)
    ]
    assert not wrong


def test_libcst_stays_where_source_is_parsed() -> None:
    users = {room(dotted(path)) for path, item in all_imports(STATIC) if item.name.partition(".")[0] == "libcst"}
    assert "facts" in users
    assert users <= {"facts", "fix"}


def test_the_runtime_half_reaches_only_for_plain_data() -> None:
    wrong = [
        where(path, item)
        for path, item in all_imports(RUNTIME)
        if item.name.startswith("codeaudit.") and room(item.name) not in RUNTIME_MAY_USE
    ]
    assert not wrong


def test_the_runtime_half_parses_no_source() -> None:
    parsers = {"ast", "libcst", "tokenize"}
    assert not [where(path, item) for path, item in all_imports(RUNTIME) if item.name.partition(".")[0] in parsers]


def test_a_module_says_what_it_is_for() -> None:
    texts = {path: path.read_text("utf-8") for path in (*modules(STATIC), *modules(RUNTIME))}
    silent = [dotted(path) for path, text in texts.items() if text.strip() and not ast.get_docstring(ast.parse(text))]
    assert not silent


def test_a_module_answers_one_question() -> None:
    sizes = {dotted(path): len(path.read_text("utf-8").splitlines()) for path in (*modules(STATIC), *modules(RUNTIME))}
    assert not {name: size for name, size in sizes.items() if size > LONGEST_MODULE}
