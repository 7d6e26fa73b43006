"""Action rules draw what they say, reproducibly, and one slot's draws do not depend on another's."""

from __future__ import annotations

import numpy as np
import pytest
from codeaudit_runtime.actions import ActionChooser, ActionRule, rule_from_text
from codeaudit_runtime.policies import ActionValues, Categorical, Gaussian, StateDependentNoise
from codeaudit_runtime.spaces import ActionSpec

from codeaudit.errors import UserError

DISCRETE = ActionSpec("discrete", 3)
BOX = ActionSpec("continuous", 2, (-1.0, -2.0), (1.0, 2.0))
LOGITS = np.log(np.array([[0.2, 0.5, 0.3]], dtype=np.float32))


def chooser(
    rule: str, actions: ActionSpec = DISCRETE, slots: int = 4, seed: int = 0, period: int = -1
) -> ActionChooser:
    return ActionChooser(rule_from_text(rule), actions, slots, np.random.default_rng(seed), period)


def frequencies(rule: str, head: Categorical | ActionValues, slots: int = 20_000) -> np.ndarray:
    head = type(head)(np.repeat(LOGITS, slots, axis=0))
    chosen = chooser(rule, slots=slots).choose(head, np.arange(slots))
    return np.bincount(chosen, minlength=3) / slots


def test_frequencies_of_each_rule() -> None:
    head = Categorical(LOGITS)
    np.testing.assert_allclose(frequencies("sampled", head), [0.2, 0.5, 0.3], atol=0.015)
    np.testing.assert_allclose(frequencies("greedy", head), [0, 1, 0])
    np.testing.assert_allclose(frequencies("uniform_random", head), [1 / 3] * 3, atol=0.015)
    np.testing.assert_allclose(frequencies("epsilon_greedy:0.3", ActionValues(LOGITS)), [0.1, 0.8, 0.1], atol=0.015)


def test_one_slots_draws_do_not_depend_on_which_others_are_active() -> None:
    head = Categorical(np.zeros((4, 3), dtype=np.float32))
    everyone, alone = chooser("sampled"), chooser("sampled")
    for _ in range(50):
        together = everyone.choose(head, np.arange(4))
        assert alone.choose(Categorical(head.logits_NA[:1]), np.array([2]))[0] == together[2]


def test_continuous_actions_are_drawn_around_the_mean_and_clipped_to_the_box() -> None:
    head = Gaussian(np.full((20_000, 2), 0.5), np.full((20_000, 2), 0.1))
    drawn = chooser("sampled", BOX, slots=20_000).choose(head, np.arange(20_000))
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, 0.5], atol=0.01)
    np.testing.assert_allclose(drawn.std(axis=0), [0.1, 0.1], atol=0.01)
    far = chooser("greedy", BOX).choose(Gaussian(np.full((4, 2), 9.0), np.ones((4, 2))), np.arange(4))
    np.testing.assert_allclose(far, [[1.0, 2.0]] * 4)
    uniform = chooser("uniform_random", BOX, slots=1000).choose(None, np.arange(1000))
    assert (np.abs(uniform) <= [1, 2]).all() and uniform[:, 1].max() > 1.8


def test_state_dependent_noise_keeps_its_matrix_or_draws_it_anew() -> None:
    head = StateDependentNoise(np.zeros((4, 2)), np.ones((4, 3)), np.full((3, 2), 0.1))
    kept, anew = chooser("sampled", BOX), chooser("sampled_redrawn", BOX, period=2)
    first = kept.choose(head, np.arange(4))
    assert np.array_equal(first, kept.choose(head, np.arange(4)))
    assert not np.array_equal(first[0], first[1])  # one matrix a slot
    drawn = [anew.choose(head, np.arange(4)) for _ in range(4)]
    assert np.array_equal(drawn[0], drawn[1]) and np.array_equal(drawn[2], drawn[3])
    assert not np.array_equal(drawn[1], drawn[2])


def test_entropy_of_known_distributions() -> None:
    assert Categorical(np.zeros((1, 15))).entropy()[0] == pytest.approx(np.log(15))
    assert Gaussian(np.zeros((1, 1)), np.ones((1, 1))).entropy()[0] == pytest.approx(1.4189385)
    assert ActionValues(LOGITS).entropy() is None


def test_a_value_based_agent_cannot_be_sampled() -> None:
    with pytest.raises(UserError, match="no distribution"):
        chooser("sampled").choose(ActionValues(np.zeros((4, 3))), np.arange(4))


@pytest.mark.parametrize("text", ["random", "greedy:1", "epsilon_greedy:x", "epsilon_greedy:2", ""])
def test_unknown_rules(text: str) -> None:
    with pytest.raises(UserError, match="rule"):
        rule_from_text(text)


def test_labels_read_back() -> None:
    for rule in (ActionRule("greedy"), ActionRule("epsilon_greedy", 0.05)):
        assert rule_from_text(rule.label) == rule
