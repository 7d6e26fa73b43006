"""The lowest and highest return of a task: given, known from a suite with its source, or empirical. Not for scores."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.variation.curves import Curve

Origin = Literal["given", "known", "empirical"]


@dataclass(frozen=True)
class Bounds:
    """m and M of a task, where they come from, and what that means for reading a share of them."""

    low: float
    high: float
    origin: Origin
    source: str

    def describe(self) -> str:
        return f"[{self.low:g}, {self.high:g}] {self.origin}: {self.source}"


@dataclass(frozen=True)
class Suite:
    name: str
    kind: Literal["limits", "reference", "observed"]
    source: str
    ranges: Mapping[str, tuple[float, float]]  # by normalised task name


KIND_WORDS = {
    "limits": "no return can lie outside",
    "reference": "scores of reference policies, which runs can pass",
    "observed": "lowest and highest of other people's runs",
}


@cache
def known_suites() -> Mapping[str, Suite]:
    """The suites that this package knows, by name."""
    loaded: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("bounds.yaml").read_text("utf-8"))
    return {name: _suite(name, entry) for name, entry in loaded.items()}


def suite_named(name: str) -> Suite:
    if name not in known_suites():
        raise UserError(f"--suite {printable(name)!r} is not known", hint=f"known: {', '.join(known_suites())}")
    return known_suites()[name]


def _suite(name: str, entry: Mapping[str, Any]) -> Suite:
    tasks = entry["tasks"]
    ranges = dict.fromkeys(tasks, entry["range"]) if isinstance(tasks, list) else tasks
    return Suite(
        name,
        entry["kind"],
        entry["source"],
        {normalised(task): (float(low), float(high)) for task, (low, high) in ranges.items()},
    )


def normalised(task: str) -> str:
    """One spelling for `walker-walk`, `walker_walk` and `dm_control/walker-walk`, or `maze` and `procgen-maze-v0`."""
    name = task.strip().lower()
    name = re.sub(r"^(dm_control|dmc|gymnasium|gym|procgen|procgen_gym)[/:]", "", name)
    if found := re.fullmatch(r"procgen[-:_]([a-z]+)(-v0)?", name):
        name = found[1]
    return re.sub(r"[_\s]+", "-", name)


def known_bounds(names: Sequence[str], suite: str | None = None) -> Bounds | None:
    """Bounds of the first of `names` that a suite lists; without `suite`, only where exactly one suite does."""
    suites = [suite_named(suite)] if suite else list(known_suites().values())
    for name in names:
        found = [one for one in suites if normalised(name) in one.ranges]
        if len(found) == 1:
            low, high = found[0].ranges[normalised(name)]
            return Bounds(low, high, "known", f"{found[0].name}, {KIND_WORDS[found[0].kind]} ({found[0].source})")
    return None


def suites_with(names: Sequence[str]) -> tuple[str, ...]:
    """Which suites list any of these names."""
    wanted = {normalised(name) for name in names}
    return tuple(one.name for one in known_suites().values() if wanted & set(one.ranges))


def empirical_bounds(curves: Sequence[Curve]) -> Bounds | None:
    """The lowest and highest value that any run of the task logged at any step; None where all are equal."""
    finite = [values[np.isfinite(values)] for values in (curve.values_T for curve in curves)]
    finite = [values for values in finite if len(values)]
    if not finite:
        return None
    low, high = min(float(v.min()) for v in finite), max(float(v.max()) for v in finite)
    if not low < high:
        return None
    return Bounds(low, high, "empirical", "lowest and highest value that these runs logged at any step")


def given_bounds(low: float, high: float, source: str = "--min and --max") -> Bounds:
    """Bounds that a person gave. Raises UserError where they are not in order."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"bounds {low:g} and {high:g} are not in order", hint="--min must be below --max")
    return Bounds(low, high, "given", source)


def bounds_from_file(path: Path) -> Mapping[str, Bounds]:
    """A YAML mapping `task: [low, high]`, by normalised task name. Raises UserError."""
    shown = printable(str(path))
    try:
        loaded = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{shown}: {error.strerror}", hint="check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        line = f":{place.line + 1}" if place else ""
        raise UserError(f"{shown}{line}: no YAML", hint="write one line a task, as `maze: [5, 10]`") from None
    if not isinstance(loaded, dict) or not loaded:
        raise UserError(f"{shown}: no mapping of tasks to bounds", hint="write one line a task, as `maze: [5, 10]`")
    found = {}
    for task, pair in loaded.items():
        numbers = isinstance(pair, list) and len(pair) == 2 and all(type(item) in (int, float) for item in pair)
        if not numbers or not pair[0] < pair[1]:
            raise UserError(
                f"{shown}: the bounds of {printable(str(task))} are not [low, high]", hint="for example `maze: [5, 10]`"
            )
        found[normalised(str(task))] = Bounds(float(pair[0]), float(pair[1]), "given", path.name)
    return found
