"""What runs and what is silenced: selectors, pyproject.toml, per-file ignores, comments, baselines, order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lintcases import codes, lint

from codeaudit.errors import UserError
from codeaudit.lint.baseline import read_baseline, write_baseline
from codeaudit.lint.ignores import find_ignores
from codeaudit.lint.settings import Settings, check_selectors, enabled, matches, over, read_settings
from codeaudit.rules import all_rules

LOAD = "import torch\n\nx = torch.load('a.pt')\n"


def chosen(**words: tuple[str, ...]) -> set[str]:
    return {rule.code for rule in enabled(Settings(**words), all_rules())}  # type: ignore[arg-type]


DEFAULT = {rule.code for rule in all_rules() if rule.default}
OFF = {rule.code for rule in all_rules() if not rule.default}


def test_without_words_the_default_rules_run() -> None:
    assert chosen() == DEFAULT
    assert OFF


def test_select_replaces_and_extend_select_adds() -> None:
    assert chosen(select=("CA8",)) == {"CA801", "CA802", "CA803"}
    assert chosen(select=("CA801",), extend_select=("CA301",)) == {"CA801", "CA301"}
    assert chosen(extend_select=tuple(OFF)) == DEFAULT | OFF
    assert chosen(select=("ALL",)) == DEFAULT | OFF


def test_a_rule_that_is_off_needs_its_whole_code() -> None:
    off = sorted(OFF)[0]
    assert off not in chosen(select=(off[:3],))
    assert off in chosen(select=(off,))


def test_the_longer_selector_wins_and_ignore_wins_ties() -> None:
    assert chosen(select=("CA8",), ignore=("CA801",)) == {"CA802", "CA803"}
    assert chosen(select=("CA801",), ignore=("CA8",)) == {"CA801"}
    assert chosen(select=("CA801",), ignore=("CA801",)) == set()
    assert chosen(ignore=("CA",)) == set()


@pytest.mark.parametrize("selector", ["CA9", "ca1", "X", "CA1011", ""])
def test_a_selector_must_select_something(selector: str) -> None:
    with pytest.raises(UserError, match="selects no rule"):
        check_selectors(Settings(ignore=(selector,)), all_rules())


def test_pyproject_settings_are_read_and_the_command_line_goes_over_them() -> None:
    text = """
