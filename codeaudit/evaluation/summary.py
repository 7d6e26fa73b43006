"""One line for the whole repository, from its sites. The definitions are those of the labels' schema."""

from __future__ import annotations

from collections.abc import Sequence

from codeaudit.evaluation.sites import EvaluationSite, Summary


def summarise(sites: Sequence[EvaluationSite]) -> Summary:
    """Demo sites and random baselines are left out, unless there is nothing else."""
    main = [s for s in sites if s.role != "demo" and s.agent != "random"] or list(sites)
    heldout = [s for s in main if s.role == "heldout"]
    policies = [s for s in main if s.agent in ("policy_gradient", "actor_critic_continuous")]
    policies = [s for s in policies if s.role == "heldout"] or policies
    rules: set[str] = {s.rule for s in policies}
    rules = rules - {"unknown"} or rules
    rule = "none" if not rules else rules.pop() if len(rules) == 1 else "mixed"
    return Summary(bool(heldout), rule, any(s.procedure == "in_loop" for s in heldout))
