"""`codeaudit check`, `codeaudit rule`, `codeaudit rules`: parse, call the linter, mend where asked, render."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from codeaudit.commands.common import (
    DISAGREES,
    cache_option,
    format_option,
    mirror_option,
    output_option,
    quiet_option,
    report_file,
    shown_progress,
    workers_by_default,
    workers_option,
)
from codeaudit.errors import UserError

if TYPE_CHECKING:
    from codeaudit.lint.run import Check
    from codeaudit.rules.base import Edit

FORMATS = ("full", "concise", "json", "github", "gitlab", "sarif", "junit")


def _codes(name: str, help_: str) -> Callable[[Any], Any]:
    return click.option(name, multiple=True, metavar="CODES", help=help_)


@click.command()
@click.argument("target", metavar="[TARGET]", default=".")
@_codes("--select", "Run these rules only: codes or prefixes, separated by commas, or ALL.")
@_codes("--extend-select", "Run these rules too.")
@_codes("--ignore", "Leave these rules out.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave these files or folders out; repeatable.")
@click.option("--isolated", is_flag=True, help="Don't read the repository's own pyproject.toml.")
@click.option("--fix", is_flag=True, help="Mend what can be mended without a change of behaviour.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: also mend what changes behaviour.")
@click.option("--diff", "show_diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option(
    "--baseline", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Report new findings only."
)
@click.option(
    "--write-baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write today's findings there.",
)
@click.option("--statistics", is_flag=True, help="Count the findings of each rule.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@format_option(*FORMATS)
@output_option
@workers_option
@cache_option
@mirror_option
@click.option("--library", "libraries", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
              help="A YAML model of a library's behaviour, beside those shipped; repeatable.")  # fmt: skip
@quiet_option
def check(target: str, **options: Any) -> int:
    """Find what makes a reported return hard to interpret or to reproduce.

    TARGET is a folder or a file of a working tree (default: this folder), or owner/name@commit. `[tool.codeaudit]` in
    its pyproject.toml is heeded. Exit codes: 0 nothing found, 1 findings, 2 an error.
    """
    from codeaudit.lint.baseline import read_baseline, write_baseline
    from codeaudit.lint.run import check as run

    fix, show_diff = options["fix"], options["show_diff"]
    if options["unsafe_fixes"] and not (fix or show_diff):
        raise UserError("--unsafe-fixes has no effect alone", hint="add --fix, or --diff to see what it would change")
    known = read_baseline(options["baseline"]) if options["baseline"] else None

    def checked() -> Check:
        with shown_progress(options["quiet"]) as progress:
            return run(
                target,
                select=_split(options["select"]),
                extend_select=_split(options["extend_select"]),
                ignore=_split(options["ignore"]),
                exclude=options["exclude"],
                isolated=options["isolated"],
                baseline=known,
                workers=options["workers"] or workers_by_default(),
                cache=options["cache"],
                mirrors=options["mirrors"],
                libraries=options["libraries"],
                progress=progress,
            )

    result = checked()
    if options["write_baseline"]:
        number = write_baseline(options["write_baseline"], [p.finding for p in result.open])
        click.echo(f"wrote {number} findings to {options['write_baseline']}", err=True)
        return 0
    mended = 0
    if fix or show_diff:
        changes, made = _changes(result, unsafe=options["unsafe_fixes"])
        if show_diff:
            from codeaudit.fix import diff

            with report_file(options["output"]) as file:
                file.write(diff(changes))
            return 0 if options["exit_zero"] or not changes else DISAGREES
        if changes:
            from codeaudit.fix import write_changes

            root = result.snapshot.source.repository.work_tree
            assert root is not None
            write_changes(root, changes)
            mended, result = len(made), checked()
    with report_file(options["output"]) as file:
        _render(result, file, options, mended)
    return DISAGREES if result.open and not options["exit_zero"] else 0


def _split(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


def _changes(result: Check, *, unsafe: bool) -> tuple[dict[str, tuple[bytes, bytes]], tuple[Edit, ...]]:
    from codeaudit.fix import fixed_files

    if not result.target.dirty:
        raise UserError("only a working tree can be mended", hint="check out the commit and give its folder")
    edits = [p.edit for p in result.open if p.edit is not None and (unsafe or p.edit.safe)]
    paths = sorted({edit.file for edit in edits})
    return fixed_files(dict(result.snapshot.read(paths)) if paths else {}, edits)


def _render(result: Check, file: IO[str], options: dict[str, Any], mended: int) -> None:
    format_ = options["format_"]
    if options["statistics"] and format_ in ("full", "concise"):
        from codeaudit.report.lint_text import print_statistics, summary

        print_statistics(result, file)
        file.write(summary(result, mended) + "\n")
    elif format_ in ("full", "concise"):
        from codeaudit.report.lint_text import print_check

        print_check(result, file, concise=format_ == "concise", quiet=options["quiet"], fixed=mended)
    elif format_ in ("github", "junit"):
        from codeaudit.report import lint_ci

        file.write(lint_ci.github(result) if format_ == "github" else lint_ci.junit(result))
    else:
        from codeaudit.report.json import json_text
        from codeaudit.report.lint_json import check_to_json, gitlab
        from codeaudit.report.lint_sarif import sarif

        report: Any = {"json": check_to_json, "gitlab": gitlab, "sarif": sarif}[format_](result)
        file.write(json_text(report))


@click.command()
@click.argument("code", metavar="CODE")
@format_option("text", "json")
def rule(code: str, format_: str) -> None:
    """Explain one rule: what it finds, why that matters, a bad and a good example."""
    from codeaudit.rules import all_rules

    found = next((r for r in all_rules() if code.upper() == r.code or code.lower() == r.name), None)
    if found is None:
        raise UserError(f"there is no rule {code!r}", hint="`codeaudit rules` lists them")
    if format_ == "json":
        from codeaudit.report.json import json_text
        from codeaudit.report.lint_json import rules_to_json

        click.echo(json_text(rules_to_json((found,))[0]), nl=False)
    else:
        from codeaudit.report.lint_text import rule_words

        click.echo(rule_words(found), nl=False)


@click.command()
@format_option("text", "json")
def rules(format_: str) -> None:
    """List every rule."""
    from codeaudit.rules import all_rules

    if format_ == "json":
        from codeaudit.report.json import json_text
        from codeaudit.report.lint_json import rules_to_json

        click.echo(json_text({"rules": rules_to_json(all_rules())}), nl=False)
    else:
        from codeaudit.report.lint_text import print_rules

        print_rules(all_rules(), sys.stdout)
