"""The commands verify, evaluate and floor: parse, call, render. They decide nothing themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from codeaudit.errors import UserError
from codeaudit.predictions import Prediction
from codeaudit.registry import RegistryEntry, load_entry, registry_folders
from codeaudit.store import RunDirectory, default_cache_dir, report_file
from codeaudit.text import printable
from codeaudit_runtime import campaign
from codeaudit_runtime.actions import ActionRule, rule_from_text
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.locate import agent_files, agent_files_of_path, checkpoint_folders
from codeaudit_runtime.measurements import CheckpointMeasurement, CheckpointRows, measure_checkpoints
from codeaudit_runtime.plan import Plan, plan_from_file
from codeaudit_runtime.progress import unit_progress
from codeaudit_runtime.rendering import json_report
from codeaudit_runtime.rendering.tables import floor_table, protocol_line
from codeaudit_runtime.verify import Verified, predictions_from_scan

if TYPE_CHECKING:
    from codeaudit_runtime.rendering.documents import Document


class Format(str, Enum):
    terminal = "terminal"
    json = "json"
    markdown = "markdown"
    html = "html"


FormatOption = Annotated[Format, typer.Option("--format", "--output-format", help="What to print.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report there instead of printing it.")
]
EpisodesOption = Annotated[
    int | None, typer.Option("--episodes", min=2, help="Episodes a rule, shared over the draws (default: 384).")
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option("--rule", metavar="RULE", help="sampled, greedy or epsilon_greedy:0.05; repeatable."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the first draw; the next ones follow.")]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="A plan file: protocol, margins, families, seeds.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Run directory; a killed run goes on where it stopped.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, max=1024, help="Processes that roll out (default: all cores).")
]
ExecutorOption = Annotated[str, typer.Option("--executor", help="local, or dask://HOST:PORT.")]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", envvar="CODEAUDIT_CACHE", metavar="DIR", help="Where clones and runs are kept."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and the shortest report.")]
ReferencesOption = Annotated[
    bool, typer.Option("--references", help="Also the best constant action, a blind policy and random weights.")
]
LevelsOption = Annotated[
    list[str] | None, typer.Option("--levels", metavar="NAME=START:COUNT", help="A level set; repeatable.")
]


def verify(
    target: Annotated[str, typer.Argument(metavar="ENTRY[/CHECKPOINT]", help="A registry entry, or one checkpoint.")],
    episodes: EpisodesOption = None,
    rule: RuleOption = None,
    references: ReferencesOption = False,
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", metavar="DIR", help="Folder of checkpoints, tried first.")
    ] = None,
    scan: Annotated[
        Path | None, typer.Option("--scan", metavar="FILE", help="A scan report; else the repository is scanned.")
    ] = None,
    registry: Annotated[
        list[Path] | None, typer.Option("--registry", metavar="DIR", help="More registry entries; repeatable.")
    ] = None,
    mirror: Annotated[
        list[Path] | None,
        typer.Option("--mirror", envvar="CODEAUDIT_MIRROR", metavar="DIR", help="Local repositories, OWNER+NAME."),
    ] = None,
    plan: PlanOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    cache: CacheOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Re-execute checkpoints of a registry entry and hold the numbers against the scan's predictions.

    Exit code 1 where a prediction is refuted.
    """
    entry_id, _, checkpoint_id = target.partition("/")
    entry = load_entry(entry_id, registry_folders(registry or []))
    chosen = [checkpoint for checkpoint in entry.checkpoints if checkpoint_id in ("", checkpoint.id)]
    if not chosen:
        known = ", ".join(checkpoint.id for checkpoint in entry.checkpoints)
        which = f"no checkpoint {checkpoint_id!r}" if checkpoint_id else "no checkpoints on record"
        hint = f"known: {known}" if known else "`codeaudit registry list` shows what entries hold"
        raise UserError(f"{entry_id} has {which}", hint=hint)
    if checkpoints is not None and not checkpoints.is_dir():
        raise UserError(f"{checkpoints}: no such folder", hint="--checkpoints names a folder of checkpoint files")
    folder = default_cache_dir(cache)
    mirrors = mirror or []
    predictions = _predictions(entry, scan, mirrors, cache)
    rules = _rules(rule)
    subjects = [
        campaign.subject_from_entry(item, agent_files(entry.id, item, checkpoint_folders(checkpoints), mirrors, folder))
        for item in chosen
    ]
    subjects = [_with_rules(subject, rules) for subject in subjects]
    fixed, typed = _plan(plan, episodes, seed)
    path = out or campaign.default_run_folder(folder, "verify", target.replace("/", "-"))
    run, changes = campaign.open_run(path, "verify", f"{entry.id}@{entry.commit}", fixed)
    rows = _run(subjects, fixed, run, workers, executor, quiet, references)
    verified = campaign.verified_subjects(rows, predictions, fixed)
    report = json_report.verify_report(
        entry.id, entry.commit, predictions, verified, fixed, [*typed, *changes], campaign.versions()
    )
    campaign.keep_results(path, rows, report, "verification.json")
    protocol = protocol_line(fixed, [*typed, *changes], episodes)
    if not predictions:
        protocol = f"the scan makes no prediction about these numbers; {protocol}"
    _render_verified(entry, verified, report, protocol, format_, output, _plot_folder(out, output), quiet)
    if out is None and not quiet:
        print(f"episodes are kept in {printable(str(path))}; --out DIR chooses another place", file=sys.stderr)
    return int(any(verdict.verdict == "refuted" for one in verified for verdict in one.verdicts))


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A .zip, .safetensors, .pt or .pth file.")],
    env: Annotated[str, typer.Option("--env", metavar="ID", help="Environment id, such as LunarLander-v3.")],
    rule: RuleOption = None,
    floor: Annotated[bool, typer.Option("--floor", help="Kept for scripts: the floor is always measured.")] = True,
    references: ReferencesOption = False,
    architecture: Annotated[str, typer.Option("--architecture", help="Name of the network, for plain tensors.")] = "",
    normalization: Annotated[
        Path | None,
        typer.Option("--normalization", metavar="FILE", help="VecNormalize statistics (default: beside it)."),
    ] = None,
    sha256: Annotated[str, typer.Option("--sha256", help="Refuse any other file.")] = "",
    levels: LevelsOption = None,
    episodes: EpisodesOption = None,
    plan: PlanOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Measure a checkpoint's return under one or more action rules, with the floor beside it."""
    files = agent_files_of_path(checkpoint, architecture, normalization)
    if sha256 and files.sha256 != sha256.lower():
        raise UserError(f"{checkpoint}: sha256 is {files.sha256}, not {sha256}", hint="it is another file")
    notes = (f"observations are normalised with {Path(files.normalization).name}",) if files.normalization else ()
    subject = campaign.Subject(checkpoint.stem, files, env, notes=notes, rules=_rules(rule))
    fixed, typed = _plan(plan, episodes, seed)
    run, changes = campaign.open_run(out, "evaluate", f"{files.sha256}@{env}", fixed) if out is not None else (None, [])
    rows = _run([subject], fixed, run, workers, executor, quiet, references, _level_sets(levels))
    measured = measure_checkpoints(rows, fixed)
    report = json_report.evaluate_report(measured, fixed, [*typed, *changes], campaign.versions())
    if out is not None:
        campaign.keep_results(out, rows, report, "evaluation.json")
    protocol = protocol_line(fixed, [*typed, *changes], episodes)
    _render_measured(measured, report, protocol, format_, output, _plot_folder(out, output), quiet)
    return 0


