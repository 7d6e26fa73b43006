"""From checkpoint files to gaps and entropy screens: which units, in which order. Not for statistics or rendering."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit.text import printable
from codeaudit_runtime import campaign
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.checkpoints.safetensors_file import header_metadata
from codeaudit_runtime.checkpoints.source import bytes_of_file
from codeaudit_runtime.entropy import EntropyJob, Screen, entropy_bytes, screen_of, window_from_bytes
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.equivalence import (
    Equivalence,
    EquivalenceJob,
    equivalence_from_tables,
    tables_bytes,
    tables_from_bytes,
)
from codeaudit_runtime.gap import GameGap, RunRows, game_gap
from codeaudit_runtime.jobs import done_jobs
from codeaudit_runtime.levels import (
    LevelContent,
    LevelsJob,
    Overlap,
    SetContent,
    content_bytes,
    contents_from_bytes,
    overlap_of,
    set_content,
)
from codeaudit_runtime.locate import agent_files_of_path
from codeaudit_runtime.measure import AgentFiles
from codeaudit_runtime.measurements import CheckpointRows
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.variation.bounds import Bounds, known_bounds

MERGED = "merged_greedy"
FIRST_SEED = 11  # of the random play in which equivalent actions are looked for


@dataclass(frozen=True)
class RunFile:
    """One run's checkpoint. `identity` is the same for checkpoints of one training run, where the file tells."""

    id: str
    files: AgentFiles
    environment: str
    identity: str


@dataclass(frozen=True)
class LevelReport:
    """The contents of one environment's level sets: each in itself, and each later one against the first ones."""

    environment: str
    sets: tuple[SetContent, ...]
    overlaps: tuple[Overlap, ...]

    def left_out(self, first: str, second: str) -> frozenset[int]:
        """Levels of `second` that are also in `first`, or end at once."""
        found = [set(one.duplicate_levels) for one in self.overlaps if (one.first, one.second) == (first, second)]
        short = [set(one.short) for one in self.sets if one.name == second]
        return frozenset().union(*found, *short)


@dataclass(frozen=True)
class GameReport:
    gap: GameGap
    bounds: Bounds | None
    equivalence: Equivalence | None
    levels: LevelReport | None
    rows: tuple[CheckpointRows, ...]
    runs: tuple[RunRows, ...] = ()


def run_files(paths: Sequence[Path], environment: str = "", architecture: str = "") -> tuple[RunFile, ...]:
    """The runs' files. Without `environment` each file's own header must name it. Raises UserError."""
    stems = [path.stem for path in paths]
    found = []
    for path in paths:
        unique = stems.count(path.stem) == 1
        files = agent_files_of_path(path, architecture)
        metadata = _metadata(path)
        own = environment or _environment_of(metadata)
        if not own:
            raise UserError(
                f"{printable(str(path))}: the file does not say which environment it is for", hint="name it with --env"
            )
        told = [metadata.get(name, "") for name in ("recipe", "seed", "env", "train_levels", "network")]
        identity = hashlib.sha256("\0".join(told).encode()).hexdigest() if metadata.get("seed") else files.sha256
        found.append(RunFile(path.stem if unique else f"{path.parent.name}/{path.stem}", files, own, identity))
    return tuple(found)


def _metadata(path: Path) -> Mapping[str, str]:
    if path.suffix != ".safetensors":
        return {}
    return header_metadata(bytes_of_file(path), str(path))


def _environment_of(metadata: Mapping[str, str]) -> str:
    game, mode = metadata.get("env", ""), metadata.get("distribution_mode", "easy")
    if not game:
        return ""
    return game if "/" in game else f"procgen/{game}" + ("" if mode == "easy" else f":{mode}")


def refuse_one_run_twice(runs: Sequence[RunFile]) -> None:
    """UserError where two files come from one training run: pooled, they would pass for independent runs."""
    seen: dict[str, str] = {}
    for run in runs:
        if run.identity in seen:
            raise UserError(
                f"{printable(seen[run.identity])} and {printable(run.id)} come from one training run",
                hint="give one checkpoint a run; gaps are pooled over independent runs",
            )
        seen[run.identity] = run.id


