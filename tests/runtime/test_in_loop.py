"""In-loop against fixed: the parts of the bias are what they are called, logs are read with care, the command tells."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the runtime extra is not installed")

import jsonschema  # noqa: E402
import numpy as np  # noqa: E402
from codeaudit_runtime.environments import LevelSet  # noqa: E402
from codeaudit_runtime.episodes import EpisodeRow  # noqa: E402
from codeaudit_runtime.gap import RunRows, game_gap  # noqa: E402
from codeaudit_runtime.in_loop import InLoopEpisode, LoggedRun, in_loop_report  # noqa: E402
from codeaudit_runtime.in_loop_run import training_run  # noqa: E402
from codeaudit_runtime.measurements import CheckpointRows  # noqa: E402
from codeaudit_runtime.plan import Plan  # noqa: E402
from codeaudit_runtime.train.procgen_recipe import ProcgenRecipe  # noqa: E402
from codeaudit_runtime.train.procgen_run import train_procgen  # noqa: E402
from codeaudit_runtime.two_sets import compared_sets  # noqa: E402

from codeaudit.cli import main  # noqa: E402
from codeaudit.errors import UserError  # noqa: E402

LEVELS = 10


def check(name: str, report: Any) -> None:
    jsonschema.validate(report, json.loads(files("codeaudit").joinpath(f"schemas/{name}.schema.json").read_text()))


def rows(mean: float, *, spread: float = 0.0, by_level: float = 0.0, name: str = "heldout") -> list[EpisodeRow]:
    """100 episodes over ten levels; level ℓ returns `by_level` · (ℓ − 4.5) more than the mean."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100)
    noise -= noise.mean()
    return [
        EpisodeRow("a", "sampled", name, 11, index % 10, index // 10, index % LEVELS, None,
                   mean + by_level * (index % LEVELS - 4.5) + spread * noise[index], 0.0, 10, False, None, 0.0)
        for index in range(100)
    ]  # fmt: skip


def logged(episodes: list[InLoopEpisode], steps: list[int]) -> LoggedRun:
    means = {step: float(np.mean([one.total for one in episodes if one.ended <= step][-100:])) for step in steps}
    return LoggedRun("run", "heldout", means, tuple(episodes))


def test_an_improving_agent_is_seen_late_and_the_part_is_its_policies_age() -> None:
    """F(s) = s/1000, every in-loop episode returns what its middle step's policy would."""
    fixed = {step: rows(step / 1000) for step in range(0, 10_001, 1000)}
    episodes = [
        InLoopEpisode(index % 10, index % LEVELS, end - 40, end, 40, (end - 20) / 1000)
        for index, end in enumerate(range(40, 10_001, 40))
    ]
    report = in_loop_report(logged(episodes, list(fixed)[1:]), fixed, 0.0)
    last = report.points[-1]
    assert last.steps == 10_000 and last.window is not None
    assert last.window.mean_age == pytest.approx(20 + 40 * 99 / 2)
    assert last.bias.difference == pytest.approx(-last.window.mean_age / 1000)
    assert last.window.age.value == pytest.approx(last.bias.difference)
    assert abs(last.window.rest.value) < 1e-9 and abs(last.window.levels.value) < 1e-9
    assert report.lag.value == pytest.approx(2000, abs=250)
    assert report.bias.value < 0 and report.bias.high < 0


def test_slots_with_short_episodes_and_the_levels_of_the_window_are_parts_of_their_own() -> None:
    fixed = {1000: rows(5.0, by_level=1.0), 2000: rows(5.0, by_level=1.0)}
    # Slot 0 gives 90 short episodes that return 1, slot 1 ten long ones that return 9; all on level 0, which returns
    # 4.5 less than the mean.
    episodes = [InLoopEpisode(int(index >= 90), 0, 1500, 1600, 5, 9.0 if index >= 90 else 1.0) for index in range(100)]
    window = in_loop_report(logged(episodes, [2000]), fixed, 0.0).points[-1].window
    assert window is not None
    assert window.short_first.value == pytest.approx(1.8 - 5.0)
    assert window.levels.value == pytest.approx(-4.5)
    assert window.age.value == pytest.approx(0.0)
    assert window.rest.value == pytest.approx((1.8 - 5.0) - (1.8 - 5.0) + 4.5)


