"""`codeaudit doctor`: what is there, what is missing, which extra brings it."""

from __future__ import annotations

import json
import shutil
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from codeaudit import doctor
from codeaudit.cli import main
from codeaudit.extras import BROUGHT_BY


def states(checks: list[doctor.Check]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


def test_a_working_install_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--cache", str(tmp_path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "git ok" in text and "libcst ok" in text
    assert tmp_path.name in text.replace(" ", "")


def test_json_has_every_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--cache", str(tmp_path), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "codeaudit.doctor/1"
    assert {"git", "torch", "cache", "verify"} <= {check["name"] for check in report["checks"]}


def test_a_missing_package_of_an_extra_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name in BROUGHT_BY else find(name, *rest))
    checks = doctor.examine(tmp_path)
    missing = {check.name: check.detail for check in checks if check.state == "missing"}
    assert set(BROUGHT_BY) <= set(missing)
    assert missing["torch"].endswith('pip install "rl-codeaudit[runtime]"')
    assert missing["verify"] == 'pip install "rl-codeaudit[runtime]"'
    assert not any(check.broken for check in checks)


def test_a_missing_base_package_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name == "libcst" else find(name, *rest))
    assert main(["doctor", "--cache", str(tmp_path)]) == 2
    assert "broken" in capsys.readouterr().out


def test_a_machine_without_git_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, *rest: None)
    assert states(doctor.examine(tmp_path))["git"] == "broken"


@pytest.mark.parametrize(
    ("said", "state"),
    [("git version 2.39.5", "ok"), ("git version 2.50.1 (Apple Git-155)", "ok"), ("git version 2.17.1", "broken")],
)
def test_an_old_git_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, state: str) -> None:
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\necho '{said}'\n")
    fake.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name, *rest: str(fake))
    assert states(doctor.examine(tmp_path))["git"] == state


def test_a_mirror_that_is_no_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEAUDIT_MIRROR", str(tmp_path / "nothing"))
    found: list[dict[str, Any]] = [check.to_json() for check in doctor.examine(tmp_path)]
    assert [check["state"] for check in found if check["name"] == "CODEAUDIT_MIRROR"] == ["missing"]
