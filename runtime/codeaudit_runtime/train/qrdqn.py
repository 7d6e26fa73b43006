"""Trains several seeds of one recipe at once, in one batched network, with uniform replay. Not for losses or audits."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from codeaudit.store import RunDirectory
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.environments.protocol import VectorEnvironment
from codeaudit_runtime.spaces import AnyArray, FloatArray, IntArray
from codeaudit_runtime.train.adam import adam_step
from codeaudit_runtime.train.implicit import implicit_or_plain
from codeaudit_runtime.train.learning import Batch, learning_of
from codeaudit_runtime.train.networks import FORMAT
from codeaudit_runtime.train.recipe import CHUNK, Recipe, metadata_of_member
from codeaudit_runtime.train.replay import Replay

FLAT = ("online", "target", "first", "second")
CONTROL = {"algorithm": "qrdqn-member", "members": "1"}
OnChunk = Callable[[int, FloatArray], None]


@dataclass(frozen=True)
class TrainedMember:
    """One agent: its seed, its safetensors file, and the mean return of training episodes a chunk (nan: none ended).

    `control` is the file of an ensemble's first network alone.
    """

    seed: int
    content: bytes
    returns: tuple[float, ...]
    control: bytes | None = None


OnMembers = Callable[[int, list[TrainedMember]], None]


class Trainer:
    """S agents in lockstep: one environment slot, one ring and one random stream each.

    An ensemble's networks (`recipe.members` an agent) learn from the same batches, each with a target of its own; one
    of them, drawn anew for each episode, acts.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.seeds = recipe.member_seeds()
        self.environments = [environment_from_id(recipe.environment, 1) for _ in self.seeds]
        info = self.environments[0].info
        self.learning = learning_of(recipe)
        self.shape = self.learning.shape(info.observation.shape, info.actions.size)
        count = len(self.seeds) * recipe.members
        self.online, self.target, self.gradient = (implicit_or_plain(self.shape, count) for _ in range(3))
        # The first network of an ensemble begins as the single one of its seed does.
        self.online.draw([seed + 1_000_003 * one for seed in self.seeds for one in range(recipe.members)])
        self.target.flat.copy_(self.online.flat)
        self.first_moment, self.second_moment = torch.zeros_like(self.online.flat), torch.zeros_like(self.online.flat)
        self.updates = 0
        self.replay = Replay(len(self.seeds), recipe.buffer, info.observation)
        self.step = 0
        self.returns: list[list[float]] = [[] for _ in self.seeds]

    def run_chunk(self) -> None:
        """Train to the next save. Episodes and random streams begin anew, from (seed, chunk) alone."""
        chunk, recipe, members = self.step // CHUNK, self.recipe, len(self.seeds)
        stop = min((chunk + 1) * CHUNK, recipe.steps)
        streams = [np.random.Generator(np.random.PCG64([seed, 11, chunk])) for seed in self.seeds]
        length = stop - self.step
        # Drawn ahead in one call a member: 100,000 small calls would cost as much as the network.
        explore_ST = np.stack([stream.random(length) for stream in streams])
        random_ST = np.stack([stream.integers(0, self.shape.actions, length) for stream in streams])
        acting = np.zeros((members, length + 1), dtype=np.int64)
        if recipe.members > 1:
            acting = np.stack([stream.integers(0, recipe.members, length + 1) for stream in streams])
        behaves = acting[:, 0].copy()
        current = _reset_all(self.environments, self.seeds, chunk)
        totals, finished = np.zeros(members), [[0.0, 0.0] for _ in self.seeds]
        only = np.zeros(1, dtype=np.int64)
        for offset in range(length):
            explores = explore_ST[:, offset] < recipe.epsilon_at(self.step)
            actions = random_ST[:, offset].copy()
            if not explores.all():
                actions[~explores] = self._greedy(current, behaves)[~explores]
            following, rewards = np.empty_like(current), np.zeros(members)
            ended, kept = np.zeros(members, dtype=bool), np.ones(members, dtype=bool)
            for member, environment in enumerate(self.environments):
                result = environment.step(actions[member : member + 1], only)
                following[member], rewards[member] = result.observations[0], result.rewards[0]
                totals[member] += rewards[member]
                if result.changed and result.ended[0]:
                    ended[member], kept[member] = True, not result.truncated[0]
                    finished[member][0] += totals[member]
                    finished[member][1] += 1
                    totals[member] = 0.0
                    behaves[member] = acting[member, offset + 1]
            self.replay.add(current, actions, rewards, following, ended, kept)
            current = following
            self.step += 1
            if self.step > recipe.warmup and self.step % recipe.train_every == 0:
                self._learn(streams)
            if self.step % recipe.target_update == 0:
                self.target.flat.copy_(self.online.flat)
        for member, (total, count) in enumerate(finished):
            self.returns[member].append(total / count if count else float("nan"))

    def _greedy(self, observations_S: AnyArray, behaves_S: IntArray) -> AnyArray:
        values = self.learning.values(self.online, self._for_networks(observations_S).unsqueeze(1))
        actions = values.argmax(dim=-1).view(len(self.seeds), self.recipe.members).numpy()
        result: AnyArray = actions[np.arange(len(self.seeds)), behaves_S]
        return result

    def _for_networks(self, values_S: AnyArray) -> Tensor:
        """What every network of an agent is given: S × … becomes S·members × …"""
        tensor = torch.from_numpy(values_S)
        return tensor if self.recipe.members == 1 else tensor.repeat_interleave(self.recipe.members, dim=0)

    def _learn(self, streams: Sequence[np.random.Generator]) -> None:
        replay, size = self.replay, self.recipe.batch
        places = replay.places(np.stack([stream.random(size) for stream in streams]))
        rows = np.arange(len(places))[:, None]
        goes_on = ((1.0 - replay.ended[rows, places]) * self.recipe.discount).astype(np.float32)
        drawn = (
            replay.observations[rows, places], replay.actions[rows, places], replay.rewards[rows, places],
            replay.following[rows, places], goes_on,
        )  # fmt: skip

        def uniform(count: int) -> Tensor:
            return self._for_networks(np.stack([stream.random((size, count), dtype=np.float32) for stream in streams]))

        batch = Batch(*(self._for_networks(values) for values in drawn))
        self.learning.write_gradients(self.online, self.target, batch, uniform, self.gradient)
        self._adam()

    def _adam(self) -> None:
        self.updates += 1
        adam_step(
            self.online.flat, self.gradient.flat, self.first_moment, self.second_moment, self.updates,
            self.recipe.learning_rate,
        )  # fmt: skip

    def members(self) -> list[TrainedMember]:
        made, size = [], self.recipe.members
        for place, seed in enumerate(self.seeds):
            own = [
                {name: value[place * size + one].clone() for name, value in self.online.parameters.items()}
                for one in range(size)
            ]
            header = metadata_of_member(self.recipe, seed, self.step, self.shape.observation, self.shape.actions)
            single = safetensors_bytes(own[0], {"format": FORMAT, **header, **(CONTROL if size > 1 else {})})
            whole = {f"{one}.{name}": value for one, tensors in enumerate(own) for name, value in tensors.items()}
            content = single if size == 1 else safetensors_bytes(whole, {"format": FORMAT, **header})
            made.append(TrainedMember(seed, content, tuple(self.returns[place]), single if size > 1 else None))
        return made

    def saved(self) -> bytes:
        """Everything that training needs to go on, as plain arrays."""
        arrays: dict[str, AnyArray] = {f"replay/{name}": value for name, value in self.replay.arrays().items()}
        for name in FLAT:
            arrays[name] = self._flat(name).numpy()
        arrays["updates"] = np.array(self.updates)
        arrays["returns"] = np.array(self.returns)
        arrays["steps"] = np.array(self.step)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type,unused-ignore]
        return buffer.getvalue()

    def put_back(self, content: bytes) -> None:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            self.step = int(arrays["steps"])
            self.returns = arrays["returns"].tolist()
            prefix = "replay/"
            names = [name for name in arrays.files if name.startswith(prefix)]
            self.replay.put_back({name.removeprefix(prefix): arrays[name] for name in names})
            self.updates = int(arrays["updates"])
            for name in FLAT:
                self._flat(name).copy_(torch.from_numpy(arrays[name]))

    def _flat(self, name: str) -> Tensor:
        return {
            "online": self.online.flat,
            "target": self.target.flat,
            "first": self.first_moment,
            "second": self.second_moment,
        }[name]


