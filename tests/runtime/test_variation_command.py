"""The command `codeaudit variation` end to end: formats, bounds, what few runs may not say, and errors on one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from codeaudit.cli import main

Captured = pytest.CaptureFixture[str]


def table(path: Path, runs: dict[str, list[float]], points: int = 11) -> Path:
    """A tidy table: each algorithm's runs rise to their final scores, which they hold in the last tenth."""
    lines = ["algo,seed,steps,return"]
    for algorithm, finals in runs.items():
        for seed, final in enumerate(finals):
            rise = [final * min(1.0, step / (points - 2)) for step in range(points)]
            lines += [f"{algorithm},{seed},{step * 100},{value}" for step, value in enumerate(rise)]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments: object) -> int:
    return main(["variation", *map(str, arguments), "--resamples", "200"])


def report(capsys: Captured, *arguments: object) -> dict[str, Any]:
    assert run(*arguments, "--format", "json") == 0
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(loaded, json.loads(files("codeaudit").joinpath("schemas/variation.schema.json").read_text()))
    return loaded


def test_json_follows_its_schema_and_the_numbers_are_right(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"ppo": list(range(1, 101)), "sac": [50.0] * 3})
    found = report(capsys, path, "--compare", "ppo", "sac", "--min", 0, "--max", 200, "--fail-under", "10%")
    ppo, sac = found["groups"]
    assert (ppo["algorithm"], ppo["n"], ppo["ipr"]["percent"]) == ("ppo", 100, 45.0)
    assert [item["score"] for item in ppo["highlights"]] == [5, 50, 95]
    assert ppo["bounds"]["origin"] == "given"
    assert (ppo["failures"]["threshold"], ppo["failures"]["count"]) == (20, 19)
    assert sac["ipr"]["percent"] == 0 and sac["lower_percentile_interval"]["low"] is None
    assert found["settings"]["seed"] == 0 and len(found["inputs"][0]["sha256"]) == 64
    assert found["inputs"][0]["guessed"] == ["value", "step", "run", "algorithm"]


def test_the_same_command_gives_the_same_bytes(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", {"ppo": [1, 5, 9, 2]})
    for form in ("json", "html", "markdown", "csv", "terminal"):
        for name in ("one", "two"):
            assert run(path, "--format", form, "--output", tmp_path / name) == 0
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_three_runs_are_a_range_and_the_report_says_so(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"ppo": [1, 5, 9]})
    assert run(path, "--min", 0, "--max", 10) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "80.0%†" in said
    assert "With 3 runs the 5th and 95th percentiles are the worst and the best run" in said
    assert "holds 90% of all runs with probability 0.028" in said
    assert "no run at all is among the worst 5% with probability 86%" in said
    assert "needs 59 runs" in said
    assert "The standard error and the bootstrap intervals say how well a mean is known. They shrink as 1/√n" in said


@pytest.mark.parametrize(("runs", "said"), [(1, "One run says nothing"), (30, "there is no 95% lower bound")])
def test_other_numbers_of_runs(tmp_path: Path, capsys: Captured, runs: int, said: str) -> None:
    assert run(table(tmp_path / "a.csv", {"ppo": list(range(1, runs + 1))})) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_enough_runs_get_a_bound_and_no_warning(tmp_path: Path, capsys: Captured) -> None:
    found = report(capsys, table(tmp_path / "a.csv", {"ppo": list(range(1, 101))}), "--min", 0, "--max", 100)
    assert not [line for line in found["reading"] if line.startswith("With ")]
    assert found["groups"][0]["ipr_interval"]["high"] is not None


def test_bounds_are_given_known_or_empirical(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "env,seed,step,return\n" + "".join(f"{env},{s},1,{s + 6}\n" for env in ("maze", "x") for s in (0, 1))
    )
    found = report(capsys, path)
    maze, other = found["groups"]
    assert maze["bounds"]["origin"] == other["bounds"]["origin"] == "empirical"
    assert "known for procgen-easy and procgen-hard: choose with --suite" in maze["notes"][0]
    assert any("empirical" in line for line in found["reading"])
    maze, other = report(capsys, path, "--suite", "procgen-hard")["groups"]
    assert (maze["bounds"]["low"], maze["bounds"]["origin"]) == (4, "known")
    assert other["bounds"]["origin"] == "empirical"
    (tmp_path / "b.yaml").write_text("x: [0, 100]\n")
    maze, other = report(capsys, path, "--suite", "procgen-hard", "--bounds", tmp_path / "b.yaml")["groups"]
    assert (maze["bounds"]["origin"], other["bounds"]["origin"], other["ipr"]["percent"]) == ("known", "given", 1)


def test_runs_without_a_final_value_are_never_silent(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"ppo": [4, 6]})
    path.write_text(path.read_text() + "ppo,2,0,5\nppo,2,900,nan\nppo,2,1000,nan\n")
    found = report(capsys, path, "--min", 0, "--max", 10)
    assert found["groups"][0]["n"] == 2
    assert found["left_out"][0]["what"].endswith("run 2")
    assert "hides variation" in found["groups"][0]["notes"][0]
    lowest = report(capsys, path, "--min", 0, "--max", 10, "--missing", "lowest")["groups"][0]
    assert (lowest["n"], lowest["ipr"]["lower"]) == (3, 0)


