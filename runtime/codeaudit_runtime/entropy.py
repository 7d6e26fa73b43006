"""How much does a policy still hesitate? Entropy on visited states, raw and merged. Not for returns.

Tiers and window effects are those of Keshari (2026): low < 2.0 nats, intermediate to 2.3, high above, for 15 actions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
import torch

from codeaudit.errors import UserError
from codeaudit_runtime.actions import ActionChooser, ActionRule, merged_greedy
from codeaudit_runtime.environments import LevelDraw, LevelSet
from codeaudit_runtime.equivalence import Classes, entropy_of, merged_probabilities
from codeaudit_runtime.measure import AgentFiles, check_fit, load_agent, open_environment
from codeaudit_runtime.memory import remembering
from codeaudit_runtime.policies import Categorical
from codeaudit_runtime.spaces import FloatArray

LOW, HIGH = 2.0, 2.3  # nats, of 15 actions
SWEEP = (1.8, 1.9, 2.0, 2.1, 2.2)  # other thresholds of `low`
WINDOW = 1024  # states
SLOTS, STEPS = 64, 512

Tier = Literal["low", "intermediate", "high"]


@dataclass(frozen=True)
class EntropyJob:
    """The sampled policy (or another rule) on one draw, all slots for so many steps."""

    name: str
    files: AgentFiles
    environment: str
    levels: LevelSet
    draw: int
    rule: ActionRule
    classes: Classes
    slots: int = SLOTS
    steps: int = STEPS

    @property
    def key(self) -> str:
        agent = f"{self.files.sha256}+{self.files.normalization_sha256}"
        return (
            f"entropy|{agent}|{self.environment}|{self.levels.start}:{self.levels.count}|{self.draw}|"
            f"{self.rule.identity}|{self.classes}|{self.slots}x{self.steps}"
        )


@dataclass(frozen=True)
class EntropyWindow:
    """Means over visited states, in nats. `changed` is the share of states where the merged argmax and the plain one
    fall into different classes."""

    states: int
    raw: float
    merged: float
    first: float  # raw, over the first WINDOW states
    uniform: float  # raw, over WINDOW states drawn from all
    changed: float


@dataclass(frozen=True)
class Screen:
    """One run: means over its level sets, and what they are called."""

    name: str
    environment: str
    level_sets: dict[str, EntropyWindow]
    mean: EntropyWindow
    actions: int
    effective: int
    tier: Tier
    merged_tier: Tier
    sweep: dict[str, bool]  # threshold → is the raw entropy below it

    @property
    def equivalent_share(self) -> float:
        """The share of the entropy that only spreads over actions that do the same."""
        return 1.0 - self.mean.merged / self.mean.raw if self.mean.raw > 0 else 0.0


def entropy_bytes(job: EntropyJob) -> bytes:
    """Steps the policy and summarises its heads, as JSON. UserError for a policy without action probabilities."""
    torch.set_num_threads(1)
    environment = open_environment(job.environment, job.slots, None)
    checkpoint = load_agent(job.files)
    check_fit(checkpoint, environment, job.name)
    logits_NA = _visited_logits(job)
    return json.dumps(asdict(window_of(logits_NA, job.classes, job.draw)), allow_nan=False).encode()


def _visited_logits(job: EntropyJob) -> FloatArray:
    environment = open_environment(job.environment, job.slots, None)
    policy = remembering(load_agent(job.files).policy)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([job.draw, job.levels.start])))
    chooser = ActionChooser(job.rule, environment.info.actions, job.slots, rng)
    everyone = np.arange(job.slots)
    observations = environment.reset(LevelDraw(job.levels, job.draw))
    state, starts = policy.initial_state(job.slots), np.ones(job.slots, dtype=bool)
    found = []
    for _ in range(job.steps):
        head, state = policy(observations, state, starts)
        if not isinstance(head, Categorical):
            raise UserError(f"{job.name}: its policy has no probabilities of discrete actions, so no such entropy")
        found.append(head.logits_NA)
        step = environment.step(chooser.choose(head, everyone), everyone)
        observations, starts = step.observations, step.first
    return np.concatenate(found)


def window_of(logits_NA: FloatArray, classes: Classes, seed: int) -> EntropyWindow:
    """`logits_NA` in the order of visits."""
    head = Categorical(logits_NA.astype(np.float64))
    probabilities_NA = head.probabilities()
    raw_N = head.entropy()
    rng = np.random.Generator(np.random.PCG64(seed))
    picked = rng.choice(len(raw_N), min(WINDOW, len(raw_N)), replace=False)
    index_A = np.asarray(classes)
    changed_N = index_A[merged_greedy(head, classes)] != index_A[head.greedy()]
    return EntropyWindow(
        states=len(raw_N),
        raw=float(raw_N.mean()),
        merged=float(entropy_of(merged_probabilities(probabilities_NA, classes)).mean()),
        first=float(raw_N[:WINDOW].mean()),
        uniform=float(raw_N[picked].mean()),
        changed=float(changed_N.mean()),
    )


def window_from_bytes(content: bytes) -> EntropyWindow:
    return EntropyWindow(**json.loads(content))


def tier_of(entropy: float, actions: int, raw_actions: int = 15) -> Tier:
    """The tier at the same fractions of ln(actions) as the printed thresholds are of ln(15)."""
    scale = math.log(actions) / math.log(raw_actions) if actions > 1 else 0.0
    return "low" if entropy < LOW * scale else "intermediate" if entropy <= HIGH * scale else "high"


def mean_window(windows: Sequence[EntropyWindow]) -> EntropyWindow:
    """The mean over level sets, each with the same weight."""

    def mean(name: str) -> float:
        return float(np.mean([getattr(one, name) for one in windows]))

    means = {name: mean(name) for name in ("raw", "merged", "first", "uniform", "changed")}
    return replace(windows[0], states=sum(one.states for one in windows), **means)


def screen_of(name: str, environment: str, level_sets: dict[str, EntropyWindow], classes: Classes) -> Screen:
    mean = mean_window(list(level_sets.values()))
    effective = len(set(classes))
    return Screen(
        name=name,
        environment=environment,
        level_sets=level_sets,
        mean=mean,
        actions=len(classes),
        effective=effective,
        tier=tier_of(mean.raw, len(classes)),
        merged_tier=tier_of(mean.merged, effective),
        sweep={f"{threshold:g}": mean.raw < threshold for threshold in SWEEP},
    )
