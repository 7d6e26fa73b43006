"""What must be seen at run time if a classification is right. Plain data: both halves of the tool share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from codeaudit.evaluation.sites import EvaluationSite

PredictionKind = Literal[
    "published_rule",
    "rule_matters",
    "above_floor",
    "in_loop_differs",
    "level_draw_matters",
    "levels_overlap",
    "first_finished_bias",
    "greedy_loops",
    "claims_hold",
]


@dataclass(frozen=True)
class Prediction:
    """One statement about a measurement that would confirm or refute what the scan says of a site."""

    id: str
    site: str  # the id of the evaluation site, or "" for the whole repository
    kind: PredictionKind
    expectation: str  # a sentence, or the action rule itself for `published_rule`

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "site": self.site, "kind": self.kind, "expectation": self.expectation}


def predict(sites: Sequence[EvaluationSite]) -> tuple[list[EvaluationSite], list[Prediction]]:
    """The predictions that follow from the sites, and the sites with the ids of theirs."""
    out: list[EvaluationSite] = []
    predictions: list[Prediction] = []
    for site in sites:
        mine: list[Prediction] = []

        def add(
            kind: PredictionKind, expectation: str, site: EvaluationSite = site, mine: list[Prediction] = mine
        ) -> None:
            mine.append(Prediction(f"{site.id}-{kind}", site.id, kind, expectation))

        if site.rule != "unknown" and site.agent != "random" and site.role != "demo":
            add("published_rule", site.rule)
            if site.agent in ("policy_gradient", "actor_critic_continuous"):
                add("rule_matters", "sampled and greedy returns differ on the same checkpoint")
            add("above_floor", f"the {site.rule} return is above that of uniform random play")
            if site.rule == "greedy":
                add("greedy_loops", "greedy episodes revisit observations more often than sampled ones")
        if site.procedure == "in_loop":
            add("in_loop_differs", "the running mean differs from a fixed checkpoint's return at the same step")
        if site.role == "heldout":
            add("level_draw_matters", "the held-out return depends on which levels are drawn")
        out.append(replace(site, predictions=tuple(p.id for p in mine)))
        predictions.extend(mine)
    return out, predictions