def test_a_log_without_episodes_tells_the_bias_alone() -> None:
    fixed = {step: rows(2.0, spread=1.0) for step in (100, 200, 300)}
    run = LoggedRun("run", "heldout", {90: 1.0, 190: 1.0, 290: 1.0}, None)
    report = in_loop_report(run, fixed, 0.5)
    assert [(point.steps, point.logged_at) for point in report.points] == [(100, 90), (200, 190), (300, 290)]
    assert not report.shares and all(point.window is None and not point.spread_known for point in report.points)
    assert report.bias.value == pytest.approx(-1.0)
    assert report.bias.low < -1.0 < report.bias.high < 0
    with pytest.raises(ValueError, match="no checkpoint lies in the log"):
        in_loop_report(run, {50: rows(1.0)}, 0.5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("procgen", reason="the procgen extra is not installed")
    folder = tmp_path_factory.mktemp("run") / "fruitbot"
    recipe = ProcgenRecipe("procgen/fruitbot", slots=4, rollout=64, minibatches=1, epochs=1, save_every=256)
    train_procgen(recipe, 512, folder)
    return folder


def test_the_command_reads_a_training_run_from_end_to_end(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--in-loop", "--draws", "1", "--episodes", "4", "--levels", "heldout=1000:100", "--workers", "1"]
    assert main(["gap", str(trained), *options, "--quiet", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    check("in-loop", report)
    (run,) = report["runs"]
    assert [point["steps"] for point in run["points"]][-1] == 512
    window = run["points"][-1]["window"]
    parts = [window[name]["value"] for name in ("age", "levels", "short_first", "rest")]
    assert sum(parts) == pytest.approx(run["points"][-1]["bias"]["difference"])


def test_folders_that_are_not_one_training_run_are_refused(trained: Path, tmp_path: Path) -> None:
    checkpoint = next(trained.glob("*-512.safetensors"))
    log = (trained / "training-log.csv").read_text()
    with pytest.raises(UserError, match="reads folders"):
        training_run(checkpoint)
    with pytest.raises(UserError, match="no safetensors"):
        training_run(tmp_path)
    (tmp_path / checkpoint.name).write_bytes(checkpoint.read_bytes())
    with pytest.raises(UserError, match=r"0 files \*training-log.csv"):
        training_run(tmp_path)
    (tmp_path / "training-log.csv").write_text(log.replace("256,", "many,", 1))
    with pytest.raises(UserError, match=r"training-log\.csv:2"):
        training_run(tmp_path)
    (tmp_path / "training-log.csv").write_text(log)
    assert list(training_run(tmp_path).checkpoints) == [512]
    train_procgen(ProcgenRecipe("procgen/fruitbot", seed=1, slots=4, rollout=64, minibatches=1, epochs=1), 0, tmp_path)
    with pytest.raises(UserError, match="more than one training run"):
        training_run(tmp_path)


SETS = (LevelSet("train", 0, 200), LevelSet("heldout", 1000, 100))


def run_rows(identity: str, train: float, heldout: float) -> RunRows:
    floor = rows(1.0, spread=1.0)
    parts = {
        levels.name: CheckpointRows(
            id=identity,
            environment="procgen/miner",
            published_environment="",
            algorithm="ppo",
            value_based=False,
            step_cap=1000,
            references={},
            floor=tuple(floor),
            rules={"sampled": tuple(rows(mean, spread=1.0, name=levels.name))},
            levels=levels,
        )
        for levels, mean in zip(SETS, (train, heldout), strict=True)
    }
    return RunRows(identity, identity, parts)


@pytest.mark.parametrize(("first", "share", "near"), [((6.0, 1.0), 1.0, True), ((5.0, 3.0), None, False)])
def test_two_sets_are_read_against_the_floor(first: tuple[float, float], share: float | None, near: bool) -> None:
    """A gap that is larger by training alone, and two gaps that are the same."""
    runs = [run_rows("a", *first)], [run_rows("b", 3.0, 1.0)]
    plan = Plan(resamples=200)
    gaps = [game_gap("procgen/miner", own, SETS, plan, None) for own in runs]
    (found,) = compared_sets((gaps[0], gaps[1]), runs, SETS)
    assert found.train.difference == pytest.approx(first[0] - 3.0)
    assert found.gap.difference == pytest.approx(first[0] - first[1] - 2.0)
    assert found.training_share == (None if share is None else pytest.approx(share))
    assert found.near_chance is near
    assert found.unit == "episode"


def test_the_command_compares_two_sets_and_refuses_one_run_in_both(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ProcgenRecipe("procgen/fruitbot", "fpn", slots=4, rollout=64, minibatches=1, epochs=1)
    (second,) = train_procgen(other, 0, tmp_path / "fpn")
    first = next(trained.glob("*-512.safetensors"))
    fast = ["--draws", "1", "--episodes", "2", "--no-content", "--workers", "1", "--quiet", "--format", "json"]
    assert main(["gap", str(first), "--against", str(second), *fast]) == 0
    report = json.loads(capsys.readouterr().out)
    check("gap", report)
    found = report["against"]["comparisons"]["procgen/fruitbot"]
    assert [one["rule"] for one in found] == ["sampled", "greedy"]
    own, others = (game["gaps"] for game in (report["games"][0], report["against"]["games"][0]))
    for one, mine, theirs in zip(found, own, others, strict=True):
        difference = mine["plain"]["difference"] - theirs["plain"]["difference"]
        assert one["gap"]["difference"] == pytest.approx(difference)
    assert main(["gap", str(first), "--against", str(next(trained.glob("*-256.safetensors"))), *fast]) == 2
    assert "come from one training run" in capsys.readouterr().err
