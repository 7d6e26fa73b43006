"""A ProcGen training run on disk: its saved state, its checkpoints and its logs. Not for how an agent learns."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np
import torch

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.campaign import keep_text
from codeaudit_runtime.spaces import AnyArray
from codeaudit_runtime.train.procgen import ACTIONS, FinishedEpisode, PpoTrainer, UpdateLog
from codeaudit_runtime.train.procgen_recipe import ProcgenRecipe
from codeaudit_runtime.train.qrdqn import safetensors_bytes

LOG, EPISODES = "training-log.csv", "in-loop-episodes.csv"
LOG_COLUMNS = ("steps", "train_last100", "test_last100", "entropy", "value_loss", "clipped")
EPISODE_COLUMNS = tuple(field.name for field in fields(FinishedEpisode))
SAVED = "training"
OnUpdate = Callable[[UpdateLog], None]


def checkpoint_name(recipe: ProcgenRecipe, steps: int) -> str:
    return f"{recipe.game}-{recipe.encoder}-s{recipe.seed}-{steps}.safetensors"


def checkpoint_bytes(trainer: PpoTrainer, dtype: torch.dtype = torch.float32) -> bytes:
    """The agent as safetensors, the whole recipe in its header. The same agent gives the same bytes."""
    tensors = {
        name: value.detach().to(dtype).contiguous(memory_format=torch.contiguous_format).clone()
        for name, value in trainer.agent.state_dict().items()
    }
    return safetensors_bytes(tensors, trainer.recipe.header(trainer.steps, ACTIONS))


def train_procgen(recipe: ProcgenRecipe, steps: int, folder: Path, on_update: OnUpdate | None = None) -> list[Path]:
    """Train to at least `steps` steps (whole updates); the checkpoints in `folder`, in the order of their steps.

    The state is saved with each checkpoint, and a killed run goes on after the last one. One thread, so that sums have
    one order on every machine of a kind. Raises UserError where the folder holds another run or can't be written.
    """
    run = RunDirectory(folder, {"command": "train procgen", **recipe.to_json()})
    torch.set_num_threads(1)
    with _without_denormals():
        trainer = PpoTrainer(recipe)
        kept = run.unit(SAVED)
        if kept is not None:
            put_back(trainer, kept)
        elif trainer.steps == 0:
            _write_checkpoint(trainer, folder)
        while trainer.steps < steps:
            before = trainer.steps
            log = trainer.update()
            if trainer.steps // recipe.save_every > before // recipe.save_every or trainer.steps >= steps:
                _keep(trainer, run)
            if on_update is not None:
                on_update(log)
    own = checkpoint_name(recipe, 0).removesuffix("0.safetensors")
    found = {path.stem.removeprefix(own): path for path in folder.glob(f"{own}*.safetensors")}
    return [found[number] for number in sorted(filter(str.isdecimal, found), key=int)]


def _write_checkpoint(trainer: PpoTrainer, folder: Path) -> None:
    path = folder / checkpoint_name(trainer.recipe, trainer.steps)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(checkpoint_bytes(trainer))
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint="free some space; the run goes on where it stopped") from None


def _keep(trainer: PpoTrainer, run: RunDirectory) -> None:
    """The checkpoint and the logs first: with the state saved last, a kill between them only makes them anew."""
    _write_checkpoint(trainer, run.path)
    keep_text(run.path / LOG, _csv(LOG_COLUMNS, map(astuple, trainer.log)))
    keep_text(run.path / EPISODES, _csv(EPISODE_COLUMNS, map(astuple, trainer.episodes)))
    run.save(SAVED, saved(trainer))


def _csv(columns: Sequence[str], rows: Iterator[tuple[object, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if value is None else _short(value) for value in row] for row in rows])
    return text.getvalue()


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def saved(trainer: PpoTrainer) -> bytes:
    """Everything that training needs to go on, as plain arrays."""
    arrays: dict[str, AnyArray] = {"updates": np.array(trainer.updates)}
    for name, value in trainer.agent.state_dict().items():
        arrays[f"agent/{name}"] = value.numpy()
    for number, state in trainer.optimiser.state_dict()["state"].items():
        for name, value in state.items():
            arrays[f"adam/{number}/{name}"] = value.numpy()
    for player in (trainer.train, trainer.heldout):
        arrays |= {f"{player.name}/{name}": value for name, value in player.arrays().items()}
    if trainer.scale is not None:
        arrays |= {f"scale/{name}": value for name, value in trainer.scale.arrays().items()}
    arrays["episodes"] = np.array(
        [(one.level_set == trainer.heldout.name, *astuple(one)[1:]) for one in trainer.episodes], dtype=np.float64
    ).reshape(-1, len(EPISODE_COLUMNS))
    arrays["log"] = np.array([astuple(one) for one in trainer.log], dtype=np.float64)  # None becomes nan
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type,unused-ignore]
    return buffer.getvalue()


def put_back(trainer: PpoTrainer, content: bytes) -> None:
    with np.load(io.BytesIO(content), allow_pickle=False) as loaded:
        arrays: dict[str, AnyArray] = dict(loaded)
    trainer.updates = int(arrays["updates"])
    trainer.agent.load_state_dict({name: torch.from_numpy(value) for name, value in _under(arrays, "agent").items()})
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in _under(arrays, "adam").items():
        number, _, part = name.partition("/")
        state.setdefault(int(number), {})[part] = torch.from_numpy(value)
    trainer.optimiser.load_state_dict({**trainer.optimiser.state_dict(), "state": state})
    for player in (trainer.train, trainer.heldout):
        player.put_back(_under(arrays, player.name))
    if trainer.scale is not None:
        trainer.scale.put_back(_under(arrays, "scale"))
    names = trainer.train.name, trainer.heldout.name
    trainer.episodes = [
        FinishedEpisode(names[int(which)], int(slot), int(level), int(began), int(ended), int(length), total)
        for which, slot, level, began, ended, length, total in arrays["episodes"].tolist()
    ]
    trainer.log = [
        UpdateLog(int(steps), _known(train), _known(heldout), *rest)
        for steps, train, heldout, *rest in arrays["log"].tolist()
    ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _under(arrays: dict[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    return {name.removeprefix(f"{prefix}/"): value for name, value in arrays.items() if name.startswith(f"{prefix}/")}


@contextmanager
def _without_denormals() -> Iterator[None]:
    """As in `qrdqn`: a setting of the processor that must not outlive the training."""
    np.finfo(np.float32), np.finfo(np.float64)  # read before, for NumPy warns where it can't see denormal numbers
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
