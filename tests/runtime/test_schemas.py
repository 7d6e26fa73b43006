"""The published schemas hold the reports that the commands really print."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_agents import scan_report

from codeaudit.cli import main


def check(name: str, text: str) -> Any:
    schema = json.loads(files("codeaudit").joinpath("schemas", f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    report = json.loads(text)
    jsonschema.validate(report, schema)
    return report


def test_reports_obey_their_schemas(
    registry: Callable[..., Path], cartpole_agent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = registry()
    scan = tmp_path / "scan.json"
    kinds = ("published_rule", "above_floor", "rule_matters", "first_finished_bias", "greedy_loops", "claims_hold")
    scan.write_text(json.dumps(scan_report(*((kind, "greedy") for kind in kinds))))
    fast = ["--episodes", "6", "--quiet", "--format", "json"]
    sources = [
        "--registry",
        str(folder),
        "--checkpoints",
        str(folder),
        "--scan",
        str(scan),
        "--out",
        str(tmp_path / "r"),
    ]
    main(["verify", "toy", *sources, *fast])
    report = check("verify", capsys.readouterr().out)
    assert {verdict["prediction"] for verdict in report["checkpoints"][0]["verdicts"]} == set(kinds)
    main(["evaluate", str(cartpole_agent), "--env", "CartPole-v1", "--references", *fast])
    check("evaluate", capsys.readouterr().out)
    main(["floor", "--env", "CartPole-v1", *fast])
    report = check("floor", capsys.readouterr().out)
    with pytest.raises(jsonschema.ValidationError):
        check("floor", json.dumps({**report, "level_sets": 3}))
