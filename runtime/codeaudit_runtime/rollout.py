"""The harness: a policy, a rule and a level draw in; one row per episode out, with a fixed, even quota for every slot.

Not for deciding anything about the numbers. Why quotas: taking the first episodes to finish favours short ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.actions import ActionChooser, ActionRule
from codeaudit_runtime.environments.protocol import LevelDraw, Step, VectorEnvironment
from codeaudit_runtime.episodes import EpisodeRow
from codeaudit_runtime.policies import Head, Policy, entropies
from codeaudit_runtime.spaces import AnyArray, IntArray, ObservationSpec

CAP_CHECK_STEPS = 64  # how often entropies are summed and endless episodes looked for
SEEN_BYTES = 1 << 20  # of observations are kept before their contents are hashed


@dataclass(frozen=True)
class Quota:
    """`episodes` of one draw shared evenly over the slots, after `burn_in` episodes a slot that are thrown away."""

    episodes: int
    burn_in: int = 1

    def per_slot(self, slots: int) -> list[int]:
        base, more = divmod(self.episodes, slots)
        return [base + (slot < more) for slot in range(slots)]


@dataclass(frozen=True)
class Agent:
    """Who is rolled out: a name for the rows, a policy (None for uniform_random) and a rule."""

    name: str
    policy: Policy | None
    rule: ActionRule
    noise_period: int = -1
    discount: float = 0.99


def rollout(
    agent: Agent, environment: VectorEnvironment, draw: LevelDraw, quota: Quota, action_seed: int
) -> tuple[EpisodeRow, ...]:
    """Every slot plays its quota of episodes. Rows are ordered by slot and index.

    Raises UserError where the policy does not fit the environment.
    """
    if agent.policy is not None and not agent.policy.actions.matches(environment.info.actions):
        raise UserError(
            f"{agent.name}: the agent has {agent.policy.actions.describe()}, {environment.info.id} has "
            f"{environment.info.actions.describe()}",
            hint="is it the environment that the agent was trained on?",
        )
    return _Rollout(agent, environment, draw, quota, action_seed).run()


class _Rollout:
    """The running totals of one roll-out; S is the slot axis."""

    def __init__(
        self, agent: Agent, environment: VectorEnvironment, draw: LevelDraw, quota: Quota, action_seed: int
    ) -> None:
        slots = environment.slots
        self.agent, self.environment, self.draw = agent, environment, draw
        self.burn_in = quota.burn_in
        self.wanted = [quota.burn_in + count if count else 0 for count in quota.per_slot(slots)]
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(action_seed)))
        self.chooser = ActionChooser(agent.rule, environment.info.actions, slots, rng, agent.noise_period)
        self.state = agent.policy.initial_state(slots) if agent.policy is not None else None
        self.totals_S = np.zeros(slots)
        self.discounted_S = np.zeros(slots)
        self.discounts_S = np.ones(slots)
        self.entropies_S = np.zeros(slots)
        self.lengths_S = np.zeros(slots, dtype=np.int64)
        self.playing_S = np.ones(slots, dtype=bool)  # false between an end and the next first observation
        self.has_entropy = agent.policy is not None
        self.heads: list[tuple[Head, IntArray]] = []  # of the steps whose entropy is not yet added
        self.calls = 0
        self.seen = _SeenContents(environment.info.observation, slots)
        self.rows: AnyArray = np.empty(0)  # the observations of the active slots, where some are done
        self.finished = [0] * slots
        self.episodes: list[list[EpisodeRow]] = [[] for _ in range(slots)]

    def run(self) -> tuple[EpisodeRow, ...]:
        observations = self.environment.reset(self.draw)
        self._remember_starts()
        starts = np.ones(self.environment.slots, dtype=bool)
        active = self._active()
        while len(active):
            actions = self._actions(observations, active, starts)
            self.seen.note(observations, active)
            step = self.environment.step(actions, active)
            # Sums run for every slot: those of slots that are done or between episodes are never read.
            self.totals_S += step.rewards
            self.discounted_S += self.discounts_S * step.rewards
            self.discounts_S *= self.agent.discount
            self.lengths_S += 1
            self.calls += 1
            if step.changed:
                active = self._close_episodes(step, active)
            elif self.calls % CAP_CHECK_STEPS == 0:
                self._refuse_endless(active)
            observations, starts = step.observations, step.first
        return tuple(row for rows in self.episodes for row in rows)

    def _active(self) -> IntArray:
        slots = range(self.environment.slots)
        return np.array([slot for slot in slots if self.finished[slot] < self.wanted[slot]], dtype=np.int64)

    def _actions(self, observations: AnyArray, active: IntArray, starts: AnyArray) -> AnyArray:
        head: Head | None = None
        if self.agent.policy is not None:
            everyone = len(active) == len(starts)
            rows = observations if everyone else self._chosen_rows(observations, active)
            state = None if self.state is None else tuple(part[active] for part in self.state)
            head, following = self.agent.policy(rows, state, starts if everyone else starts[active])
            if self.state is not None and following is not None:
                for part, new in zip(self.state, following, strict=True):
                    part[active] = new
            self.heads.append((head, active))
        return self.chooser.choose(head, active)

    def _add_entropies(self) -> None:
        """Add the entropies of the steps since the last call to their slots."""
        if self.heads and self.has_entropy:
            found = entropies([head for head, _ in self.heads])
            if found is None:
                self.has_entropy = False
            else:
                slots = np.concatenate([active for _, active in self.heads])
                self.entropies_S += np.bincount(slots, weights=found, minlength=len(self.entropies_S))
        self.heads.clear()

    def _chosen_rows(self, observations: AnyArray, active: IntArray) -> AnyArray:
        """The rows of the active slots, in the same memory as long as their number stays."""
        if len(self.rows) != len(active):
            self.rows = np.empty((len(active), *observations.shape[1:]), dtype=observations.dtype)
        return np.take(observations, active, axis=0, out=self.rows, mode="clip")

    def _remember_starts(self) -> None:
        seeds, levels = self.environment.seeds(), self.environment.level_ids()
        self.seeds = None if seeds is None else seeds.tolist()
        self.levels = None if levels is None else levels.tolist()

    def _close_episodes(self, step: Step, active: IntArray) -> IntArray:
        self._add_entropies()
        self.seen.count(active)
        for slot in active[step.ended[active] & self.playing_S[active]].tolist():
            index = self.finished[slot] - self.burn_in
            self.finished[slot] += 1
            if index >= 0:
                self.episodes[slot].append(self._row(slot, index, bool(step.truncated[slot])))
        fresh = active[(step.ended | step.first)[active]]
        for totals in (self.totals_S, self.discounted_S, self.entropies_S, self.lengths_S):
            totals[fresh] = 0
        self.discounts_S[fresh] = 1.0
        for slot in fresh.tolist():
            self.seen.forget(slot)
        self.playing_S[fresh] = step.first[fresh]
        self._remember_starts()
        return self._active()

    def _refuse_endless(self, active: IntArray) -> None:
        """For environments that cannot cut an episode short: say so rather than run for ever."""
        self._add_entropies()
        cap = self.environment.info.step_cap
        if (self.lengths_S[active] > cap).any():
            raise UserError(
                f"{self.agent.name}: an episode of {self.environment.info.id} passed the cap of {cap} steps under "
                f"{self.agent.rule.label} and the environment cannot be cut short",
                hint="give it a time limit",
            )

    def _row(self, slot: int, index: int, truncated: bool) -> EpisodeRow:
        length = int(self.lengths_S[slot])
        return EpisodeRow(
            checkpoint=self.agent.name,
            rule=self.agent.rule.label,
            level_set=self.draw.levels.name,
            draw=self.draw.seed,
            slot=slot,
            index=index,
            level=None if self.levels is None else self.levels[slot],
            seed=None if self.seeds is None else self.seeds[slot],
            total=float(self.totals_S[slot]),
            discounted=float(self.discounted_S[slot]),
            length=length,
            truncated=truncated,
            entropy=float(self.entropies_S[slot]) / length if self.has_entropy else None,
            revisits=1.0 - self.seen.distinct(slot) / length,
        )


class _SeenContents:
    """The distinct observations of each slot's episode, by a hash of their bytes. They are kept for some steps and then
    hashed slot by slot, which costs a fraction of doing it at every step."""

    def __init__(self, observation: ObservationSpec, slots: int) -> None:
        size = int(np.prod(observation.shape)) * np.dtype(observation.dtype).itemsize
        self._kept = max(1, min(CAP_CHECK_STEPS, SEEN_BYTES // max(size * slots, 1)))
        self._block_TS: AnyArray = np.empty((self._kept, slots, *observation.shape), dtype=observation.dtype)
        self._contents_TS = self._block_TS.reshape(self._kept, slots, -1).view(np.dtype((np.void, size)))[..., 0]
        self._noted = 0
        self._hashes: list[set[int]] = [set() for _ in range(slots)]

    def note(self, observations: AnyArray, active: IntArray) -> None:
        """One step's observations, one row a slot. Between two calls of `count`, `active` must stay the same."""
        self._block_TS[self._noted] = observations
        self._noted += 1
        if self._noted == self._kept:
            self.count(active)

    def count(self, active: IntArray) -> None:
        """Hash what was noted."""
        for slot in active.tolist():
            self._hashes[slot].update(map(hash, self._contents_TS[: self._noted, slot].tolist()))
        self._noted = 0

    def forget(self, slot: int) -> None:
        self._hashes[slot] = set()

    def distinct(self, slot: int) -> int:
        return len(self._hashes[slot])
