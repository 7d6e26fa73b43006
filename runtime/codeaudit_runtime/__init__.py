"""The runtime half of codeaudit: re-executes checkpoints and measures what they return. Never parses source code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeaudit_runtime.library import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]


def __getattr__(name: str) -> Any:
    """`evaluate` and `Evaluation`, loaded when first asked for: they bring torch and gymnasium."""
    if name in __all__:
        from codeaudit_runtime import library

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
