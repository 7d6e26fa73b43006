"""The JSON scan report, contract `codeaudit.scan/1`. Not for people: `report.terminal` is."""

from __future__ import annotations

import json
from typing import Any

from codeaudit import __version__
from codeaudit.scan import Scan

SCHEMA = "codeaudit.scan/1"


def scan_to_json(scan: Scan) -> dict[str, Any]:
    """The report as plain data; everything but `statistics` is the same for every run on the same commit."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "codeaudit", "version": __version__},
        "target": scan.target.to_json(),
        "summary": scan.summary.to_json(),
        "sites": [site.to_json() for site in scan.sites],
        "findings": [finding.to_json() for finding in scan.findings],
        "predictions": [prediction.to_json() for prediction in scan.predictions],
        "notes": list(scan.notes),
        "skipped": [item.to_json() for item in scan.skipped],
        "statistics": scan.statistics.to_json(),
    }


def json_text(report: dict[str, Any]) -> str:
    """The report as text. ASCII only, so that a hostile file name reaches no terminal unescaped."""
    return json.dumps(report, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
