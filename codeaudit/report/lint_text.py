"""The check report that a person reads: full, concise, and the counts by rule. Not for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO

from rich.console import Console
from rich.text import Text

from codeaudit.lint.run import Check, Problem
from codeaudit.report.links import blob_url
from codeaudit.report.words import count, place_words
from codeaudit.rules.base import Rule
from codeaudit.text import printable

COLOUR = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
EVIDENCE_SHOWN = 6


def print_check(
    check: Check, file: IO[str] | None = None, *, concise: bool = False, quiet: bool = False, fixed: int = 0
) -> None:
    """Print the findings and a last line that counts them. Colours and links follow the terminal and NO_COLOR."""
    console = Console(file=file, highlight=False, emoji=False, markup=False, soft_wrap=True)
    for problem in check.open:
        for line in _concise(check, problem) if concise else _full(check, problem):
            console.print(line)
    if quiet:
        return
    for note in check.notes:
        console.print(Text(f"note: {printable(note)}", "dim"))
    unread = [s for s in check.skipped if s.file.endswith((".py", ".ipynb"))]
    for item in unread[:5]:
        where = printable(item.file) + (f":{item.line}" if item.line else "")
        console.print(Text(f"not checked: {where}: {printable(item.reason)}", "dim"))
    if unread[5:]:
        console.print(Text(f"not checked: {len(unread) - 5} more; `--format json` lists them", "dim"))
    console.print(Text(summary(check, fixed), "bold"))


def print_statistics(check: Check, file: IO[str] | None = None) -> None:
    """How many findings each rule has, the commonest first."""
    console = Console(file=file, highlight=False, emoji=False, markup=False, soft_wrap=True)
    names = {rule.code: rule for rule in check.rules}
    for code, number in sorted(
        Counter(p.finding.code for p in check.open).items(), key=lambda item: (-item[1], item[0])
    ):
        mark = "[*]" if names[code].fixable == "safe" else "[-]" if names[code].fixable else "[ ]"
        console.print(Text(f"{number:>5}  {code}  {mark} {names[code].name}"))


def summary(check: Check, fixed: int = 0) -> str:
    """The last line: how many findings, how many that can be mended, how many that are silenced."""
    found = check.open
    silenced = Counter(p.silenced for p in check.problems if p.silenced)
    parts = []
    if fixed:
        parts.append(f"Found {count(len(found) + fixed, 'fault')} ({fixed} fixed, {len(found)} remaining).")
    else:
        parts.append(f"Found {count(len(found), 'fault')}." if found else "All checks passed.")
    safe = sum(1 for p in found if p.edit is not None and p.edit.safe)
    unsafe = sum(1 for p in found if p.edit is not None and not p.edit.safe)
    if check.target.dirty and (safe or unsafe):
        fixes = [f"{safe} fixable with `--fix`"] if safe else []
        fixes += [f"{unsafe} with `--unsafe-fixes`"] if unsafe else []
        parts.append(f"{', '.join(fixes)}.")
    if silenced:
        told = ", ".join(
            f"{number} by {'a comment' if by == 'comment' else 'the ' + by}" for by, number in sorted(silenced.items())
        )
        parts.append(f"Silenced: {told}.")
    return " ".join(parts)


def _concise(check: Check, problem: Problem) -> Iterator[Text]:
    finding = problem.finding
    yield Text.assemble(_place(check, problem), ": ", (finding.code, COLOUR[finding.severity]), _fix_mark(problem),
                        f" {printable(finding.message)}")  # fmt: skip


def _full(check: Check, problem: Problem) -> Iterator[Text]:
    finding = problem.finding
    yield Text.assemble((finding.code, COLOUR[finding.severity]), _fix_mark(problem), f" {printable(finding.message)}")
    yield Text.assemble(("  --> ", "blue"), _place(check, problem), (f"  {problem.rule.name}", "dim"))
    width = len(str(finding.line + len(problem.excerpt)))
    for number, line in enumerate(_statement(problem), finding.line):
        yield Text.assemble((f"{number:>{width}} | ", "blue"), printable(line.expandtabs(4)))
    steps = [s for s in finding.evidence if (s.place.file, s.place.line) != (finding.file, finding.line)]
    for step in steps[:EVIDENCE_SHOWN]:
        yield Text.assemble(
            " " * width, (" = ", "blue"), (place_words(step.place), "cyan"), f"  {printable(step.what)}"
        )
    yield Text()


def _statement(problem: Problem) -> list[str]:
    """The source lines of the finding: its own statement's, no more than are known."""
    return list(problem.excerpt[: max(1, problem.end_line - problem.finding.line + 1)])


def _fix_mark(problem: Problem) -> Text:
    if problem.edit is None:
        return Text()
    return Text(" [*]" if problem.edit.safe else " [-]", "cyan")


def _place(check: Check, problem: Problem) -> Text:
    from rich.style import Style

    from codeaudit.evaluation.sites import Place

    place = Place(problem.finding.file, problem.finding.line)
    return Text(place_words(place), Style(bold=True, link=blob_url(check.target, place)))


# --- rules -----------------------------------------------------------------------------------------------------------


def print_rules(rules: tuple[Rule, ...], file: IO[str] | None = None) -> None:
    """One line per rule."""
    console = Console(file=file, highlight=False, emoji=False, markup=False, soft_wrap=True)
    for rule in rules:
        mark = {"safe": "*", "unsafe": "-", "": " "}[rule.fixable]
        state = "" if rule.default else "  (off by default)"
        console.print(
            Text.assemble(
                (rule.code, COLOUR[rule.severity]), f" {mark} {rule.name:<34}", (f"{rule.message}{state}", "")
            )
        )
    console.print(Text("* a safe fix, - an unsafe fix; `codeaudit rule CODE` explains one", "dim"))


def rule_words(rule: Rule) -> str:
    """A rule's page, as Markdown."""
    lines = [f"# {rule.name} ({rule.code})", "", f"{rule.message[0].upper()}{rule.message[1:]}.", ""]
    facts = [
        f"severity {rule.severity}",
        "on by default" if rule.default else f"off by default: `--extend-select {rule.code}`",
    ]
    facts += (
        [{"safe": "has a safe fix (`--fix`)", "unsafe": "has an unsafe fix (`--fix --unsafe-fixes`)"}[rule.fixable]]
        if rule.fixable
        else []
    )
    lines += [f"{'; '.join(facts)}.", "", "## Why", "", rule.why, "", f"Source: {rule.source}", ""]
    if rule.experiment:
        lines += [
            "## What a run would show",
            "",
            f"The prediction `{rule.experiment}`: see `codeaudit verify --help`.",
            "",
        ]
    for title, examples in (("Bad", rule.bad[:1]), ("Good", rule.good[:1])):
        for files in examples:
            lines += [f"## {title}", ""]
            for path, text in files.items():
                lines += [
                    f"```{'python' if path.endswith('.py') else ''}",
                    *([f"# {path}"] if len(files) > 1 else []),
                    text.strip("\n"),
                    "```",
                    "",
                ]
    return "\n".join(lines)
