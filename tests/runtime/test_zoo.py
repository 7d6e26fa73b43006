"""The fifteen real agents: loaded without unpickling, equal to the library's own predictions, reproducing a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codeaudit_runtime.actions import rule_from_text
from codeaudit_runtime.campaign import rules_of
from codeaudit_runtime.episodes import returns_of
from codeaudit_runtime.locate import agent_files
from codeaudit_runtime.measure import load_agent, measure, units_for
from codeaudit_runtime.plan import Plan

from codeaudit.registry import CheckpointEntry, load_entry, registry_folders

ENTRY = load_entry("sb3-zoo", registry_folders())
CHECKPOINTS = [pytest.param(checkpoint, id=checkpoint.id) for checkpoint in ENTRY.checkpoints]


def test_the_entry_names_fifteen_checkpoints() -> None:
    assert len(ENTRY.checkpoints) == 15 and all(checkpoint.published for checkpoint in ENTRY.checkpoints)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_greedy_actions_are_those_of_the_library(checkpoint: CheckpointEntry, shared_checkpoints: Path) -> None:
    algorithms = pytest.importorskip("stable_baselines3", reason="compared with where it is installed")
    contrib = pytest.importorskip("sb3_contrib", reason="compared with where it is installed")
    gymnasium = pytest.importorskip("gymnasium")
    files = agent_files(ENTRY.id, checkpoint, [shared_checkpoints], [], Path("unused"))
    agent = load_agent(files)
    made = gymnasium.make(checkpoint.run_as) if "Lunar" not in checkpoint.run_as else None
    spaces: dict[str, Any] = {}
    if made is not None:
        spaces = {"observation_space": made.observation_space, "action_space": made.action_space}
    else:
        boxes = gymnasium.spaces
        action = boxes.Box(-1, 1, (2,)) if "Continuous" in checkpoint.run_as else boxes.Discrete(4)
        spaces = {"observation_space": boxes.Box(-np.inf, np.inf, (8,)), "action_space": action}
    schedules = {"lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.2, "exploration_schedule": lambda _: 0.0}
    kind = getattr(algorithms, checkpoint.algorithm.upper(), None) or contrib.QRDQN
    model = kind.load(files.path, device="cpu", custom_objects={**spaces, **schedules})
    assert agent.observation is not None
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((64, *agent.observation.shape)).astype(np.float32)
    policy = getattr(agent.policy, "policy", agent.policy)  # the network behind frozen statistics
    ours = policy(observations, None, np.ones(64, dtype=bool))[0].greedy()
    theirs = model.policy.predict(observations, deterministic=True)[0]
    if agent.policy.actions.kind == "continuous":
        space = spaces["action_space"]
        np.testing.assert_allclose(np.clip(ours, space.low, space.high), theirs, atol=1e-5)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_rules_of_each_kind_of_agent(shared_checkpoints: Path) -> None:
    labels = {}
    for checkpoint in ENTRY.checkpoints:
        agent = load_agent(agent_files(ENTRY.id, checkpoint, [shared_checkpoints], [], Path("unused")))
        labels[checkpoint.id] = [rule.label for rule in rules_of(agent)]
    assert labels["ppo-LunarLander-v2"] == ["greedy", "sampled"]
    assert labels["ppo-Pendulum-v1"] == ["greedy", "sampled", "sampled_redrawn"]
    assert labels["dqn-LunarLander-v2"] == ["greedy", "epsilon_greedy:0.1"]


def test_a_published_number_is_reproduced_by_one_rule_only(shared_checkpoints: Path) -> None:
    pytest.importorskip("Box2D", reason="LunarLander needs Box2D")
    checkpoint = next(item for item in ENTRY.checkpoints if item.id == "ppo-LunarLander-v2")
    files = agent_files(ENTRY.id, checkpoint, [shared_checkpoints], [], Path("unused"))
    rules = [rule_from_text("greedy"), rule_from_text("sampled")]
    units = units_for(checkpoint.id, files, checkpoint.run_as, rules, Plan(draws=(1, 2)).with_episodes(32))
    rows = measure(units, None)
    greedy, sampled = (returns_of([row for own in rows[part : part + 2] for row in own]) for part in (0, 2))
    assert checkpoint.published is not None
    assert abs(greedy.mean() - checkpoint.published.mean) < 20
    assert sampled.mean() < 190