def safetensors_bytes(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """The file with its header's keys in order: the library writes metadata in an order that changes between calls."""
    content = save(tensors, metadata)
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def _reset_all(environments: list[VectorEnvironment], seeds: list[int], chunk: int) -> AnyArray:
    """First observations (S × …). A member's episodes depend on its own seed and the chunk alone."""
    draws = [int(np.random.SeedSequence([seed, 7, chunk]).generate_state(1)[0]) for seed in seeds]
    firsts = [env.reset(LevelDraw(LevelSet(), draw))[0] for env, draw in zip(environments, draws, strict=True)]
    return np.stack(firsts)


def train_members(
    recipe: Recipe, run: RunDirectory, on_chunk: OnChunk | None = None, on_members: OnMembers | None = None
) -> list[TrainedMember]:
    """Train, saving after each chunk in `run`; a killed run goes on after the last saved one.

    `on_members` is given each save's step and agents, before the save counts as done.
    """
    with _without_denormals():
        return _train_members(recipe, run, on_chunk, on_members)


@contextmanager
def _without_denormals() -> Iterator[None]:
    """Dead units leave moments that shrink for ever, and denormal numbers are slow. It is the processor's setting, not
    torch's, so it must not outlive the training."""
    np.finfo(np.float32), np.finfo(np.float64)  # read before, for NumPy warns where it can't see denormal numbers
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _train_members(
    recipe: Recipe, run: RunDirectory, on_chunk: OnChunk | None, on_members: OnMembers | None
) -> list[TrainedMember]:
    trainer = Trainer(recipe)
    kept = run.unit("training")
    if kept is not None:
        trainer.put_back(kept)
    while trainer.step < recipe.steps:
        trainer.run_chunk()
        if on_members is not None:
            on_members(trainer.step, trainer.members())
        run.save("training", trainer.saved())
        if on_chunk is not None:
            on_chunk(trainer.step, np.array([returns[-1] for returns in trainer.returns]))
    return trainer.members()
