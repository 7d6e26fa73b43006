"""`codeaudit check` as a process on real repositories: exit codes, formats, fixes, the same bytes for any workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from gitrepos import commit, new_repository

from codeaudit.rules import all_rules

BAD = next(rule for rule in all_rules() if rule.code == "CA101").bad[0]["main.py"]
PINS = {
    "requirements.txt": "gym==0.21.0\ntorch==2.6.0\n",
    ".python-version": "3.10.4\n",
    "setup.cfg": "python_requires = >=3.10\n",
}


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CODEAUDIT_")}
    command = [sys.executable, "-m", "codeaudit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=cwd, timeout=120)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A working tree with one fault, CA101, which has a safe fix."""
    folder = new_repository(tmp_path / "tree")
    commit(folder, {"pkg/main.py": BAD, **PINS})
    return folder


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "check-cache"


def report(tree: Path, cache: Path, *more: str) -> dict[str, Any]:
    done = run("check", tree, "--format", "json", "--cache", cache, *more)
    assert done.stderr == ""
    data = json.loads(done.stdout)
    assert isinstance(data, dict)
    assert done.returncode == (1 if data["findings"] else 0)
    return data


def test_findings_fail_and_none_pass(tree: Path, cache: Path) -> None:
    done = run("check", tree, "--format", "concise", "--cache", cache)
    assert done.returncode == 1
    assert done.stdout.startswith("pkg/main.py:19: CA101 [*] actions are sampled because of a default at pkg/main.py:7")
    assert "1 fixable with `--fix`" in done.stdout
    assert run("check", tree, "--exit-zero", "--cache", cache).returncode == 0
    done = run("check", tree, "--ignore", "CA101", "--cache", cache)
    assert (done.returncode, done.stdout) == (0, "All checks passed.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--select", "CA9"], "selects no rule"),
        (["--unsafe-fixes"], "add --fix"),
        (["--baseline", "none.json"], "can't be read"),
        (["--format", "xml"], "Invalid value"),
    ],
)
def test_errors_are_one_line(tree: Path, cache: Path, arguments: list[str], said: str) -> None:
    done = run("check", ".", "--cache", cache, *arguments, cwd=tree)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert said in done.stderr


def test_the_json_report_obeys_its_schema(tree: Path, cache: Path) -> None:
    (tree / "pkg" / "main.py").write_text(BAD + "\nx = torch.load('a')  # codeaudit: ignore[CA801] ours\n")
    schema = json.loads(files("codeaudit").joinpath("schemas/check.schema.json").read_text("utf-8"))
    data = report(tree, cache)
    jsonschema.Draft202012Validator(schema).validate(data)
    assert [f["code"] for f in data["findings"]] == ["CA101"]
    assert [(f["code"], f["by"], f["reason"]) for f in data["silenced"]] == [("CA801", "comment", "ours")]
    data["findings"][0]["surprise"] = 1
    assert not jsonschema.Draft202012Validator(schema).is_valid(data)
    assert json.loads(run("schema", "check").stdout) == schema


def test_workers_change_no_byte(tree: Path, cache: Path, tmp_path: Path) -> None:
    one, two = (report(tree, tmp_path / str(n), "--workers", str(n)) for n in (1, 2))
    del one["statistics"], two["statistics"]
    assert one == two


def test_the_other_formats_name_the_place(tree: Path, cache: Path) -> None:
    out = {
        f: run("check", tree, "--cache", cache, "--format", f).stdout
        for f in ("full", "github", "gitlab", "sarif", "junit")
    }
    assert "--> pkg/main.py:19" in out["full"] and "agent.act(obs)" in out["full"]
    assert out["github"].startswith(
        "::warning file=pkg/main.py,line=19,endLine=19,title=CA101 inherited-action-rule::CA101 "
    )
    assert json.loads(out["gitlab"])[0]["location"] == {"path": "pkg/main.py", "lines": {"begin": 19, "end": 19}}
    assert json.loads(out["sarif"])["runs"][0]["results"][0]["ruleId"] == "CA101"
    (case,) = ElementTree.fromstring(out["junit"]).iter("testcase")
    assert case.get("name") == "CA101 pkg/main.py:19"


