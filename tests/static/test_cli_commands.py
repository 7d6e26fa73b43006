"""The command line: exit codes, one-line errors, formats, mounted commands. The analysis itself is tested elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codeaudit.scan
from codeaudit import __version__
from codeaudit.cli import main
from codeaudit.errors import UserError
from codeaudit.scan import Scan

Call = dict[str, Any]


@pytest.fixture
def calls(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What the command passed to the scan, which answers with a hand-built result."""
    made: list[Call] = []

    def fake(target: str, **options: Any) -> Scan:
        made.append({"target": target, **options})
        return scan

    monkeypatch.setattr(sys.modules["codeaudit.scan"], "scan", fake)
    for name in ("CODEAUDIT_MIRROR", "CODEAUDIT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return made


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fake(target: str, **options: Any) -> Scan:
        raise error

    monkeypatch.setattr(sys.modules["codeaudit.scan"], "scan", fake)


def in_process(*arguments: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "codeaudit", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **(environ or {})},
        timeout=120,
    )


def test_scan_prints_json(calls: list[Call], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "somebody/agents@0123456", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "codeaudit.scan/1"
    assert report["tool"] == {"name": "codeaudit", "version": __version__}
    assert [site["line"] for site in report["sites"]] == [42, 12, 12, 40]


@pytest.mark.parametrize(
    ("format_", "beginning"),
    [("terminal", "codeaudit "), ("markdown", "# Evaluation sites"), ("html", "<!DOCTYPE html>")],
)
def test_scan_prints_the_other_formats(
    calls: list[Call], capsys: pytest.CaptureFixture[str], format_: str, beginning: str
) -> None:
    assert main(["scan", "x/y", "--output-format", format_]) == 0
    assert capsys.readouterr().out.startswith(beginning)


def test_scan_hands_its_options_on(calls: list[Call], tmp_path: Path) -> None:
    arguments = ["--workers", "3", "--cache", str(tmp_path), "--mirror", "m1", "--mirror", "m2", "--library", "l.yaml"]
    assert main(["scan", ".", "--quiet", "--with", "baselines=o/b@1f", "--with", "x=../x", *arguments]) == 0
    assert calls == [
        {
            "target": ".",
            "workers": 3,
            "cache": tmp_path,
            "mirrors": (Path("m1"), Path("m2")),
            "libraries": (Path("l.yaml"),),
            "dependencies": {"baselines": "o/b@1f", "x": "../x"},
            "progress": None,
        }
    ]


def test_mirrors_and_cache_come_from_the_environment(
    calls: list[Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CODEAUDIT_MIRROR", os.pathsep.join(["/a", "/b"]))
    monkeypatch.setenv("CODEAUDIT_CACHE", str(tmp_path))
    assert main(["scan", "."]) == 0
    assert calls[0]["mirrors"] == (Path("/a"), Path("/b"))
    assert calls[0]["cache"] == tmp_path
    assert main(["scan", ".", "--mirror", "/c"]) == 0
    assert calls[1]["mirrors"] == (Path("/c"),)


def test_scan_writes_a_file_whole(calls: list[Call], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", ".", "--format", "json", "--output", str(tmp_path / "report.json")]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == "codeaudit.scan/1"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_one_line(
    calls: list[Call], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scan", ".", "--output", str(tmp_path / "no" / "report.txt")]) == 2
    assert one_line(capsys).startswith("error: cannot write ")


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("\n") and captured.err.count("\n") == 1
    return captured.err[:-1]


@pytest.mark.parametrize("option", ["=x/y", "name=", "name"])
def test_a_malformed_dependency_is_one_line(calls: list[Call], capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["scan", ".", "--with", option]) == 2
    assert "NAME=TARGET" in one_line(capsys)
    assert calls == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan"],
        ["scan", ".", "--format", "yaml"],
        ["scan", ".", "--workers", "0"],
        ["scan", ".", "--no-such-option"],
        ["no-such-command"],
        ["scan", "a", "b"],
    ],
)
def test_a_wrong_command_line_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert one_line(capsys).startswith("error: ")


def test_a_user_error_is_one_safe_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, UserError("no commit\nabc\x1b[31m", hint="give the full id"))
    assert main(["scan", "x/y@abc"]) == 2
    assert one_line(capsys) == "error: no commit abc\\x1b[31m; give the full id"


def test_an_unexpected_error_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ZeroDivisionError("division by zero"))
    assert main(["scan", "x/y"]) == 2
    said = one_line(capsys)
    assert said.startswith("internal error: ZeroDivisionError: division by zero; please report it")
    assert "--traceback" in said
    with pytest.raises(ZeroDivisionError):
        main(["--traceback", "scan", "x/y"])


