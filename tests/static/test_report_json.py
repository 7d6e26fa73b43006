"""The JSON scan report: its keys are a contract, and the published schema says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any, get_args

import jsonschema
import pytest

from codeaudit.evaluation import sites
from codeaudit.predictions import PredictionKind
from codeaudit.report.json import json_text, scan_to_json
from codeaudit.scan import Scan
from codeaudit.snapshot import Skipped


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded = json.loads(files("codeaudit").joinpath("schemas").joinpath("scan.schema.json").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_report_obeys_the_published_schema(scan: Scan, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(scan_to_json(scan), schema)


@pytest.mark.parametrize("key", ["schema", "target", "summary", "sites", "skipped", "statistics"])
def test_schema_refuses_a_report_without_a_part(scan: Scan, schema: dict[str, Any], key: str) -> None:
    report = scan_to_json(scan)
    del report[key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)


def test_schema_refuses_an_unknown_class(scan: Scan, schema: dict[str, Any]) -> None:
    report = scan_to_json(scan)
    report["sites"][0]["rule"] = "deterministic"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)


@pytest.mark.parametrize(
    ("key", "type_"),
    [
        ("rule", sites.ActionRule),
        ("provenance", sites.Provenance),
        ("procedure", sites.Procedure),
        ("role", sites.Role),
        ("agent", sites.Agent),
        ("confidence", sites.Confidence),
    ],
)
def test_schema_lists_the_classes_of_the_code(schema: dict[str, Any], key: str, type_: Any) -> None:
    assert set(schema["$defs"]["site"]["properties"][key]["enum"]) == set(get_args(type_))


def test_schema_lists_the_prediction_kinds_of_the_code(schema: dict[str, Any]) -> None:
    assert set(schema["$defs"]["prediction"]["properties"]["kind"]["enum"]) == set(get_args(PredictionKind))


def test_a_site_says_only_what_is_known(scan: Scan) -> None:
    first, second, *_ = scan_to_json(scan)["sites"]
    assert "epsilon" not in first and "unknown" not in first
    assert first["default_site"] == {"file": "agent/model.py", "line": 30}
    assert second["epsilon"] == 0.05
    assert second["sink"] == {"file": "dqn:dqn/act.py", "line": 9}


def test_text_is_ascii_and_survives_a_file_name_that_is_not_utf8(scan: Scan) -> None:
    hostile = "na\udcffme\x1b]0;owned\x07.py"
    text = json_text(scan_to_json(replace(scan, skipped=(Skipped(hostile, "not UTF-8"),))))
    assert text.isascii() and "\x1b" not in text
    assert json.loads(text)["skipped"] == [{"file": hostile, "reason": "not UTF-8"}]
