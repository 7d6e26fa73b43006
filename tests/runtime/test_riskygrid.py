"""RiskyGrid and MinAtar behind the vector protocol: answer key, snapshots, independent restarts, sticky actions."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the runtime extra is not installed")

from codeaudit_runtime.environments import LevelDraw, LevelSet, VectorEnvironment, environment_from_id
from codeaudit_runtime.environments.riskygrid import GAMBLE, SAFE, RiskyGrid, sum_of_coins
from codeaudit_runtime.spaces import AnyArray, IntArray

from codeaudit.errors import UserError

DRAW = LevelDraw(LevelSet(), 5)
GAMES = ["minatar/breakout", "minatar/seaquest", "minatar/asterix"]


def played(environment: VectorEnvironment, steps: int, seed: int = 0) -> list[float]:
    """Rewards of every slot and step under one fixed stream of random actions."""
    rng = np.random.default_rng(seed)
    active = np.arange(environment.slots)
    rewards = []
    for _ in range(steps):
        actions = rng.integers(0, environment.info.actions.size, environment.slots)
        rewards += environment.step(actions, active).rewards.tolist()
    return rewards


def gamble_on_odd(observations: AnyArray) -> IntArray:
    columns: IntArray = observations[:, :10].argmax(axis=1)
    return np.where(columns % 2 == 1, GAMBLE, SAFE)


def test_a_walk_shows_its_scales_and_pays_fairly() -> None:
    grid = RiskyGrid("riskygrid:faint", 20_000)
    observations = grid.reset(DRAW)
    assert observations.shape == (20_000, 20)
    assert np.unique(observations[:, 10:]).tolist() == pytest.approx([0.0, 0.05, 0.1, 0.2, 0.4])
    active = np.arange(20_000)
    for column in range(10):
        scales = observations[:, 10 + column].astype(float)
        step = grid.step(np.full(20_000, GAMBLE), active)
        won = step.rewards > 0.5
        assert np.allclose(np.abs(step.rewards - 0.5), scales)
        assert abs(won[scales > 0].mean() - 0.5) < 0.02
        assert step.ended.all() == (column == 9)


def test_the_answer_key_is_what_restarts_give() -> None:
    grid = RiskyGrid("riskygrid", 8_000)
    grid.reset(DRAW)
    active = np.arange(8_000)
    for _ in range(4):
        grid.step(np.zeros(8_000, dtype=int), active)
    snapshot = grid.snapshot(3)
    exact = grid.exact_returns(snapshot, GAMBLE, gamble_on_odd, 0.9)
    assert exact.probabilities.sum() == pytest.approx(1.0)
    for slot in range(8_000):
        grid.restore(slot, snapshot)
        grid.reseed(slot, slot)
    returns, actions = np.zeros(8_000), np.full(8_000, GAMBLE)
    for later in range(6):
        step = grid.step(actions, active)
        returns += 0.9**later * step.rewards
        actions = gamble_on_odd(step.observations)
    assert returns.mean() == pytest.approx(exact.values @ exact.probabilities, abs=0.1)
    nearest = np.abs(returns[:, None] - exact.values).min(axis=1)
    assert nearest.max() < 1e-9
    share = (returns <= exact.values[len(exact.values) // 2] + 1e-9).mean()
    assert share == pytest.approx(exact.probabilities[: len(exact.values) // 2 + 1].sum(), abs=0.03)


def test_a_sum_of_coins_merges_equal_values() -> None:
    law = sum_of_coins([1.0, 0.0, 1.0], 1.0)
    assert law.values.tolist() == pytest.approx([-0.5, 1.5, 3.5])
    assert law.probabilities.tolist() == [0.25, 0.5, 0.25]


@pytest.mark.parametrize("environment_id", ["riskygrid", *GAMES])
def test_snapshots_hold_everything(environment_id: str) -> None:
    if environment_id.startswith("minatar"):
        pytest.importorskip("minatar", reason="the minatar extra is not installed")
    environment = environment_from_id(environment_id, 4)
    first = environment.reset(DRAW)
    assert (environment_from_id(environment_id, 4).reset(DRAW) == first).all()
    played(environment, 7)
    snapshots = [environment.snapshot(slot) for slot in range(4)]
    then = played(environment, 60, seed=1)
    for _ in range(2):  # a snapshot can be restored many times
        for slot, snapshot in enumerate(snapshots):
            environment.restore(slot, snapshot)
        assert played(environment, 60, seed=1) == then


@pytest.mark.parametrize("environment_id", ["riskygrid", *GAMES])
def test_reseeded_restarts_differ_and_repeat(environment_id: str) -> None:
    if environment_id.startswith("minatar"):
        pytest.importorskip("minatar", reason="the minatar extra is not installed")
    environment = environment_from_id(environment_id, 1)
    environment.reset(DRAW)
    snapshot = environment.snapshot(0)

    def restarted(seed: int) -> list[tuple[bytes, float]]:
        environment.restore(0, snapshot)
        environment.reseed(0, seed)
        seen = []
        rng = np.random.default_rng(0)
        for _ in range(80):
            action = rng.integers(0, environment.info.actions.size, 1)
            step = environment.step(action, np.arange(1))
            seen.append((step.observations.tobytes(), float(step.rewards[0])))
        return seen

    assert restarted(1) == restarted(1)
    assert len({tuple(restarted(seed)) for seed in range(6)}) > 1  # a copied generator would give one


def test_minatar_is_the_packages_own_game() -> None:
    """The same seed and actions give what the package's wrapper gives, stickiness included."""
    package = pytest.importorskip("minatar", reason="the minatar extra is not installed")
    slots = environment_from_id("minatar/breakout", 1)
    slots.reset(DRAW)
    seeds = slots.seeds()
    assert seeds is not None
    wrapper = package.Environment("breakout", sticky_action_prob=0.1)
    wrapper.seed(int(seeds[0]))
    wrapper.reset()
    rng = np.random.default_rng(3)
    for _ in range(200):
        action = int(rng.integers(6))
        reward, terminal = wrapper.act(action)
        step = slots.step(np.array([action]), np.arange(1))
        assert step.rewards[0] == reward
        assert step.ended[0] == terminal
        if terminal:
            break
        assert (step.observations[0] == wrapper.state()).all()
    else:
        pytest.fail("no episode ended")


def test_a_new_episode_has_no_action_to_repeat() -> None:
    pytest.importorskip("minatar", reason="the minatar extra is not installed")
    environment = environment_from_id("minatar/breakout", 1)
    environment.reset(DRAW)
    for _ in range(500):
        if environment.step(np.array([1]), np.arange(1)).ended[0]:
            break
    snapshot = environment.snapshot(0)
    assert isinstance(snapshot, tuple)
    assert snapshot[2] == 0


@pytest.mark.parametrize("environment_id", ["riskygrid:bold", "minatar/chess"])
def test_unknown_names_are_told(environment_id: str) -> None:
    with pytest.raises(UserError):
        environment_from_id(environment_id, 1)
