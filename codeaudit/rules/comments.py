"""CA0, the comments that silence rules. `codeaudit.lint` finds these faults, since only it knows what was silenced."""

from __future__ import annotations

from collections.abc import Iterator

from codeaudit.rules.base import Hit, Rule, Subject


class UnusedIgnore(Rule):
    code = "CA001"
    name = "unused-ignore"
    message = "an ignore comment silences nothing"
    why = "A comment that no longer matches a finding hides the next one that appears on its line."
    source = "https://docs.astral.sh/ruff/rules/unused-noqa/"
    severity = "note"
    good = ({"main.py": "import torch\n\nnet = torch.load('a.pt')  # codeaudit: ignore[CA801] our own file\n"},)
    bad = ({"main.py": "x = 1  # codeaudit: ignore[CA801] nothing is loaded here\n"},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        return iter(())


class BadIgnore(Rule):
    code = "CA002"
    name = "bad-ignore"
    message = "an ignore comment names no rule that exists"
    why = "A comment without codes, or with a mistyped one, silences nothing; whoever wrote it believes otherwise."
    source = "https://docs.astral.sh/ruff/rules/blanket-noqa/"
    good = ({"main.py": "import torch\n\nnet = torch.load('a.pt')  # codeaudit: ignore[CA801] our own file\n"},)
    bad = ({"main.py": "x = 1  # codeaudit: ignore\n"}, {"main.py": "x = 1  # codeaudit: ignore[CA999] why\n"})

    def check(self, subject: Subject) -> Iterator[Hit]:
        return iter(())


RULES = (UnusedIgnore, BadIgnore)