def measured_equivalence(
    environment: str, level_sets: Sequence[LevelSet], run: RunDirectory | None, options: campaign.Options
) -> Equivalence:
    """Classes of equivalent actions over sampled states of every level set."""
    jobs = [EquivalenceJob(environment, levels, FIRST_SEED) for levels in level_sets]
    contents = done_jobs(jobs, tables_bytes, run, workers=options.workers, executor=options.executor)
    return equivalence_from_tables(environment, [row for content in contents for row in tables_from_bytes(content)])


def measured_levels(
    environment: str, level_sets: Sequence[LevelSet], run: RunDirectory | None, options: campaign.Options
) -> LevelReport:
    """Every pair of level sets compared by content."""
    jobs = [LevelsJob(environment, levels) for levels in level_sets]
    done = done_jobs(jobs, content_bytes, run, workers=options.workers, executor=options.executor)
    contents: dict[str, tuple[LevelContent, ...]] = {
        levels.name: contents_from_bytes(content) for levels, content in zip(level_sets, done, strict=True)
    }
    pairs = [(a, b) for index, a in enumerate(level_sets) for b in level_sets[index + 1 :]]
    return LevelReport(
        environment,
        tuple(set_content(levels, contents[levels.name]) for levels in level_sets),
        tuple(overlap_of(a, b, contents) for a, b in pairs),
    )


def bounds_of(environment: str) -> Bounds | None:
    """Published normalisation constants, known for easy mode alone."""
    game, _, mode = environment.partition(":")
    if not game.startswith("procgen/") or mode not in ("", "easy"):
        return None
    return known_bounds([game.removeprefix("procgen/")], "procgen-easy")


def measured_gaps(
    runs: Sequence[RunFile],
    rules: Sequence[ActionRule],
    level_sets: Sequence[LevelSet],
    plan: Plan,
    run: RunDirectory | None,
    options: campaign.Options,
    *,
    references: bool = False,
    content: bool = True,
) -> tuple[GameReport, ...]:
    """One report a game, in the order in which the games first appear."""
    refuse_one_run_twice(runs)
    reports = []
    for environment in dict.fromkeys(one.environment for one in runs):
        own = [one for one in runs if one.environment == environment]
        merged = any(rule.name == MERGED for rule in rules)
        equivalence = measured_equivalence(environment, level_sets, run, options) if merged else None
        fixed = [_with_classes(rule, equivalence) for rule in rules]
        levels = measured_levels(environment, level_sets, run, options) if content else None
        subjects = [campaign.Subject(one.id, one.files, environment, rules=tuple(fixed)) for one in own]
        rows = campaign.run_subjects(subjects, plan, run, options, level_sets=level_sets, references=references)
        by_run = [
            RunRows(one.id, one.identity, {part.levels.name: part for part in rows if part.id == one.id}) for one in own
        ]
        bounds = bounds_of(environment)
        first = level_sets[0].name
        left_out = {one.name: levels.left_out(first, one.name) for one in level_sets[1:]} if levels else {}
        pair = (bounds.low, bounds.high) if bounds is not None else None
        gap = game_gap(environment, by_run, level_sets, plan, pair, left_out)
        notes = tuple(dict.fromkeys(note for part in rows for note in part.notes))
        reports.append(GameReport(replace(gap, notes=notes), bounds, equivalence, levels, rows, tuple(by_run)))
    return tuple(reports)


def _with_classes(rule: ActionRule, equivalence: Equivalence | None) -> ActionRule:
    return replace(rule, classes=equivalence.classes) if rule.name == MERGED and equivalence else rule


def measured_screens(
    runs: Sequence[RunFile],
    level_sets: Sequence[LevelSet],
    draw: int,
    run: RunDirectory | None,
    options: campaign.Options,
    *,
    steps: int,
    rule: ActionRule,
) -> tuple[Screen, ...]:
    """The entropy screen of every run, on states that `rule` visits."""
    known = {
        environment: measured_equivalence(environment, level_sets, run, options)
        for environment in dict.fromkeys(one.environment for one in runs)
    }
    jobs = [
        EntropyJob(
            one.id,
            one.files,
            one.environment,
            levels,
            draw,
            _with_classes(rule, known[one.environment]),
            known[one.environment].classes,
            steps=steps,
        )
        for one in runs
        for levels in level_sets
    ]
    contents = iter(done_jobs(jobs, entropy_bytes, run, workers=options.workers, executor=options.executor))
    return tuple(
        screen_of(
            one.id,
            one.environment,
            {levels.name: window_from_bytes(next(contents)) for levels in level_sets},
            known[one.environment].classes,
        )
        for one in runs
    )
