"""ProcGen behind the vector protocol, where it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("procgen", reason="the procgen extra is not installed")

from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.measure import AgentFiles, load_agent
from codeaudit_runtime.policies import FunctionPolicy
from codeaudit_runtime.rollout import Agent, Quota, rollout
from codeaudit_runtime.spaces import ActionSpec

HELDOUT = LevelSet("heldout", 1000, 100)
STILL = FunctionPolicy(lambda seen: np.full(len(seen), 4), ActionSpec("discrete", 15))


def test_two_policies_meet_the_same_levels_and_another_draw_others() -> None:
    """A sub-environment's levels depend on the draw alone, not on actions or on how many sub-environments run."""
    agents = (Agent("floor", None, ActionRule("uniform_random")), Agent("still", STILL, ActionRule("own")))
    levels = []
    for slots, seed, agent in ((2, 11, agents[0]), (2, 11, agents[1]), (4, 11, agents[0]), (2, 12, agents[0])):
        environment = environment_from_id("procgen/bigfish", slots, step_cap=150)
        rows = rollout(agent, environment, LevelDraw(HELDOUT, seed), Quota(2 * slots), 0)
        levels.append([row.level for row in rows if row.slot < 2])
        assert all(row.level is not None and 1000 <= row.level < 1100 for row in rows)
        environment.close()
    assert levels[0] == levels[1] == levels[2] != levels[3]


def test_the_step_cap_starts_a_new_level() -> None:
    environment = environment_from_id("procgen/miner", 2, step_cap=20)
    rows = rollout(Agent("still", STILL, ActionRule("own")), environment, LevelDraw(HELDOUT, 3), Quota(4), 0)
    assert {row.length for row in rows} == {20} and all(row.truncated for row in rows)
    assert len({row.level for row in rows}) > 1
    environment.close()


def test_a_saved_state_replays_identically() -> None:
    environment = environment_from_id("procgen/miner", 2)
    environment.reset(LevelDraw(HELDOUT, 3))
    everyone, actions = np.arange(2), np.random.default_rng(0).integers(0, 15, (30, 2))
    saved = [environment.snapshot(slot) for slot in range(2)]
    first = [environment.step(action, everyone).observations.copy() for action in actions]
    for slot, snapshot in enumerate(saved):
        environment.restore(slot, snapshot)
    again = [environment.step(action, everyone).observations.copy() for action in actions]
    np.testing.assert_array_equal(first, again)
    environment.close()


def test_the_real_agent_reads_its_images(shared_checkpoints: Path) -> None:
    agent = load_agent(AgentFiles(str(shared_checkpoints / "procgen" / "miner-s0-1048576.safetensors"), ""))
    environment = environment_from_id("procgen/miner", 4)
    observations = environment.reset(LevelDraw(HELDOUT, 11))
    head, _ = agent.policy(observations, None, np.ones(4, dtype=bool))
    entropy = head.entropy()
    assert entropy is not None and (entropy > 1.5).all() and (entropy < np.log(15)).all()
    environment.close()
