"""What is fixed before any data: protocol, draws, margins, families and tests; and its hash. Reads no episodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

from codeaudit.errors import UserError

SCHEMA = "codeaudit.plan/1"

# What the numbers of a plan are used for. Part of the hash: a change of method is a change of plan.
TESTS: Mapping[str, str] = {
    "published_rule": "Welch TOST of a rule's episodes against the printed mean, std and count; the rule rejected by "
    "Welch's t, Holm over the entry's checkpoints, for greedy and for the other rules",
    "rule_matters": "t test of differences paired by draw, slot and index, Holm over the entry's checkpoints",
    "above_floor": "Welch's t against the floor's episodes, Holm over the entry's checkpoints and rules, else TOST",
    "kept_noise": "where one noise matrix serves all episodes of a slot, errors are clustered by it",
    "greedy_loops": "t test of paired differences of revisit shares, where any rule revisits an observation",
    "first_finished_bias": "percentile bootstrap over slots of first-finished mean minus balanced mean, where each "
    "slot plays two episodes or more",
}


@dataclass(frozen=True)
class Plan:
    """Protocol of record: three seeded draws of 128 episodes a rule and level set (Keshari 2026, revised)."""

    draws: tuple[int, ...] = (11, 12, 13)  # the seeds
    episodes_per_draw: int = 128
    slots: int | None = None  # None: 16 for Gymnasium, 64 for ProcGen
    burn_in: int = 1  # episodes a slot that are thrown away
    step_cap: int | None = None  # None: the environment's own limit
    alpha: float = 0.05
    published_margin: float = 0.05  # of |published − floor|
    floor_margin_relative: float = 0.1  # of |floor|
    floor_margin_absolute: float = 0.25  # in raw return
    loops_margin: float = 0.01  # of the share of steps
    resamples: int = 10_000
    bootstrap_seed: int = 0
    family: str = "entry"  # Holm runs over: the whole entry, or each checkpoint alone

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self), "draws": list(self.draws), "tests": dict(TESTS)}

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """What another plan's JSON says otherwise, as `name: theirs → ours`."""
        theirs, ours = _flat(other), _flat(self.to_json())
        names = sorted({*ours, *theirs})
        return [
            f"{name}: {theirs.get(name)} → {ours.get(name)}" for name in names if ours.get(name) != theirs.get(name)
        ]

    def with_episodes(self, episodes: int) -> Plan:
        """The plan with at least `episodes` episodes a rule, shared evenly over the draws."""
        return replace(self, episodes_per_draw=-(-episodes // len(self.draws)))

    def with_draws(self, draws: int, episodes: int, seed: int | None = None) -> Plan:
        """`draws` draws of `episodes` episodes each; seeds count up from `seed` or the first seed of the plan."""
        if draws == len(self.draws) and seed is None:
            return replace(self, episodes_per_draw=episodes)
        first = self.draws[0] if seed is None else seed
        return replace(self, draws=tuple(first + index for index in range(draws)), episodes_per_draw=episodes)

    def with_seed(self, seed: int) -> Plan:
        return replace(self, draws=tuple(seed + index for index in range(len(self.draws))))


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The tests by their own names, beside the other keys."""
    tests = plan.get("tests")
    rest = {key: value for key, value in plan.items() if key != "tests"}
    return {**rest, **{f"test of {key}": value for key, value in tests.items()}} if isinstance(tests, dict) else rest


def plan_from_file(path: Path) -> Plan:
    """A plan in YAML or JSON; keys left out keep their default. UserError for unknown keys or values out of range."""
    try:
        loaded = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint="check the path") from None
    except (UnicodeDecodeError, yaml.YAMLError):
        raise UserError(f"{path}: neither YAML nor JSON") from None
    if not isinstance(loaded, dict):
        raise UserError(f"{path}: a plan is a mapping")
    return _checked(_plan_from_mapping(loaded, str(path)), str(path))


def _plan_from_mapping(loaded: Mapping[str, Any], where: str) -> Plan:
    known = {field.name: field for field in fields(Plan)}
    if loaded.get("schema", SCHEMA) != SCHEMA:
        raise UserError(f"{where}: schema {loaded['schema']!r} is not {SCHEMA}")
    if "tests" in loaded and loaded["tests"] != dict(TESTS):
        raise UserError(f"{where}: the tests are not those of this version", hint="use the version that wrote the plan")
    values = {key: value for key, value in loaded.items() if key not in ("schema", "tests")}
    unknown = sorted(map(str, set(values) - set(known)))
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}", hint=f"keys: {', '.join(known)}")
    defaults = Plan()
    for name, value in values.items():
        default = getattr(defaults, name)
        if name == "draws":
            good = isinstance(value, list) and value and all(type(seed) is int and seed >= 0 for seed in value)
            good = good and len(set(value)) == len(value)
            values = {**values, "draws": tuple(value)} if good else values
        elif name in ("slots", "step_cap"):
            good = value is None or type(value) is int
        elif isinstance(default, float):
            good = type(value) in (int, float)
        else:
            good = type(value) is type(default)
        if not good:
            raise UserError(f"{where}: {name} cannot be {value!r}")
    return Plan(**values)


def _checked(plan: Plan, where: str) -> Plan:
    positive = ("episodes_per_draw", "resamples", "published_margin", "loops_margin")
    limits = {"slots": plan.slots, "step_cap": plan.step_cap}
    bad = [name for name in positive if getattr(plan, name) <= 0]
    bad += [name for name, value in limits.items() if value is not None and value < 1]
    bad += [name for name in ("burn_in", "floor_margin_relative", "floor_margin_absolute") if getattr(plan, name) < 0]
    if bad:
        raise UserError(f"{where}: {bad[0]} is too small")
    if not 0 < plan.alpha < 1:
        raise UserError(f"{where}: alpha must lie between 0 and 1")
    if plan.family not in ("entry", "checkpoint"):
        raise UserError(f"{where}: family is `entry` or `checkpoint`")
    return plan
