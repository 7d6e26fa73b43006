"""Each fixture repository, scanned and held against what was written down from its code before any scan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import codeaudit
from codeaudit.report.json import scan_to_json
from fixtures import build

ATTRIBUTES = ("rule", "provenance", "procedure", "role", "agent", "epsilon", "function")
PLACES = ("default_site", "sink", "env_site", "report_site")
TOLERANCE = 2  # lines; for the places of the evidence, not for the site itself


def expected_of(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((build.REPOS / name / "expected.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("name", build.names())
def test_a_fixture_has_the_commit_that_its_labels_name(name: str) -> None:
    assert build.commit_of(build.build(name)) == expected_of(name)["commit"]


@pytest.mark.parametrize("name", build.names())
def test_labels_name_lines_that_exist(name: str) -> None:
    tree = build.REPOS / name / "tree"
    label = expected_of(name)
    places = [(site["file"], site["line"]) for site in (*label["sites"], *(label.get("negatives") or ()))]
    places += [_place(site[key]) for site in label["sites"] for key in PLACES if key in site]
    for file, line in places:
        if ":" not in file:
            text = (tree / file).read_text("utf-8").splitlines()
            assert text[line - 1].strip(), f"{file}:{line} is blank"


@pytest.mark.parametrize("name", build.names())
def test_scan_agrees_with_the_labels(name: str, tmp_path: Path) -> None:
    """Every difference counts. `open` in a label lists the ones known today; a mended one must be taken out there."""
    label = expected_of(name)
    repository = build.build(name)
    report = scan_to_json(codeaudit.scan(f"{repository}@{label['commit']}", cache=tmp_path))
    found = sorted(differences(label, report))
    assert found == sorted(label.get("open") or [])


def differences(label: dict[str, Any], report: dict[str, Any]) -> Iterator[str]:
    """Where the report departs from the label, one sentence each."""
    for key, wanted in label["summary"].items():
        if key != "note" and report["summary"][key] != wanted:
            yield f"summary.{key}: said {report['summary'][key]}, is {wanted}"
    unmatched = list(report["sites"])
    for site in label["sites"]:
        candidates = [guess for guess in unmatched if (guess["file"], guess["line"]) == (site["file"], site["line"])]
        if not candidates:
            yield f"{site['id']}: missed ({site['file']}:{site['line']})"
            continue
        guess = max(candidates, key=lambda guess: sum(guess.get(key) == site.get(key) for key in ATTRIBUTES))
        unmatched.remove(guess)
        for key in ATTRIBUTES:
            if key in site and guess.get(key) != site[key]:
                yield f"{site['id']}: {key}: said {guess.get(key)}, is {site[key]}"
        for key in PLACES:
            if key in site and not _near(_place(site[key]), guess.get(key)):
                yield f"{site['id']}: {key}: said {_said(guess.get(key))}, is {site[key]}"
        if "corrected" in site and guess.get("corrected") != site["corrected"]:
            yield f"{site['id']}: corrected: said {guess.get('corrected')}, is {site['corrected']}"
    for guess in unmatched:
        yield f"extra: {guess['file']}:{guess['line']} ({guess['rule']})"
    for place in label.get("unread_options") or ():
        if not any(place in note for note in report["notes"]):
            yield f"no note on the unread option at {place}"
    for file in label.get("skipped") or ():
        if not any(item["file"] == file for item in report["skipped"]):
            yield f"{file} is not listed as skipped"


def _place(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    return file, int(line)


def _near(wanted: tuple[str, int], said: dict[str, Any] | None) -> bool:
    return said is not None and said["file"] == wanted[0] and abs(int(said["line"]) - wanted[1]) <= TOLERANCE


def _said(place: dict[str, Any] | None) -> str:
    return f"{place['file']}:{place['line']}" if place else "nothing"
