"""What one training run is: every number that shapes its agents. Not for doing it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from codeaudit.errors import UserError

ALGORITHMS = ("qrdqn", "c51", "iqn", "qrdqn-cvar", "qrdqn-ensemble")
CVAR = 0.25  # the level by which qrdqn-cvar chooses
ENSEMBLE = 5
# Of C51's atoms, so that no return lies outside: the study's for MinAtar, which cannot hold RiskyGrid's losses.
SUPPORTS = {"minatar/": (0.0, 40.0), "riskygrid:faint": (0.0, 10.0), "riskygrid": (-16.0, 26.0)}
# What is scaled down from the SB3 zoo's recipe for Atari, so that its screens fit into memory and a core.
OF_ATARI: dict[str, Any] = {"quantiles": 200, "buffer": 10_000, "train_every": 4, "epsilon_steps": 20_000}
CHUNK = 50_000  # steps between two saves; chance is drawn anew from (seed, chunk), so a resumed run is the same run


@dataclass(frozen=True)
class Recipe:
    """One of `ALGORITHMS` with the settings of arXiv:2607.11607, Section 3.

    `quantiles` are atoms for C51 and midpoint levels for IQN, `samples` IQN's levels a batch row, `support` C51's.
    """

    environment: str
    steps: int
    seeds: int = 1
    first_seed: int = 0
    algorithm: str = "qrdqn"
    quantiles: int = 51
    learning_rate: float = 1e-4
    batch: int = 32
    buffer: int = 100_000
    warmup: int = 5_000
    target_update: int = 1_000
    train_every: int = 1
    discount: float = 0.99
    epsilon_first: float = 1.0
    epsilon_last: float = 0.1
    epsilon_steps: int = 100_000
    samples: int = 8
    support: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise UserError(f"algorithm {self.algorithm!r} is unknown", hint=f"--algo {', '.join(ALGORITHMS)}")
        if self.algorithm == "c51":
            self.support_limits()
        if self.steps <= self.warmup:
            raise UserError(f"{self.steps} steps train nothing", hint=f"the first {self.warmup} only fill the buffer")

    def epsilon_at(self, step: int) -> float:
        share = min(step / self.epsilon_steps, 1.0)
        return self.epsilon_first + share * (self.epsilon_last - self.epsilon_first)

    @property
    def members(self) -> int:
        """Networks of one agent."""
        return ENSEMBLE if self.algorithm == "qrdqn-ensemble" else 1

    def support_limits(self) -> tuple[float, float]:
        """Lowest and highest atom; UserError where none is known for the environment."""
        if self.support is not None:
            low, high = self.support
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise UserError(f"support {low:g}:{high:g} is empty", hint="for example --support 0:40")
            return low, high
        for prefix, limits in SUPPORTS.items():
            if self.environment.startswith(prefix):
                return limits
        raise UserError(
            f"no support of returns is known for {self.environment}", hint="add --support LOW:HIGH, for example 0:40"
        )

    def member_seeds(self) -> list[int]:
        return list(range(self.first_seed, self.first_seed + self.seeds))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "chunk": CHUNK}


def recipe_of(
    environment: str,
    steps: int,
    seeds: int = 1,
    first_seed: int = 0,
    algorithm: str = "qrdqn",
    support: tuple[float, float] | None = None,
) -> Recipe:
    """The recipe with what the environment needs."""
    own = OF_ATARI if environment.startswith("atari/") else {}
    return replace(Recipe(environment, steps, seeds, first_seed, algorithm, support=support), **own)


def metadata_of_member(recipe: Recipe, seed: int, steps: int, shape: tuple[int, ...], actions: int) -> dict[str, str]:
    """The header of a saved agent: what is needed to rebuild and audit it, as text."""
    facts: Mapping[str, object] = {
        "algorithm": recipe.algorithm,
        "environment": recipe.environment,
        "seed": seed,
        "steps": steps,
        "discount": recipe.discount,
        "quantiles": recipe.quantiles,
        "actions": actions,
        "observation": ",".join(map(str, shape)),
        **({"members": recipe.members} if recipe.members > 1 else {}),
        **({"support": "{!r}:{!r}".format(*recipe.support_limits())} if recipe.algorithm == "c51" else {}),
    }
    return {name: str(value) for name, value in facts.items()}
