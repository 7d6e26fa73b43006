"""What every reader offers: which names a file holds and, once chosen, its curves. Not for any one format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.spaces import FloatArray


@dataclass(frozen=True)
class Choice:
    """Which columns are read: the value, the step, the run and the keys that tell groups apart."""

    value: str
    step: str | None
    run: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RawCurve:
    """Steps (T,) ascending and values (T,) of one run, with its keys. `run` is None where the file is the run."""

    keys: Mapping[str, str]
    run: str | None
    steps_T: FloatArray
    values_T: FloatArray
    where: str


@dataclass(frozen=True)
class Reading:
    """The curves of one source and what must be said about them."""

    curves: tuple[RawCurve, ...]
    notes: tuple[str, ...] = field(default=())


class Source(Protocol):
    """One file, or several that belong to one run."""

    @property
    def path(self) -> Path: ...

    @property
    def kind(self) -> str:
        """A word for the report: monitor, table, wandb, tensorboard, evaluations, arrays, run directory."""

    @property
    def values(self) -> tuple[str, ...]:
        """Names that can be a value; () where the format has only one."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names that can be a step, a run or a key."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What holds for every row: `file`, `env_id`, `path:1` …; these names can be keys too."""

    def read(self, choice: Choice) -> Reading:
        """The curves. Raises UserError that names the file, the line and why."""


def trouble(path: Path, line: int | None, why: str, hint: str) -> UserError:
    """An error about one place of one file."""
    place = printable(str(path)) + ("" if line is None else f":{line}")
    return UserError(f"{place}: {printable(why)}", hint=hint)


def path_facts(path: Path, root: Path) -> dict[str, str]:
    """`file`, and `path:1`, `path:2` … for the folders between what was named on the command line and the file."""
    try:
        parts = path.relative_to(root).parts[:-1]
    except ValueError:
        parts = ()
    return {"file": path.as_posix(), **{f"path:{depth}": part for depth, part in enumerate(parts, start=1)}}


def last_of_equal_steps(steps_T: FloatArray, values_T: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Ascending steps (T,) without repetition: the later entry of equal steps stays. Also how many went."""
    keep_T = np.append(steps_T[1:] != steps_T[:-1], True) if len(steps_T) else np.zeros(0, dtype=bool)
    return steps_T[keep_T], values_T[keep_T], int(len(steps_T) - np.count_nonzero(keep_T))


def one_of(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first of `wanted` that is among `names`, whatever the case; with the spelling of `names`."""
    spelled = {name.lower(): name for name in reversed(names)}
    return next((spelled[name] for name in wanted if name in spelled), None)