[tool.codeaudit]
select = ["CA1", "CA8"]
ignore = ["CA803"]
exclude = ["vendor"]
[tool.codeaudit.per-file-ignores]
"scripts/*" = ["CA8"]
"""
    read = read_settings(text, "pyproject.toml")
    assert read.select == ("CA1", "CA8") and read.exclude == ("vendor",)
    assert read.per_file_ignores == {"scripts/*": ("CA8",)}
    merged = over(read, (), ("CA301",), ("CA802",), ("old",))
    assert (
        merged.select == ("CA1", "CA8") and merged.ignore == ("CA803", "CA802") and merged.exclude == ("vendor", "old")
    )
    assert over(read, ("CA3",), (), (), ()).ignore == ()
    assert read_settings("[tool.other]\nselect = 1\n", "pyproject.toml") == Settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.codeaudit\n", "isn't valid TOML"),
        ("[tool.codeaudit]\nselcet = []\n", "no key `selcet`"),
        ("[tool.codeaudit]\nselect = 'CA1'\n", "`select` must be a list"),
        ("[tool]\ncodeaudit = 1\n", "must be a table"),
        ("[tool.codeaudit]\nper-file-ignores = ['a']\n", "must be a table"),
    ],
)
def test_wrong_settings_are_named(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_settings(text, "pyproject.toml")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("scripts/*", "scripts/a.py", True),
        ("scripts/*", "lib/scripts/a.py", False),
        ("scripts", "lib/scripts/a.py", True),
        ("*.ipynb", "docs/a.ipynb", True),
        ("docs/**", "docs/b/a.py", True),
        ("a.py", "ba.py", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, path) == fits


def test_per_file_ignores_silence_and_exclude_drops() -> None:
    files = {"scripts/a.py": LOAD, "b.py": LOAD}
    settings = Settings(per_file_ignores={"scripts/*": ("CA8", "CA7")})
    assert [(p.finding.file, p.silenced) for p in lint(files, settings=settings) if p.finding.code == "CA801"] == [
        ("b.py", ""),
        ("scripts/a.py", "configuration"),
    ]
    assert {p.finding.file for p in lint(files, settings=Settings(exclude=("scripts",)))} == {"b.py"}
    inverted = Settings(per_file_ignores={"!scripts/*": ("CA801",)})
    assert [p.finding.file for p in lint(files, settings=inverted) if p.finding.code == "CA801" and not p.silenced] == [
        "scripts/a.py"
    ]


# --- comments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nx = torch.load('a')  # codeaudit: ignore[CA801] ours\n",
        "import torch\n# codeaudit: ignore[CA801] ours\nx = torch.load('a')\n",
        "import torch\n# codeaudit: ignore[CA701, CA801] ours\n\n# more\nx = torch.load('a')\n",
        "import torch\nx = torch.load(\n    'a',  # codeaudit: ignore[CA801] ours\n)\n",
    ],
)
def test_a_comment_silences_its_statement(text: str) -> None:
    found = [p for p in lint({"a.py": text}) if p.finding.code == "CA801"]
    assert [(p.silenced, p.reason) for p in found] == [("comment", "ours")]


def test_a_comment_for_another_rule_or_line_silences_nothing() -> None:
    text = (
        "import torch\nx = torch.load('a')  # codeaudit: ignore[CA802] ours\ny = 1  # codeaudit: ignore[CA801] ours\n"
    )
    assert codes(lint({"a.py": text})).count("CA001") == 2
    assert "CA801" in codes(lint({"a.py": text}))


def test_a_rule_that_does_not_run_leaves_its_comments_alone() -> None:
    text = "import torch\nx = torch.load('a')  # codeaudit: ignore[CA801] ours\n"
    kept = [rule for rule in all_rules() if rule.code in ("CA001", "CA002", "CA301")]
    assert codes(lint({"a.py": text}, rules=kept)) == []


def test_text_in_strings_is_no_comment() -> None:
    assert find_ignores("a.py", b'x = """\n# codeaudit: ignore[CA101]\n"""\n') == []
    assert find_ignores("a.py", b"x = 1 # codeaudit:ignore[ CA101 ,CA102] - why\n")[0].codes == ("CA101", "CA102")


def test_comments_in_notebooks_count_by_raw_line() -> None:
    raw = b'{\n "cells": [{"source": [\n  "x = torch.load(1)  # codeaudit: ignore[CA801] ours\\n"]}]\n}\n'
    (found,) = find_ignores("a.ipynb", raw)
    assert (found.line, found.codes, found.reason) == (3, ("CA801",), "ours")


# --- baseline --------------------------------------------------------------------------------------------------------


def test_a_baseline_silences_what_was_there_and_no_more(tmp_path: Path) -> None:
    before = [p for p in lint({"a.py": LOAD}) if p.finding.code == "CA801"]
    place = tmp_path / "baseline.json"
    assert write_baseline(place, [p.finding for p in before]) == 1
    moved = "import torch\n\n\n\nx = torch.load('a.pt')\nx = torch.load('a.pt')\ny = torch.load('b.pt')\n"
    after = lint({"a.py": moved}, baseline=read_baseline(place))
    assert [(p.finding.line, p.silenced) for p in after if p.finding.code == "CA801"] == [
        (5, "baseline"),
        (6, ""),
        (7, ""),
    ]


def test_a_baseline_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    findings = [p.finding for p in lint({"b.py": LOAD, "a.py": LOAD})]
    write_baseline(tmp_path / "1", findings)
    write_baseline(tmp_path / "2", list(reversed(findings)))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "codeaudit.baseline/1", "findings": [1]}', '{"schema": "x", "findings": []}']
)
def test_a_baseline_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    place = tmp_path / "baseline.json"
    place.write_text(text)
    with pytest.raises(UserError, match="write-baseline"):
        read_baseline(place)


def test_a_missing_baseline_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json"):
        read_baseline(tmp_path / "none.json")


def test_fingerprints_are_unique_and_findings_are_ordered() -> None:
    files = {"b.py": LOAD + LOAD, "a.py": LOAD}
    problems = lint(files)
    prints = Counter(p.finding.fingerprint for p in problems)
    assert set(prints.values()) == {1}
    places = [(p.finding.file, p.finding.line, p.finding.code) for p in problems]
    assert places == sorted(places)
