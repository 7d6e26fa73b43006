"""PPO on ProcGen in one file: roll out, estimate advantages, update; a held-out environment runs beside. Not for files.

Source: Schulman et al. 2017, with the details of Huang et al. 2022 (CleanRL) that `ProcgenRecipe` names. All chance
comes from (seed, update), and the environments' states are kept, so a run that was saved after any update goes on as
if it had never stopped.

Axis letters: T steps of a roll-out, E slots, N rows of a batch, A actions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from codeaudit_runtime.actions import ActionChooser, ActionRule
from codeaudit_runtime.environments import LevelDraw, LevelSet
from codeaudit_runtime.environments.procgen_slots import ProcgenSlots
from codeaudit_runtime.policies import Categorical
from codeaudit_runtime.spaces import AnyArray, BoolArray, FloatArray, IntArray
from codeaudit_runtime.train.encoders import ProcgenAgent, agent_from_seed
from codeaudit_runtime.train.procgen_recipe import ProcgenRecipe

ACTIONS = 15
CLIP_REWARD, EPSILON = 10.0, 1e-8  # of CleanRL's reward normalisation
SAMPLED = ActionRule("sampled")


@dataclass(frozen=True)
class FinishedEpisode:
    """One in-loop episode. `began` and `ended` count training steps, `slot` is that of its own environment."""

    level_set: str
    slot: int
    level: int
    began: int
    ended: int
    length: int
    total: float


@dataclass(frozen=True)
class UpdateLog:
    """What the audited codebases log after an update; None until an episode has ended."""

    steps: int
    train: float | None
    heldout: float | None
    entropy: float
    value_loss: float
    clipped: float  # share of rows whose ratio left the clip range


class Player:
    """Slots of one level set that are never reset: totals, lengths and beginnings of their current episodes."""

    def __init__(self, recipe: ProcgenRecipe, levels: LevelSet, stream: int) -> None:
        self.name = levels.name
        self.environment = ProcgenSlots(recipe.environment, recipe.slots)
        draw = int(np.random.SeedSequence([recipe.seed, stream]).generate_state(1)[0] >> 1)
        self.observations = self.environment.reset(LevelDraw(levels, draw))
        self.totals_E = np.zeros(recipe.slots)
        self.lengths_E = np.zeros(recipe.slots, dtype=np.int64)
        self.began_E = np.zeros(recipe.slots, dtype=np.int64)
        self.everyone = np.arange(recipe.slots)

    def step(self, actions_E: IntArray, steps: int) -> tuple[FloatArray, BoolArray, list[FinishedEpisode]]:
        """Rewards, ends and the episodes that ended; `steps` is the count of training steps after this one."""
        levels = self.environment.level_ids().copy()
        result = self.environment.step(actions_E, self.everyone)
        self.totals_E += result.rewards
        self.lengths_E += 1
        finished = []
        for slot in np.flatnonzero(result.ended).tolist():
            numbers = int(levels[slot]), int(self.began_E[slot]), steps, int(self.lengths_E[slot])
            finished.append(FinishedEpisode(self.name, slot, *numbers, float(self.totals_E[slot])))
            self.totals_E[slot], self.lengths_E[slot], self.began_E[slot] = 0.0, 0, steps
        self.observations = result.observations
        return result.rewards, result.ended, finished

    def arrays(self) -> dict[str, AnyArray]:
        """Everything that the next step depends on, as plain arrays."""
        parts = [self.environment.state(slot) for slot in self.everyone.tolist()]
        return {
            "totals": self.totals_E,
            "lengths": self.lengths_E,
            "began": self.began_E,
            "sizes": np.array([len(part) for part in parts]),
            "states": np.frombuffer(b"".join(parts), dtype=np.uint8),
        }

    def put_back(self, arrays: Mapping[str, AnyArray]) -> None:
        self.totals_E, self.lengths_E = arrays["totals"].copy(), arrays["lengths"].copy()
        self.began_E = arrays["began"].copy()
        ends = np.cumsum(arrays["sizes"])
        whole = arrays["states"].tobytes()
        for slot, (end, size) in enumerate(zip(ends.tolist(), arrays["sizes"].tolist(), strict=True)):
            self.environment.restore(slot, (whole[end - size : end], int(self.lengths_E[slot])))
        self.observations = self.environment.observations()


class Pictures:
    """The different pictures of one roll-out. Agents see most of them again, and the weights don't change meanwhile, so
    each is looked at once; in an update, copies within a minibatch share one pass through the encoder."""

    def __init__(self, agent: ProcgenAgent, autocast: torch.autocast) -> None:
        self.agent, self.autocast = agent, autocast
        self.rows: dict[bytes, int] = {}
        self.images: list[AnyArray] = []
        self.logits: list[FloatArray] = []
        self.values: list[float] = []

    def numbers(self, observations_E: AnyArray) -> IntArray:
        """The number of each observation's picture; new ones are shown to the agent."""
        keys = [hashlib.blake2b(row.data, digest_size=16).digest() for row in np.ascontiguousarray(observations_E)]
        new: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in self.rows:
                new.setdefault(key, row)
        if new:
            images = [observations_E[row].copy() for row in new.values()]
            with torch.inference_mode(), self.autocast:
                logits, values = self.agent(torch.from_numpy(np.stack(images)))
            self.rows.update({key: len(self.images) + place for place, key in enumerate(new)})
            self.images += images
            self.logits += list(logits.float().numpy())
            self.values += values.float().tolist()
        return np.array([self.rows[key] for key in keys], dtype=np.int64)

    def head(self, numbers_E: IntArray) -> Categorical:
        return Categorical(np.stack([self.logits[number] for number in numbers_E]))

    def values_of(self, numbers_E: IntArray) -> FloatArray:
        return np.array([self.values[number] for number in numbers_E], dtype=np.float32)