def test_an_interrupted_scan_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert main(["scan", "x/y"]) == 130
    assert one_line(capsys) == "interrupted"


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "codeaudit", "schema", "scan"], stdout=write, stderr=subprocess.PIPE, timeout=120
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 141


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"codeaudit {__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in ("scan", "doctor", "cache", "schema", "verify", "evaluate", "floor"):
        assert f"\n  {command} " in text


def test_schema_is_the_published_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "scan"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["schema"] == {"const": "codeaudit.scan/1"}


def test_cache_can_be_found_and_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from codeaudit.store import Cache

    cache = Cache(tmp_path)
    assert cache.put("facts", "key", b"x" * 1000)
    assert main(["cache", "dir", "--cache", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}\n"
    assert main(["cache", "clear", "--cache", str(tmp_path)]) == 0
    assert cache.get("facts", "key") is None
    assert str(tmp_path) in capsys.readouterr().out


def test_the_first_lines_of_a_start_import_nothing_heavy() -> None:
    program = (
        "import sys; import codeaudit; from codeaudit.cli import main; main(['--version']);"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"rich", "libcst", "yaml", "numpy", "torch", "typer", "codeaudit_runtime", "multiprocessing"}


def test_import_of_the_package_offers_the_scan_function() -> None:
    assert codeaudit.scan is sys.modules["codeaudit.scan"].scan
    assert "scan" in codeaudit.__all__


@pytest.fixture
def optional_command(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Installs a distribution that offers `codeaudit probe`; gives the environment to run in."""

    def install(body: str) -> dict[str, str]:
        info = tmp_path / "probe-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[codeaudit.commands]\nprobe = probe_commands:probe\n")
        (tmp_path / "probe_commands.py").write_text(body)
        return {"PYTHONPATH": str(tmp_path)}

    return install


PROBE = """
import sys
import typer

def probe(name: str, times: int = typer.Option(1, "--times")) -> int:
    \"\"\"Say a name.\"\"\"
    print(*[name] * times)
    if name == "interrupt":
        raise KeyboardInterrupt
    if name == "wrong":
        from codeaudit.errors import UserError
        raise UserError("this is wrong", hint="do better")
    return 1 if name == "finding" else 0
"""


def test_a_command_of_another_package_is_mounted(optional_command: Callable[[str], dict[str, str]]) -> None:
    pytest.importorskip("typer")
    environ = optional_command(PROBE)
    done = in_process("probe", "hello", "--times", "2", environ=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello hello\n", "")
    assert in_process("probe", "finding", environ=environ).returncode == 1
    interrupted = in_process("probe", "interrupt", environ=environ)
    assert (interrupted.returncode, interrupted.stderr) == (130, "interrupted\n")
    wrong = in_process("probe", "wrong", environ=environ)
    assert (wrong.returncode, wrong.stderr) == (2, "error: this is wrong; do better\n")
    assert in_process("probe", "--no-such", environ=environ).returncode == 2
    assert "Say a name." in in_process("probe", "--help", environ=environ).stdout
    assert "probe" in in_process("--help", environ=environ).stdout


@pytest.mark.parametrize(("package", "extra"), [("torch", "runtime"), ("procgen", "procgen"), ("scipy", "variation")])
def test_a_missing_extra_is_named(optional_command: Callable[[str], dict[str, str]], package: str, extra: str) -> None:
    raising = f"raise ModuleNotFoundError('not here', name={package!r})"
    done = in_process("probe", "x", environ=optional_command(raising))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"error: `codeaudit probe` needs {package} (")
    assert done.stderr.endswith(f'; pip install "rl-codeaudit[{extra}]"\n')


def test_an_extra_asked_for_while_running_is_named(optional_command: Callable[[str], dict[str, str]]) -> None:
    pytest.importorskip("typer")
    body = "def probe(name: str) -> None:\n    raise ModuleNotFoundError('not here', name='gymnasium')\n"
    done = in_process("probe", "x", environ=optional_command(body))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: `codeaudit probe` needs gymnasium (environments), which is not installed")