def floor(
    env: Annotated[str, typer.Option("--env", metavar="ID", help="Environment id, such as LunarLander-v3.")],
    levels: LevelsOption = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", min=1, max=100, help="Seeded level draws; --episodes then counts those of one draw."),
    ] = None,
    episodes: EpisodesOption = None,
    plan: PlanOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Measure the return of a uniform-random policy under the same harness."""
    fixed, typed = _plan(plan, None if draws is not None else episodes, seed)
    if draws is not None:
        fixed = fixed.with_draws(draws, episodes or fixed.episodes_per_draw, seed)
    run, changes = campaign.open_run(out, "floor", env, fixed) if out is not None else (None, [])
    with unit_progress(quiet) as progress:
        options = campaign.Options(workers or _all_cores(), executor, progress)
        rows = campaign.floor_rows(env, fixed, run, options, _level_sets(levels))
    report = json_report.floor_report(env, rows, fixed, [*typed, *changes], campaign.versions())
    if out is not None:
        campaign.keep_report(out, rows, report, "floor.json")
    table = floor_table(env, rows, fixed)
    protocol = protocol_line(fixed, [*typed, *changes], episodes if draws is None else None)
    with report_file(output) as file:
        if format_ is Format.json:
            file.write(_json_text(report))
        elif format_ is Format.terminal:
            from codeaudit_runtime.rendering.terminal import print_floor

            print_floor(table, protocol, file, quiet=quiet)
        else:
            from codeaudit_runtime.rendering.documents import Document, html_text, markdown_text

            document = Document(table.title, (table,), (), protocol)
            file.write(markdown_text(document, {}) if format_ is Format.markdown else html_text(document))
    return 0


def _all_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rules(texts: Sequence[str] | None) -> tuple[ActionRule, ...]:
    rules = tuple(map(rule_from_text, texts or []))
    if any(rule.name == "own" for rule in rules):
        raise UserError("the rule `own` is for a function of your own", hint="see codeaudit_runtime.evaluate")
    return tuple(dict.fromkeys(rules))


def _plan(path: Path | None, episodes: int | None, seed: int | None) -> tuple[Plan, list[str]]:
    """The plan, and what the command line says otherwise than the plan file."""
    fixed = base = plan_from_file(path) if path is not None else Plan()
    if episodes is not None:
        fixed = fixed.with_episodes(episodes)
    if seed is not None:
        fixed = fixed.with_seed(seed)
    changed = fixed.differences(base.to_json()) if path is not None else []
    return fixed, [f"{change} (on the command line)" for change in changed]


def _with_rules(subject: campaign.Subject, rules: tuple[ActionRule, ...]) -> campaign.Subject:
    from dataclasses import replace

    return replace(subject, rules=rules) if rules else subject


def _level_sets(texts: Sequence[str] | None) -> tuple[LevelSet, ...]:
    sets = tuple(map(_level_set, texts)) if texts else campaign.ALL_LEVELS
    if len({levels.name for levels in sets}) < len(sets):
        raise UserError("--levels names one set twice", hint="give each a name of its own")
    return sets


def _level_set(text: str) -> LevelSet:
    """`heldout=1000:100` or `1000:100`."""
    name, equals, numbers = text.rpartition("=")
    start, colon, count = numbers.partition(":")
    if not colon or not start.isdecimal() or not count.isdecimal() or int(count) < 1:
        raise UserError(f"--levels {text!r} is not NAME=START:COUNT", hint="for example --levels heldout=1000:100")
    return LevelSet(name if equals else numbers, int(start), int(count))


def _run(
    subjects: Sequence[campaign.Subject],
    plan: Plan,
    run: RunDirectory | None,
    workers: int | None,
    executor: str,
    quiet: bool,
    references: bool,
    level_sets: Sequence[LevelSet] = campaign.ALL_LEVELS,
) -> tuple[CheckpointRows, ...]:
    with unit_progress(quiet) as progress:
        options = campaign.Options(workers or _all_cores(), executor, progress)
        return campaign.run_subjects(subjects, plan, run, options, level_sets=level_sets, references=references)


def _predictions(
    entry: RegistryEntry, report: Path | None, mirrors: Sequence[Path], cache: Path | None
) -> list[Prediction]:
    """What the scan of the entry's repository, at its commit, says must be seen."""
    scan = _scan_of_file(report) if report is not None else _scan_of_repository(entry, mirrors, cache)
    commit = str(scan.get("target", {}).get("commit", "")) if isinstance(scan.get("target"), dict) else ""
    if commit and commit != entry.commit:
        raise UserError(
            f"the scan is of commit {printable(commit[:12])}, the registry entry of {entry.commit[:12]}",
            hint="scan the entry's commit",
        )
    return predictions_from_scan(scan, entry.published_site)


