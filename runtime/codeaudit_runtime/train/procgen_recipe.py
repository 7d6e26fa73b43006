"""What one ProcGen training run is: every number that shapes its agent. Not for doing it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from codeaudit.errors import UserError
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.train.encoders import CELLS, CHANNELS, ENCODERS, PYRAMID, WIDTH

FORMATS = {"impala": "procgen-impala-ppo", "fpn": "procgen-fpn-ppo"}
REWARDS = ("raw", "normalised")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class ProcgenRecipe:
    """PPO as in Keshari (2026), 8M-step runs: 16 slots, rewards as they are, no annealing.

    `steps` is left out on purpose: nothing depends on it, so a finished run can go on with more.
    """

    environment: str
    encoder: str = "impala"
    seed: int = 0
    slots: int = 16
    train_levels: tuple[int, int] = (0, 200)
    heldout_levels: tuple[int, int] = (1000, 100)
    heldout_every: int = 1  # training steps to one step of the held-out slots
    window: int = 100  # episodes of the in-loop running mean
    reward: str = "raw"  # `normalised`: CleanRL's division by the running spread of returns, clipped at ±10
    precision: str = "float32"  # of training; evaluation is always float32
    save_every: int = 25_000
    rollout: int = 256
    minibatches: int = 8
    epochs: int = 3
    learning_rate: float = 5e-4
    adam_epsilon: float = 1e-5
    gamma: float = 0.999
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_clip: bool = True
    entropy_weight: float = 0.01
    value_weight: float = 0.5
    max_gradient: float = 0.5

    def __post_init__(self) -> None:
        if not self.environment.startswith("procgen/"):
            raise UserError(f"{self.environment!r} is no ProcGen game", hint="for example --env procgen/miner")
        for name, value, known in (
            ("encoder", self.encoder, ENCODERS),
            ("reward", self.reward, REWARDS),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in known:
                raise UserError(f"{name} {value!r} is unknown", hint=f"known: {', '.join(known)}")
        if self.batch % self.minibatches:
            raise UserError(f"{self.batch} steps don't make {self.minibatches} equal minibatches")

    @property
    def batch(self) -> int:
        """Environment steps of one update."""
        return self.slots * self.rollout

    @property
    def game(self) -> str:
        return self.environment.removeprefix("procgen/").replace(":", "-")

    def level_sets(self) -> tuple[LevelSet, LevelSet]:
        return LevelSet("train", *self.train_levels), LevelSet("heldout", *self.heldout_levels)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    def header(self, steps: int, actions: int) -> dict[str, str]:
        """The header of a checkpoint: the full configuration, as text."""
        network: dict[str, Any] = {"encoder": self.encoder, "blocks": CHANNELS, "fc": WIDTH, "actions": actions}
        if self.encoder == "fpn":
            network |= {"pyramid": PYRAMID, "cells": CELLS}
        return {
            "format": FORMATS[self.encoder],
            "algorithm": "ppo",
            "env": self.environment,
            "seed": str(self.seed),
            "steps": str(steps),
            "train_levels": ":".join(map(str, self.train_levels)),
            "heldout_levels": ":".join(map(str, self.heldout_levels)),
            "network": json.dumps(network),
            "recipe": json.dumps(self.to_json(), sort_keys=True),
            "observation": "rgb uint8 64x64x3, divided by 255, channels first",
        }
