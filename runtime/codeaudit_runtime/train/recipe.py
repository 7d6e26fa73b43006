"""What one training run is: every number that shapes its agents. Not for doing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codeaudit.errors import UserError

CHUNK = 50_000  # steps between two saves; chance is drawn anew from (seed, chunk), so a resumed run is the same run


@dataclass(frozen=True)
class Recipe:
    """QR-DQN (Dabney et al. 2018) with the settings of arXiv:2607.11607, Section 3."""

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

    def __post_init__(self) -> None:
        if self.algorithm != "qrdqn":
            raise UserError(f"algorithm {self.algorithm!r} is not built yet", hint="--algo qrdqn")
        if self.steps <= self.warmup:
            raise UserError(f"{self.steps} steps train nothing", hint=f"the first {self.warmup} only fill the buffer")

    def epsilon_at(self, step: int) -> float:
        share = min(step / self.epsilon_steps, 1.0)
        return self.epsilon_first + share * (self.epsilon_last - self.epsilon_first)

    def member_seeds(self) -> list[int]:
        return list(range(self.first_seed, self.first_seed + self.seeds))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "chunk": CHUNK}


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
    }
    return {name: str(value) for name, value in facts.items()}
