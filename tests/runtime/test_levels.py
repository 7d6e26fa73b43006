"""Levels compared by content, and the ProcGen commands from end to end, where ProcGen is installed."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.environments.procgen_levels import first_states, layout_digest
from codeaudit_runtime.levels import (
    LevelContent,
    LevelsJob,
    content_bytes,
    contents_from_bytes,
    overlap_of,
    set_content,
)

from codeaudit.cli import main
from codeaudit.errors import UserError

A, B = LevelSet("train", 0, 3), LevelSet("heldout", 10, 2)


def made(level: int, layout: str, ends: int = 0) -> LevelContent:
    return LevelContent(level, f"p{level}", layout, f"p{level}", layout, ends)


def test_duplicates_are_counted_by_kind() -> None:
    contents = {"train": [made(0, "x"), made(1, "x"), made(2, "y")], "heldout": [made(10, "x"), made(11, "z", 2)]}
    found = overlap_of(A, B, contents)
    assert found.duplicates == {"picture": 0, "layout": 1, "played_picture": 0, "played_layout": 1}
    assert found.duplicate_levels == (10,) and found.levels == 2
    own = set_content(A, contents["train"])
    assert own.distinct["layout"] == 2 and own.distinct["picture"] == 3
    assert set_content(B, contents["heldout"]).short == (11,)


def test_other_environments_have_no_levels() -> None:
    with pytest.raises(UserError, match="no levels to compare"):
        content_bytes(LevelsJob("CartPole-v1", A))


@pytest.fixture
def procgen() -> None:
    pytest.importorskip("procgen", reason="the procgen extra is not installed")


@pytest.mark.usefixtures("procgen")
def test_every_level_of_a_set_is_found_once() -> None:
    states = first_states("procgen/bigfish", LevelSet("some", 40, 7))
    assert [one.level for one in states] == list(range(40, 47))
    assert len({one.picture for one in states}) == 7
    with pytest.raises(ValueError):
        layout_digest(states[0].state[:500])
    with pytest.raises(ValueError, match="version"):
        layout_digest(b"\x09" + states[0].state[1:])


@pytest.mark.usefixtures("procgen")
def test_a_set_is_a_duplicate_of_itself_and_levels_that_differ_are_not() -> None:
    job = LevelsJob("procgen/maze", LevelSet("some", 0, 12))
    contents = contents_from_bytes(content_bytes(job))
    found = overlap_of(job.levels, job.levels, {"some": contents})
    assert set(found.duplicates.values()) == {12}
    assert set_content(job.levels, contents).distinct["picture"] > 6
    assert contents_from_bytes(content_bytes(job)) == contents


@pytest.mark.usefixtures("procgen")
def test_some_jumper_levels_are_over_at_once() -> None:
    contents = contents_from_bytes(content_bytes(LevelsJob("procgen/jumper", LevelSet("some", 4, 6))))
    assert {one.level for one in contents if one.ends} == {5, 9}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def checked(name: str, text: str) -> dict[str, object]:
    report: dict[str, object] = json.loads(text)
    schema = json.loads(files("codeaudit").joinpath("schemas", f"{name}.schema.json").read_text("utf-8"))
    jsonschema.validate(report, schema)
    return report


SETS = ("--levels", "train=0:3", "--levels", "heldout=100:3")
FAST = ("--quiet", "--workers", "1")


@pytest.mark.usefixtures("procgen")
def test_levels_actions_and_floors_obey_their_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.yaml"
    figures.write_text("random_floor: {bigfish: {train: [1.0, 0.1]}}\neffective_actions: {bigfish: 9}\n")
    common = ("--env", "procgen/bigfish", *SETS, *FAST, "--format", "json")
    checked("levels", run(capsys, "levels", *common))
    checked("actions", run(capsys, "actions", *common, "--published", str(figures)))
    floors = ("floors", *common, "--published", str(figures), "--draws", "2", "--episodes", "4")
    out = ("--out", str(tmp_path / "run"))
    first = run(capsys, *floors, *out)
    report = checked("floors", first)
    assert report["plan"]["draws"] == [11, 12]  # type: ignore[index]
    assert run(capsys, *floors, *out) == first  # from the kept units
    assert run(capsys, *floors, "--workers", "2") == first


@pytest.mark.usefixtures("procgen")
def test_curves_get_the_floors_of_their_game(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "curves.csv"
    lines = [
        f"bigfish,{split},{run},{steps},5.0,1.2" for split in ("train", "test") for run in "01" for steps in (1, 2)
    ]
    path.write_text("\n".join(["game,split,run,steps,return_mean_last100,policy_entropy", *lines]))
    arguments = ("curves", str(path), "--draws", "1", "--episodes", "4", *FAST)
    report = checked("curves", run(capsys, *arguments, "--format", "json"))
    (game,) = report["games"]  # type: ignore[misc]
    assert game["words"] == "test above chance" and game["tier"] == "low"
    assert "bigfish" in run(capsys, *arguments)


@pytest.mark.usefixtures("procgen")
def test_gap_and_entropy_of_the_real_agent(
    shared_checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = str(shared_checkpoints / "procgen" / "miner-s0-1048576.safetensors")
    plan = tmp_path / "plan.yaml"
    plan.write_text("{slots: 4, step_cap: 40, burn_in: 0, resamples: 100}\n")
    small = ("--plan", str(plan), "--draws", "1", "--episodes", "4", "--rule", "merged_greedy")
    out = ("--out", str(tmp_path / "run"))
    arguments = ("gap", agent, *SETS, *FAST, *small)
    text = run(capsys, *arguments, *out, "--format", "json")
    (game,) = checked("gap", text)["games"]  # type: ignore[misc]
    assert game["environment"] == "procgen/miner" and game["actions"]["effective"] == 5
    assert {(cell["rule"], cell["level_set"]) for cell in game["cells"]} == {
        (rule, name) for rule in ("sampled", "greedy", "merged_greedy") for name in ("train", "heldout")
    }
    assert (tmp_path / "run" / "gap.json").read_text() == text
    assert run(capsys, *arguments, "--format", "json", "--no-content") != text
    latex = run(capsys, *arguments, *out, "--format", "latex")
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") > 3 and latex.isascii()
    assert "<table>" in run(capsys, *arguments, *out, "--format", "html")
    assert "| train | sampled |" in run(capsys, *arguments, *out, "--format", "markdown")
    assert "procgen/miner" in run(capsys, *arguments, *out)
    screen = run(capsys, "entropy", agent, *SETS, "--steps", "17", *FAST, "--format", "json")
    (found,) = checked("entropy", screen)["runs"]  # type: ignore[misc]
    assert 0 < found["mean"]["merged"] < found["mean"]["raw"] < 2.71


def test_a_gap_needs_two_level_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gap", str(tmp_path / "x.pt"), "--levels", "train=0:3"]) == 2
    assert "needs two level sets" in capsys.readouterr().err
