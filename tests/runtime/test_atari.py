"""Atari as the zoo prepares it: pictures, lives, stickiness, snapshots, and an audit from end to end."""

from __future__ import annotations

import importlib
import json
import pickle
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch", reason="the runtime extra is not installed")
pytest.importorskip("ale_py", reason="the atari extra is not installed")

import torch
from codeaudit_runtime.claims import beyond
from codeaudit_runtime.claims.heads import head_from_file
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.environments.atari import AtariSlots, area_taps, gray, shrunk
from codeaudit_runtime.train.distilling import distilled_laws
from codeaudit_runtime.train.networks import Members, NetworkShape
from codeaudit_runtime.train.qrdqn import Trainer
from codeaudit_runtime.train.recipe import recipe_of

from codeaudit.cli import main
from codeaudit.errors import UserError

ONLY = np.zeros(1, dtype=np.int64)


def started(environment_id: str = "atari/breakout", slots: int = 1, seed: int = 0) -> AtariSlots:
    environment = environment_from_id(environment_id, slots)
    assert isinstance(environment, AtariSlots)
    environment.reset(LevelDraw(LevelSet(), seed))
    return environment


def played(environment: AtariSlots, actions: list[int], slot: int = 0) -> list[tuple[bytes, float, bool]]:
    """What a slot shows and pays, action by action."""
    found = []
    for action in actions:
        step = environment.step(np.array([action]), np.array([slot]))
        found.append((step.observations[slot].tobytes(), float(step.rewards[slot]), bool(step.ended[slot])))
    return found


def some_actions(count: int, seed: int = 0) -> list[int]:
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 4, count).tolist()


def test_gray_and_areas_are_those_of_opencv() -> None:
    """The grays of pure colours are OpenCV's; areas are plain averages where sizes divide."""
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0], [200, 72, 72]], np.uint8)
    assert gray(colours).tolist() == [76, 150, 29, 255, 0, 110]
    picture = np.arange(24, dtype=np.uint8).reshape(4, 6) * 2
    halved = shrunk(picture, area_taps(4, 2), area_taps(6, 3))
    assert halved.tolist() == picture.reshape(2, 2, 3, 2).mean(axis=(1, 3)).tolist()
    fives = np.arange(0, 250, 10, dtype=np.uint8).reshape(5, 5)
    shared = np.array([[2, 2, 1, 0, 0], [0, 0, 1, 2, 2]]) / 5  # the middle pixel is in both
    assert shrunk(fives, area_taps(5, 2), area_taps(5, 2)).tolist() == np.rint(shared @ fives @ shared.T).tolist()


def test_an_episode_is_a_life_and_begins_with_one_picture() -> None:
    environment = started("atari/breakout:nosticky")
    lives = [environment._lives[0]]
    for _ in range(400):
        step = environment.step(np.array([2]), ONLY)
        if step.ended[0]:
            lives.append(environment._lives[0])
            assert not step.truncated[0]
            assert not step.observations[0, :3].any()
            assert step.observations[0, 3].any()
        if len(lives) == 7:
            break
    assert lives == [5, 4, 3, 2, 1, 5, 4]


def test_rewards_are_clipped() -> None:
    environment = started("atari/seaquest")
    rng = np.random.Generator(np.random.PCG64(0))
    paid = {float(environment.step(rng.integers(0, 18, 1), ONLY).rewards[0]) for _ in range(400)}
    assert paid == {0.0, 1.0}  # a shark is worth 20


def test_a_snapshot_holds_everything() -> None:
    """It goes on as the original does, in another slot, another process's copy, and as often as asked."""
    environment = started(slots=2)
    played(environment, some_actions(4))
    snapshot = environment.snapshot(0)
    actions = some_actions(16, seed=1)
    original = played(environment, actions)
    assert not any(ended for *_, ended in original)  # the next life is another in another slot
    assert len({observation for observation, *_ in original}) > 10
    played(environment, some_actions(15, seed=2), slot=1)
    for slot in (0, 1, 1):
        environment.restore(slot, snapshot)
        assert played(environment, actions, slot) == original
    other = started(seed=9)
    other.restore(0, pickle.loads(pickle.dumps(snapshot)))
    assert played(other, actions) == original


