"""Which columns hold the value, the step, the run and the task: chosen by a person, or guessed and named. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.variation.readers.source import Choice, Source, one_of

# In order of preference; compared without regard to case. Held-out numbers come before training ones.
VALUES = (
    "eval/mean_reward", "eval/mean_return", "eval/return", "eval_return", "eval_mean_reward", "test_return",
    "rollout/ep_rew_mean", "eprewmean", "ep_rew_mean", "charts/episodic_return", "episodic_return", "episode_return",
    "episode_reward_mean", "episode_return_mean", "mean_return", "average_return", "averagereturn", "return_mean",
    "mean_reward", "reward_mean", "episode_reward", "ep_reward", "ep_return", "return", "score", "reward", "r",
)  # fmt: skip
STEPS = (
    "time/total_timesteps", "misc/total_timesteps", "total_timesteps", "timesteps_total", "num_env_steps_sampled",
    "global_step", "env_steps", "environment_steps", "env_step", "num_env_steps", "total_env_steps", "timesteps",
    "timestep", "timestepssofar", "steps", "step", "_step", "frames", "frame", "num_frames", "t", "epoch", "iteration",
    "iter", "update", "nupdates", "misc/nupdates", "episode", "episodes",
)  # fmt: skip
RUNS = ("run", "run_id", "seed", "trial", "run_name", "replicate", "random_seed", "run_seed")
TASKS = ("task", "env", "env_id", "environment", "env_name", "game", "domain", "benchmark", "array")
ALGORITHMS = ("algorithm", "algo", "agent", "method", "rule")
VALUE_WORDS = ("return", "reward", "score", "ep_rew")
SHOWN = 12  # columns that an error lists


@dataclass(frozen=True)
class Wanted:
    """What the person said; None and () where it is to be guessed."""

    value: str | None = None
    step: str | None = None
    run: str | None = None
    groups: tuple[str, ...] = ()
    algorithm: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """The choice for a source, which columns make a task and which an algorithm, and which of it was guessed."""

    choice: Choice
    task: tuple[str, ...]
    algorithm: tuple[str, ...]
    guessed: tuple[str, ...]  # "value", "step", "run", "task", "algorithm"


def columns_of_source(source: Source, wanted: Wanted) -> Columns:
    """The columns to read. UserError where a named one is not there or nothing can be guessed."""
    guessed = []
    value = wanted.value
    if value is None:
        value = guessed_value(source)
        if len(source.values) > 1:
            guessed.append("value")
    elif value not in source.values:
        raise _missing(source, "--value", value, source.values)
    step = run = None
    if source.kind in ("table", "W&B export"):
        step, run = _step(source, wanted.step), _run(source, wanted.run)
        guessed += ["step"] if wanted.step is None else []
        guessed += ["run"] if wanted.run is None and run is not None else []
    names = (*source.columns, *source.facts)
    for group in (*wanted.groups, *wanted.algorithm):
        if group not in names:
            raise _missing(source, "--group", group, names)
    task, algorithm = wanted.groups, wanted.algorithm
    if not task:
        found = one_of(names, TASKS)
        task = (found,) if found and found not in (value, step, run, *algorithm) else ()
        guessed += ["task"] if task else []
    if not algorithm:
        taken = (value, step, run, *task)
        algorithm = tuple(name for name in names if name.lower() in ALGORITHMS and name not in taken)
        guessed += ["algorithm"] if algorithm else []
    return Columns(Choice(value, step, run, (*task, *algorithm)), task, algorithm, tuple(guessed))


def guessed_value(source: Source) -> str:
    """The value column; the only one that there is, else a usual name, else the only name that speaks of returns."""
    if len(source.values) == 1:
        return source.values[0]
    if not source.values:
        return ""
    found = one_of(source.values, VALUES)
    if found is not None:
        return found
    speaking = [name for name in source.values if any(word in name.lower() for word in VALUE_WORDS)]
    if len(speaking) == 1:
        return speaking[0]
    raise UserError(
        f"{printable(str(source.path))}: which column is the return?",
        hint=f"name it with --value; there are {_listed(speaking or source.values)}",
    )


def _step(source: Source, wanted: str | None) -> str:
    if wanted is not None:
        if wanted not in source.columns:
            raise _missing(source, "--step", wanted, source.columns)
        return wanted
    found = one_of(source.columns, STEPS)
    if found is None:
        raise UserError(
            f"{printable(str(source.path))}: which column counts steps?",
            hint=f"name it with --step; there are {_listed(source.columns)}",
        )
    return found


def _run(source: Source, wanted: str | None) -> str | None:
    if source.kind != "table" or wanted == "file":
        return None
    if wanted is not None and wanted not in source.columns:
        raise _missing(source, "--run", wanted, source.columns)
    return wanted if wanted is not None else one_of(source.columns, RUNS)


def _missing(source: Source, option: str, name: str, names: Sequence[str]) -> UserError:
    return UserError(
        f"{printable(str(source.path))}: {option} names {printable(name)!r}, which is not there",
        hint=f"there are {_listed(names)}" if names else f"{source.kind} files have no such choice",
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
