"""A verification or an evaluation from start to end: which rules, units and rows. Renders and prints nothing."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import codeaudit
from codeaudit.errors import UserError
from codeaudit.predictions import Prediction
from codeaudit.registry import CheckpointEntry, Published
from codeaudit.store import RunDirectory
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.cautions import episode_cautions
from codeaudit_runtime.checkpoints import Checkpoint
from codeaudit_runtime.environments import LevelSet, VectorEnvironment
from codeaudit_runtime.episodes import EpisodeRow, returns_of, write_database
from codeaudit_runtime.measure import (
    FLOOR,
    AgentFiles,
    Unit,
    check_fit,
    floor_units,
    load_agent,
    measure,
    open_environment,
    units_for,
)
from codeaudit_runtime.measurements import CheckpointRows, measure_checkpoints
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.references import BLIND, RANDOM_WEIGHTS, constant_names
from codeaudit_runtime.verify import Verified, verify_checkpoint

Progress = Callable[[int, int, int, bool], None]  # units done, units in all, steps of this unit, whether run now
GREEDY = ActionRule("greedy")
ALL_LEVELS = (LevelSet(),)


@dataclass(frozen=True)
class Subject:
    """One agent to be measured."""

    id: str
    files: AgentFiles
    environment: str
    published_environment: str = ""
    published: Published | None = None
    rules: tuple[ActionRule, ...] = ()  # empty: those that the agent calls for
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Options:
    """How the work is done; none of it changes a result."""

    workers: int = 1
    executor: str = ""
    progress: Progress | None = None


def subject_from_entry(checkpoint: CheckpointEntry, files: AgentFiles) -> Subject:
    notes = []
    if checkpoint.run_as != checkpoint.environment:
        notes.append(f"{checkpoint.environment} no longer exists in Gymnasium: {checkpoint.run_as} was run")
    if checkpoint.note:
        notes.append(checkpoint.note)
    return Subject(
        id=checkpoint.id,
        files=files,
        environment=checkpoint.run_as,
        published_environment=checkpoint.environment,
        published=checkpoint.published,
        notes=tuple(notes),
    )


def rules_of(checkpoint: Checkpoint) -> tuple[ActionRule, ...]:
    """Greedy, and the rule that the agent's library uses where it is not told to be deterministic."""
    if checkpoint.value_based:
        return (GREEDY, ActionRule("epsilon_greedy", checkpoint.exploration_rate or 0.05))
    sampled = (ActionRule("sampled"),)
    return (GREEDY, *sampled, *((ActionRule("sampled_redrawn"),) if checkpoint.state_dependent_noise else ()))


def versions() -> dict[str, str]:
    """What the numbers depend on beside the plan and the files."""
    found = {"codeaudit": codeaudit.__version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scipy", "gymnasium", "Box2D", "minatar", "procgen-mirror", "procgen", "ale-py"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str]:
    return {"system": platform.system(), "machine": platform.machine(), "processor": platform.processor()}


def default_run_folder(cache: Path, command: str, subject: str) -> Path:
    """Where a run is kept that names no folder: one for each command, subject and set of versions."""
    identity = json.dumps([command, subject, versions()]).encode()
    return cache / "runs" / f"{command}-{subject}-{hashlib.sha256(identity).hexdigest()[:12]}"


def open_run(path: Path, command: str, subject: str, plan: Plan) -> tuple[RunDirectory, list[str]]:
    """The run directory, and what this plan says otherwise than the one with which the directory was begun."""
    run = RunDirectory(path, {"command": command, "subject": subject, "versions": versions()})
    first = path / "plan.json"
    try:
        if not (path / "machine.json").exists():
            (path / "machine.json").write_text(json.dumps(machine(), indent=2) + "\n")
        if not first.exists():
            partial = first.with_name(".plan.partial")
            partial.write_text(json.dumps(plan.to_json(), indent=2) + "\n")
            partial.replace(first)
        return run, plan.differences(json.loads(first.read_text()))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint="free some space or name another --out") from None
    except ValueError:
        raise UserError(f"{first}: damaged", hint="delete it; the finished units are kept") from None


