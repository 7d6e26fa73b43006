"""Comments that silence a rule at one place: `# codeaudit: ignore[CA101] reason`. Only finds and matches them."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

IGNORE = re.compile(r"#\s*codeaudit:\s*ignore\b(?P<codes>\s*\[(?P<list>[^\]]*)\])?\s*(?P<reason>[^\\\"\n]*)")


@dataclass(frozen=True)
class Ignore:
    """One comment. It counts for the statement on its line; standing alone, for the next line of code."""

    line: int
    codes: tuple[str, ...]  # empty: none named
    reason: str
    target: int  # the line that it speaks of


def find_ignores(path: str, data: bytes) -> list[Ignore]:
    """The ignore comments of a Python file or notebook; text inside strings is no comment."""
    if b"codeaudit" not in data or b"ignore" not in data:
        return []
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    if path.endswith(".ipynb"):  # lines of the raw file
        comments = [(number, line[line.index("#") :], False) for number, line in enumerate(lines, 1) if "#" in line]
    else:
        known = _comments(text)
        comments = (
            [(n, line, line.lstrip().startswith("#")) for n, line in enumerate(lines, 1)] if known is None else known
        )
    found = []
    for number, comment, alone in comments:
        match = IGNORE.search(comment)
        if match:
            codes = tuple(c.strip() for c in (match["list"] or "").split(",") if c.strip())
            found.append(
                Ignore(number, codes, match["reason"].strip(" -:"), _next_code(lines, number) if alone else number)
            )
    return found


def _comments(text: str) -> list[tuple[int, str, bool]] | None:
    """(line, comment, whether it stands alone); None for text that isn't Python."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string, not token.line[: token.start[1]].strip()))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return found


def _next_code(lines: Sequence[str], number: int) -> int:
    for after in range(number, len(lines)):
        if lines[after].strip() and not lines[after].lstrip().startswith("#"):
            return after + 1
    return number
