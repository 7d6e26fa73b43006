"""Python source to a `tree.File`. This room, and the fixer, alone know LibCST. Pure: bytes in, tree out.

LibCST's own position metadata costs twice the parse, so lines are counted here: every field of every node is visited
in the order in which its text stands in the file, and newlines are added up on the way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from codeaudit.facts import expressions, statements
from codeaudit.facts import tree as t
from codeaudit.facts.converter import Converter

CORRECTION = re.compile(r"#\s*codeaudit:\s*(?P<word>[\w-]+)(?P<rest>.*)")
SETTING = re.compile(r"(\w+)=(\S+)\s*")


class Unparsable(Exception):
    """The file is no Python 3 source; `line` is where the parser gave up."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_python(source: str, lines: Sequence[int] | None = None) -> t.File:
    """The tree of a source text. `lines` maps its lines (from 0) to lines of the file that it was cut from (a
    notebook)."""
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        at = error.raw_line
        raise Unparsable("it isn't valid Python 3", lines[at - 1] if lines and 0 < at <= len(lines) else at) from None
    converter = Converter({**expressions.BUILDERS, **statements.BUILDERS}, lines)
    body = converter.module(module)
    text_lines = source.split("\n")
    return t.File(1, body, tuple(_corrections(text_lines, lines)), len(text_lines))


def _corrections(text: list[str], lines: Sequence[int] | None) -> list[t.Correction]:
    found = []
    for number, line in enumerate(text, start=1):
        match = CORRECTION.search(line) if "codeaudit" in line else None
        if match:
            rest = match["rest"].strip()
            settings = []
            while setting := SETTING.match(rest):
                settings.append((setting[1], setting[2]))
                rest = rest[setting.end() :]
            at = lines[number - 1] if lines else number
            # Another word that sets something is a misspelt `site`: whoever wrote it must hear of that.
            if match["word"] == "site" or (settings and match["word"] != "ignore"):
                found.append(t.Correction(at, match["word"], tuple(settings), rest.strip()))
    return found
