"""Gaps, floors and published curves from made episode rows: numbers that can be worked out by hand."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from codeaudit_runtime.entropy import tier_of, window_of
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.episodes import EpisodeRow
from codeaudit_runtime.floors import PublishedFigures, floor_cells, published_figures
from codeaudit_runtime.gap import GameGap, RunRows, game_gap
from codeaudit_runtime.gap_run import RunFile, refuse_one_run_twice, run_files
from codeaudit_runtime.measure import AgentFiles
from codeaudit_runtime.measurements import CheckpointRows
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.published_curves import final_runs, readings
from codeaudit_runtime.statistics import estimate_from_values

from codeaudit.errors import UserError

TRAIN, HELD = LevelSet("train", 0, 4), LevelSet("heldout", 100, 4)
PLAN = Plan(draws=(1, 2), resamples=200)


def rows_of(
    rule: str, levels: LevelSet, returns: list[float], length: int = 10, revisits: float = 0.0
) -> list[EpisodeRow]:
    """Two draws; episodes go round the four levels."""
    return [
        EpisodeRow(
            checkpoint="agent",
            rule=rule,
            level_set=levels.name,
            draw=1 + index % 2,
            slot=index // 2,
            index=0,
            level=levels.start + index % 4,
            seed=None,
            total=value,
            discounted=value,
            length=length,
            truncated=False,
            entropy=1.5,
            revisits=revisits,
        )
        for index, value in enumerate(returns)
    ]


def run_of(name: str, train: list[float], held: list[float], greedy: float = 0.0) -> RunRows:
    parts = {}
    for levels, sampled in ((TRAIN, train), (HELD, held)):
        parts[levels.name] = CheckpointRows(
            id=name,
            environment="procgen/miner",
            published_environment="procgen/miner",
            algorithm="ppo",
            value_based=False,
            step_cap=1000,
            rules={
                "sampled": rows_of("sampled", levels, sampled, 50, 0.5),
                "greedy": rows_of("greedy", levels, [greedy] * len(sampled), 1000, 0.99),
            },
            floor=rows_of("uniform_random", levels, [1.0, 2.0] * (len(sampled) // 2)),
            references={},
            levels=levels,
        )
    return RunRows(name, name, parts)


def found(*runs: RunRows, left_out: dict[str, frozenset[int]] | None = None) -> GameGap:
    return game_gap("procgen/miner", runs, (TRAIN, HELD), PLAN, (1.5, 13.0), left_out)


HIGH, LOW = [5.0, 7.0, 6.0, 6.0] * 4, [3.0, 5.0, 4.0, 4.0] * 4


def test_one_run_is_read_against_the_floor_of_its_level_set() -> None:
    gap = found(run_of("a", HIGH, LOW))
    sampled = {cell.level_set: cell for cell in gap.cells if cell.rule == "sampled"}
    greedy = {cell.level_set: cell for cell in gap.cells if cell.rule == "greedy"}
    assert sampled["train"].delta.difference == pytest.approx(6.0 - 1.5)
    assert sampled["train"].normalised == pytest.approx(4.5 / 11.5)
    assert (sampled["heldout"].call, sampled["heldout"].above, greedy["heldout"].call) == ("above", 1, "below")
    assert greedy["train"].z < -5
    assert (sampled["train"].levels, sampled["train"].effective_levels) == (4, pytest.approx(4.0))
    (own,) = [one for one in gap.gaps if one.rule == "sampled"]
    assert own.plain.difference == pytest.approx(2.0) and own.fisher_p is None
    assert own.clustered.se > own.plain.se  # each level always returns the same: sixteen episodes are four levels
    (flat,) = [one for one in gap.gaps if one.rule == "greedy"]
    assert flat.plain.difference == 0


def test_failing_episodes_are_described_for_every_rule_and_the_floor() -> None:
    loops = {(one.rule, one.level_set): one for one in found(run_of("a", HIGH, LOW)).loops}
    assert loops["greedy", "heldout"].failing == 1 and loops["greedy", "heldout"].failing_length == 1000
    assert loops["greedy", "train"].longest == 1 and loops["sampled", "train"].longest == 0
    assert math.isnan(loops["sampled", "train"].failing_length)
    assert loops["uniform_random", "train"].failing == pytest.approx(0.5)


def test_rules_and_their_gaps_are_compared_in_pairs() -> None:
    differences = {one.level_set: one for one in found(run_of("a", HIGH, LOW)).differences}
    assert differences["train"].comparison.difference == pytest.approx(6.0)
    gap = next(one for name, one in differences.items() if name.startswith("gap"))
    assert gap.comparison.difference == pytest.approx(2.0)


def test_several_runs_are_the_unit_and_their_p_values_are_combined() -> None:
    runs = [run_of(name, [value + more for value in HIGH], LOW) for name, more in (("a", 0.0), ("b", 1.0), ("c", 2.0))]
    gap = found(*runs)
    (own,) = [one for one in gap.gaps if one.rule == "sampled"]
    expected = estimate_from_values([2.0, 3.0, 4.0])
    assert own.plain.difference == pytest.approx(3.0) and own.plain.se == pytest.approx(expected.sem)
    assert own.runs == 3 and own.fisher_p is not None and own.fisher_p < 1e-6
    assert own.stouffer_p is not None and own.stouffer_p < 1e-6
    assert len([one for one in gap.run_gaps if one.rule == "sampled"]) == 3
    cell = next(one for one in gap.cells if (one.rule, one.level_set) == ("sampled", "train"))
    assert (cell.above, cell.runs, cell.mean) == (3, 3, pytest.approx(7.0))


def test_duplicated_levels_can_be_left_out() -> None:
    gap = found(run_of("a", HIGH, LOW), left_out={"heldout": frozenset({101})})  # the level that returns 5
    (own,) = [one for one in gap.without if one.rule == "sampled"]
    assert own.plain.difference == pytest.approx(6.0 - 11 / 3)
    assert not found(run_of("a", HIGH, LOW), left_out={"heldout": frozenset()}).without


def test_checkpoints_of_one_run_are_not_pooled() -> None:
    files = AgentFiles("x", "0" * 64)
    runs = [RunFile(name, files, "procgen/miner", "same") for name in ("early", "late")]
    with pytest.raises(UserError, match="early and late come from one training run"):
        refuse_one_run_twice(runs)


def test_the_header_names_environment_and_run(shared_folder: Path) -> None:
    folder = shared_folder / "checkpoints" / "procgen"
    one, other = run_files([folder / "miner-s0-262144.safetensors", folder / "miner-s0-524288.safetensors"])
    assert one.environment == "procgen/miner" and one.identity == other.identity and one.id != other.id


def test_floors_are_held_against_published_ones() -> None:
    rows = {"procgen/miner": rows_of("uniform_random", TRAIN, [1.0, 2.0] * 50)}
    figures = PublishedFigures({"miner": {"train": (1.5, 0.1)}}, {})
    (same,) = floor_cells(rows, figures)
    assert same.episode is not None and same.episode.p == pytest.approx(1.0) and same.episode_p == pytest.approx(1.0)
    (far,) = floor_cells(rows, PublishedFigures({"miner": {"train": (3.0, 0.1)}}, {}))
    assert far.episode_p < 1e-6
    (alone,) = floor_cells(rows, None)
    assert alone.published is None and math.isnan(alone.episode_p)


def test_a_file_of_figures_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "figures.yaml"
    path.write_text("random_floor: {miner: {train: [1.2, 0.1]}}\neffective_actions: {miner: 5}\nother: 3\n")
    assert published_figures(path).floors["miner"]["train"] == (1.2, 0.1)
    for content, told in (("random_floor: {miner: 3}", "random_floor is"), ("a: 1", "neither"), ("{", "no YAML")):
        path.write_text(content)
        with pytest.raises(UserError, match=told):
            published_figures(path)
    with pytest.raises(UserError, match="No such file"):
        published_figures(tmp_path / "none.yaml")


def curve_file(tmp_path: Path, last: str = "8.0") -> Path:
    lines = ["game,split,run,steps,return_mean_last100,policy_entropy"]
    for run in range(3):
        for steps in range(0, 1001, 10):
            lines.append(f"heist,train,{run},{steps},{steps / 125 + run / 10},2.4")
            lines.append(f"heist,test,{run},{steps},{3.5 + run / 10},2.4")
    lines[-2] = f"heist,train,2,1000,{last},2.4"
    path = tmp_path / "curves.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_a_curve_near_chance_is_called_so(tmp_path: Path) -> None:
    floors = {"heist": {split: estimate_from_values([3.0, 4.2] * 50) for split in ("train", "test")}}
    (one,) = readings(final_runs(curve_file(tmp_path)), floors)
    assert one.test.mean == pytest.approx(3.6) and one.train.n == 3
    assert one.gap_above_floor == pytest.approx(one.train.mean - one.test.mean)  # both floors are the same here
    assert "not told apart from chance" in one.words and one.tier == "high"
    high = {"heist": {split: estimate_from_values([7.0, 9.4] * 50) for split in ("train", "test")}}
    (below,) = readings(final_runs(curve_file(tmp_path)), high)
    assert below.words == "test below chance"
    (bare,) = readings(final_runs(curve_file(tmp_path)), {})
    assert bare.gap_above_floor is None and bare.words == "no floor measured"


def test_a_bad_curve_file_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r":606: not a number"):
        final_runs(curve_file(tmp_path, "eight"))
    path = tmp_path / "other.csv"
    path.write_text("game,split\n")
    with pytest.raises(UserError, match="no column 'run'"):
        final_runs(path)


def test_tiers_scale_with_the_number_of_actions() -> None:
    assert [tier_of(value, 15) for value in (1.99, 2.0, 2.3, 2.31)] == ["low", "intermediate", "intermediate", "high"]
    scale = math.log(5) / math.log(15)
    assert tier_of(1.99 * scale, 5) == "low" and tier_of(2.31 * scale, 5) == "high"


def test_the_window_of_entropies() -> None:
    certain, even = np.array([50.0, 0.0, 0.0, 0.0]), np.zeros(4)
    logits = np.stack([certain] * 1024 + [even] * 3072).astype(np.float32)
    window = window_of(logits, (0, 0, 1, 2), 0)
    assert window.raw == pytest.approx(0.75 * math.log(4), abs=1e-4) and window.first == pytest.approx(0, abs=1e-4)
    assert window.uniform == pytest.approx(window.raw, abs=0.1)
    assert window.merged == pytest.approx(0.75 * 1.5 * math.log(2), abs=1e-4)
    assert window.changed == 0
    split = np.log(np.array([[0.3, 0.3, 0.4, 1e-9]]))  # alone the third action leads, merged the first two
    assert window_of(split, (0, 0, 1, 2), 0).changed == 1