def test_fix_mends_once_and_the_site_is_explicit(tree: Path, cache: Path) -> None:
    source = tree / "pkg" / "main.py"
    before = source.read_text()
    shown = run("check", tree, "--diff", "--cache", cache)
    assert shown.returncode == 1
    assert [line for line in shown.stdout.splitlines() if line[:1] in "+-"][2:] == [
        "-            action = agent.act(obs)",
        "+            action = agent.act(obs, deterministic=False)",
    ]
    assert source.read_text() == before
    done = run("check", tree, "--fix", "--cache", cache)
    assert (done.returncode, done.stdout) == (0, "Found 1 fault (1 fixed, 0 remaining).\n")
    after = source.read_text()
    assert after == before.replace("agent.act(obs)", "agent.act(obs, deterministic=False)")
    assert run("check", tree, "--fix", "--cache", cache).stdout == "All checks passed.\n"
    assert source.read_text() == after
    (site,) = json.loads(run("scan", tree, "--format", "json", "--cache", cache).stdout)["sites"]
    assert (site["rule"], site["provenance"]) == ("sampled", "explicit")
    assert run("check", tree, "--diff", "--cache", cache).stdout == ""


def test_a_commit_is_not_mended(tree: Path, cache: Path) -> None:
    done = run("check", f"{tree}@HEAD", "--fix", "--cache", cache)
    assert (done.returncode, "only a working tree" in done.stderr) == (2, True)


def test_settings_of_the_repository_count_unless_isolated(tree: Path, cache: Path) -> None:
    (tree / "pyproject.toml").write_text('[tool.codeaudit]\nignore = ["CA101"]\n')
    assert report(tree, cache)["findings"] == []
    assert [f["code"] for f in report(tree, cache, "--isolated")["findings"]] == ["CA101"]
    (tree / "pyproject.toml").write_text('[tool.codeaudit]\nignored = ["CA101"]\n')
    done = run("check", tree, "--cache", cache)
    assert (done.returncode, "no key `ignored`" in done.stderr) == (2, True)
    commit(tree, {})
    pinned = run("check", f"{tree}@HEAD", "--format", "json", "--cache", cache)  # somebody else's mistake is a note
    assert pinned.returncode == 1 and "no key `ignored`" in json.loads(pinned.stdout)["notes"][-1]


def test_a_part_of_a_tree_can_be_checked(tree: Path, cache: Path) -> None:
    (tree / "other").mkdir()
    (tree / "other" / "a.py").write_text("import torch\n\ntorch.load('a')\n")
    assert {f["file"] for f in report(tree, cache)["findings"]} == {"other/a.py", "pkg/main.py"}
    assert {f["file"] for f in report(tree / "other", cache)["findings"]} == {"other/a.py"}
    assert {f["file"] for f in report(tree / "pkg" / "main.py", cache)["findings"]} == {"pkg/main.py"}


def test_a_baseline_lets_an_old_repository_start_clean(tree: Path, cache: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    assert run("check", tree, "--write-baseline", known, "--cache", cache).returncode == 0
    done = run("check", tree, "--baseline", known, "--cache", cache)
    assert (done.returncode, done.stdout) == (0, "All checks passed. Silenced: 1 by the baseline.\n")


def test_statistics_count_by_rule(tree: Path, cache: Path) -> None:
    done = run("check", tree, "--statistics", "--cache", cache)
    assert done.stdout.splitlines()[0] == "    1  CA101  [*] inherited-action-rule"


def test_rules_are_listed_and_explained() -> None:
    assert [line[:5] for line in run("rules").stdout.splitlines()[:-1]] == [rule.code for rule in all_rules()]
    for name in ("CA101", "ca101", "inherited-action-rule"):
        assert run("rule", name).stdout.startswith("# inherited-action-rule (CA101)\n")
    done = run("rule", "CA999")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert len(json.loads(run("rules", "--format", "json").stdout)["rules"]) == len(all_rules())


def test_hostile_names_reach_no_terminal(tree: Path, cache: Path) -> None:
    (tree / "a\x1b[31m,b:c.py").write_text("import torch\n\ntorch.load('\x1b[2J')\n")
    for format_ in ("full", "concise", "json", "github", "gitlab", "sarif", "junit"):
        done = run("check", tree, "--format", format_, "--cache", cache)
        assert (done.returncode, "\x1b" in done.stdout) == (1, False), format_