def run_subjects(
    subjects: Sequence[Subject],
    plan: Plan,
    run: RunDirectory | None,
    options: Options,
    *,
    level_sets: Sequence[LevelSet] = ALL_LEVELS,
    references: bool = False,
) -> tuple[CheckpointRows, ...]:
    """Every subject under its rules, and the floor of its environment on the same draws; one item a level set.

    All agents are loaded and held against their environment before the first step, so that a bad file costs no time.
    """
    loaded = [_loaded_and_fitting(subject, plan, level_sets) for subject in subjects]
    groups: list[tuple[int, str, list[Unit]]] = []
    for number, (subject, checkpoint) in enumerate(zip(subjects, loaded, strict=True)):
        groups += [(number, name, units) for name, units in _units_of(subject, checkpoint, plan, level_sets).items()]
        if references:
            stricter = _reference_units(subject, checkpoint, plan, level_sets)
            groups += [(number, name, units) for name, units in stricter.items()]
    rows = iter(_measured([units for _, _, units in groups], run, options))
    named: list[dict[str, tuple[EpisodeRow, ...]]] = [{} for _ in subjects]
    for number, name, _ in groups:
        named[number][name] = next(rows)
    caps = [_environment(subject.environment, plan, level_sets).info.step_cap for subject in subjects]
    return tuple(
        _rows_of(subject, checkpoint, cap, own, levels)
        for subject, checkpoint, cap, own in zip(subjects, loaded, caps, named, strict=True)
        for levels in level_sets
    )


def floor_rows(
    environment_id: str, plan: Plan, run: RunDirectory | None, options: Options, level_sets: Sequence[LevelSet]
) -> tuple[EpisodeRow, ...]:
    """The uniform-random policy alone."""
    return _measured([floor_units(environment_id, plan, level_sets)], run, options)[0]


def _environment(environment_id: str, plan: Plan, level_sets: Sequence[LevelSet]) -> VectorEnvironment:
    """The one that the first unit will use."""
    unit = floor_units(environment_id, plan, level_sets)[0]
    return open_environment(unit.environment, unit.slots, unit.step_cap)


def _loaded_and_fitting(subject: Subject, plan: Plan, level_sets: Sequence[LevelSet]) -> Checkpoint:
    checkpoint = load_agent(subject.files)
    check_fit(checkpoint, _environment(subject.environment, plan, level_sets), subject.id)
    return checkpoint


def _units_of(
    subject: Subject, checkpoint: Checkpoint, plan: Plan, level_sets: Sequence[LevelSet]
) -> dict[str, list[Unit]]:
    """Units by rule label, and the floor's."""
    rules = subject.rules or rules_of(checkpoint)
    units = {
        rule.label: units_for(subject.id, subject.files, subject.environment, [rule], plan, level_sets)
        for rule in rules
    }
    return {**units, FLOOR: floor_units(subject.environment, plan, level_sets)}


def _reference_units(
    subject: Subject, checkpoint: Checkpoint, plan: Plan, level_sets: Sequence[LevelSet]
) -> dict[str, list[Unit]]:
    """Units of the stricter references. Constant policies belong to the environment, so agents share their units."""
    environment = _environment(subject.environment, plan, level_sets)
    named = {
        name: units_for(FLOOR, None, subject.environment, [GREEDY], plan, level_sets, name)
        for name in constant_names(environment.info.actions)
    }
    blind = ActionRule("sampled")  # its head is a distribution also for a value-based agent
    untrained = GREEDY if checkpoint.value_based else ActionRule("sampled")
    for name, rule in ((BLIND, blind), (RANDOM_WEIGHTS, untrained)):
        named[name] = units_for(subject.id, subject.files, subject.environment, [rule], plan, level_sets, name)
    return named


