"""What a measurement says of a prediction. Plain data: both halves of the tool share it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

VerdictWord = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """A prediction held against numbers."""

    prediction: str  # the prediction's kind, or its id where there are several of a kind
    verdict: VerdictWord
    detail: str  # one sentence with the numbers that decided
    numbers: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "prediction": self.prediction,
            "verdict": self.verdict,
            "detail": self.detail,
            "numbers": self.numbers,
        }
