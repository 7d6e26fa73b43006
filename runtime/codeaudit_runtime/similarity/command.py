"""The command `similarity`: parse, call, render. It decides nothing itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from codeaudit.errors import UserError
from codeaudit_runtime import campaign
from codeaudit_runtime.commands import (
    ExecutorOption,
    LevelsOption,
    OutOption,
    OutputOption,
    QuietOption,
    SeedOption,
    WorkersOption,
    _all_cores,
)
from codeaudit_runtime.gap_commands import (
    ArchitectureOption,
    EnvOption,
    Format,
    FormatOption,
    _kept,
    _opened,
    _plan,
    _render,
    _sets,
)
from codeaudit_runtime.gap_run import run_files
from codeaudit_runtime.rendering.json_report import finite
from codeaudit_runtime.similarity.study import DRAWS, STEPS, THRESHOLDS, measured_similarity
from codeaudit_runtime.similarity.tables import similarity_grids


def similarity(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN [RUN...]", help="Checkpoints of one game.")],
    env: EnvOption = "",
    levels: LevelsOption = None,
    steps: Annotated[int, typer.Option("--steps", min=4, help="Steps of each of 16 slots.")] = STEPS,
    permutations: Annotated[int, typer.Option("--permutations", min=19, help="Random pairings of the null.")] = 200,
    architecture: ArchitectureOption = "",
    draws: Annotated[int, typer.Option("--draws", min=2, max=100, help="Seeded level draws.")] = DRAWS,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "",
    out: OutOption = None,
    format_: FormatOption = Format.terminal,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Linear CKA of two encoders on one batch, with its null. Train against held-out in one encoder is a control."""
    sets = _sets(levels)
    if len({one.name for one in sets}) < len(sets) or not sets:
        raise UserError("--levels names one set twice")
    files = run_files(runs, env, architecture)
    if len({one.files.sha256 for one in files}) < 2 and len(sets) < 2:
        raise UserError(
            "one encoder on one level set leaves nothing to compare", hint="give a second run, or two level sets"
        )
    fixed = _plan(None, draws, None, seed)
    run, changes = _opened(out, "similarity", " ".join(sorted(one.files.sha256 for one in files)), fixed)
    options = campaign.Options(workers or _all_cores(), executor)
    found = measured_similarity(files, sets, fixed.draws, run, options, steps=steps, permutations=permutations)
    report = {
        "schema": "codeaudit.similarity/1",
        "level_sets": [asdict(one) for one in sets],
        "draws": list(fixed.draws),
        "steps": steps,
        "permutations": permutations,
        "dormant_thresholds": list(THRESHOLDS),
        "plan_changes": changes,
        "versions": campaign.versions(),
        "between_encoders": [finite(asdict(one)) for one in found.crosses],
        "within_encoder": [finite(asdict(one)) for one in found.controls],
    }
    _kept(out, report, "similarity.json")
    _render(similarity_grids(found), "Similarity of representations", report, format_, output, quiet)
    return 0
