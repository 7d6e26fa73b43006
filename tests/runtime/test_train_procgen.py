"""ProcGen training: printed sizes, the same bytes after a kill, agents that can be rebuilt, and an honest log."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the runtime extra is not installed")
pytest.importorskip("procgen", reason="the procgen extra is not installed")

import numpy as np  # noqa: E402
from click.testing import CliRunner  # noqa: E402
from codeaudit_runtime.checkpoints import checkpoint_from_bytes  # noqa: E402
from codeaudit_runtime.checkpoints.safetensors_file import header_metadata  # noqa: E402
from codeaudit_runtime.policies import Categorical  # noqa: E402
from codeaudit_runtime.train.command import train  # noqa: E402
from codeaudit_runtime.train.encoders import ENCODERS, agent_from_seed, encoder_parameters  # noqa: E402
from codeaudit_runtime.train.procgen import PpoTrainer, RewardScale, UpdateLog, advantages  # noqa: E402
from codeaudit_runtime.train.procgen_recipe import ProcgenRecipe  # noqa: E402
from codeaudit_runtime.train.procgen_run import checkpoint_bytes, train_procgen  # noqa: E402

from codeaudit.errors import UserError  # noqa: E402

QUICK = ProcgenRecipe("procgen/fruitbot", slots=2, rollout=32, minibatches=2, epochs=1, save_every=128)


@pytest.mark.parametrize(("encoder", "printed"), [("impala", 622_000), ("fpn", 521_000)])
def test_the_encoders_have_the_printed_numbers_of_parameters(encoder: str, printed: int) -> None:
    assert round(encoder_parameters(agent_from_seed(encoder, 15, 0)), -3) == printed


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_saved_agent_is_rebuilt_from_its_tensors(encoder: str) -> None:
    trainer = PpoTrainer(dataclasses.replace(QUICK, encoder=encoder))
    with torch.no_grad():
        trainer.agent.actor.weight.mul_(100)  # fresh heads say nearly nothing, and would agree with anything
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    content = checkpoint_bytes(trainer)
    checkpoint = checkpoint_from_bytes(content, "agent.safetensors", "")
    head, _ = checkpoint.policy(images, None, np.ones(3, dtype=bool))
    assert isinstance(head, Categorical)
    with torch.no_grad():
        wanted = trainer.agent(torch.from_numpy(images))[0].numpy()
    assert wanted.std() > 0.01
    np.testing.assert_allclose(head.logits_NA, wanted, atol=1e-5)
    assert json.loads(header_metadata(content, "agent")["recipe"]) == trainer.recipe.to_json()


@pytest.mark.parametrize("change", [{}, {"encoder": "fpn", "precision": "bfloat16", "reward": "normalised"}])
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, change: dict[str, str]) -> None:
    recipe = dataclasses.replace(QUICK, **change)
    whole = train_procgen(recipe, 320, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(log: UpdateLog) -> None:
        if log.steps == 192:  # one update after the checkpoint at 128
            raise Killed

    with pytest.raises(Killed):
        train_procgen(recipe, 320, tmp_path / "killed", kill)
    resumed = train_procgen(recipe, 320, tmp_path / "killed")
    names = [path.name for path in whole]
    assert [name.rpartition("-")[2] for name in names] == [f"{n}.safetensors" for n in (0, 128, 256, 320)]
    assert names == [path.name for path in resumed]
    for name in [*names, "training-log.csv", "in-loop-episodes.csv"]:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes(), name
    assert whole[-1].read_bytes()[512:] != whole[-2].read_bytes()[512:]


def test_a_finished_run_goes_on_with_more_steps_and_refuses_another_recipe(tmp_path: Path) -> None:
    train_procgen(QUICK, 128, tmp_path / "run")
    longer = train_procgen(QUICK, 256, tmp_path / "run")
    whole = train_procgen(QUICK, 256, tmp_path / "whole")
    assert longer[-1].read_bytes() == whole[-1].read_bytes()
    with pytest.raises(UserError, match="seed"):
        train_procgen(dataclasses.replace(QUICK, seed=1), 256, tmp_path / "run")


def test_the_log_is_the_mean_of_the_last_episodes_of_a_heldout_environment() -> None:
    recipe = dataclasses.replace(QUICK, slots=4, rollout=128, window=3, heldout_levels=(1000, 5))
    trainer = PpoTrainer(recipe)
    for _ in range(2):
        log = trainer.update()
    heldout = [one for one in trainer.episodes if one.level_set == "heldout"]
    train = [one for one in trainer.episodes if one.level_set == "train"]
    assert len(heldout) > 3 and len(train) > 3
    assert log.heldout == pytest.approx(np.mean([one.total for one in heldout[-3:]]))
    assert {one.level for one in heldout} <= set(range(1000, 1005))
    assert {one.level for one in train} <= set(range(200))
    for slot in range(recipe.slots):  # never reset: an episode begins where the one before ended
        own = [one for one in heldout if one.slot == slot]
        assert all(a.ended == b.began for a, b in itertools.pairwise(own))
        assert all(one.ended - one.began == one.length * recipe.slots for one in own)


def test_advantages_are_the_discounted_sums_of_errors() -> None:
    rewards, values = np.array([[1.0], [2.0], [4.0]]), np.array([[0.5], [0.25], [3.0]])
    ended = np.array([[False], [True], [False]])
    found = advantages(rewards, values, ended, np.array([8.0]), 0.5, 0.5)
    second, third = 2.0 - 0.25, 4.0 + 0.5 * 8.0 - 3.0
    first = 1.0 + 0.5 * 0.25 - 0.5
    np.testing.assert_allclose(found[:, 0], [first + 0.25 * second, second, third])


def test_reward_normalisation_divides_by_the_spread_of_discounted_returns() -> None:
    scale = RewardScale(4, 0.9)
    rng, returns, seen = np.random.default_rng(0), np.zeros(4), []
    for step in range(200):
        rewards, ended = rng.normal(0, 3, 4), rng.random(4) < 0.1
        scaled = scale(rewards, ended)
        returns = returns * 0.9 + rewards
        seen.append(returns.copy())
        returns[ended] = 0
        if step > 50:
            np.testing.assert_allclose(scaled, np.clip(rewards / np.std(seen), -10, 10), rtol=1e-3)


def test_the_command_trains_and_says_what_is_wrong(tmp_path: Path) -> None:
    bad = CliRunner().invoke(train, ["procgen", "--env", "minatar/breakout", "--out", str(tmp_path / "a")])
    assert isinstance(bad.exception, UserError) and "no ProcGen game" in str(bad.exception)
    options = ["--env", "procgen/coinrun", "--slots", "1", "--steps", "200", "--out", str(tmp_path / "b")]
    done = CliRunner().invoke(train, ["procgen", *options], catch_exceptions=False)
    assert done.exit_code == 0
    assert (tmp_path / "b" / "coinrun-impala-s0-256.safetensors").is_file()
    assert (tmp_path / "b" / "training-log.csv").read_text().startswith("steps,train_last100,test_last100,")


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_kept_checkpoints_are_small_and_whole(encoder: str) -> None:
    folder = Path(__file__).resolve().parents[2] / "fixtures" / "checkpoints"
    (path,) = folder.glob(f"starpilot-{encoder}-*.safetensors")
    content = path.read_bytes()
    header = header_metadata(content, path.name)
    assert len(content) < 2_000_000
    assert (header["env"], header["precision"]) == ("procgen/starpilot", "float16")
    assert ProcgenRecipe(**{**json.loads(header["recipe"]), "train_levels": (0, 200), "heldout_levels": (1000, 100)})
    images = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    checkpoint = checkpoint_from_bytes(content, path.name, "")
    assert checkpoint.trunk is not None
    features = checkpoint.trunk(torch.from_numpy(images))
    assert features.dtype == torch.float32 and features.shape == (2, 256)
    assert not torch.equal(features[0], features[1])
