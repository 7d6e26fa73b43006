"""`codeaudit check` as a function: rules over a target, with what silences them.

Not how findings look, nor how they are mended.
"""

from __future__ import annotations

from codeaudit.lint.run import Check, Problem, check

__all__ = ["Check", "Problem", "check"]
