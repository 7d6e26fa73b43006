"""The findings that a project starts with, so that only new ones count. A JSON file of fingerprints; not a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.findings import Finding
from codeaudit.store import report_file

SCHEMA = "codeaudit.baseline/1"


def read_baseline(path: Path) -> Counter[str]:
    """How many findings of each fingerprint are known. Raises UserError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{path}: the baseline can't be read ({error.strerror})", hint="make one with --write-baseline"
        ) from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: the baseline isn't JSON", hint="make it anew with --write-baseline") from None
    findings = data.get("findings") if isinstance(data, dict) else None
    if not isinstance(findings, list) or data.get("schema") != SCHEMA:
        raise UserError(f"{path}: no baseline of this tool ({SCHEMA})", hint="make it anew with --write-baseline")
    prints = [item.get("fingerprint") for item in findings if isinstance(item, dict)]
    if len(prints) != len(findings) or not all(isinstance(p, str) for p in prints):
        raise UserError(f"{path}: a finding has no fingerprint", hint="make it anew with --write-baseline")
    return Counter(p for p in prints if isinstance(p, str))


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write the baseline, whole or not at all; how many findings are in it. Line numbers are left out: they move."""
    items = [{"code": f.code, "file": f.file, "fingerprint": f.fingerprint} for f in findings]
    items.sort(key=lambda item: (item["file"], item["code"], item["fingerprint"]))
    with report_file(path, option="--write-baseline") as file:
        file.write(json.dumps({"schema": SCHEMA, "findings": items}, indent=1, ensure_ascii=True) + "\n")
    return len(items)
