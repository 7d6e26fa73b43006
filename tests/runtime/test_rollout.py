"""The harness: balanced quotas, burn-in, one seeded row per episode, and every autoreset there is."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.environments.gymnasium_slots import GymnasiumSlots, bare_environment, episode_seed
from codeaudit_runtime.environments.gymnasium_vector import GymnasiumVector
from codeaudit_runtime.episodes import EpisodeRow, bytes_from_rows, rows_from_bytes, write_database
from codeaudit_runtime.policies import Categorical, FunctionPolicy, Head, State
from codeaudit_runtime.rollout import Agent, Quota, rollout
from codeaudit_runtime.spaces import ActionSpec, AnyArray, BoolArray
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toys import Counter, Looper

from codeaudit.errors import UserError

DRAW = LevelDraw(LevelSet(), 11)
TWO = ActionSpec("discrete", 2)


def always(action: int) -> Agent:
    return Agent("constant", FunctionPolicy(lambda seen: np.full(len(seen), action), TWO), ActionRule("own"))


def uniform() -> Agent:
    return Agent("floor", None, ActionRule("uniform_random"))


def play(
    agent: Agent,
    factory: Any = Counter,
    *,
    slots: int = 3,
    quota: Quota | None = None,
    cap: int | None = None,
    draw: LevelDraw = DRAW,
) -> tuple[EpisodeRow, ...]:
    return rollout(agent, GymnasiumSlots("toy", factory, slots, cap), draw, quota or Quota(9), 0)


def expected_length(draw: int, slot: int, index: int) -> int:
    environment = Counter()
    environment.reset(seed=episode_seed(draw, slot, index))
    return environment.left


def test_every_slot_plays_its_quota_and_burn_in_is_left_out() -> None:
    rows = play(always(0), quota=Quota(8, burn_in=2))
    assert [(row.slot, row.index) for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert [row.length for row in rows] == [expected_length(11, row.slot, row.index + 2) for row in rows]
    assert all(row.total == row.length and row.seed == episode_seed(11, row.slot, row.index + 2) for row in rows)


def test_two_policies_meet_the_same_episodes_and_another_draw_others() -> None:
    first, second = play(always(0)), play(uniform())
    assert [row.length for row in first] == [row.length for row in second]
    other = play(always(0), draw=LevelDraw(LevelSet(), 12))
    assert [row.length for row in first] != [row.length for row in other]


def test_a_slots_episodes_do_not_depend_on_how_many_slots_run() -> None:
    few, many = play(uniform(), slots=2, quota=Quota(6)), play(uniform(), slots=6, quota=Quota(18))
    lengths = {(row.slot, row.index): row.length for row in many}
    assert all(lengths[row.slot, row.index] == row.length for row in few)


def test_discounted_return() -> None:
    for row in play(always(0)):
        assert row.discounted == pytest.approx(sum(0.99**step for step in range(row.length)))


def test_an_episode_that_never_ends_is_cut_at_the_cap_and_says_so() -> None:
    rows = play(always(1), Looper, cap=25)
    assert {(row.length, row.truncated, row.total) for row in rows} == {(25, True, 3.0)}


def test_revisit_share() -> None:
    assert {row.revisits for row in play(always(1), Looper, cap=25)} == {15 / 25}  # ten places, seen once each
    assert {row.revisits for row in play(always(0), Looper, cap=20)} == {19 / 20}
    assert {row.revisits for row in play(always(0))} == {0.0}


def vector(mode: AutoresetMode) -> GymnasiumVector:
    return GymnasiumVector(SyncVectorEnv([Counter] * 3, autoreset_mode=mode))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_gives_the_same_episodes(mode: AutoresetMode) -> None:
    """The step after an end ignores the action and pays nothing in next-step mode; it must be no step of an episode."""
    rows = rollout(always(1), vector(mode), DRAW, Quota(30), 0)
    plain = []
    for slot in range(3):
        environment = Counter()
        environment.reset(seed=DRAW.seed + slot)  # as a vector environment seeds its parts, and never again
        for _ in range(11):
            plain.append(environment.left)
            environment.reset()
    expected = [plain[slot * 11 + index + 1] for slot in range(3) for index in range(10)]
    assert [row.length for row in rows] == expected
    assert all(row.total == row.length and row.revisits == 0.0 for row in rows)


def test_a_vector_environment_that_never_ends_is_refused() -> None:
    endless = GymnasiumVector(SyncVectorEnv([Looper] * 2), step_cap=100)
    with pytest.raises(UserError, match="passed the cap of 100 steps"):
        rollout(always(1), endless, DRAW, Quota(4), 0)


class Remembering:
    """A recurrent policy: its state counts the steps of the episode, and it acts on the count's parity."""

    actions = TWO

    def __init__(self) -> None:
        self.wrong = 0

    def initial_state(self, slots: int) -> State:
        return (np.full((slots, 1), 77.0),)

    def __call__(self, observations: AnyArray, state: State, starts: BoolArray) -> tuple[Head, State]:
        assert state is not None
        count = np.where(starts[:, None], 0.0, state[0])
        self.wrong += int((count[:, 0] != observations[:, 0]).sum())  # Counter shows the true count
        return Categorical(np.zeros((len(count), 2))), (count + 1,)


@pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_recurrent_state_follows_its_slot_and_starts_anew(mode: AutoresetMode | None) -> None:
    policy = Remembering()
    environment = GymnasiumSlots("toy", Counter, 3) if mode is None else vector(mode)
    rows = rollout(Agent("memory", policy, ActionRule("sampled")), environment, DRAW, Quota(30), 0)
    # In next-step mode the last observation of an episode is also shown to the policy, where nothing counts.
    assert policy.wrong == 0
    assert all(row.entropy == pytest.approx(np.log(2)) for row in rows)


def test_wrong_action_space_is_refused() -> None:
    agent = Agent("wrong", FunctionPolicy(lambda seen: seen, ActionSpec("discrete", 5)), ActionRule("own"))
    with pytest.raises(UserError, match="5 discrete actions"):
        play(agent)


def test_time_limits_are_kept_where_wrappers_are_taken_off() -> None:
    made = gymnasium.make("CartPole-v1")
    bare, limit = bare_environment(made)
    assert bare is made.unwrapped and limit == 500
    environment = environment_from_id("CartPole-v1", 2, step_cap=7)
    assert environment.info.step_cap == 7 and environment_from_id("CartPole-v1", 2, step_cap=900).info.step_cap == 500


def test_stepping_is_what_gymnasium_itself_does() -> None:
    """The same seeds and actions through gymnasium.make, wrappers and all, give the same returns."""
    rows = rollout(always(1), environment_from_id("CartPole-v1", 2), DRAW, Quota(6), 0)
    environment = gymnasium.make("CartPole-v1")
    for row in rows:
        environment.reset(seed=row.seed)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = environment.step(1)
            total, over = total + float(reward), terminated or truncated
        assert total == row.total


def test_snapshots_restore_and_replay_identically() -> None:
    environment = environment_from_id("CartPole-v1", 2)
    environment.reset(DRAW)
    saved = environment.snapshot(0)
    everyone = np.arange(2)
    first = [environment.step(np.array([1, 0]), everyone).observations.copy()[0] for _ in range(5)]
    for _ in range(2):
        environment.restore(0, saved)
        again = [environment.step(np.array([1, 0]), everyone).observations.copy()[0] for _ in range(5)]
        np.testing.assert_array_equal(first, again)


def test_unknown_environments_are_one_clear_error() -> None:
    with pytest.raises(UserError, match="NoSuch"):
        environment_from_id("NoSuch-v0", 2)


def test_rows_survive_bytes_and_the_database_is_the_same_every_time(tmp_path: Any) -> None:
    rows = play(uniform())
    assert rows_from_bytes(bytes_from_rows(rows)) == rows
    for name in ("a.sqlite", "b.sqlite"):
        write_database(tmp_path / name, rows)
    assert (tmp_path / "a.sqlite").read_bytes() == (tmp_path / "b.sqlite").read_bytes()
    import sqlite3

    found = sqlite3.connect(tmp_path / "a.sqlite").execute('SELECT slot, "index", "return" FROM episodes').fetchall()
    assert found == [(row.slot, row.index, row.total) for row in rows]


def test_a_function_that_writes_into_its_observations_changes_nothing() -> None:
    def careless(seen: AnyArray) -> AnyArray:
        seen[:] = -1.0
        return np.zeros(len(seen), dtype=int)

    agent = Agent("constant", FunctionPolicy(careless, TWO), ActionRule("own"))
    assert play(agent) == play(always(0))


def test_revisits_do_not_depend_on_how_many_steps_are_hashed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    together = play(uniform(), Looper, cap=200)
    monkeypatch.setattr("codeaudit_runtime.rollout.SEEN_BYTES", 0)  # every step by itself
    assert play(uniform(), Looper, cap=200) == together


def test_the_quick_check_of_actions_says_what_gymnasiums_says() -> None:
    slots = environment_from_id("CartPole-v1", 1)
    assert isinstance(slots, GymnasiumSlots)
    quick, plain = slots._environments[0].unwrapped.action_space, gymnasium.spaces.Discrete(2)
    for action in (0, 1, 2, -1, True, 1.0, "1", None, np.int64(1), np.int64(2), np.array(1), np.array([1]), 1 << 70):
        assert quick.contains(action) == plain.contains(action), action
    assert isinstance(quick, gymnasium.spaces.Discrete) and quick == plain
