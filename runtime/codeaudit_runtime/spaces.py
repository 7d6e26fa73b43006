"""What a policy reads and what it may do, as plain data. Not for environments or networks themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]


@dataclass(frozen=True)
class ActionSpec:
    """The set of actions: `size` choices (discrete) or a box in `size` dimensions (continuous)."""

    kind: Literal["discrete", "continuous"]
    size: int
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def describe(self) -> str:
        return f"{self.size} discrete actions" if self.kind == "discrete" else f"a box of {self.size} dimensions"

    def matches(self, other: ActionSpec) -> bool:
        return (self.kind, self.size) == (other.kind, other.size)


@dataclass(frozen=True)
class ObservationSpec:
    """One observation: its shape, without the slot axis, and its element type."""

    shape: tuple[int, ...]
    dtype: str

    def describe(self) -> str:
        return f"{self.dtype}{list(self.shape)}"