@dataclass(frozen=True)
class Rollout:
    """One batch, flattened to N = T·E rows. `images` holds each picture once; `pictures_N` is the one of each row."""

    images: AnyArray
    pictures_N: IntArray
    actions_N: IntArray
    log_probabilities_N: FloatArray
    values_N: FloatArray
    advantages_N: FloatArray
    returns_N: FloatArray
    entropy: float


class RewardScale:
    """CleanRL's reward normalisation: divide by the running standard deviation of the discounted return, then clip."""

    def __init__(self, slots: int, gamma: float) -> None:
        self.gamma = gamma
        self.returns_E = np.zeros(slots)
        self.mean, self.variance, self.count = 0.0, 1.0, 1e-4

    def __call__(self, rewards_E: FloatArray, ended_E: BoolArray) -> FloatArray:
        self.returns_E = self.returns_E * self.gamma + rewards_E
        self._add(self.returns_E)
        self.returns_E[ended_E] = 0.0
        scaled: FloatArray = np.clip(rewards_E / np.sqrt(self.variance + EPSILON), -CLIP_REWARD, CLIP_REWARD)
        return scaled

    def _add(self, values: FloatArray) -> None:
        """Chan et al. 1979: pool a batch's mean and variance with those so far."""
        mean, count = float(values.mean()), len(values)
        total, delta = self.count + count, mean - self.mean
        squares = self.variance * self.count + float(values.var()) * count + delta**2 * self.count * count / total
        self.mean, self.variance, self.count = self.mean + delta * count / total, squares / total, total

    def arrays(self) -> dict[str, AnyArray]:
        return {"returns": self.returns_E, "moments": np.array([self.mean, self.variance, self.count])}

    def put_back(self, arrays: Mapping[str, AnyArray]) -> None:
        self.returns_E = arrays["returns"].copy()
        self.mean, self.variance, self.count = map(float, arrays["moments"])


def advantages(
    rewards_TE: FloatArray, values_TE: FloatArray, ended_TE: BoolArray, last_E: FloatArray, gamma: float, lambda_: float
) -> FloatArray:
    """Generalised advantage estimates (T × E), Schulman et al. 2016, equation 16; `ended_TE` says that step t was an
    episode's last, `last_E` is the value of the observation after the roll-out."""
    result = np.zeros_like(values_TE)
    ahead, following = np.zeros_like(last_E), last_E
    for step in reversed(range(len(rewards_TE))):
        goes_on = 1.0 - ended_TE[step]
        error = rewards_TE[step] + gamma * following * goes_on - values_TE[step]
        ahead = error + gamma * lambda_ * goes_on * ahead
        result[step], following = ahead, values_TE[step]
    return result


