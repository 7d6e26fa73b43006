"""The commands gap, entropy, levels, actions, floors and curves: parse, call, render. They decide nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from codeaudit.errors import UserError
from codeaudit.report.grid import Grid
from codeaudit.store import RunDirectory, report_file
from codeaudit_runtime import campaign
from codeaudit_runtime.actions import ActionRule, rule_from_text
from codeaudit_runtime.commands import (
    ExecutorOption,
    LevelsOption,
    OutOption,
    OutputOption,
    PlanOption,
    QuietOption,
    ReferencesOption,
    SeedOption,
    WorkersOption,
    _all_cores,
    _level_sets,
)
from codeaudit_runtime.entropy import STEPS, Screen
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.episodes import EpisodeRow, returns_of
from codeaudit_runtime.floors import floor_cells, game_of, published_figures
from codeaudit_runtime.gap_run import (
    GameReport,
    LevelReport,
    measured_equivalence,
    measured_gaps,
    measured_levels,
    measured_screens,
    refuse_one_run_twice,
    run_files,
)
from codeaudit_runtime.in_loop_run import TrainingRun, measured_in_loop, training_run
from codeaudit_runtime.plan import Plan, plan_from_file
from codeaudit_runtime.progress import unit_progress
from codeaudit_runtime.published_curves import final_runs, readings
from codeaudit_runtime.rendering import procgen_tables as tables
from codeaudit_runtime.rendering.grids import write_grids
from codeaudit_runtime.rendering.in_loop_tables import in_loop_grid
from codeaudit_runtime.rendering.json_report import finite, plan_fields
from codeaudit_runtime.rendering.two_sets_tables import two_sets_grid
from codeaudit_runtime.statistics import estimate_from_values
from codeaudit_runtime.two_sets import compared_sets


class Format(str, Enum):
    terminal = "terminal"
    json = "json"
    markdown = "markdown"
    html = "html"
    latex = "latex"


STUDY_SETS = (LevelSet("train", 0, 200), LevelSet("heldout", 1000, 100))
STUDY_RULES = (ActionRule("sampled"), ActionRule("greedy"))
LOOP_RULES = (ActionRule("epsilon_greedy", 0.01), ActionRule("epsilon_greedy", 0.05), ActionRule("merged_greedy"))

RunsArgument = Annotated[
    list[Path], typer.Argument(metavar="RUNS...", help="Checkpoints, one an independently trained run.")
]
EnvOption = Annotated[
    str, typer.Option("--env", metavar="ID", help="Environment id; else each file's header must name it.")
]
EnvsOption = Annotated[list[str], typer.Option("--env", metavar="ID", help="procgen/GAME; repeatable.")]
ArchitectureOption = Annotated[str, typer.Option("--architecture", help="Name of the network, for plain tensors.")]
DrawsOption = Annotated[int | None, typer.Option("--draws", min=1, max=100, help="Seeded level draws (default: 3).")]
PerDrawOption = Annotated[
    int | None, typer.Option("--episodes", min=2, help="Episodes a draw, rule and level set (default: 128).")
]
FormatOption = Annotated[Format, typer.Option("--format", "--output-format", help="What to print.")]
PublishedOption = Annotated[
    Path | None, typer.Option("--published", metavar="FILE", help="YAML of printed figures to compare with.")
]


def gap(
    runs: RunsArgument,
    env: EnvOption = "",
    levels: LevelsOption = None,
    draws: DrawsOption = None,
    episodes: PerDrawOption = None,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="RULE", help="More rules, such as merged_greedy; repeatable.")
    ] = None,
    loops: Annotated[
        bool, typer.Option("--loops", help="Also what breaks ties and loops: epsilon 0.01 and 0.05, merged argmax.")
    ] = False,
    in_loop: Annotated[
        bool, typer.Option("--in-loop", help="RUNS are folders: the log's running mean against fixed checkpoints.")
    ] = False,
    checkpoints: Annotated[
        int, typer.Option("--checkpoints", min=0, help="With --in-loop: at most so many, evenly spread (0: all).")
    ] = 0,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="RUN", help="A second set of runs, such as another encoder's; repeatable."),
    ] = None,
    references: ReferencesOption = False,
    content: Annotated[
        bool, typer.Option("--content/--no-content", help="Compare the level sets by content (ProcGen).")
    ] = True,
    architecture: ArchitectureOption = "",
    plan: PlanOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Generalization gaps of one or more runs, sampled and greedy, read against the floor on the same draws."""
    sets = _sets(levels)
    if checkpoints and not in_loop:
        raise UserError("--checkpoints counts points of a training log", hint="give it with --in-loop")
    if in_loop:
        folders = [training_run(path, env, architecture, checkpoints) for path in runs]
        fixed = _plan(plan, draws, episodes, seed)
        options = campaign.Options(workers or _all_cores(), executor)
        return _in_loop(folders, sets, fixed, options, out, format_, output, quiet)
    if len(sets) < 2:
        raise UserError("a gap needs two level sets", hint="--levels train=0:200 --levels heldout=1000:100")
    rules = tuple(dict.fromkeys((*STUDY_RULES, *(LOOP_RULES if loops else ()), *map(rule_from_text, rule or []))))
    files = run_files(runs, env, architecture)
    others = run_files(against or [], env, architecture)
    refuse_one_run_twice([*files, *others])
    fixed = _plan(plan, draws, episodes, seed)
    run, changes = _opened(out, "gap", " ".join(sorted(one.files.sha256 for one in (*files, *others))), fixed)
    with unit_progress(quiet) as progress:
        options = campaign.Options(workers or _all_cores(), executor, progress)
        compare = content and all(one.environment.startswith("procgen/") and _finite_sets(sets) for one in files)
        reports = measured_gaps(files, rules, sets, fixed, run, options, references=references, content=compare)
        second = measured_gaps(others, rules, sets, fixed, run, options, content=False)
    compared = {
        one.gap.environment: compared_sets((one.gap, two.gap), (one.runs, two.runs), sets, fixed.alpha)
        for one in reports
        for two in second
        if one.gap.environment == two.gap.environment
    }
    if others and not compared:
        raise UserError("--against names runs of other games", hint="two sets are compared on one game")
    report = {
        "schema": "codeaudit.gap/1",
        **plan_fields(fixed, changes, campaign.versions()),
        "games": [_game_json(one) for one in reports],
    }
    if others:
        report["against"] = {
            "games": [_game_json(one) for one in second],
            "comparisons": {
                name: [{**finite(asdict(one)), "near_chance": one.near_chance} for one in own]
                for name, own in compared.items()
            },
        }
    if out is not None:
        campaign.keep_results(
            out, [part for one in (*reports, *second) for part in one.rows], finite(report), "gap.json"
        )
    grids = [two_sets_grid(name, own) for name, own in compared.items()]
    grids += [grid for one in (*reports, *second) for grid in tables.gap_grids(one)]
    _render(grids, "Generalization gaps", report, format_, output, quiet)
    return 0


