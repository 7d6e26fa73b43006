"""From a training run's folder to its in-loop reports: logs read, checkpoints evaluated. Not for statistics.

A folder holds the checkpoints of one run (safetensors whose headers tell `steps`), a log `*training-log.csv` with
columns `steps`, `train_last100` and `test_last100`, and, where the trainer kept them, the in-loop episodes
(`*in-loop-episodes.csv`).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit.text import printable
from codeaudit_runtime import campaign
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.checkpoints.safetensors_file import header_metadata
from codeaudit_runtime.checkpoints.source import bytes_of_file
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.episodes import returns_of
from codeaudit_runtime.gap_run import RunFile, run_files
from codeaudit_runtime.in_loop import InLoopEpisode, InLoopReport, LoggedRun, in_loop_report
from codeaudit_runtime.measurements import CheckpointRows
from codeaudit_runtime.plan import Plan

COLUMNS = {"train": "train_last100", "heldout": "test_last100"}
SAMPLED = ActionRule("sampled")


@dataclass(frozen=True)
class TrainingRun:
    """One folder: its checkpoints by steps, and its log of each level set."""

    id: str
    checkpoints: dict[int, RunFile]
    logs: dict[str, LoggedRun]


def training_run(folder: Path, environment: str = "", architecture: str = "", most: int = 0) -> TrainingRun:
    """Reads one folder; with `most`, only about so many checkpoints, evenly spread. Raises UserError."""
    shown = printable(str(folder))
    if not folder.is_dir():
        raise UserError(f"{shown}: --in-loop reads folders of training runs", hint="name the folder, not a checkpoint")
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise UserError(f"{shown}: no safetensors checkpoints in it", hint="is it a folder of one training run?")
    files = run_files(paths, environment, architecture)
    if len({one.identity for one in files}) > 1:
        raise UserError(f"{shown}: checkpoints of more than one training run", hint="one folder a run")
    by_steps: dict[int, RunFile] = {}
    for path, one in zip(paths, files, strict=True):
        steps = header_metadata(bytes_of_file(path), str(path)).get("steps", "")
        if not steps.isdecimal():
            raise UserError(f"{printable(str(path))}: its header tells no `steps`", hint="write them into the header")
        by_steps[int(steps)] = one
    means = _means(_only(folder, "*training-log.csv"))
    kept = folder.glob("*in-loop-episodes.csv")
    episodes = _episodes(_only(folder, "*in-loop-episodes.csv")) if next(kept, None) is not None else None
    logs = {
        name: LoggedRun(folder.name, name, means[name], None if episodes is None else tuple(episodes.get(name, [])))
        for name in means
    }
    end = max(max(found, default=0) for found in means.values())
    inside = sorted(steps for steps in by_steps if steps <= end)
    return TrainingRun(folder.name, {steps: by_steps[steps] for steps in _spread(inside, most)}, logs)


def _spread(steps: Sequence[int], most: int) -> Sequence[int]:
    """The first, the last, and evenly spread ones between."""
    if most < 2 or len(steps) <= most:
        return steps
    return sorted({steps[round(index * (len(steps) - 1) / (most - 1))] for index in range(most)})


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise UserError(f"{printable(str(folder))}: {len(found)} files {pattern}, not one", hint="one folder a run")
    return found[0]


def _table(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{printable(str(path))}: can't be read as CSV ({printable(str(error))})") from None


def _means(path: Path) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {name: {} for name in COLUMNS}
    for number, row in enumerate(_table(path), start=2):
        try:
            for name, column in COLUMNS.items():
                if row[column]:
                    found[name][int(row["steps"])] = float(row[column])
        except (KeyError, TypeError, ValueError):
            wanted = ", ".join(("steps", *COLUMNS.values()))
            raise UserError(f"{printable(str(path))}:{number}: no numbers under {wanted}") from None
    return {name: own for name, own in found.items() if own}


def _episodes(path: Path) -> dict[str, list[InLoopEpisode]]:
    found: dict[str, list[InLoopEpisode]] = {}
    names = ("slot", "level", "began", "ended", "length")
    for number, row in enumerate(_table(path), start=2):
        try:
            slot, level, began, ended, length = (int(row[name]) for name in names)
            one = InLoopEpisode(slot, level, began, ended, length, float(row["total"]))
            found.setdefault(row["level_set"], []).append(one)
        except (KeyError, TypeError, ValueError):
            wanted = ", ".join(("level_set", *names, "total"))
            raise UserError(f"{printable(str(path))}:{number}: no numbers under {wanted}") from None
    return found


def measured_in_loop(
    folders: Sequence[TrainingRun],
    level_sets: Sequence[LevelSet],
    plan: Plan,
    run: RunDirectory | None,
    options: campaign.Options,
) -> tuple[tuple[InLoopReport, ...], tuple[CheckpointRows, ...]]:
    """Each folder's checkpoints under the sampled rule on the level sets that its log speaks of."""
    reports: list[InLoopReport] = []
    all_rows: list[CheckpointRows] = []
    for one in folders:
        sets = [levels for levels in level_sets if levels.name in one.logs]
        if not sets:
            raise UserError(f"{printable(one.id)}: its log speaks of none of these level sets", hint="train, heldout")
        subjects = [
            campaign.Subject(f"{one.id}@{steps}", file.files, file.environment, rules=(SAMPLED,))
            for steps, file in one.checkpoints.items()
        ]
        rows = campaign.run_subjects(subjects, plan, run, options, level_sets=sets)
        all_rows += rows
        for levels in sets:
            own = {part.id: part for part in rows if part.levels.name == levels.name}
            fixed = {steps: own[f"{one.id}@{steps}"].rules[SAMPLED.label] for steps in one.checkpoints}
            floor = float(returns_of(next(iter(own.values())).floor).mean())
            try:
                reports.append(in_loop_report(one.logs[levels.name], fixed, floor, seed=plan.bootstrap_seed))
            except ValueError as error:
                raise UserError(f"{printable(one.id)}: {error}", hint="checkpoints and log must overlap") from None
    return tuple(reports), tuple(all_rows)