def test_short_runs_are_named(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"ppo": [4, 6]})
    path.write_text(path.read_text() + "ppo,2,0,0\nppo,2,100,5\n")
    assert (
        "every run is read at the shortest one's last step, 100 of 1,000"
        in report(capsys, path)["groups"][0]["notes"][0]
    )
    own = report(capsys, path, "--lengths", "own", "--window", "1points")
    assert [item["score"] for item in own["groups"][0]["runs"]] == [4, 6, 5]


def test_csv_markdown_and_html(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"a|b<i>": [1, 5, 9]})
    assert run(path, "--format", "csv") == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["algorithm"], row["runs"], row["lower_percentile_low"]) == ("a|b<i>", "3", "")
    assert float(row["standard_error"]) == pytest.approx(np.std([1, 5, 9], ddof=1) / np.sqrt(3))
    assert run(path, "--format", "markdown", "--plot", tmp_path / "out", "--plot-format", "svg") == 0
    text = capsys.readouterr().out
    assert r"a\|b&lt;i&gt;" in text and "![runs](<" in text
    assert {item.name for item in (tmp_path / "out").iterdir()} == {"runs.svg", "profiles.svg"}
    assert run(path, "--format", "html") == 0
    page = capsys.readouterr().out
    assert page.count("<svg") == 2 and "a|b&lt;i&gt;" in page and "http" not in page.split("<svg")[0]
    ids = re.findall(r' id="([^"]+)"', page)
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', page))
    # Two figures on one page must not take each other's clips and markers; letters of one font are the same in both.
    assert used and not [name for name in used if ids.count(name) != 1 and not name.startswith("DejaVu")]


def test_terminal_draws_when_there_is_no_file(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"ppo": list(range(1, 31))})
    run(path)
    drawn = capsys.readouterr().out
    assert "▲" in drawn and "run 14, 15.0" in drawn and "\x1b" not in drawn
    run(path, "--plot", tmp_path / "out", "--plot-format", "png")
    filed = capsys.readouterr().out
    assert "▲" not in filed and "runs.png" in filed
    run(path, "--quiet")
    short = capsys.readouterr().out
    assert len(short.splitlines()) == 5 and "Reading" not in short


def test_percentile_definitions_differ_and_are_named(tmp_path: Path, capsys: Captured) -> None:
    path = table(tmp_path / "a.csv", {"ppo": [1, 5, 9]})
    found = {
        name: report(capsys, path, "--min", 0, "--max", 10, "--percentiles", name)
        for name in ("nearest-rank", "linear", "closest")
    }
    assert [round(item["groups"][0]["ipr"]["percent"]) for item in found.values()] == [80, 72, 80]
    assert "linear interpolation" in found["linear"]["method"][1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.csv"], "error: missing.csv: no such file or folder; check the path"),
        (["{}", "--min", "5"], "error: --min and --max go together"),
        (["{}", "--min", "5", "--max", "5"], "error: bounds 5 and 5 are not in order"),
        (["{}", "--window", "x"], "error: --window 'x' is no window"),
        (["{}", "--suite", "x"], "error: --suite 'x' is not known"),
        (["{}", "--fail-under", "x"], "error: --fail-under 'x' is no number"),
        (["{}", "--value", "x"], "--value names 'x', which is not there"),
        (["{}", "--compare"], "--compare"),
        ([], "Missing argument"),
        (["{}", "--level", "2"], "--level"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    tmp_path: Path, capsys: Captured, arguments: list[str], said: str
) -> None:
    path = table(tmp_path / "a.csv", {"ppo": [1, 5, 9]})
    assert main(["variation", *(argument.format(path) for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err and len(captured.err.splitlines()) == 1


def test_procgen_curves_of_three_runs(shared_folder: Path, capsys: Captured) -> None:
    """Against NumPy on the raw file: the mean of the last tenth of the steps, and the range over known bounds."""
    path = shared_folder / "data" / "train-procgen" / "easy-200.csv.gz"
    found = report(
        capsys, path, "--value", "return_mean_last100", "--step", "steps", "--run", "run", "--group", "game,split",
        "--suite", "procgen-easy",
    )  # fmt: skip
    assert len(found["groups"]) == 32 and all(group["n"] == 3 for group in found["groups"])
    with gzip.open(path, "rt") as file:
        rows = [row for row in csv.DictReader(file) if (row["game"], row["split"]) == ("leaper", "test")]
    finals = []
    for name in "012":
        steps, values = np.array(
            [(float(r["steps"]), float(r["return_mean_last100"])) for r in rows if r["run"] == name]
        ).T
        finals.append(values[steps >= steps.max() - 0.1 * (steps.max() - steps.min())].mean())
    leaper = next(group for group in found["groups"] if group["task"] == "leaper, test")
    assert [item["score"] for item in leaper["runs"]] == pytest.approx(finals)
    assert leaper["ipr"]["percent"] == pytest.approx(100 * np.ptp(finals) / (10 - 3))
    assert leaper["ipr"]["is_range"]
