"""`codeaudit_runtime.evaluate` on a user's own policy."""

from __future__ import annotations

from typing import Any

import codeaudit_runtime
import numpy as np
import pytest
from codeaudit_runtime.policies import Categorical, NetworkPolicy
from codeaudit_runtime.spaces import ActionSpec
from gymnasium.vector import SyncVectorEnv
from toys import Counter


def balance(observations: np.ndarray) -> np.ndarray:
    """Push towards the side to which the pole falls."""
    return (observations[:, 2] + observations[:, 3] > 0).astype(int)


def test_a_function_on_an_environment_id() -> None:
    result = codeaudit_runtime.evaluate(balance, "CartPole-v1", episodes=48)
    assert result.mean > 150 and result.floor < 30 and result.call == "above"
    assert len(result.rows) == 48 and result.interval[0] <= result.mean <= result.interval[1]
    assert "above" in str(result)
    assert codeaudit_runtime.evaluate(balance, "CartPole-v1", episodes=48).rows == result.rows


@pytest.mark.parametrize("environment", [Counter, SyncVectorEnv([Counter] * 4)])
def test_own_environments(environment: Any) -> None:
    result = codeaudit_runtime.evaluate(lambda seen: np.zeros(len(seen), dtype=int), environment, episodes=30)
    assert all(row.total == row.length for row in result.rows)
    assert [row.length for row in result.rows] == [row.length for row in result.floor_rows]


def test_a_policy_with_a_rule() -> None:
    actions = ActionSpec("discrete", 2)
    policy = NetworkPolicy(actions, lambda values: values, lambda values: Categorical(values.numpy()[:, :2]))
    result = codeaudit_runtime.evaluate(policy, "CartPole-v1", episodes=12, rule="sampled", name="mine")
    assert {row.rule for row in result.rows} == {"sampled"} and {row.checkpoint for row in result.rows} == {"mine"}
