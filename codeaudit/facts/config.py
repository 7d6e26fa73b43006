"""Configuration files as option declarations: YAML, JSON and gin. Read as data with size limits; nothing is
constructed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MAX_BYTES = 200_000
MAX_LEAVES = 5_000
GIN = re.compile(r"^\s*(?:[\w./]*/)?(?:\w+\.)*(?P<owner>\w+)\.(?P<name>\w+)\s*=\s*(?P<value>[^#]*)")
# YAML also breaks lines where git and editors don't; the lines that are reported are theirs.
BREAKS = str.maketrans(dict.fromkeys("\x85\u2028\u2029", " "))
SCALARS = {
    "true": True,
    "false": False,
    "yes": True,
    "no": False,
    "on": True,
    "off": False,
    "null": None,
    "~": None,
    "": None,
}


def is_config(path: str) -> bool:
    return path.endswith((".yaml", ".yml", ".json", ".gin"))


def read_config(path: str, text: str) -> list[tuple[str, Any, int]]:
    """(dotted key, scalar value, line) for every leaf; an empty list for a file that isn't configuration.

    Raises ValueError with a reason where the file can't be read."""
    if len(text) > MAX_BYTES:
        raise ValueError(f"configuration over {MAX_BYTES // 1000} kB isn't read")
    return list(_gin(text)) if path.endswith(".gin") else list(_yaml(text))


def scalar(text: str) -> Any:
    """A plain YAML or gin scalar as a Python value."""
    stripped = text.strip()
    low = stripped.lower()
    if low in SCALARS:
        return SCALARS[low]
    for kind in (int, float):
        try:
            return kind(stripped.replace("_", ""))
        except ValueError:
            pass
    return stripped.strip("\"'")


def _gin(text: str) -> Iterator[tuple[str, Any, int]]:
    for number, line in enumerate(text.split("\n"), start=1):
        match = GIN.match(line)
        if match:
            yield f"{match['owner']}.{match['name']}", scalar(match["value"]), number


def _yaml(text: str) -> Iterator[tuple[str, Any, int]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.compose_all(text.translate(BREAKS), Loader=loader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"it isn't valid YAML or JSON ({type(error).__name__})") from None
    count = 0
    for document in documents:
        # Anchors make a graph of the tree: every node is visited once, so that recursive ones end.
        stack: list[tuple[str, Any]] = [("", document)]
        seen: set[int] = set()
        while stack:
            prefix, node = stack.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    name = getattr(key, "value", "")
                    if not isinstance(name, str):
                        continue
                    dotted = f"{prefix}.{name}" if prefix else name
                    if isinstance(value, yaml.ScalarNode):
                        count += 1
                        if count > MAX_LEAVES:
                            return
                        yield dotted, _scalar_node(value), key.start_mark.line + 1
                    else:
                        stack.append((dotted, value))
            elif isinstance(node, yaml.SequenceNode):
                stack.extend((prefix, item) for item in node.value)


def _scalar_node(node: Any) -> Any:
    return node.value if node.style in ("'", '"', "|", ">") else scalar(node.value)