def _measured(
    groups: Sequence[Sequence[Unit]], run: RunDirectory | None, options: Options
) -> list[tuple[EpisodeRow, ...]]:
    """The rows of each group of units. Identical units of several groups run once."""
    units = list({unit.key: unit for group in groups for unit in group}.values())
    done = 0

    def count(_: Unit, steps: int, fresh: bool) -> None:
        nonlocal done
        done += 1
        if options.progress is not None:
            options.progress(done, len(units), steps, fresh)

    if options.progress is not None:
        options.progress(0, len(units), 0, True)
    measured = measure(units, run, workers=options.workers, executor=options.executor, on_done=count)
    rows = {unit.key: own for unit, own in zip(units, measured, strict=True)}
    return [tuple(row for unit in group for row in rows[unit.key]) for group in groups]


def _rows_of(
    subject: Subject,
    checkpoint: Checkpoint,
    step_cap: int,
    rows: Mapping[str, tuple[EpisodeRow, ...]],
    levels: LevelSet,
) -> CheckpointRows:
    labels = [rule.label for rule in subject.rules or rules_of(checkpoint)]
    here = {name: tuple(row for row in own if row.level_set == levels.name) for name, own in rows.items()}
    return CheckpointRows(
        id=subject.id,
        environment=subject.environment,
        published_environment=subject.published_environment or subject.environment,
        algorithm=checkpoint.algorithm,
        value_based=checkpoint.value_based,
        step_cap=step_cap,
        rules={label: here[label] for label in labels},
        floor=here[FLOOR],
        references=_best_constant({name: own for name, own in here.items() if name != FLOOR and name not in labels}),
        published=subject.published,
        levels=levels,
        notes=(*subject.notes, *checkpoint.notes, *episode_cautions(len(here[FLOOR]))),
    )


def _best_constant(references: Mapping[str, tuple[EpisodeRow, ...]]) -> dict[str, tuple[EpisodeRow, ...]]:
    """The constant policies replaced by the best one. It is chosen on the first draw and read on the others, for the
    largest of several means would be biased on the draw that chose it."""
    constants = {name: rows for name, rows in references.items() if name.startswith("constant:")}
    rest = {name: rows for name, rows in references.items() if name not in constants}
    if not constants:
        return rest

    def first_draw_mean(name: str) -> float:
        rows = constants[name]
        return float(returns_of([row for row in rows if row.draw == rows[0].draw]).mean())

    best = max(sorted(constants), key=first_draw_mean)
    others = tuple(row for row in constants[best] if row.draw != constants[best][0].draw)
    return {f"best constant ({best.partition(':')[2]})": others or constants[best], **rest}


def verified_subjects(
    rows: Sequence[CheckpointRows], predictions: Sequence[Prediction], plan: Plan
) -> tuple[Verified, ...]:
    return tuple(verify_checkpoint(one, predictions, plan) for one in measure_checkpoints(rows, plan))


def keep_results(path: Path, rows: Sequence[CheckpointRows], report: Mapping[str, Any], name: str) -> None:
    """The table of episodes and the report, in the run directory. The same run always writes the same bytes."""
    episodes: dict[EpisodeRow, None] = {}  # agents of one environment share their floor's rows
    for one in rows:
        for part in (*one.rules.values(), one.floor, *one.references.values()):
            episodes.update(dict.fromkeys(part))
    keep_report(path, list(episodes), report, name)


def keep_report(path: Path, episodes: Sequence[EpisodeRow], report: Mapping[str, Any], name: str) -> None:
    write_database(path / "episodes.sqlite", episodes)
    keep_text(path / name, json.dumps(report, indent=2, allow_nan=False) + "\n")


def keep_text(path: Path, text: str) -> None:
    """A file of a run directory, whole or not at all. Raises UserError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text)
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path.parent}: {error.strerror}", hint="free some space; finished units are kept") from None
