"""Lint rules: what makes a reported return hard to interpret or to reproduce. One class per rule, one file per family."""

from __future__ import annotations

from functools import cache

from codeaudit.rules.base import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    from codeaudit.rules import action, checkpoints, comments, figures, procedure, reference, restarts, seeding, surroundings

    modules = (action, checkpoints, comments, figures, procedure, reference, restarts, seeding, surroundings)
    found = [kind() for module in modules for kind in module.RULES]
    return tuple(sorted(found, key=lambda rule: rule.code))