class PpoTrainer:
    """One agent, its training slots and its held-out slots."""

    def __init__(self, recipe: ProcgenRecipe) -> None:
        self.recipe = recipe
        self.agent = agent_from_seed(recipe.encoder, ACTIONS, recipe.seed)
        self.optimiser = torch.optim.Adam(
            self.agent.parameters(), lr=recipe.learning_rate, eps=recipe.adam_epsilon, foreach=True
        )
        train, heldout = recipe.level_sets()
        self.train, self.heldout = Player(recipe, train, 1), Player(recipe, heldout, 2)
        self.scale = RewardScale(recipe.slots, recipe.gamma) if recipe.reward == "normalised" else None
        self.autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=recipe.precision == "bfloat16")
        self.updates = 0
        self.episodes: list[FinishedEpisode] = []
        self.log: list[UpdateLog] = []

    @property
    def steps(self) -> int:
        return self.updates * self.recipe.batch

    def update(self) -> UpdateLog:
        """One roll-out and its epochs of minibatches."""
        streams = np.random.SeedSequence([self.recipe.seed, 3, self.updates]).spawn(3)
        rollout = self._roll_out(*map(np.random.default_rng, streams[:2]))
        value_loss, clipped = self._learn(rollout, np.random.default_rng(streams[2]))
        self.updates += 1
        train, heldout = (self._running_mean(player.name) for player in (self.train, self.heldout))
        self.log.append(UpdateLog(self.steps, train, heldout, rollout.entropy, value_loss, clipped))
        return self.log[-1]

    def _running_mean(self, level_set: str) -> float | None:
        """Over the last `window` episodes that ended, whichever slot they ended in: the audited codebases' number."""
        totals: list[float] = []
        for episode in reversed(self.episodes):
            if episode.level_set == level_set:
                totals.append(episode.total)
                if len(totals) == self.recipe.window:
                    break
        return float(np.mean(totals)) if totals else None

    def _roll_out(self, train_rng: np.random.Generator, heldout_rng: np.random.Generator) -> Rollout:
        recipe, pictures = self.recipe, Pictures(self.agent, self.autocast)
        spec = self.train.environment.info.actions
        chooser = ActionChooser(SAMPLED, spec, recipe.slots, train_rng)
        beside = ActionChooser(SAMPLED, spec, recipe.slots, heldout_rng)
        shape = (recipe.rollout, recipe.slots)
        seen_TE, actions_TE = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        rewards_TE, ended_TE = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
        for step in range(recipe.rollout):
            steps = self.steps + (step + 1) * recipe.slots
            seen_TE[step] = pictures.numbers(self.train.observations)
            actions_TE[step] = chooser.choose(pictures.head(seen_TE[step]), self.train.everyone)
            rewards, ended_TE[step], finished = self.train.step(actions_TE[step], steps)
            rewards_TE[step] = rewards if self.scale is None else self.scale(rewards, ended_TE[step])
            self.episodes += finished
            if (self.updates * recipe.rollout + step) % recipe.heldout_every == 0:
                heldout = pictures.head(pictures.numbers(self.heldout.observations))
                self.episodes += self.heldout.step(beside.choose(heldout, self.heldout.everyone), steps)[2]
        last_E = pictures.values_of(pictures.numbers(self.train.observations))
        seen_N, actions_N = seen_TE.ravel(), actions_TE.ravel()
        head = pictures.head(seen_N)
        values_TE = pictures.values_of(seen_N).reshape(shape)
        advantages_TE = advantages(rewards_TE, values_TE, ended_TE, last_E, recipe.gamma, recipe.gae_lambda)
        log_probabilities_NA = torch.from_numpy(head.logits_NA).log_softmax(dim=1).numpy()
        shown, pictures_N = np.unique(seen_N, return_inverse=True)
        return Rollout(
            images=np.stack([pictures.images[number] for number in shown]),
            pictures_N=pictures_N,
            actions_N=actions_N,
            log_probabilities_N=log_probabilities_NA[np.arange(len(actions_N)), actions_N],
            values_N=values_TE.ravel(),
            advantages_N=advantages_TE.ravel(),
            returns_N=(advantages_TE + values_TE).ravel(),
            entropy=float(head.entropy().mean()),
        )

    def _learn(self, rollout: Rollout, rng: np.random.Generator) -> tuple[float, float]:
        recipe = self.recipe
        size = recipe.batch // recipe.minibatches
        value_losses, shares = [], []
        for _ in range(recipe.epochs):
            order = rng.permutation(recipe.batch)
            for begin in range(0, recipe.batch, size):
                loss, value_loss, clipped = self._loss(rollout, order[begin : begin + size])
                self.optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.agent.parameters(), recipe.max_gradient)
                self.optimiser.step()
                value_losses.append(value_loss)
                shares.append(clipped)
        return float(np.mean(value_losses)), float(np.mean(shares))

    def _loss(self, rollout: Rollout, rows: IntArray) -> tuple[Tensor, float, float]:
        recipe = self.recipe
        shown, places = np.unique(rollout.pictures_N[rows], return_inverse=True)
        with self.autocast:
            logits, values = self.agent(torch.from_numpy(rollout.images[shown]))
        index = torch.from_numpy(places)
        log_NA = logits.float().log_softmax(dim=1)[index]
        values_N = values.float()[index]
        actions, before, estimate, old, returns = (
            torch.from_numpy(part[rows])
            for part in (
                rollout.actions_N,
                rollout.log_probabilities_N,
                rollout.advantages_N,
                rollout.values_N,
                rollout.returns_N,
            )
        )
        estimate = (estimate - estimate.mean()) / (estimate.std() + 1e-8)
        ratio = (log_NA.gather(1, actions[:, None]).squeeze(1) - before).exp()
        limited = ratio.clamp(1 - recipe.clip, 1 + recipe.clip)
        policy_loss = -torch.minimum(estimate * ratio, estimate * limited).mean()
        squares = (values_N - returns) ** 2
        if recipe.value_clip:
            near = old + (values_N - old).clamp(-recipe.clip, recipe.clip)
            squares = torch.maximum(squares, (near - returns) ** 2)
        value_loss = 0.5 * squares.mean()
        entropy = -(log_NA.exp() * log_NA).sum(dim=1).mean()
        loss = policy_loss + recipe.value_weight * value_loss - recipe.entropy_weight * entropy
        return loss, value_loss.item(), float((ratio != limited).float().mean())
