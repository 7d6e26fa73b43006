"""Each rule is held against its own good and bad examples, which are also its documentation."""

from __future__ import annotations

import re

import pytest
from lintcases import codes, lint

from codeaudit.rules import all_rules
from codeaudit.rules.base import Files, Rule

EXAMPLES = [
    pytest.param(rule, files, hit, id=f"{rule.code}-{'bad' if hit else 'good'}-{number}")
    for rule in all_rules()
    for hit, group in ((False, rule.good), (True, rule.bad))
    for number, files in enumerate(group)
]


@pytest.mark.parametrize(("rule", "files", "hit"), EXAMPLES)
def test_examples_say_what_the_rule_does(rule: Rule, files: Files, hit: bool) -> None:
    assert (rule.code in codes(lint(files))) == hit


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: Rule) -> None:
    assert re.fullmatch(r"CA[0-8]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert "\n" not in rule.message and rule.why and re.match("https://", rule.source)
    assert rule.good and rule.bad
    assert rule.severity in ("error", "warning", "note")


def test_codes_and_names_are_unique() -> None:
    rules = all_rules()
    assert len({r.code for r in rules}) == len({r.name for r in rules}) == len(rules)


def test_every_family_has_a_rule() -> None:
    assert {rule.code[:3] for rule in all_rules()} == {f"CA{n}" for n in range(9)}
