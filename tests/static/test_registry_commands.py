"""The registry's commands on real git repositories: check, add, show, table, diff, statement."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import gitrepos
import jsonschema
import pytest
from registries import ENTRY, RUN, fixture_entry

from codeaudit.cli import main
from fixtures import build, check


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the module: what is tested here is not the scan."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A registry of two fixtures, recorded as their labels say."""
    found = tmp_path / "registry"
    found.mkdir()
    for name in ("callee-default", "ppo-literal"):
        (found / f"{name}.yaml").write_text(fixture_entry(name))
    return found


def run(*arguments: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CODEAUDIT_")}
    mirror = build.default_cache()
    environ |= {"CODEAUDIT_CACHE": str(cache), "CODEAUDIT_MIRROR": str(mirror), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "codeaudit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=180)


def obeys(text: str, name: str) -> dict[str, Any]:
    """The JSON report in `text`, which obeys its published schema."""
    report = json.loads(text)
    jsonschema.validate(
        report, json.loads(files("codeaudit").joinpath(f"schemas/{name}.schema.json").read_text("utf-8"))
    )
    assert isinstance(report, dict)
    return report


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_agrees_with_honest_records(folder: Path, cache: Path) -> None:
    done = run(
        "registry", "check", "callee-default", "ppo-literal", "--registry", folder, "--format", "json", cache=cache
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = obeys(done.stdout, "registry-check")
    assert [(one["id"], one["outcome"]) for one in report["entries"]] == [
        ("callee-default", "agrees"),
        ("ppo-literal", "agrees"),
    ]
    assert {site["status"] for one in report["entries"] for site in one["comparison"]["sites"]} == {"agrees"}


def test_check_gives_the_same_bytes_whatever_the_workers(folder: Path, cache: Path, tmp_path: Path) -> None:
    arguments = ("registry", "check", "callee-default", "ppo-literal", "--registry", folder, "--format", "json")
    texts = {
        run(*arguments, "--workers", workers, "--run", tmp_path / f"run-{workers}", cache=cache).stdout
        for workers in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"rule": "greedy"}, "disagrees"),
        ({"at": "eval.py:20"}, "moved"),
        ({"at": "model.py:3", "function": "elsewhere"}, "not found"),
    ],
)
def test_a_false_record_is_found_out(
    tmp_path: Path, cache: Path, changes: dict[str, str], status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = fixture_entry("callee-default", **changes)
    if "rule" in changes:  # a record must not contradict itself
        text = text.replace("policy_gradient_rule: sampled", "policy_gradient_rule: greedy")
    (tmp_path / "callee-default.yaml").write_text(text)
    code = main(
        ["registry", "check", "callee-default", "--registry", str(tmp_path), "--workers", "1", "--format", "json",
         "--cache", str(cache), "--mirror", str(build.default_cache())]
    )  # fmt: skip
    (one,) = json.loads(capsys.readouterr().out)["entries"]
    assert one["comparison"]["sites"][0]["status"] == status
    assert code == (0 if status == "moved" else 1)


def test_one_failing_clone_fails_one_entry(folder: Path, cache: Path) -> None:
    nowhere = (folder.parent / "nowhere").as_uri().replace("file://", "https://127.0.0.1:9")
    (folder / "small.yaml").write_text(ENTRY.replace("https://github.com/somebody/small", nowhere))
    done = run("registry", "check", "small", "callee-default", "--registry", folder, "--format", "json", cache=cache)
    assert done.returncode == 2
    small, other = obeys(done.stdout, "registry-check")["entries"]
    assert (small["outcome"], other["outcome"]) == ("failed", "agrees")
    assert small["failure"] and "Traceback" not in done.stderr


def test_what_was_checked_is_not_checked_again(
    folder: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second check of the same run directory scans only the entry that is new to it."""
    scanned: list[str] = []
    module = sys.modules.get("codeaudit.registry.check") or __import__("codeaudit.registry.check", fromlist=["x"])
    real = module.scan

    def counting(target: str, **options: Any) -> Any:
        scanned.append(target.partition("@")[0].rpartition("/")[2])
        return real(target, **options)

    monkeypatch.setattr(module, "scan", counting)
    common = ["--registry", str(folder), "--run", str(tmp_path / "run"), "--workers", "1", "--format", "json",
              "--cache", str(cache), "--mirror", str(build.default_cache())]  # fmt: skip
    assert main(["registry", "check", "ppo-literal", *common]) == 0
    first = json.loads(capsys.readouterr().out)["entries"][0]
    assert main(["registry", "check", "callee-default", "ppo-literal", *common]) == 0
    assert scanned == ["ppo-literal", "callee-default"]
    assert json.loads(capsys.readouterr().out)["entries"][1] == first


def test_check_shows_tables(folder: Path, cache: Path) -> None:
    done = run("registry", "check", "callee-default", "--registry", folder, cache=cache)
    assert done.returncode == 0
    assert "eval.py:19" in done.stdout and "1 entry: 1 agrees." in done.stdout
    markdown = run("registry", "check", "callee-default", "--registry", folder, "--format", "markdown", cache=cache)
    assert "| callee-default |" in markdown.stdout.replace("*", "").replace("\\", "")


# --- entries ---------------------------------------------------------------------------------------------------------


def test_add_drafts_an_entry_that_agrees_with_its_scan(tmp_path: Path, cache: Path) -> None:
    build.build("callee-default")
    target = f"{build.OWNER}/callee-default@{check.label_of('callee-default')['commit']}"
    done = run("registry", "add", target, "--registry", tmp_path, cache=cache)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "callee-default.yaml").read_text()
    assert "reviewed: false" in text and "default_site: model.py:29" in text
    assert run("registry", "add", target, cache=cache).stdout == text
    again = run("registry", "add", target, "--registry", tmp_path, cache=cache)
    assert again.returncode == 2 and "is there already" in again.stderr
    assert (tmp_path / "callee-default.yaml").read_text() == text
    assert run("registry", "check", "callee-default", "--registry", tmp_path, cache=cache).returncode == 0
    shown = run("registry", "show", "callee-default", "--registry", tmp_path, cache=cache).stdout
    assert "unreviewed draft" in shown and "model.py:29" in shown


def test_add_refuses_what_nobody_could_check(tmp_path: Path, cache: Path) -> None:
    repository = gitrepos.new_repository(tmp_path / "here")
    commit = gitrepos.commit(repository, {"a.py": "x = 1\n"})
    for target, said in ((repository, "working tree"), (f"{repository}@{commit}", "names no origin")):
        done = run("registry", "add", target, cache=cache)
        assert done.returncode == 2 and said in done.stderr


def test_show_quotes_the_lines_at_the_commit(folder: Path, cache: Path) -> None:
    done = run("registry", "show", "callee-default", "--registry", folder, cache=cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert "eval.py:19" in done.stdout and "deterministic" in done.stdout


def test_show_without_the_repository_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.yaml").write_text(ENTRY)
    arguments = ["registry", "show", "small", "--registry", str(tmp_path), "--cache", str(tmp_path / "cache")]
    assert main([*arguments, "--mirror", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "no source lines" in err
    for said in (
        "A small codebase",
        "test.py:42",
        "the default that decides",
        "Published",
        "test.py:42 is meant",
        "Difference",
    ):
        assert said in " ".join(out.split())


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.yaml").write_text(ENTRY)
    common = ["registry", "list", "--registry", str(tmp_path), "--collection", "tests"]
    assert main([*common, "--format", "json"]) == 0
    (one,) = obeys(capsys.readouterr().out, "registry-list")["entries"]
    assert (one["id"], one["sites"], one["checkpoints"]) == ("small", 2, 1)
    assert main([*common, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("small,A small codebase,RLC 2025,somebody/small,")
    assert main(["registry", "list", "--collection", "nothing"]) == 2
    assert "known: general, procgen" in capsys.readouterr().err


# --- tables ----------------------------------------------------------------------------------------------------------


def test_the_published_collection_has_the_published_totals(capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven of the twelve evaluate on held-out levels, all of them by sampling: three by default, six in-loop."""
    assert main(["registry", "table", "--collection", "procgen", "--format", "json"]) == 0
    report = obeys(capsys.readouterr().out, "registry-table")
    totals = report["totals"]
    assert (totals["codebases"], totals["heldout"], totals["sampled"]) == (12, 11, 11)
    assert (totals["by_default"], totals["in_loop"], totals["differences"]) == (3, 6, 6)
    assert {one["id"] for one in report["codebases"] if not one["heldout_evaluation"]} == {"ppg"}


def test_tables_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = ENTRY.replace("A small codebase", '"=50% | of_it & <b>[all](x)</b>"')
    (tmp_path / "small.yaml").write_text(hostile)

    def table(format_: str, *more: str) -> str:
        arguments = ["registry", "table", "small", "--registry", str(tmp_path), "--format", format_, *more]
        assert main(arguments) == 0
        return capsys.readouterr().out

    assert "test.py:42" in table("terminal")
    markdown = table("markdown")
    assert r"=50% \| of\_it \& \<b\>\[all\](x)\</b\>" in markdown
    latex = table("latex")
    assert r"=50\% | of\_it \& \textless{}b\textgreater{}" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 2
    rows = list(csv.reader(io.StringIO(table("csv", "--table", "evidence"))))
    assert rows[1][0].startswith("'=50%") and "test.py:42 (default model.py:30; draw" in rows[1][2]
    assert main(["registry", "table", "--format", "csv", "--table", "both"]) == 2


# --- diff ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str, str]:
    """A codebase, its evaluation made greedy, and then its files moved into a folder."""
    repository = gitrepos.new_repository(tmp_path_factory.mktemp("diff") / "repository")
    tree = build.REPOS / "callee-default" / "tree"
    sources = {str(path.relative_to(tree)): path.read_text() for path in sorted(tree.rglob("*.py"))}
    old = gitrepos.commit(repository, sources)
    line = "def act(self, obs, deterministic=False)"
    greedy = {**sources, "model.py": sources["model.py"].replace("deterministic=False", "deterministic=True")}
    assert greedy != sources, line
    new = gitrepos.commit(repository, greedy)
    shifted = {**greedy, "eval.py": "# a comment\n\n" + greedy["eval.py"]}
    return repository, old, new, gitrepos.commit(repository, shifted)


def test_diff_names_what_changed(two_commits: tuple[Path, str, str, str], cache: Path) -> None:
    repository, old, new, _ = two_commits
    done = run("diff", repository, old, new, "--format", "json", cache=cache)
    report = obeys(done.stdout, "diff")
    assert done.returncode == 1 and report["changed"]
    (site,) = report["sites"]
    assert (site["change"], site["differences"]) == ("changed", [{"what": "rule", "old": "sampled", "new": "greedy"}])
    assert report["summary"] == [{"what": "policy_gradient_rule", "old": "sampled", "new": "greedy"}]
    assert "rule: sampled → greedy" in run("diff", repository, old, new, cache=cache).stdout


def test_a_site_that_moved_has_not_changed(two_commits: tuple[Path, str, str, str], cache: Path) -> None:
    repository, _, new, shifted = two_commits
    done = run("diff", repository, new, shifted, "--format", "json", cache=cache)
    report = obeys(done.stdout, "diff")
    assert (done.returncode, report["changed"], report["sites"][0]["change"]) == (0, False, "moved")
    assert run("diff", repository, new, new, "--quiet", cache=cache).stdout.endswith("Sites: 1 unchanged.\n")


# --- statement -------------------------------------------------------------------------------------------------------


def test_statement_of_a_scan_asks_for_what_code_does_not_say(cache: Path) -> None:
    target = f"{build.build('callee-default')}@main"
    report = obeys(run("statement", target, "--format", "json", cache=cache).stdout, "statement")
    text = " ".join(report["paragraphs"])
    assert "sampled from the policy's distribution; no caller sets this rule" in text and "(model.py:29)" in text
    assert "Over how many episodes is each number a mean?" in report["questions"]
    assert all(f"[{question}]" in text for question in report["questions"])
    shown = " ".join(run("statement", target, cache=cache).stdout.split())
    assert text in shown and f"{len(report['questions'])} open questions" in shown


def test_statement_asks_whether_a_guess_is_right(tmp_path: Path, cache: Path) -> None:
    repository = gitrepos.new_repository(tmp_path / "guess")
    agent = "class Agent:\n    def test_action(self, obs):\n        return self.dist(obs).sample()\n"
    script = (
        "import gym\n\n\ndef evaluate(agent, env):\n    obs, done, total = env.reset(), False, 0.0\n"
        "    while not done:\n        obs, reward, done, _ = env.step(agent.test_action(obs))\n"
        "        total += reward\n    return total\n\n\nprint(evaluate(None, gym.make('CartPole-v1')))\n"
    )
    gitrepos.commit(repository, {"agent.py": agent, "evaluate.py": script})
    text = " ".join(run("statement", repository, cache=cache).stdout.split())
    assert "sampled from the policy's distribution" in text and "could only guess which agent acts there" in text


def test_statement_of_nothing(tmp_path: Path, cache: Path) -> None:
    repository = gitrepos.new_repository(tmp_path / "empty")
    gitrepos.commit(repository, {"README.md": "nothing\n"})
    assert "No evaluation of a policy was found" in " ".join(run("statement", repository, cache=cache).stdout.split())


def test_statement_of_a_run_is_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "verification.json").write_text(json.dumps(RUN))
    for target in (tmp_path, tmp_path / "verification.json"):
        assert main(["statement", str(target), "--format", "json"]) == 0
        report = obeys(capsys.readouterr().out, "statement")
        text = " ".join(report["paragraphs"])
        for said in (
            "100 episodes: 50 for each of 2 draws (seeds 11, 12)",
            "21 (19 to 23)",
            "returns 9.5",
            "confirmed",
        ):
            assert said in text
        assert report["questions"] == [
            "are training and test episodes drawn apart in another way?",
            "Over how many independently trained runs is each claim made?",
        ]


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "codeaudit.scan/1"}', json.dumps({**RUN, "plan": {}})])
def test_a_damaged_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (tmp_path / "verification.json").write_text(content)
    assert main(["statement", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "Traceback" not in err and "internal" not in err