def _scan_of_file(path: Path) -> Mapping[str, Any]:
    try:
        loaded = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint="check the path") from None
    except ValueError:
        raise UserError(f"{path}: no JSON", hint="make it with `codeaudit scan TARGET --format json`") from None
    if not isinstance(loaded, dict):
        raise UserError(f"{path}: not a scan report")
    return loaded


def _scan_of_repository(entry: RegistryEntry, mirrors: Sequence[Path], cache: Path | None) -> Mapping[str, Any]:
    """The static half runs in a process of its own: this half never parses source code."""
    command = [sys.executable, "-m", "codeaudit", "scan", f"{entry.url}@{entry.commit}", "--format", "json", "--quiet"]
    for mirror in mirrors:
        command += ["--mirror", str(mirror)]
    if cache is not None:
        command += ["--cache", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        loaded = json.loads(done.stdout) if done.returncode in (0, 1) else None
    except ValueError:
        loaded = None
    if not isinstance(loaded, dict):
        said = done.stderr.strip().splitlines()
        raise UserError(
            f"the scan of {entry.url}@{entry.commit[:12]} failed: {printable(said[-1]) if said else 'no report'}",
            hint="scan it yourself and give the report with --scan FILE",
        )
    return loaded


def _json_text(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=2, allow_nan=False) + "\n"


def _render_verified(
    entry: RegistryEntry,
    verified: Sequence[Verified],
    report: Mapping[str, Any],
    protocol: str,
    format_: Format,
    output: Path | None,
    plots: Path | None,
    quiet: bool,
) -> None:
    with report_file(output) as file:
        if format_ is Format.json:
            file.write(_json_text(report))
        elif format_ is Format.terminal:
            from codeaudit_runtime.rendering.terminal import print_verified

            print_verified(verified, protocol, file, quiet=quiet)
        else:
            from codeaudit_runtime.rendering.documents import document_from_verified

            document = document_from_verified(f"{entry.title}: published numbers re-executed", verified, protocol)
            _write_document(document, [one.measurement for one in verified], format_, file, plots, output, quiet)


def _render_measured(
    measured: Sequence[CheckpointMeasurement],
    report: Mapping[str, Any],
    protocol: str,
    format_: Format,
    output: Path | None,
    plots: Path | None,
    quiet: bool,
) -> None:
    with report_file(output) as file:
        if format_ is Format.json:
            file.write(_json_text(report))
        elif format_ is Format.terminal:
            from codeaudit_runtime.rendering.terminal import print_measured

            print_measured(measured, protocol, file, quiet=quiet)
        else:
            from codeaudit_runtime.rendering.documents import document_from_measured

            _write_document(
                document_from_measured("Evaluation", measured, protocol), measured, format_, file, plots, output, quiet
            )


def _write_document(
    document: Document,
    measured: Sequence[CheckpointMeasurement],
    format_: Format,
    file: IO[str],
    folder: Path | None,
    output: Path | None,
    quiet: bool,
) -> None:
    """HTML carries its plots; Markdown names SVG files: in the run directory, else beside the report."""
    from codeaudit_runtime.rendering.documents import html_text, markdown_text
    from codeaudit_runtime.rendering.plots import checkpoint_svg

    if format_ is Format.html:
        file.write(html_text(document))
        return
    plots: dict[str, str] = {}
    if folder is not None:
        for one in measured:
            name = one.rows.id if one.rows.levels.count is None else f"{one.rows.id}-{one.rows.levels.name}"
            path = folder / f"{name}.svg"
            campaign.keep_text(path, checkpoint_svg(one))
            plots[f"{one.rows.id} {one.rows.place}"] = os.path.relpath(path, output.parent if output else Path.cwd())
    elif not quiet:
        print("no plots are drawn: --out DIR or --output FILE says where to, --format html holds them", file=sys.stderr)
    file.write(markdown_text(document, plots))


def _plot_folder(named: Path | None, output: Path | None) -> Path | None:
    """In the run directory that a person named, else beside the report; None where neither is."""
    if named is not None:
        return named / "plots"
    return None if output is None else output.with_name(f"{output.stem}-plots")
