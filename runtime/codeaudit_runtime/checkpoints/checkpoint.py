"""What every checkpoint format is turned into: a policy and the plain facts beside it. Not for reading any format."""

from __future__ import annotations

from dataclasses import dataclass, field

from codeaudit_runtime.networks import ImageNetwork
from codeaudit_runtime.policies import Policy
from codeaudit_runtime.spaces import ObservationSpec


@dataclass(frozen=True)
class Checkpoint:
    """A loaded agent. Nothing of the file but tensors and plain fields is left."""

    format: str
    algorithm: str
    sha256: str
    policy: Policy
    observation: ObservationSpec | None  # None where the file does not say
    value_based: bool = False  # greedy is its policy; its other rule is epsilon-greedy
    exploration_rate: float | None = None  # the epsilon that the checkpoint carries
    discount: float | None = None
    state_dependent_noise: bool = False  # gSDE
    noise_period: int = -1  # gSDE: steps between two draws of the matrix in training; -1: once a roll-out
    notes: tuple[str, ...] = field(default=())
    trunk: ImageNetwork | None = None  # what the heads read, where the network shows its layers
