"""The commands `train distributional` and `train procgen`: parse, train, write agents. They decide nothing."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.spaces import FloatArray

if TYPE_CHECKING:
    from codeaudit_runtime.train.qrdqn import TrainedMember


@click.group(name="train", context_settings={"help_option_names": ["-h", "--help"]})
def train() -> None:
    """Train small agents to audit."""


@train.command()
@click.option("--env", "environment", required=True, metavar="ID", help="riskygrid, minatar/breakout, atari/breakout …")
@click.option(
    "--algo",
    "algorithm",
    default="qrdqn",
    show_default=True,
    help="qrdqn, c51, iqn, qrdqn-cvar (chooses by the CVaR at 0.25) or qrdqn-ensemble (five on one buffer).",
)
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 64), help="Agents trained at once.")
@click.option("--first-seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the first agent.")
@click.option("--steps", default="500000", show_default=True, help="Environment steps an agent; 500_000 is fine.")
@click.option("--support", metavar="LOW:HIGH", help="Lowest and highest atom of C51.")
@click.option("--keep-each", is_flag=True, help="Also keep the agents of every save, in DIR/at-STEP.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where agents are written.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def distributional(
    environment: str,
    algorithm: str,
    seeds: int,
    first_seed: int,
    steps: str,
    support: str | None,
    keep_each: bool,
    out: Path,
    quiet: bool,
) -> None:
    """Train agents with a return-distribution head; a killed run goes on where it stopped."""
    from codeaudit_runtime.train.qrdqn import train_members
    from codeaudit_runtime.train.recipe import recipe_of

    count = _whole_number(steps, "--steps")
    limits = None
    if support is not None:
        low, _, high = support.partition(":")
        try:
            limits = (float(low), float(high))
        except ValueError:
            raise UserError(f"--support {support!r} is no range", hint="for example --support 0:40") from None
    recipe = recipe_of(environment, count, seeds, first_seed, algorithm, limits)
    run = RunDirectory(out, {"command": "train distributional", **recipe.to_json()})

    def report(step: int, returns_S: FloatArray) -> None:
        if not quiet:
            shown = ", ".join("none ended" if math.isnan(value) else f"{value:.2f}" for value in returns_S)
            print(f"{environment}: {step:,} of {count:,} steps; mean return {shown}", file=sys.stderr, flush=True)

    def keep(step: int, members: list[TrainedMember]) -> None:
        _write_agents(out / f"at-{step}", members)

    members = train_members(recipe, run, report, keep if keep_each else None)
    _write_agents(out, members)
    curves = {str(member.seed): [None if np.isnan(v) else v for v in member.returns] for member in members}
    (out / "training.json").write_text(json.dumps({"recipe": recipe.to_json(), "returns": curves}, indent=2) + "\n")
    if not quiet:
        print(f"{len(members)} agents in {out}", file=sys.stderr)


def _whole_number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{option} {text!r} is no number", hint=f"for example {option} 500_000") from None


def _levels(text: str, option: str) -> tuple[int, int]:
    start, colon, count = text.partition(":")
    if not colon or not start.isdecimal() or not count.isdecimal() or int(count) < 1:
        raise UserError(f"{option} {text!r} is not START:COUNT", hint=f"for example {option} 1000:100")
    return int(start), int(count)


def _write_agents(folder: Path, members: Sequence[TrainedMember]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for member in members:
        (folder / f"seed-{member.seed}.safetensors").write_bytes(member.content)
        if member.control is not None:
            (folder / f"seed-{member.seed}-member-0.safetensors").write_bytes(member.control)


@train.command()
@click.option("--env", "environment", required=True, metavar="ID", help="procgen/miner …")
@click.option("--encoder", default="impala", show_default=True, type=click.Choice(("impala", "fpn")))
@click.option("--steps", default="1_000_000", show_default=True, help="Environment steps; a finished run can go on.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of everything drawn.")
@click.option("--slots", default=16, show_default=True, type=click.IntRange(1, 1024), help="Sub-environments.")
@click.option("--train-levels", default="0:200", show_default=True, metavar="START:COUNT", help="Levels to learn on.")
@click.option("--heldout-levels", default="1000:100", show_default=True, metavar="START:COUNT", help="In-loop levels.")
@click.option(
    "--heldout-every", default=1, show_default=True, type=click.IntRange(1), help="Step held-out slots every Nth step."
)
@click.option(
    "--reward", default="raw", show_default=True, type=click.Choice(("raw", "normalised")),
    help="normalised: as CleanRL, divided by the running spread of returns and clipped at ±10.",
)  # fmt: skip
@click.option(
    "--precision", default="float32", show_default=True, type=click.Choice(("float32", "bfloat16")),
    help="Of training; evaluation is float32.",
)  # fmt: skip
@click.option("--save-every", default="25_000", show_default=True, help="Steps between checkpoints.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Checkpoints and logs.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def procgen(
    environment: str, encoder: str, steps: str, seed: int, slots: int, train_levels: str, heldout_levels: str,
    heldout_every: int, reward: str, precision: str, save_every: str, out: Path, quiet: bool,
) -> None:  # fmt: skip
    """Train a PPO agent on ProcGen with an in-loop held-out log; a killed run goes on after its last checkpoint."""
    from codeaudit_runtime.train.procgen import UpdateLog
    from codeaudit_runtime.train.procgen_recipe import ProcgenRecipe
    from codeaudit_runtime.train.procgen_run import train_procgen

    count, between = _whole_number(steps, "--steps"), _whole_number(save_every, "--save-every")
    if count < 1 or between < 1:
        raise UserError("--steps and --save-every count from 1")
    levels = _levels(train_levels, "--train-levels"), _levels(heldout_levels, "--heldout-levels")
    recipe = ProcgenRecipe(
        environment, encoder, seed, slots, *levels, heldout_every, reward=reward, precision=precision,
        save_every=between,
    )  # fmt: skip
    began = time.monotonic()
    done = 0

    def report(log: UpdateLog) -> None:
        nonlocal done
        done += recipe.batch
        if not quiet:
            returns = ", ".join(
                f"{name} {value:.2f}" if value is not None else f"{name} none ended"
                for name, value in (("training", log.train), ("held-out", log.heldout))
            )
            speed = done / (time.monotonic() - began)
            print(
                f"{environment}: {log.steps:,} of {count:,} steps; last {recipe.window} returns: {returns}; "
                f"entropy {log.entropy:.2f}; {speed:.0f} steps/s",
                file=sys.stderr,
                flush=True,
            )

    found = train_procgen(recipe, count, out, report)
    if not quiet:
        print(f"{len(found)} checkpoints in {out}", file=sys.stderr)
