"""The pipeline of `check`: snapshot, facts, program, sites, rules, then what silences their findings."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from codeaudit.errors import UserError
from codeaudit.evaluation.corrections import correct
from codeaudit.evaluation.find import Audit
from codeaudit.evaluation.sites import Place
from codeaudit.findings import Finding
from codeaudit.lint.ignores import Ignore, find_ignores
from codeaudit.lint.settings import Settings, check_selectors, enabled, excluded, ignored_by_file, over, read_settings
from codeaudit.predictions import predict
from codeaudit.program.index import Program
from codeaudit.program.libraries import load_libraries
from codeaudit.program.options import Options
from codeaudit.rules import all_rules
from codeaudit.rules.base import Edit, Hit, Rule, Subject
from codeaudit.rules.surroundings import declares
from codeaudit.scan import Facts, Progress, Statistics, TargetInfo, read_facts
from codeaudit.snapshot import Skipped, Snapshot, open_snapshot
from codeaudit.store import Cache, default_cache_dir
from codeaudit.target import parse_target

LARGEST_TEXT = 1 << 20  # bytes of a lock file or README that are looked at
EXCERPT_LINES = 3
SilencedBy = Literal["", "comment", "baseline", "configuration"]


@dataclass(frozen=True)
class Problem:
    """A finding with what a report or the fixer needs beside it."""

    finding: Finding
    rule: Rule
    end_line: int
    excerpt: tuple[str, ...] = ()  # source lines from the finding's on
    edit: Edit | None = None
    silenced: SilencedBy = ""
    reason: str = ""  # the comment's words, or the pattern


@dataclass(frozen=True)
class Check:
    """Everything one check found out."""

    target: TargetInfo
    rules: tuple[Rule, ...]  # those that ran
    problems: tuple[Problem, ...]  # by file, line and code; silenced ones too
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    statistics: Statistics
    snapshot: Snapshot

    @property
    def open(self) -> tuple[Problem, ...]:
        """What is reported: the problems that nothing silences."""
        return tuple(p for p in self.problems if not p.silenced)


def check(
    target: str = ".",
    *,
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    isolated: bool = False,
    baseline: Counter[str] | None = None,
    workers: int = 1,
    cache: Path | None = None,
    mirrors: Sequence[Path] = (),
    libraries: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Check:
    """Run the lint rules over a repository at a pinned commit, or over a working tree or a part of it as it is.

    `isolated` leaves the repository's own pyproject.toml unread; `baseline` counts the fingerprints that are known.
    Raises UserError for anything that a person must fix. The result doesn't depend on `workers`.
    """
    started = time.monotonic()
    root = default_cache_dir(cache)
    say = progress or (lambda stage, done, total: None)
    say("fetch", 0, 1)
    whole, only = _part(target)
    snapshot = open_snapshot(parse_target(whole), mirrors=mirrors, cache=root)
    if only:
        only = _relative(snapshot, whole, only)
    facts = read_facts(snapshot, Cache(root), workers, say)
    say("analyse", 0, 1)
    contents = _read(snapshot, facts)
    notes: list[str] = []
    settings = Settings() if isolated else _own_settings(snapshot, contents, notes)
    settings = over(settings, select, extend_select, ignore, exclude)
    check_selectors(settings, all_rules())
    rules = enabled(settings, all_rules())
    hits, more = find(facts, contents, rules, libraries)
    notes.extend(more)
    problems = judge(hits, contents, rules, settings, baseline or Counter())
    if only:
        problems = [p for p in problems if p.finding.file == only or p.finding.file.startswith(f"{only}/")]
    say("analyse", 1, 1)
    skipped = sorted([*snapshot.skipped, *facts.skipped], key=lambda s: (s.file, s.line or 0, s.reason))
    seconds = round(time.monotonic() - started, 3)
    return Check(
        target=TargetInfo(snapshot.repo, target, snapshot.commit, snapshot.tree, snapshot.dirty),
        rules=rules,
        problems=tuple(problems),
        skipped=tuple(skipped),
        notes=tuple(notes),
        statistics=Statistics(facts.count, facts.parsed, facts.cached, facts.bytes, seconds),
        snapshot=snapshot,
    )


def find(
    facts: Facts, contents: Mapping[str, bytes], rules: Iterable[Rule], libraries: Sequence[Path] = ()
) -> tuple[list[tuple[Rule, Hit]], list[str]]:
    """What the rules say of a program, and notes.

    Pure. A rule that fails costs its own findings, and a note says so.
    """
    program = Program(facts.files)
    audit = Audit(program, Options(program, dict(facts.configs)), load_libraries(libraries))
    sites, notes = correct(audit.sites(), {path: file.corrections for path, file in facts.files.items()})
    sites, _ = predict(sites)
    texts = {path: data.decode("utf-8", "replace") for path, data in contents.items() if declares(path)}
    subject = Subject(audit, sites, texts)
    hits: list[tuple[Rule, Hit]] = []
    said = list(notes)
    for rule in rules:
        try:
            hits.extend((rule, hit) for hit in rule.check(subject))
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            said.append(f"{rule.code} could not be checked: it failed with {type(error).__name__}; please report it")
    return hits, said


def judge(
    hits: Iterable[tuple[Rule, Hit]],
    contents: Mapping[str, bytes],
    rules: Sequence[Rule],
    settings: Settings,
    baseline: Counter[str],
) -> list[Problem]:
    """Findings in a stable order, with what silences each: a comment, the settings, the baseline. Pure."""
    lines = {path: data.decode("utf-8", "replace").split("\n") for path, data in contents.items()}
    problems = _identified([p for p in _once(hits, lines) if not excluded(settings, p.finding.file)])
    comments = {path: found for path, data in contents.items() if path.endswith((".py", ".ipynb"))
                if not excluded(settings, path) and (found := find_ignores(path, data))}  # fmt: skip
    problems, used = _commented(problems, comments)
    about = {rule.code: rule for rule in rules}
    problems += _identified([p for p in _comment_problems(comments, used, about, lines) if not p.silenced])
    left = Counter(baseline)
    out = []
    for problem in sorted(problems, key=_order):
        finding = problem.finding
        pattern = ignored_by_file(settings, finding.file, finding.code)
        if not problem.silenced and pattern:
            problem = replace(problem, silenced="configuration", reason=f"per-file-ignores: {pattern}")
        elif not problem.silenced and left[finding.fingerprint] > 0:
            left[finding.fingerprint] -= 1
            problem = replace(problem, silenced="baseline")
        out.append(problem)
    return out


# --- steps -----------------------------------------------------------------------------------------------------------


def _part(target: str) -> tuple[str, str]:
    """A file on this disk as (its folder, itself); a folder as both, since it may be part of a repository."""
    path = Path(target)
    if path.is_file():
        return str(path.parent), str(path)
    return (target, target) if path.is_dir() else (target, "")


def _relative(snapshot: Snapshot, whole: str, only: str) -> str:
    """The part that was asked for, relative to the work tree; "" for all of it."""
    tree = snapshot.source.repository.work_tree
    if tree is None:
        return ""
    try:
        relative = Path(only).resolve().relative_to(tree.resolve()).as_posix()
    except ValueError:
        return ""
    del whole
    return "" if relative == "." else relative


def _read(snapshot: Snapshot, facts: Facts) -> dict[str, bytes]:
    """The bytes of what rules and reports quote: the source that was parsed, and the files that declare
    dependencies.
    """
    wanted = [
        e.path for e in snapshot.entries if e.path in facts.files or (declares(e.path) and e.size <= LARGEST_TEXT)
    ]
    return dict(snapshot.read(wanted)) if wanted else {}


def _own_settings(snapshot: Snapshot, contents: Mapping[str, bytes], notes: list[str]) -> Settings:
    """What the repository's pyproject.toml says, read as data.

    A commit's mistakes are noted; one's own must be mended.
    """
    data = contents.get("pyproject.toml")
    if data is None or b"codeaudit" not in data:
        return Settings()
    try:
        settings = read_settings(data.decode("utf-8", "replace"), "pyproject.toml")
        check_selectors(settings, all_rules())
    except UserError as error:
        if snapshot.dirty:
            raise
        notes.append(f"the repository's own settings aren't used: {error}")
        return Settings()
    return settings


def _once(hits: Iterable[tuple[Rule, Hit]], lines: Mapping[str, list[str]]) -> list[Problem]:
    """One problem per rule and place, in order of file and line."""
    found: dict[tuple[str, int, str], Problem] = {}
    for rule, hit in hits:
        key = (hit.place.file, hit.place.line, rule.code)
        if key not in found and ":" not in hit.place.file:
            found[key] = _problem(rule, hit, lines)
    return [found[key] for key in sorted(found)]


def _problem(rule: Rule, hit: Hit, lines: Mapping[str, list[str]]) -> Problem:
    at = hit.place
    excerpt = tuple(
        line.rstrip("\r")[:200] for line in lines.get(at.file, ())[at.line - 1 : at.line - 1 + EXCERPT_LINES]
    )
    finding = Finding(rule.code, rule.severity, at.file, at.line, hit.message, "", hit.evidence)
    edit = hit.edit if at.file.endswith(".py") else None  # a notebook is left to a person
    return Problem(finding, rule, max(hit.end_line, at.line), excerpt, edit)


def _identified(problems: Sequence[Problem]) -> list[Problem]:
    """With fingerprints that outlive moved lines: rule, file, the line's text, and which of its like it is."""
    seen: Counter[tuple[str, str, str]] = Counter()
    out = []
    for problem in problems:
        finding = problem.finding
        text = problem.excerpt[0].strip() if problem.excerpt else ""
        key = (finding.code, finding.file, text)
        digest = hashlib.sha256("\0".join((*key, str(seen[key]))).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        seen[key] += 1
        out.append(replace(problem, finding=replace(finding, fingerprint=digest)))
    return out


def _commented(
    problems: Sequence[Problem], comments: Mapping[str, list[Ignore]]
) -> tuple[list[Problem], set[tuple[str, int, str]]]:
    """The problems, those silenced by a comment marked; and which comment's which code did it."""
    out, used = [], set()
    for problem in problems:
        finding = problem.finding
        for comment in comments.get(finding.file, ()):
            if finding.code in comment.codes and finding.line <= comment.target <= problem.end_line:
                used.add((finding.file, comment.line, finding.code))
                problem = replace(problem, silenced="comment", reason=comment.reason)
        out.append(problem)
    return out, used


def _comment_problems(
    comments: Mapping[str, list[Ignore]],
    used: set[tuple[str, int, str]],
    rules: Mapping[str, Rule],
    lines: Mapping[str, list[str]],
) -> list[Problem]:
    """CA001 and CA002: comments that silence nothing, or that can't."""
    known = {rule.code for rule in all_rules()}
    found = []
    for path, items in sorted(comments.items()):
        for comment in items:
            unknown = [code for code in comment.codes if code not in known]
            unused = [c for c in comment.codes if c in rules and (path, comment.line, c) not in used]
            if "CA002" in rules and (unknown or not comment.codes):
                said = (
                    f"no rule is called {', '.join(unknown)}"
                    if unknown
                    else "name the rules to silence: `ignore[CA101]`"
                )
                found.append(_problem(rules["CA002"], Hit(Place(path, comment.line), said), lines))
            if "CA001" in rules and unused:
                said = f"{', '.join(unused)}: nothing here to silence; remove it"
                found.append(_problem(rules["CA001"], Hit(Place(path, comment.line), said), lines))
    return found


def _order(problem: Problem) -> tuple[str, int, str]:
    return (problem.finding.file, problem.finding.line, problem.finding.code)
