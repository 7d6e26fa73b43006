"""Run the linter in process on a handful of texts, without a repository. For tests of rules and of their reports."""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from codeaudit.facts.extract import decode, extract_file, is_read
from codeaudit.git.repository import Repository
from codeaudit.lint.run import Check, Problem, find, judge
from codeaudit.lint.settings import Settings
from codeaudit.rules import all_rules
from codeaudit.rules.base import Rule
from codeaudit.scan import Facts, Statistics, TargetInfo
from codeaudit.snapshot import Snapshot, Source


def facts_of(files: Mapping[str, str]) -> Facts:
    python, configs = {}, {}
    for path, text in files.items():
        if is_read(path):
            encoded = extract_file(path, text.encode())
            assert marshal.loads(encoded)[0] != "failed", f"{path} can't be read"
            kind, value, _ = decode(encoded)
            if kind == "python":
                python[path] = value
            else:
                configs[path] = [(str(k), v, int(n)) for k, v, n in value]
    return Facts(python, configs, [], len(files), len(files), 0, 0)


def lint(
    files: Mapping[str, str],
    *,
    rules: Sequence[Rule] | None = None,
    settings: Settings | None = None,
    baseline: Counter[str] | None = None,
) -> list[Problem]:
    """All problems, silenced ones too, of every rule (also of those that are off by default)."""
    chosen = all_rules() if rules is None else tuple(rules)
    contents = {path: text.encode() for path, text in files.items()}
    hits, notes = find(facts_of(files), contents, chosen)
    assert not notes, notes
    return judge(hits, contents, chosen, settings or Settings(), baseline or Counter())


def codes(problems: Sequence[Problem]) -> list[str]:
    return [p.finding.code for p in problems if not p.silenced]


def check_of(files: Mapping[str, str], *, dirty: bool = True) -> Check:
    """A whole check of texts, as if they were a working tree."""
    repository = Repository(Path("/nowhere"), Path("/nowhere"), None, "nowhere")
    snapshot = Snapshot("https://github.com/o/n", "https://github.com/o/n", "o/n", "1" * 40, "2" * 40, dirty, (), (),
                        Source(repository, Path("/nowhere"), 1.0))  # fmt: skip
    return Check(
        target=TargetInfo(snapshot.repo, snapshot.requested, snapshot.commit, snapshot.tree, dirty),
        rules=all_rules(),
        problems=tuple(lint(files)),
        skipped=(),
        notes=(),
        statistics=Statistics(len(files), len(files), 0, 0, 0.0),
        snapshot=snapshot,
    )
