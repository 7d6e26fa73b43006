"""Action rules: how an action is chosen from a policy's head. Not for policies or for stepping environments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.policies import ActionValues, Categorical, Chosen, Gaussian, Head, StateDependentNoise
from codeaudit_runtime.spaces import ActionSpec, AnyArray, FloatArray, IntArray

RULES = ("sampled", "sampled_redrawn", "greedy", "epsilon_greedy", "merged_greedy", "uniform_random", "own")


@dataclass(frozen=True)
class ActionRule:
    """One of `RULES`; `epsilon` belongs to epsilon_greedy alone.

    `sampled_redrawn` differs from `sampled` for state-dependent noise only: the matrix is drawn anew every few steps,
    as in training (every step where the file gives no period), where `sampled` keeps one matrix a slot, as the
    library's own `predict` does after loading.
    `merged_greedy` takes the likeliest action of the likeliest class of equivalent actions; `classes` says which class
    each action belongs to (`equivalence.py`).
    `own` takes the action that a user's function chose.
    """

    name: str
    epsilon: float | None = None
    classes: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return self.name if self.epsilon is None else f"{self.name}:{self.epsilon:g}"

    @property
    def identity(self) -> str:
        """The label and all else that shapes the choice."""
        return self.label if not self.classes else f"{self.label}({','.join(map(str, self.classes))})"


def rule_from_text(text: str) -> ActionRule:
    """`greedy`, `sampled`, `epsilon_greedy:0.05` … UserError for anything else."""
    name, colon, number = text.partition(":")
    if name not in RULES:
        raise UserError(f"unknown action rule {text!r}", hint=f"rules: {', '.join(RULES)} (epsilon_greedy:0.05)")
    if name != "epsilon_greedy":
        if colon:
            raise UserError(f"action rule {text!r}: only epsilon_greedy takes a number")
        return ActionRule(name)
    try:
        epsilon = float(number) if colon else 0.05
    except ValueError:
        epsilon = -1.0
    if not 0.0 <= epsilon <= 1.0:
        raise UserError(f"action rule {text!r}: epsilon must be a number from 0 to 1")
    return ActionRule(name, epsilon)


class ActionChooser:
    """Applies one rule in one roll-out. Draws are made for every slot at every step, so that what one slot does never
    depends on when another one finished."""

    def __init__(
        self, rule: ActionRule, actions: ActionSpec, slots: int, rng: np.random.Generator, noise_period: int = -1
    ) -> None:
        self.rule = rule
        self.actions = actions
        self.slots = slots
        self.rng = rng
        self.noise_period = max(noise_period, 1)
        self._low = np.asarray(actions.low, dtype=np.float32)
        self._high = np.asarray(actions.high, dtype=np.float32)
        self._matrices_SFD: FloatArray | None = None
        self._calls = 0

    def choose(self, head: Head | None, active: IntArray) -> AnyArray:
        """Actions for the slots in `active` (N,) given their head: integers (N,), or floats (N × D) inside the box.

        `head` may be None for uniform_random alone, which asks no policy.
        """
        self._calls += 1
        name = self.rule.name
        if name == "uniform_random":
            return self._uniform(active)
        if head is None:
            raise ValueError("every rule but uniform_random needs a policy")
        if name == "epsilon_greedy":
            assert self.rule.epsilon is not None
            explore = (self.rng.random(self.slots) < self.rule.epsilon)[active]
            chosen = self._clipped(head.greedy()).copy()
            uniform = self._uniform(active)
            chosen[explore] = uniform[explore]
            return chosen
        if name == "merged_greedy":
            return merged_greedy(head, self.rule.classes)
        if name in ("sampled", "sampled_redrawn"):
            return self._clipped(self._sampled(head, active))
        return self._clipped(head.greedy())

    def _clipped(self, actions: AnyArray) -> AnyArray:
        if self.actions.kind == "discrete":
            return actions
        plain = actions.astype(np.float32).reshape(len(actions), -1)
        result: AnyArray = np.minimum(np.maximum(plain, self._low), self._high)  # np.clip, without its detours
        return result

    def _uniform(self, active: IntArray) -> AnyArray:
        if self.actions.kind == "discrete":
            return self.rng.integers(0, self.actions.size, self.slots)[active]
        draws = self.rng.random((self.slots, self.actions.size))[active]
        result: AnyArray = (self._low + draws * (self._high - self._low)).astype(np.float32)
        return result

    def _sampled(self, head: Head, active: IntArray) -> AnyArray:
        if isinstance(head, Categorical):
            cumulative_NA = head.probabilities().cumsum(axis=1)
            draws = self.rng.random(self.slots)[active].astype(np.float32)
            # The last column may round below 1: the largest index is always admitted.
            chosen = (cumulative_NA < (draws * cumulative_NA[:, -1])[:, None]).sum(axis=1)
            result: AnyArray = np.minimum(chosen, cumulative_NA.shape[1] - 1)
            return result
        if isinstance(head, Gaussian):
            noise_ND = self.rng.standard_normal((self.slots, self.actions.size))[active]
            result = head.mean_ND + head.std_ND * noise_ND
            return result
        if isinstance(head, StateDependentNoise):
            return self._state_dependent(head, active)
        if isinstance(head, Chosen):
            return head.actions
        assert isinstance(head, ActionValues)
        raise UserError(
            "a value-based agent has no distribution to sample from",
            hint="use --rule greedy or --rule epsilon_greedy:0.1",
        )

    def _state_dependent(self, head: StateDependentNoise, active: IntArray) -> AnyArray:
        redraw = self.rule.name == "sampled_redrawn" and (self._calls - 1) % self.noise_period == 0
        if self._matrices_SFD is None or redraw:
            self._matrices_SFD = self.rng.standard_normal((self.slots, *head.std_FD.shape)) * head.std_FD
        result: AnyArray = head.mean_ND + np.einsum("nf,nfd->nd", head.features_NF, self._matrices_SFD[active])
        return result


def merged_greedy(head: Head, classes: tuple[int, ...]) -> IntArray:
    """The likeliest class, then its likeliest action (N,). UserError without classes or without probabilities."""
    if not classes:
        raise UserError("merged_greedy needs the classes of equivalent actions", hint="`codeaudit gap` measures them")
    if not isinstance(head, Categorical):
        raise UserError("merged_greedy is for policies with a distribution over discrete actions")
    probabilities_NA = head.probabilities()
    index_A = np.asarray(classes)
    classes_C = range(index_A.max() + 1)
    totals_NC = np.stack([probabilities_NA[:, index_A == each].sum(axis=1) for each in classes_C], axis=1)
    inside_NA = index_A[None, :] == totals_NC.argmax(axis=1)[:, None]
    chosen: IntArray = np.where(inside_NA, probabilities_NA, -1.0).argmax(axis=1)
    return chosen
