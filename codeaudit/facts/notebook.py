"""A Jupyter notebook as Python source, with the raw line of the JSON file for every source line."""

from __future__ import annotations

import json
import re
from typing import Any

MAGIC = re.compile(r"^\s*[%!?]|^\s*\w+\s*\?\s*$")


def notebook_source(text: str) -> tuple[str, list[int]]:
    """The code cells joined into one source, and the line of the file on which each of its lines stands.

    Raises ValueError where the file is no notebook."""
    try:
        data = json.loads(text)
        cells = data["cells"] if "cells" in data else [c for sheet in data["worksheets"] for c in sheet["cells"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("it isn't a notebook") from None
    raw = text.split("\n")
    source: list[str] = []
    lines: list[int] = []
    at = 0  # raw lines are searched forwards: cells stand in the file in their order
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        code: Any = cell.get("source", cell.get("input", []))
        parts = code.splitlines(keepends=True) if isinstance(code, str) else [str(part) for part in code or ()]
        single = isinstance(code, str)
        for part in parts:
            line = part.rstrip("\n")
            found = at
            if not single:
                wanted = {json.dumps(part), json.dumps(part, ensure_ascii=False)}
                for index in range(at, len(raw)):
                    if raw[index].strip().rstrip(",") in wanted:
                        found = index
                        break
                else:
                    found = at
                at = found + 1 if found < len(raw) else at
            for piece in line.split("\n"):
                source.append("pass" if MAGIC.match(piece) and not piece[:1].isspace() else _indented_magic(piece))
                lines.append(min(found, len(raw) - 1) + 1)
    return "\n".join(source) + "\n", lines or [1]


def _indented_magic(line: str) -> str:
    if MAGIC.match(line):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return line
