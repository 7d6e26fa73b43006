"""Stricter references than the floor: best constant action, a policy blind to its observation, random weights.

Not for running or comparing them. Each is a policy that can stand where the agent's own stood.
"""

from __future__ import annotations

import itertools

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.actions import ActionChooser, ActionRule
from codeaudit_runtime.checkpoints import Checkpoint
from codeaudit_runtime.environments.protocol import LevelDraw, VectorEnvironment
from codeaudit_runtime.policies import Categorical, Chosen, FixedHead, Gaussian, Head, Policy
from codeaudit_runtime.spaces import ActionSpec, AnyArray

BLIND_STEPS = 500  # steps of every slot over which a blind policy's action frequencies are taken
MAX_CONSTANTS = 27
BLIND = "blind"
RANDOM_WEIGHTS = "random_weights"


def constant_names(actions: ActionSpec) -> list[str]:
    """Names of the constant policies that are tried: every discrete action, or low, middle and high of each axis."""
    if actions.kind == "discrete":
        return [f"constant:{action}" for action in range(actions.size)]
    if 3**actions.size > MAX_CONSTANTS:
        raise UserError(f"too many constant actions to try in {actions.describe()}")
    axes = [(low, (low + high) / 2, high) for low, high in zip(actions.low, actions.high, strict=True)]
    return ["constant:" + ",".join(f"{value:g}" for value in action) for action in itertools.product(*axes)]


def reference_agent(
    name: str, checkpoint: Checkpoint | None, environment: VectorEnvironment, draw: LevelDraw
) -> Policy:
    """The policy called `constant:A`, `blind` or `random_weights`; the last two need the checkpoint."""
    actions = environment.info.actions
    kind, _, value = name.partition(":")
    if kind == "constant":
        return FixedHead(Chosen(_constant(value, actions)), actions)
    if checkpoint is None:
        raise UserError(f"reference {name!r} needs a checkpoint")
    if kind == BLIND:
        return blind_policy(checkpoint, environment, draw)
    if kind == RANDOM_WEIGHTS:
        return checkpoint.policy  # the caller loaded it with weights drawn anew
    raise UserError(f"unknown reference {name!r}", hint="references: constant:A, blind, random_weights")


def _constant(value: str, actions: ActionSpec) -> AnyArray:
    parts = [float(part) for part in value.split(",")]
    return np.array([int(parts[0])]) if actions.kind == "discrete" else np.array([parts], dtype=np.float32)


def blind_policy(checkpoint: Checkpoint, environment: VectorEnvironment, draw: LevelDraw) -> FixedHead:
    """Acts whatever it observes, with the action frequencies (or mean and spread) that the agent shows on the states
    it visits on this draw; a value-based agent's are those of its greedy actions."""
    slots = environment.slots
    rule = ActionRule("greedy" if checkpoint.value_based else "sampled")
    rng = np.random.Generator(np.random.PCG64(draw.seed))
    chooser = ActionChooser(rule, environment.info.actions, slots, rng, checkpoint.noise_period)
    everyone = np.arange(slots)
    observations = environment.reset(draw)
    state, starts = checkpoint.policy.initial_state(slots), np.ones(slots, dtype=bool)
    taken: list[AnyArray] = []
    for _ in range(BLIND_STEPS):
        head, state = checkpoint.policy(observations, state, starts)
        actions = chooser.choose(head, everyone)
        taken.append(actions)
        step = environment.step(actions, everyone)
        observations, starts = step.observations, step.first
    return FixedHead(_pooled_head(np.concatenate(taken), environment.info.actions), environment.info.actions)


def _pooled_head(taken: AnyArray, actions: ActionSpec) -> Head:
    if actions.kind == "discrete":
        counts = np.bincount(taken, minlength=actions.size)
        return Categorical(np.log(np.maximum(counts, 1e-9) / len(taken))[None, :])
    return Gaussian(taken.mean(axis=0)[None, :], taken.std(axis=0)[None, :])
