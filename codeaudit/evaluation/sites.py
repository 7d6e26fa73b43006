"""The classified evaluation site: what the analysis says and what reports render."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

ActionRule = Literal["sampled", "greedy", "epsilon_greedy", "noisy", "uniform_random", "unknown"]
Provenance = Literal[
    "explicit", "config", "inherited_default", "training_sampler", "hard_coded", "framework_default", "unknown"
]
Procedure = Literal["in_loop", "fixed_checkpoint", "unknown"]
Role = Literal["heldout", "same_env", "demo", "unknown"]
Agent = Literal["policy_gradient", "value_based", "model_based", "actor_critic_continuous", "random", "other"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file; `NAME:path` in a dependency."""

    file: str
    line: int

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line}


@dataclass(frozen=True)
class Evidence:
    """One step of the chain that leads to a classification, in reading order."""

    place: Place
    what: str

    def to_json(self) -> dict[str, Any]:
        return {**self.place.to_json(), "what": self.what}


@dataclass(frozen=True)
class EvaluationSite:
    """A call that selects an action which is then stepped to measure a reported return."""

    id: str
    file: str
    line: int  # the line on which the call begins
    end_line: int
    function: str  # the enclosing function, or "<module>"
    agent: Agent
    rule: ActionRule
    provenance: Provenance
    procedure: Procedure
    role: Role
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    epsilon: float | None = None
    unknown: str = ""  # why something could not be decided
    default_site: Place | None = None  # where the deciding default or option is defined
    sink: Place | None = None  # where the action is really drawn
    env_site: Place | None = None  # where the environment evaluated on is made
    report_site: Place | None = None  # where the return is reported, logged or averaged
    corrected: str = ""  # the reason a person gave in a `# codeaudit: site` comment
    predictions: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        report: dict[str, Any] = {
            "id": self.id,
            "file": self.file,
            "line": self.line,
            "end_line": self.end_line,
            "function": self.function,
            "agent": self.agent,
            "rule": self.rule,
            "provenance": self.provenance,
            "procedure": self.procedure,
            "role": self.role,
        }
        if self.epsilon is not None:
            report["epsilon"] = self.epsilon
        for name in ("unknown", "corrected"):
            if getattr(self, name):
                report[name] = getattr(self, name)
        for name in ("default_site", "sink", "env_site", "report_site"):
            place: Place | None = getattr(self, name)
            if place is not None:
                report[name] = place.to_json()
        report["evidence"] = [step.to_json() for step in self.evidence]
        report["confidence"] = self.confidence
        report["predictions"] = list(self.predictions)
        return report


@dataclass(frozen=True)
class Summary:
    """One line for the whole repository, derived from its sites (see `evaluation.summary`)."""

    heldout_evaluation: bool
    policy_gradient_rule: str  # an action rule, "mixed" or "none"
    in_loop: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "heldout_evaluation": self.heldout_evaluation,
            "policy_gradient_rule": self.policy_gradient_rule,
            "in_loop": self.in_loop,
        }
