"""`codeaudit scan` as a process, on real git repositories: what a person or a script gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fixtures import build, check


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CODEAUDIT_")}
    command = [sys.executable, "-m", "codeaudit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=cwd, timeout=120)


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert isinstance(report, dict)
    return report


@pytest.fixture(scope="module")
def repository() -> Path:
    return build.build("several-scripts")


def test_report_of_a_real_scan_obeys_the_schema(repository: Path, tmp_path: Path) -> None:
    report = report_of(run("scan", f"{repository}@main", "--format", "json", "--cache", tmp_path))
    jsonschema.validate(report, json.loads(files("codeaudit").joinpath("schemas/scan.schema.json").read_text("utf-8")))
    assert report["target"]["commit"] == check.label_of("several-scripts")["commit"]
    assert report["target"]["dirty"] is False
    assert {item["file"] for item in report["skipped"]} >= {"legacy/run_old.py", "unfinished.py"}
    assert all(item["line"] > 0 for item in report["skipped"])


def test_a_mirror_serves_owner_and_name(repository: Path, tmp_path: Path) -> None:
    commit = check.label_of("several-scripts")["commit"]
    target = f"{build.OWNER}/several-scripts@{commit[:12]}"
    report = report_of(run("scan", target, "--mirror", repository.parent, "--format", "json", "--cache", tmp_path))
    assert report["target"]["requested"] == target
    assert report["target"]["commit"] == commit
    assert report["target"]["repo"] == f"https://github.com/{build.OWNER}/several-scripts"


def test_same_bytes_whatever_the_workers_and_the_cache(tmp_path: Path) -> None:
    target = f"{build.build('virtual-dispatch')}@main"
    reports = [
        report_of(run("scan", target, "--format", "json", "--workers", workers, "--cache", tmp_path / cache))
        for workers, cache in (("1", "a"), ("3", "b"), ("2", "a"))
    ]
    for report in reports:
        del report["statistics"]
    assert reports[0] == reports[1] == reports[2]
    assert len(reports[0]["sites"]) > 1


def test_a_second_scan_imports_neither_parser_nor_renderer(tmp_path: Path) -> None:
    target = f"{build.build('callee-default')}@main"
    program = (
        "import sys; from codeaudit.cli import main;"
        f"code = main(['scan', {target!r}, '--format', 'json', '--cache', {str(tmp_path)!r}]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr); sys.exit(code)"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0
    loaded = set(done.stderr.split())
    assert not loaded & {"rich", "libcst", "numpy", "torch", "typer", "codeaudit_runtime"}
    assert json.loads(done.stdout)["statistics"]["cached"] > 0


def test_a_working_tree_is_scanned_as_it_is(tmp_path: Path) -> None:
    tree = tmp_path / "work"
    subprocess.run(["git", "clone", "--quiet", build.build("callee-default"), tree], check=True)
    (tree / "eval.py").write_text("# moved down\n" + (tree / "eval.py").read_text())
    report = report_of(run("scan", ".", "--format", "json", "--cache", tmp_path / "cache", cwd=tree))
    assert report["target"]["dirty"] is True
    wanted = check.label_of("callee-default")["sites"][0]["line"] + 1
    assert [site["line"] for site in report["sites"]] == [wanted]


@pytest.mark.parametrize("target", ["no/such/folder/here/at/all", "-x", "ext::sh -c id", ".@nowhere"])
def test_a_target_that_cannot_be_is_one_line(target: str, tmp_path: Path) -> None:
    tree = tmp_path / "work"
    subprocess.run(["git", "clone", "--quiet", build.build("callee-default"), tree], check=True)
    done = run("scan", "--cache", tmp_path / "cache", "--", target, cwd=tree)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_terminal_report_of_a_real_scan_shows_the_source(tmp_path: Path) -> None:
    done = run("scan", f"{build.build('callee-default')}@main", "--cache", tmp_path)
    assert done.returncode == 0
    assert "evaluated with sampled actions" in " ".join(done.stdout.split())
    assert "def act(self, inputs, rnn_hxs, masks, deterministic=False):" in done.stdout


def test_output_never_takes_the_place_of_a_device_or_pipe(repository: Path, tmp_path: Path) -> None:
    """A pipe stands for what only its maker can make again."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = run("scan", repository, "-o", pipe, "--format", "json", "--cache", tmp_path / "cache")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: cannot write {pipe}: it is no regular file; choose another --output\n"
    assert pipe.is_fifo()
