"""The commands as a person runs them: contracts of the reports, resuming, workers, and clear errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codeaudit_runtime.measure import open_environment
from made_agents import mlp_tensors, scan_report, torch_bytes

from codeaudit.cli import main
from codeaudit.store import RunDirectory

FAST = ("--episodes", "30", "--quiet")
PREDICTIONS = (("published_rule", "greedy"), ("above_floor", ""), ("rule_matters", ""))


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def verify_arguments(registry: Callable[..., Path], tmp_path: Path) -> Callable[..., list[str]]:
    def arguments(out: str = "run", **options: Any) -> list[str]:
        folder = registry(**options)
        scan = tmp_path / "scan.json"
        scan.write_text(json.dumps(scan_report(*PREDICTIONS)))
        named = ["--registry", str(folder), "--checkpoints", str(folder), "--scan", str(scan)]
        return ["verify", "toy", *named, "--out", str(tmp_path / out), *FAST]

    return arguments


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything in a run directory that the machine has no part in."""
    names = (path for path in folder.rglob("*") if path.is_file() and path.name != "machine.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def test_verify_json_contract(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    code, out, _ = run(*verify_arguments(), "--format", "json")
    report = json.loads(out)
    assert report["schema"] == "codeaudit.verify/1" and len(report["plan"]["hash"]) == 64
    (checkpoint,) = report["checkpoints"]
    assert (checkpoint["id"], checkpoint["environment"]) == ("toy-CartPole", "CartPole-v1")
    assert checkpoint["published"] == {"mean": 20.0, "std": 8.0, "episodes": 100, "line": ""}
    assert list(checkpoint["rules"]) == ["greedy", "sampled", "uniform_random"]
    for rule in checkpoint["rules"].values():
        assert rule["episodes"] == 30 and {"mean", "std"} <= set(rule)
    assert [verdict["prediction"] for verdict in checkpoint["verdicts"]] == [kind for kind, _ in PREDICTIONS]
    assert all(verdict["verdict"] in ("confirmed", "refuted", "undecided") for verdict in checkpoint["verdicts"])
    assert code == int(any(verdict["verdict"] == "refuted" for verdict in checkpoint["verdicts"]))
    assert json.loads((tmp_path / "run" / "verification.json").read_text()) == report


def test_two_workers_give_the_same_bytes(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    first, second = verify_arguments("one"), verify_arguments("two")
    _, one, _ = run(*first, "--format", "json")
    _, two, _ = run(*second, "--format", "json", "--workers", "2")
    assert one == two
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    """SIGKILL after the fourth unit was saved; the same command then finishes the run."""
    killed, whole = verify_arguments("killed"), verify_arguments("whole")
    program = (
        "import os, signal, sys\n"
        "from codeaudit.store import RunDirectory\n"
        "from codeaudit.cli import main\n"
        "save, saved = RunDirectory.save, []\n"
        "def killing(self, key, data):\n"
        "    save(self, key, data)\n"
        "    saved.append(key)\n"
        "    if len(saved) == 4: os.kill(os.getpid(), signal.SIGKILL)\n"
        "RunDirectory.save = killing\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *killed], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    manifest = json.loads((tmp_path / "killed" / "manifest.json").read_text())
    assert len(RunDirectory(tmp_path / "killed", manifest).keys()) == 4
    run(*killed)
    run(*whole)
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def test_kept_units_are_not_rolled_out_again(run: Any, verify_arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = verify_arguments()
    run(*arguments)
    monkeypatch.setattr("codeaudit_runtime.measure.rollout", lambda *_: pytest.fail("rolled out again"))
    code, _, error = run(*arguments)
    assert code in (0, 1) and error == ""


def test_a_changed_plan_is_said(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    arguments = verify_arguments()
    run(*arguments)
    plan = tmp_path / "plan.yaml"
    plan.write_text("published_margin: 0.2\nepisodes_per_draw: 10\n")
    _, out, _ = run(*arguments, "--plan", str(plan), "--format", "json")
    assert any("published_margin: 0.05 → 0.2" in change for change in json.loads(out)["plan_changes"])
    _, out, _ = run(*[part for part in arguments if part != "--quiet"], "--plan", str(plan))
    assert "published_margin: 0.05 → 0.2" in " ".join(out.split())


@pytest.mark.parametrize(
    ("format_", "signs"), [("markdown", "# A toy"), ("html", "<!doctype html>"), ("terminal", "toy-")]
)
def test_other_formats(run: Any, verify_arguments: Any, format_: str, signs: str) -> None:
    _, out, _ = run(*verify_arguments(), "--format", format_)
    assert signs in out and "published_rule" in out
    if format_ == "html":
        assert "<svg" in out and "http-equiv" not in out and " src=" not in out


def test_evaluate_and_its_references(run: Any, cartpole_agent: Path) -> None:
    code, out, _ = run(
        "evaluate",
        str(cartpole_agent),
        "--env",
        "CartPole-v1",
        "--rule",
        "sampled",
        "--rule",
        "greedy",
        "--floor",
        "--references",
        "--format",
        "json",
        *FAST,
    )
    report = json.loads(out)
    assert code == 0 and report["schema"] == "codeaudit.evaluate/1"
    (checkpoint,) = report["checkpoints"]
    assert list(checkpoint["rules"]) == ["sampled", "greedy", "uniform_random"]
    names = list(checkpoint["references"])
    assert names[0].startswith("best constant") and names[1:] == ["blind", "random_weights"]
    assert checkpoint["references"][names[0]]["mean"] < 12  # pushing one way, CartPole falls within ten steps


def test_floor_contract(run: Any) -> None:
    code, out, _ = run("floor", "--env", "CartPole-v1", "--format", "json", *FAST)
    report = json.loads(out)
    assert code == 0 and report["schema"] == "codeaudit.floor/1" and report["environment"] == "CartPole-v1"
    ((name, found),) = report["level_sets"].items()
    assert name == "all" and found["episodes"] == 30 and len(found["draws"]) == 3
    assert 15 < found["mean"] < 30 and found["sem"] > 0 and found["sem_episode"] > 0


def test_seeds_change_the_numbers_and_repeat_them(run: Any) -> None:
    texts = [run("floor", "--env", "CartPole-v1", "--format", "json", "--seed", seed, *FAST)[1] for seed in "112"]
    assert texts[0] == texts[1] != texts[2]


def test_what_a_file_is_called_changes_no_number(run: Any, cartpole_agent: Path, tmp_path: Path) -> None:
    other = tmp_path / "another-name.zip"
    other.write_bytes(cartpole_agent.read_bytes())
    options = ["--env", "CartPole-v1", "--rule", "sampled", "--format", "json", *FAST]
    reports = [json.loads(run("evaluate", str(path), *options)[1]) for path in (cartpole_agent, other)]
    first, second = (report["checkpoints"][0] for report in reports)
    assert first["id"] != second["id"] and first["rules"] == second["rules"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["floor", "--env", "NoSuch-v1"], "NoSuch"),
        (["evaluate", "missing.zip", "--env", "CartPole-v1"], "missing.zip"),
        (["evaluate", "{agent}", "--env", "CartPole-v1", "--sha256", "0" * 64], "sha256"),
        (["evaluate", "{agent}", "--env", "MountainCar-v0"], "reads float32[4]"),
        (["evaluate", "{agent}", "--env", "CartPole-v1", "--rule", "argmax"], "unknown action rule"),
        (["evaluate", "{agent}", "--env", "CartPole-v1", "--levels", "0:5"], "no level sets"),
        (["verify", "no-such-entry"], "no registry entry"),
        (["floor", "--env", "CartPole-v1", "--plan", "missing.yaml"], "missing.yaml"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    run: Any, cartpole_agent: Path, arguments: list[str], message: str
) -> None:
    code, out, error = run(*(part.format(agent=cartpole_agent) for part in arguments), "--quiet")
    assert code == 2 and out == ""
    assert message in error and error.count("\n") == 1 and "Traceback" not in error


def test_wrong_hash_in_the_registry_runs_nothing(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    code, _, error = run(*verify_arguments(digest="0" * 64))
    assert code == 2 and "sha256" in error
    assert not (tmp_path / "run").exists()


def test_a_scan_of_another_commit_is_refused(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    arguments = verify_arguments()
    report = {**scan_report(*PREDICTIONS), "target": {"commit": "b" * 40}}
    (tmp_path / "scan.json").write_text(json.dumps(report))
    code, _, error = run(*arguments)
    assert code == 2 and "the scan is of commit bbbb" in error


def test_an_action_space_that_does_not_fit(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_bytes(mlp_tensors("network", [4, 8, 5])))
    code, _, error = run("evaluate", str(path), "--env", "CartPole-v1", *FAST)
    assert code == 2 and "5 discrete actions" in error


def test_a_run_without_a_folder_is_kept_in_the_cache(run: Any, verify_arguments: Any, tmp_path: Path) -> None:
    arguments = verify_arguments()
    position = arguments.index("--out")
    del arguments[position : position + 2]
    cache = tmp_path / "cache"
    for target in ("toy", "toy/toy-CartPole"):
        arguments[1] = target
        run(*arguments, "--cache", str(cache))
    names = sorted(path.parent.name.rsplit("-", 1)[0] for path in cache.glob("runs/*/verification.json"))
    assert names == ["verify-toy", "verify-toy-toy-CartPole"]


def test_statistics_of_another_shape_are_refused(
    run: Any, cartpole_agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_normalization import statistics_pickle

    cartpole_agent.with_name("vecnormalize.pkl").write_bytes(statistics_pickle(monkeypatch))
    code, _, error = run("evaluate", str(cartpole_agent), "--env", "CartPole-v1", *FAST)
    assert code == 2 and "statistics of shape [2]" in error


def test_a_full_disk_keeps_what_is_finished(
    run: Any, verify_arguments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codeaudit import store

    arguments = verify_arguments()
    write, written = store._write, []

    def full(file: Path, data: bytes, **options: Any) -> None:
        if file.suffix == ".unit":
            written.append(file)
            if len(written) > 3:
                raise OSError(28, os.strerror(28))
        write(file, data, **options)

    monkeypatch.setattr(store, "_write", full)
    code, _, error = run(*arguments)
    assert code == 2 and "No space left" in error and error.count("\n") == 1
    monkeypatch.setattr(store, "_write", write)
    assert len(list((tmp_path / "run" / "units").glob("*.unit"))) == 3
    assert run(*arguments)[0] in (0, 1)


def test_a_report_says_what_is_adjusted_and_what_was_run_instead_of_what_was_asked(
    run: Any, verify_arguments: Any, cartpole_agent: Path
) -> None:
    alone = ["--workers", "1"]
    evaluated = ["evaluate", str(cartpole_agent), "--env", "CartPole-v1", "--episodes", "10", *alone]
    for arguments in ([*verify_arguments()[:-3], "--episodes", "10", *alone], evaluated):
        for format_ in ("terminal", "markdown", "html"):
            _, out, _ = run(*arguments, "--format", format_)
            said = " ".join(out.split())
            assert "not adjusted" in said and "(Holm)" in said and "(TOST)" in said
            assert "10 episodes asked for, 12 run" in said
    _, out, _ = run("floor", "--env", "CartPole-v1", "--episodes", "10", *alone)
    assert "10 episodes asked for, 12 run" in " ".join(out.split()) and "standard error" in out
    _, out, _ = run("floor", "--env", "CartPole-v1", "--episodes", "12", *alone)
    assert "asked for" not in out


def test_plots_lie_where_a_person_named_a_place(run: Any, cartpole_agent: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", str(cartpole_agent), "--env", "CartPole-v1", "--episodes", "6", "--format", "markdown"]
    arguments += ["--workers", "1"]
    _, out, error = run(*arguments)
    assert "![" not in out and "no plots" in error
    report = tmp_path / "deep" / "report.md"
    report.parent.mkdir()
    run(*arguments, "--output", str(report))
    assert "(<report-plots/agent.svg>)" in report.read_text() and (report.parent / "report-plots/agent.svg").is_file()
    run(*arguments, "--output", str(report), "--out", str(tmp_path / "kept"))
    assert "(<../kept/plots/agent.svg>)" in report.read_text() and (tmp_path / "kept/plots/agent.svg").is_file()


def test_a_missing_library_is_named_with_its_extra(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    open_environment.cache_clear()
    monkeypatch.setitem(sys.modules, "Box2D", None)  # an import of it fails now
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    code, out, error = run("floor", "--env", "LunarLander-v3", "--workers", "1", *FAST)
    assert code == 2 and out == "" and "rl-codeaudit[box2d]" in error and error.count("\n") == 1


def test_an_old_version_of_an_environment_is_run_without_a_word_beside_the_report(run: Any) -> None:
    """A published number belongs to the version that made it."""
    code, out, error = run("floor", "--env", "CartPole-v0", "--workers", "1", *FAST)
    assert (code, error) == (0, "") and "CartPole-v0" in out
