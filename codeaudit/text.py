"""Make foreign text safe to show. It is not for parsing or for deciding anything about that text."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with every control, bidirectional, invisible or unassigned character written as a backslash escape.

    File names and server messages of an audited repository are hostile: they must not move the cursor, recolour the
    terminal or reorder a line. Letters, marks, symbols and the plain space stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
