"""One line for the whole repository, from its sites. The definitions are those of the labels' schema."""

from __future__ import annotations

from collections.abc import Sequence

from codeaudit.evaluation.sites import EvaluationSite, Summary


def counted(sites: Sequence[EvaluationSite]) -> list[EvaluationSite]:
    """The sites that a repository's line speaks of."""
    return [s for s in sites if s.role != "demo" and s.agent != "random"] or list(sites)


def compared_by_rule(sites: Sequence[EvaluationSite]) -> list[EvaluationSite]:
    """The sites of policy-gradient agents, the held-out ones where there are any: their rule is the repository's."""
    policies = [s for s in counted(sites) if s.agent in ("policy_gradient", "actor_critic_continuous")]
    return [s for s in policies if s.role == "heldout"] or policies


def summarise(sites: Sequence[EvaluationSite]) -> Summary:
    """Demo sites and random baselines are left out, unless there is nothing else."""
    heldout = [s for s in counted(sites) if s.role == "heldout"]
    rules: set[str] = {s.rule for s in compared_by_rule(sites)}
    rules = rules - {"unknown"} or rules
    rule = "none" if not rules else rules.pop() if len(rules) == 1 else "mixed"
    return Summary(bool(heldout), rule, any(s.procedure == "in_loop" for s in heldout))
