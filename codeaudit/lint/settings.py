"""Which rules run on which files: `[tool.codeaudit]` of a pyproject.toml, and the command line over it.

Ruff's conventions.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cache
from typing import Any

from codeaudit.errors import UserError
from codeaudit.rules.base import Rule

KEYS = ("select", "extend-select", "ignore", "per-file-ignores", "exclude")


@dataclass(frozen=True)
class Settings:
    """Selectors are codes or prefixes of codes (`CA1`), or `ALL`."""

    select: tuple[str, ...] = ()  # empty: the rules that are on by default
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # pattern → selectors
    exclude: tuple[str, ...] = ()  # patterns of paths whose findings are dropped


def read_settings(text: str, where: str) -> Settings:
    """The `[tool.codeaudit]` table of a pyproject.toml. Raises UserError naming the key that is wrong."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        data: Any = toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} isn't valid TOML: {str(error)[:200]}") from None
    table = data.get("tool", {}).get("codeaudit", {}) if isinstance(data.get("tool", {}), dict) else {}
    if not isinstance(table, dict):
        raise UserError(f"{where}: [tool.codeaudit] must be a table")
    for key in table:
        if key not in KEYS:
            raise UserError(f"{where}: [tool.codeaudit] has no key `{key}`", hint=f"it knows {', '.join(KEYS)}")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise UserError(f"{where}: `per-file-ignores` must be a table of pattern = [codes]")
    return Settings(
        select=_strings(table, "select", where),
        extend_select=_strings(table, "extend-select", where),
        ignore=_strings(table, "ignore", where),
        per_file_ignores={pattern: _strings(per_file, pattern, where) for pattern in per_file},
        exclude=_strings(table, "exclude", where),
    )


def _strings(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError(f"{where}: `{key}` must be a list of strings")
    return tuple(value)


def over(
    settings: Settings, select: Sequence[str], extend: Sequence[str], ignore: Sequence[str], exclude: Sequence[str]
) -> Settings:
    """The command line's words over a file's: `--select` replaces, the others add."""
    return Settings(
        select=tuple(select) or settings.select,
        extend_select=(*settings.extend_select, *extend),
        ignore=(*(settings.ignore if not select else ()), *ignore),
        per_file_ignores=settings.per_file_ignores,
        exclude=(*settings.exclude, *exclude),
    )


def check_selectors(settings: Settings, rules: Sequence[Rule]) -> None:
    """UserError where a selector fits no rule."""
    for selector in (
        *settings.select,
        *settings.extend_select,
        *settings.ignore,
        *sum(settings.per_file_ignores.values(), ()),
    ):
        if not any(_length(selector, rule.code) for rule in rules):
            raise UserError(f"{selector!r} selects no rule", hint="`codeaudit rules` lists them")


def enabled(settings: Settings, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules that run. The longest selector that fits a rule decides; between equals, the one that ignores."""
    return tuple(rule for rule in rules if _enabled(settings, rule))


def _enabled(settings: Settings, rule: Rule) -> bool:
    chosen = [s for s in (*settings.select, *settings.extend_select) if _length(s, rule.code)]
    if not rule.default:  # a rule that is wrong too often, or says too little, must be asked for by name
        chosen = [s for s in chosen if s in (rule.code, "ALL")]
    by_default = 1 if rule.default and not settings.select else 0
    wanted = max([by_default, *(_length(s, rule.code) for s in chosen)])
    refused = max([0, *(_length(s, rule.code) for s in settings.ignore)])
    return wanted > refused


def _length(selector: str, code: str) -> int:
    """How much of a code a selector fixes; 0 where it doesn't fit."""
    if selector == "ALL":
        return 1
    return len(selector) if selector and code.startswith(selector) else 0


def ignored_by_file(settings: Settings, path: str, code: str) -> str:
    """The pattern of `per-file-ignores` that silences a rule in a file, or ""."""
    for pattern, selectors in settings.per_file_ignores.items():
        inverted = pattern.startswith("!")
        if matches(pattern.removeprefix("!"), path) != inverted and any(_length(s, code) for s in selectors):
            return pattern
    return ""


def excluded(settings: Settings, path: str) -> bool:
    return any(matches(pattern, path) for pattern in settings.exclude)


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern fits a path, one of its folders, or (without a slash) its name or a folder's name."""
    parts = path.split("/")
    folders = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    fits = _compiled(pattern.rstrip("/").removesuffix("/**"))
    return any(fits.match(folder) for folder in folders) or (
        "/" not in pattern and any(fits.match(part) for part in parts)
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
