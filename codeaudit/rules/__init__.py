"""Lint rules: what makes a reported return hard to interpret or to reproduce.

One class per rule, one file per family.
"""

from __future__ import annotations

from functools import cache

from codeaudit.rules.base import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    from codeaudit.rules.action import RULES as action
    from codeaudit.rules.checkpoints import RULES as checkpoints
    from codeaudit.rules.comments import RULES as comments
    from codeaudit.rules.comparing import RULES as comparing
    from codeaudit.rules.figures import RULES as figures
    from codeaudit.rules.keeping import RULES as keeping
    from codeaudit.rules.procedure import RULES as procedure
    from codeaudit.rules.promises import RULES as promises
    from codeaudit.rules.reference import RULES as reference
    from codeaudit.rules.restarts import RULES as restarts
    from codeaudit.rules.seeding import RULES as seeding
    from codeaudit.rules.shared_state import RULES as shared_state
    from codeaudit.rules.surroundings import RULES as surroundings

    families = (
        action,
        checkpoints,
        comments,
        comparing,
        figures,
        keeping,
        procedure,
        promises,
        reference,
        restarts,
        seeding,
        shared_state,
        surroundings,
    )
    return tuple(sorted((kind() for family in families for kind in family), key=lambda rule: rule.code))