def test_reseeded_restarts_differ_by_stickiness_alone() -> None:
    actions = some_actions(60, seed=3)
    for environment_id, different in (("atari/breakout", True), ("atari/breakout:nosticky", False)):
        environment = started(environment_id)
        played(environment, [1, *some_actions(10)])
        snapshot, seen = environment.snapshot(0), []
        for seed in (1, 2, 1):
            environment.restart(0, snapshot, seed)
            seen.append(played(environment, actions))
        assert seen[0] == seen[2]
        assert (seen[0] != seen[1]) == different == environment.stochastic


def test_slots_that_share_an_emulator_do_not_touch() -> None:
    together = started(slots=3, seed=4)
    actions = [some_actions(60, seed=seed) for seed in range(3)]
    mixed: list[Any] = [[], [], []]
    for place in range(60):
        step = together.step(np.array([own[place] for own in actions]), np.arange(3))
        for slot in range(3):
            mixed[slot].append((step.observations[slot].tobytes(), float(step.rewards[slot]), bool(step.ended[slot])))
    for slot in range(3):
        alone = started(slots=3, seed=4)
        assert played(alone, actions[slot], slot) == mixed[slot]


def test_what_is_unknown_or_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no Atari game"):
        environment_from_id("atari/brekaout", 1)
    with pytest.raises(UserError, match="unknown"):
        environment_from_id("atari/breakout:bold", 1)
    known = importlib.import_module

    def without(name: str) -> ModuleType:
        if name.startswith("ale_py"):
            raise ImportError(name)
        return known(name)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(UserError, match="not installed") as caught:
        environment_from_id("atari/breakout", 1)
    assert "rl-codeaudit[atari]" in str(caught.value.hint)


def test_a_network_of_screens_is_a_convolution_of_bytes() -> None:
    shape = NetworkShape((4, 84, 84), 4, 3)
    network = Members(shape, 1)
    network.draw([3])
    screens = torch.randint(0, 256, (1, 2, 4, 84, 84), dtype=torch.uint8)
    weight = network.parameters["conv.weight"][0].T.reshape(16, 4, 8, 8)
    values = torch.nn.functional.conv2d(screens[0] / 255.0, weight, network.parameters["conv.bias"][0, 0], stride=4)
    rows = torch.relu(values).permute(0, 2, 3, 1).reshape(2, -1)
    hidden = torch.relu(rows @ network.parameters["hidden.weight"][0] + network.parameters["hidden.bias"][0])
    outputs = hidden @ network.parameters["output.weight"][0] + network.parameters["output.bias"][0]
    assert torch.allclose(network.forward(screens)[0].flatten(1), outputs, atol=1e-4)


def test_a_zoo_file_is_audited_in_the_environment_of_its_name(tmp_path: Path) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="makes the archive")

    class Screens(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        action_space = gymnasium.spaces.Discrete(4)

    model = contrib.QRDQN("CnnPolicy", Screens(), buffer_size=1, device="cpu", policy_kwargs={"n_quantiles": 5})
    model.save(tmp_path / "BreakoutNoFrameskip-v4.zip")
    head = head_from_file(str(tmp_path / "BreakoutNoFrameskip-v4.zip"))
    assert (head.environment, head.actions) == ("atari/breakout", 4)
    observations = started(slots=3).reset(LevelDraw(LevelSet(), 1))
    assert head.laws_NAK(observations).shape == (3, 4, 5)
    assert head.act(observations).tolist() == model.predict(observations, deterministic=True)[0].tolist()


def test_an_audit_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent with its first weights, made without stickiness and audited with it."""
    monkeypatch.setattr(beyond, "SCORED_EPISODES", 2)
    monkeypatch.setattr(beyond, "distilled_laws", partial(distilled_laws, steps=2))
    (member,) = Trainer(recipe_of("atari/breakout:nosticky", 6_000)).members()
    agent = tmp_path / "seed-0.safetensors"
    agent.write_bytes(member.content)
    small = ["--rollouts", "3", "--states", "7", "--draws", "99", "--workers", "1", "--quiet", "--format", "json"]
    main(["claims", str(agent), "--env", "atari/breakout", "--out", str(tmp_path / "a"), *small])
    report = json.loads(capsys.readouterr().out)
    (game,) = report["games"]
    assert game["environment"] == "atari/breakout"
    assert len(game["states"]) == 7
    assert not report["runs"][0]["deterministic"]
    assert game["distillation"]["states"] == 7
    assert report["probes"][0]["score"] >= 0
    assert main(["claims", "report", str(tmp_path / "a"), "--format", "html"]) == 0
    assert "the newest screen" in capsys.readouterr().out
