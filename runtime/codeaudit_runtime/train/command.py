"""The command `train`: parse, train, write agents. It decides nothing itself."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import click
import numpy as np

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.spaces import FloatArray


@click.group(name="train", context_settings={"help_option_names": ["-h", "--help"]})
def train() -> None:
    """Train small agents to audit."""


@train.command()
@click.option("--env", "environment", required=True, metavar="ID", help="riskygrid, minatar/breakout …")
@click.option("--algo", "algorithm", default="qrdqn", show_default=True, help="qrdqn.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 64), help="Agents trained at once.")
@click.option("--first-seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the first agent.")
@click.option("--steps", default="500000", show_default=True, help="Environment steps an agent; 500_000 is fine.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where agents are written.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def distributional(
    environment: str, algorithm: str, seeds: int, first_seed: int, steps: str, out: Path, quiet: bool
) -> None:
    """Train agents with a return-distribution head; a killed run goes on where it stopped."""
    from codeaudit_runtime.train.qrdqn import train_members
    from codeaudit_runtime.train.recipe import Recipe

    try:
        count = int(steps)
    except ValueError:
        raise UserError(f"--steps {steps!r} is no number", hint="for example --steps 500_000") from None
    recipe = Recipe(environment, count, seeds, first_seed, algorithm)
    run = RunDirectory(out, {"command": "train distributional", **recipe.to_json()})

    def report(step: int, returns_S: FloatArray) -> None:
        if not quiet:
            shown = ", ".join("none ended" if math.isnan(value) else f"{value:.2f}" for value in returns_S)
            print(f"{environment}: {step:,} of {count:,} steps; mean return {shown}", file=sys.stderr, flush=True)

    members = train_members(recipe, run, report)
    for member in members:
        (out / f"seed-{member.seed}.safetensors").write_bytes(member.content)
    curves = {str(member.seed): [None if np.isnan(v) else v for v in member.returns] for member in members}
    (out / "training.json").write_text(json.dumps({"recipe": recipe.to_json(), "returns": curves}, indent=2) + "\n")
    if not quiet:
        print(f"{len(members)} agents in {out}", file=sys.stderr)
