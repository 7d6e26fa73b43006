"""A YAML text as plain values with the line of each, and what a JSON Schema says against them. Knows no registry.

It reads the part of JSON Schema that our published schemas use, so that one file drives editors and this check alike.
An unknown keyword is an error of ours, not silence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from codeaudit.text import printable

Path_ = tuple[str | int, ...]  # the way from the root of a document to a value
Said = tuple[Path_, str]  # what is wrong at a value

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TYPES: dict[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "a mapping",
}
_DEEPEST = 24


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that a person must mend in one file."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{printable(self.file)}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Document:
    """Plain values (mappings, lists, scalars) and the line on which each begins."""

    file: str
    value: Any
    lines: Mapping[Path_, int]

    def problem(self, path: Path_, what: str) -> Problem:
        """`what` at the line of the value at `path`, or of the nearest one above it that was written."""
        while path not in self.lines and path:
            path = path[:-1]
        return Problem(self.file, self.lines.get(path, 1), what)


def read_document(file: str, text: str) -> tuple[Document | None, list[Problem]]:
    """The document of a YAML text; None, and why, where it can't be read as one."""
    try:
        loader = _LOADER(text)
        try:
            reader = _Reader(file, loader)
            root = loader.get_single_node()
            if root is None:
                return None, [Problem(file, 1, "the file is empty")]
            value = reader.value(root, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        opened = _unclosed_quote(text, line)
        if opened:
            return None, [
                Problem(file, opened, f"not valid YAML: a quote opens here and is not closed before line {line}")
            ]
        return None, [Problem(file, line, f"not valid YAML: {printable(str(said))}")]
    except RecursionError:
        return None, [Problem(file, 1, "nested too deeply")]
    return Document(file, value, reader.lines), reader.problems


def _unclosed_quote(text: str, line: int) -> int:
    """The line of a quote that swallowed what follows it, up to the line where the parser gave up; 0 if none did."""
    opened = 0
    try:
        for token in yaml.scan(text, Loader=_LOADER):
            first, last = token.start_mark.line + 1, token.end_mark.line + 1
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"') and first < last <= line:
                opened = first if last >= line - 1 else 0
    except yaml.YAMLError as error:
        mark = getattr(error, "context_mark", None)
        if mark is not None and "quoted scalar" in str(getattr(error, "context", "")):
            return int(mark.line) + 1
    return opened


class _Reader:
    def __init__(self, file: str, loader: Any) -> None:
        self.file = file
        self.loader = loader
        self.lines: dict[Path_, int] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()

    def value(self, node: Any, path: Path_) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if id(node) in self._seen or len(path) > _DEEPEST:
            why = "an alias (*) repeats a value; write it out" if id(node) in self._seen else "nested too deeply"
            self.problems.append(Problem(self.file, line, why))
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: Any, path: Path_) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(self.file, line, "a key must be one word"))
                continue
            key = str(key_node.value)
            here = (*path, key)
            if key in found:
                first = self.lines[here]
                self.problems.append(
                    Problem(self.file, line, f"`{printable(key)}` is given twice, first on line {first}")
                )
                continue
            self.lines[here] = line
            found[key] = self.value(value_node, here)
        return found

    def _scalar(self, node: Any) -> Any:
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            said = getattr(error, "problem", None) or str(error)
            self.problems.append(Problem(self.file, node.start_mark.line + 1, printable(str(said))))
            return None


# --- the schema ------------------------------------------------------------------------------------------------------

_IGNORED = {"$schema", "$id", "$defs", "title", "description"}


def check(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, path: Path_ = ()
) -> Iterator[Said]:
    """What in `value` is against the schema, each with the way to it."""
    root = schema if root is None else root
    schema = _resolved(schema, root)
    said = list(_own(value, schema, path))
    yield from said
    if said:
        return
    if isinstance(value, dict):
        yield from _mapping(value, schema, root, path)
    elif isinstance(value, list):
        if "items" in schema:
            for index, item in enumerate(value):
                yield from check(item, schema["items"], root, (*path, index))


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        target = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        schema = {**target, **{key: item for key, item in schema.items() if key not in ("$ref", "description")}}
    return schema


def _own(value: Any, schema: Mapping[str, Any], path: Path_) -> Iterator[Said]:
    """What is wrong with a value itself, whatever is inside it."""
    name = way(path) or "the entry"
    for keyword, wanted in schema.items():
        if keyword == "type":
            if not _is(value, wanted):
                yield path, f"{name} is {_kind(value)}; {_TYPES[wanted]} is wanted here{_quotes(value, wanted)}"
                return
        elif keyword == "enum":
            if value not in wanted or isinstance(value, bool):
                yield (
                    path,
                    f"{name} is {_shown(value)}; it must be one of {', '.join(wanted)}{_near(str(value), wanted)}",
                )
        elif keyword == "pattern":
            if not re.search(wanted, value):
                yield path, f"{name} is {_shown(value)}, which is not {schema.get('description', 'well-formed')}"
        elif keyword == "minLength":
            if len(value) < wanted:
                yield path, f"{name} is empty"
        elif keyword == "minimum":
            if value < wanted:
                yield path, f"{name} is {value}; {wanted} or more is wanted here"
        elif keyword == "maximum":
            if value > wanted:
                yield path, f"{name} is {value}; {wanted} or less is wanted here"
        elif keyword not in _IGNORED | {"required", "properties", "additionalProperties", "items", "dependentRequired"}:
            raise AssertionError(f"the schema uses {keyword}, which this check doesn't know")


def _mapping(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], path: Path_
) -> Iterator[Said]:
    name = way(path) or "the entry"
    known: Mapping[str, Any] = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield path, f"{name} has no `{key}`"
    for key, needs in schema.get("dependentRequired", {}).items():
        for other in needs if key in value else ():
            if other not in value:
                yield (*path, key), f"{name} has `{key}` and so needs `{other}`"
    for key, item in value.items():
        if key in known:
            yield from check(item, known[key], root, (*path, key))
        elif schema.get("additionalProperties") is False:
            yield (*path, key), f"{name} has no field `{printable(key)}`{_near(key, list(known))}"


def _is(value: Any, wanted: str) -> bool:
    if wanted == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    kinds: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": dict,
    }
    return isinstance(value, kinds[wanted])


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = printable(str(value))
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"


def _quotes(value: Any, wanted: str) -> str:
    scalar = value is not None and not isinstance(value, str | dict | list)
    return " (put it in quotes)" if wanted == "string" and scalar else ""


def _near(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def way(path: Path_) -> str:
    """`classification.sites[2].rule`, counting items from 1."""
    said = ""
    for step in path:
        said += f"[{step + 1}]" if isinstance(step, int) else f".{printable(step)}" if said else printable(step)
    return said
