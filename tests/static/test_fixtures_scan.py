"""Each fixture repository, scanned and held against what was written down from its code before any scan."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import build, check

every_fixture = pytest.mark.parametrize("name", build.names())


@every_fixture
def test_a_fixture_has_the_commit_that_its_labels_name(name: str) -> None:
    assert build.commit_of(build.build(name)) == check.label_of(name)["commit"]


@every_fixture
def test_labels_name_lines_that_exist(name: str) -> None:
    tree = build.REPOS / name / "tree"
    label = check.label_of(name)
    places = [(site["file"], site["line"]) for site in (*label["sites"], *(label.get("negatives") or ()))]
    places += [check.place(site[key]) for site in label["sites"] for key in check.PLACES if key in site]
    for file, line in places:
        text = (tree / file).read_text("utf-8").splitlines()
        assert text[line - 1].strip(), f"{file}:{line} is blank"


@every_fixture
def test_scan_agrees_with_the_labels(name: str, tmp_path: Path) -> None:
    """Every difference counts. `open` in a label lists the ones known today; a mended one must be taken out there."""
    label = check.label_of(name)
    found = sorted(check.differences(label, check.report_on(name, tmp_path)))
    assert found == sorted(label.get("open") or [])


def test_a_difference_of_every_kind_is_noticed(tmp_path: Path) -> None:
    label = check.label_of("ppo-literal")
    report = check.report_on("ppo-literal", tmp_path)
    (site,) = label["sites"]
    extra = dict(report["sites"][0], line=1)
    changed = dict(report["sites"][0], rule="greedy", sink={"file": "agent/model.py", "line": 1})
    report = dict(report, sites=[changed, extra], summary=dict(report["summary"], in_loop=True))
    said = "\n".join(check.differences(dict(label, unread_options=["x.py:1"], skipped=["y.py"]), report))
    for part in (
        "summary.in_loop: said True, is False",
        f"{site['id']}: rule: said greedy, is sampled",
        f"{site['id']}: sink: said agent/model.py:1, is {site['sink']}",
        "extra: test.py:1",
        "no note on the unread option at x.py:1",
        "y.py is not listed as skipped",
    ):
        assert part in said
    assert f"{site['id']}: missed" in "\n".join(check.differences(label, dict(report, sites=[])))
