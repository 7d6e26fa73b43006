"""Equivalent actions: the merging by hand, and one real game where ProcGen is installed."""

from __future__ import annotations

import numpy as np
import pytest
from codeaudit_runtime.actions import ActionChooser, ActionRule, merged_greedy, rule_from_text
from codeaudit_runtime.equivalence import entropy_of, equivalence_from_tables, merged_probabilities, numbered
from codeaudit_runtime.memory import RememberingPolicy, remembering
from codeaudit_runtime.policies import ActionValues, Categorical, FunctionPolicy, Head, State
from codeaudit_runtime.spaces import ActionSpec, AnyArray, BoolArray

from codeaudit.errors import UserError


def test_actions_are_one_class_only_where_they_agree_in_every_state() -> None:
    found = equivalence_from_tables("toy", [(0, 0, 1, 1), (0, 0, 0, 1)])
    assert found.classes == (0, 0, 1, 2) and found.effective == 3 and found.per_state == 2
    assert numbered(["b", "a", "b"]) == (0, 1, 0)


def test_merged_probabilities_and_entropy() -> None:
    merged = merged_probabilities(np.array([[0.25, 0.25, 0.5, 0.0]]), (0, 0, 1, 2))
    np.testing.assert_allclose(merged, [[0.5, 0.5, 0.0]])
    np.testing.assert_allclose(entropy_of(merged), [np.log(2)])


def test_merged_greedy_takes_the_likeliest_action_of_the_likeliest_class() -> None:
    head = Categorical(np.log(np.array([[0.28, 0.32, 0.4], [0.1, 0.1, 0.8]])))
    assert merged_greedy(head, (0, 0, 1)).tolist() == [1, 2]
    assert head.greedy().tolist() == [2, 2]
    chooser = ActionChooser(
        ActionRule("merged_greedy", None, (0, 0, 1)), ActionSpec("discrete", 3), 2, np.random.default_rng(0)
    )
    assert chooser.choose(head, np.arange(2)).tolist() == [1, 2]


def test_merged_greedy_says_what_it_lacks() -> None:
    assert rule_from_text("merged_greedy").label == "merged_greedy"
    with pytest.raises(UserError, match="needs the classes"):
        merged_greedy(Categorical(np.zeros((1, 3))), ())
    with pytest.raises(UserError, match="distribution"):
        merged_greedy(ActionValues(np.zeros((1, 3))), (0, 0, 1))


def test_classes_are_part_of_what_a_unit_is() -> None:
    assert ActionRule("merged_greedy", None, (0, 1)).identity != ActionRule("merged_greedy", None, (0, 0)).identity
    assert ActionRule("greedy").identity == "greedy"


class Sums:
    """Logits from the sum of an observation; counts the rows that it is asked for."""

    actions = ActionSpec("discrete", 2)

    def __init__(self) -> None:
        self.rows = 0

    def initial_state(self, slots: int) -> State:
        return None

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        self.rows += len(observations)
        total = observations.sum(axis=1).astype(np.float32)
        return Categorical(np.stack([total, -total], axis=1)), None


def test_a_remembering_policy_says_the_same_and_asks_once() -> None:
    policy = Sums()
    memory = remembering(policy)
    assert isinstance(memory, RememberingPolicy)
    observations = np.array([[1, 2], [3, 4], [1, 2]], dtype=np.uint8)
    for _ in range(3):
        head, _ = memory(observations, None, np.zeros(3, dtype=bool))
        expected, _ = Sums()(observations, None, np.zeros(3, dtype=bool))
        assert isinstance(head, Categorical) and isinstance(expected, Categorical)
        np.testing.assert_array_equal(head.logits_NA, expected.logits_NA)
    assert policy.rows == 2 and (memory.asked, memory.computed) == (9, 2)


def test_continuous_policies_are_left_alone() -> None:
    policy = FunctionPolicy(lambda seen: np.zeros((len(seen), 1)), ActionSpec("continuous", 1, (-1.0,), (1.0,)))
    assert remembering(policy) is policy


def test_fruitbot_has_four_actions() -> None:
    pytest.importorskip("procgen", reason="the procgen extra is not installed")
    from codeaudit_runtime.environments import LevelSet
    from codeaudit_runtime.equivalence import EquivalenceJob, tables_bytes, tables_from_bytes

    job = EquivalenceJob("procgen/fruitbot", LevelSet("train", 0, 200), 11, states=20)
    content = tables_bytes(job)
    found = equivalence_from_tables("procgen/fruitbot", tables_from_bytes(content))
    assert found.effective == 4 and found.states == 20
    assert found.classes[:9] == (0, 0, 0, 1, 1, 1, 2, 2, 2) and found.classes[9] == 3  # 9 throws the key
    assert tables_bytes(job) == content