def _in_loop(
    folders: Sequence[TrainingRun],
    sets: Sequence[LevelSet],
    plan: Plan,
    options: campaign.Options,
    out: Path | None,
    format_: Format,
    output: Path | None,
    quiet: bool,
) -> int:
    subject = " ".join(sorted(one.files.sha256 for folder in folders for one in folder.checkpoints.values()))
    run, changes = _opened(out, "gap --in-loop", subject, plan)
    with unit_progress(quiet) as progress:
        found, rows = measured_in_loop(folders, sets, plan, run, replace(options, progress=progress))
    report = {
        "schema": "codeaudit.in-loop/1",
        **plan_fields(plan, changes, campaign.versions()),
        "runs": [finite(asdict(one)) for one in found],
    }
    if out is not None:
        campaign.keep_results(out, rows, finite(report), "in-loop.json")
    _render([in_loop_grid(one) for one in found], "In-loop against fixed", report, format_, output, quiet)
    return 0


def entropy(
    runs: RunsArgument,
    env: EnvOption = "",
    levels: LevelsOption = None,
    steps: Annotated[int, typer.Option("--steps", min=17, help="Steps of each of 64 slots.")] = STEPS,
    rule: Annotated[str, typer.Option("--rule", metavar="RULE", help="Rule whose states are visited.")] = "sampled",
    floor: Annotated[bool, typer.Option("--floor", help="Also hold the sampled return against the floor.")] = False,
    architecture: ArchitectureOption = "",
    draws: DrawsOption = None,
    episodes: PerDrawOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Entropy of the policy on visited states, raw and merged over equivalent actions, with tiers and windows."""
    sets = _sets(levels)
    files = run_files(runs, env, architecture)
    fixed = _plan(None, draws, episodes, seed)
    run, changes = _opened(out, "entropy", " ".join(sorted(one.files.sha256 for one in files)), fixed)
    options = campaign.Options(workers or _all_cores(), executor)
    screens = measured_screens(files, sets, fixed.draws[0], run, options, steps=steps, rule=rule_from_text(rule))
    told = ["" for _ in files]
    if floor:
        rules = (ActionRule("sampled"),)
        single = [measured_gaps([one], rules, sets, fixed, run, options, content=False)[0] for one in files]
        told = [", ".join(f"{cell.level_set} {cell.call}" for cell in one.gap.cells) for one in single]
    report = {
        "schema": "codeaudit.entropy/1",
        "rule": rule,
        "steps": steps,
        "draw": fixed.draws[0],
        "level_sets": [asdict(one) for one in sets],
        "plan_changes": changes,
        "versions": campaign.versions(),
        "runs": [_screen_json(one, call) for one, call in zip(screens, told, strict=True)],
    }
    _kept(out, report, "entropy.json")
    _render([tables.entropy_grid(screens, told)], "Entropy", report, format_, output, quiet)
    return 0


def levels(
    env: EnvsOption,
    level_sets: LevelsOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """How many held-out ProcGen levels are training levels by content, and how many are over at once."""
    sets = _sets(level_sets)
    run, _ = _opened(out, "levels", "", Plan())
    options = campaign.Options(workers or _all_cores(), executor)
    found = [measured_levels(environment, sets, run, options) for environment in dict.fromkeys(env)]
    report = {
        "schema": "codeaudit.levels/1",
        "versions": campaign.versions(),
        "games": [_levels_json(one) for one in found],
    }
    _kept(out, report, "levels.json")
    _render(tables.level_grids(found), "Levels by content", report, format_, output, quiet)
    return 0


def actions(
    env: EnvsOption,
    level_sets: LevelsOption = None,
    published: PublishedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Which of the 15 ProcGen actions do the same thing in a game."""
    figures = published_figures(published) if published is not None else None
    run, _ = _opened(out, "actions", "", Plan())
    options = campaign.Options(workers or _all_cores(), executor)
    found = [measured_equivalence(environment, _sets(level_sets), run, options) for environment in dict.fromkeys(env)]
    printed = figures.effective_actions if figures else {}
    report = {
        "schema": "codeaudit.actions/1",
        "versions": campaign.versions(),
        "games": [
            {**asdict(one), "effective": one.effective, "published": printed.get(game_of(one.environment))}
            for one in found
        ],
    }
    _kept(out, report, "actions.json")
    _render([tables.actions_grid(found, figures)], "Equivalent actions", report, format_, output, quiet)
    return 0


def floors(
    env: EnvsOption,
    level_sets: LevelsOption = None,
    published: PublishedOption = None,
    draws: DrawsOption = None,
    episodes: PerDrawOption = None,
    plan: PlanOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Floors of several games in one table, against published ones where a file of them is given."""
    figures = published_figures(published) if published is not None else None
    fixed = _plan(plan, draws, episodes, seed)
    run, changes = _opened(out, "floors", "", fixed)
    rows = _floor_rows(dict.fromkeys(env), _sets(level_sets), fixed, run, workers, executor, quiet)
    cells = floor_cells(rows, figures)
    report = {
        "schema": "codeaudit.floors/1",
        **plan_fields(fixed, changes, campaign.versions()),
        "floors": [asdict(cell) for cell in cells],
    }
    _kept(out, report, "floors.json")
    _render([tables.floors_grid(cells)], "Floors", report, format_, output, quiet)
    return 0


def curves(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV of curves: game, split, run, steps, return ...")],
    train_levels: Annotated[
        str, typer.Option("--train-levels", metavar="START:COUNT", help="Levels that the runs were trained on.")
    ] = "0:200",
    games: Annotated[list[str] | None, typer.Option("--game", help="Only this game; repeatable.")] = None,
    draws: DrawsOption = None,
    episodes: PerDrawOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Published ProcGen learning curves read against floors: of their training levels, and of all levels for test."""
    runs = [one for one in final_runs(file) if not games or one.game in games]
    if not runs:
        raise UserError(f"{file}: no curve of {', '.join(games or [])}", hint="check --game")
    fixed = _plan(None, draws, episodes, seed)
    train = _level_sets([f"train={train_levels}"])[0]
    run, changes = _opened(out, "curves", train.label, fixed)
    names = {f"procgen/{game}": game for game in sorted({one.game for one in runs})}
    rows = _floor_rows(names, (train, LevelSet("test")), fixed, run, workers, executor, quiet)
    known = {
        names[environment]: {
            split: estimate_from_values(returns_of([row for row in own if row.level_set == split]))
            for split in ("train", "test")
        }
        for environment, own in rows.items()
    }
    found = readings(runs, known)
    report = {
        "schema": "codeaudit.curves/1",
        **plan_fields(fixed, changes, campaign.versions()),
        "games": [asdict(one) for one in found],
    }
    _kept(out, report, "curves.json")
    _render([tables.curves_grid(found)], "Published curves", report, format_, output, quiet)
    return 0


def _floor_rows(
    environments: Mapping[str, Any],
    sets: Sequence[LevelSet],
    plan: Plan,
    run: RunDirectory | None,
    workers: int | None,
    executor: str,
    quiet: bool,
) -> dict[str, tuple[EpisodeRow, ...]]:
    found = {}
    for environment in environments:
        with unit_progress(quiet) as progress:
            options = campaign.Options(workers or _all_cores(), executor, progress)
            found[environment] = campaign.floor_rows(environment, plan, run, options, sets)
    return found


def _sets(texts: list[str] | None) -> tuple[LevelSet, ...]:
    return _level_sets(texts) if texts else STUDY_SETS


def _finite_sets(sets: Sequence[LevelSet]) -> bool:
    return all(one.count is not None for one in sets)


def _plan(path: Path | None, draws: int | None, episodes: int | None, seed: int | None) -> Plan:
    fixed = plan_from_file(path) if path is not None else Plan()
    return fixed.with_draws(draws or len(fixed.draws), episodes or fixed.episodes_per_draw, seed)


def _opened(out: Path | None, command: str, subject: str, plan: Plan) -> tuple[RunDirectory | None, list[str]]:
    return campaign.open_run(out, command, subject, plan) if out is not None else (None, [])


def _kept(out: Path | None, report: Mapping[str, Any], name: str) -> None:
    if out is not None:
        campaign.keep_text(out / name, json.dumps(finite(report), indent=2, allow_nan=False) + "\n")


def _render(
    grids: Sequence[Grid], title: str, report: Mapping[str, Any], format_: Format, output: Path | None, quiet: bool
) -> None:
    with report_file(output) as file:
        if format_ is Format.json:
            file.write(json.dumps(finite(report), indent=2, allow_nan=False) + "\n")
        else:
            write_grids(grids, title, format_.value, file, quiet=quiet)


def _game_json(one: GameReport) -> dict[str, Any]:
    found: dict[str, Any] = finite(asdict(one.gap))
    found["normalisation"] = asdict(one.bounds) if one.bounds is not None else None
    equivalence = one.equivalence
    found["actions"] = None if equivalence is None else {**asdict(equivalence), "effective": equivalence.effective}
    found["content"] = None if one.levels is None else _levels_json(one.levels)
    return found


def _levels_json(one: LevelReport) -> dict[str, Any]:
    return asdict(one)


def _screen_json(one: Screen, call: str) -> dict[str, Any]:
    return {**asdict(one), "equivalent_share": one.equivalent_share, "against_floor": call or None}
