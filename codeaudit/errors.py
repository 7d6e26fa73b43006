"""The one exception a person is meant to read: what is wrong, where, and what to do about it."""

from __future__ import annotations


class UserError(Exception):
    """An error that a person must fix; commands print it as one line and exit with code 2."""

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what
