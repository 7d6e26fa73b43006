"""What must be seen at run time if a classification is right. Plain data: both halves of the tool share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
