"""The commands diff and statement: parse, call one public function, render."""

from __future__ import annotations

from pathlib import Path

import click

from codeaudit.commands.common import (
    DISAGREES,
    FINE,
    cache_option,
    format_option,
    mirror_option,
    named_targets,
    output_option,
    quiet_option,
    report_file,
    shown_progress,
    with_option,
    workers_by_default,
    workers_option,
    write_grids,
    write_json,
)


@click.command()
@click.argument("repository", metavar="REPO")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@format_option("terminal", "json", "markdown", "csv")
@output_option
@with_option
@workers_option
@cache_option
@mirror_option
@quiet_option
def diff(
    repository: str,
    old: str,
    new: str,
    format_: str,
    output: Path | None,
    dependencies: tuple[str, ...],
    workers: int | None,
    cache: Path | None,
    mirrors: tuple[Path, ...],
    quiet: bool,
) -> None:
    """What changed in evaluation between the commits OLD and NEW of REPO. Exit code 1 where something did.

    REPO is owner/name, a URL or a local clone. A site that only moved to another line has not changed; with --quiet
    it is not listed.
    """
    from codeaudit.registry.changes import compare_scans
    from codeaudit.report.registry_tables import diff_grid
    from codeaudit.scan import scan

    named = named_targets(dependencies)
    scans = []
    with shown_progress(quiet) as progress:
        for revision in (old, new):
            scans.append(
                scan(
                    f"{repository}@{revision}",
                    workers=workers or workers_by_default(),
                    cache=cache,
                    mirrors=mirrors,
                    dependencies=named,
                    progress=progress,
                )
            )
    changes = compare_scans(*scans)
    if format_ == "json":
        write_json(changes.to_json(), output)
    else:
        write_grids([diff_grid(changes, short=quiet)], format_, output)
    raise SystemExit(DISAGREES if changes.any else FINE)


@click.command()
@click.argument("target", metavar="TARGET|RUN")
@format_option("terminal", "markdown", "json")
@output_option
@with_option
@workers_option
@cache_option
@mirror_option
@quiet_option
def statement(
    target: str,
    format_: str,
    output: Path | None,
    dependencies: tuple[str, ...],
    workers: int | None,
    cache: Path | None,
    mirrors: tuple[Path, ...],
    quiet: bool,
) -> None:
    """The paragraph on evaluation that a paper needs; what nothing shows stays a question in brackets.

    TARGET is scanned. RUN is the directory or the JSON report of `codeaudit verify`, `evaluate` or `floor`.
    """
    from codeaudit.report.grid import plain_markdown
    from codeaudit.report.registry_terminal import print_statement
    from codeaudit.report.site_runs import run_report
    from codeaudit.report.statement import statement_of_run, statement_of_scan

    found = run_report(Path(target))
    if found is not None:
        said = statement_of_run(found)
    else:
        from codeaudit.scan import scan

        named = named_targets(dependencies)
        with shown_progress(quiet) as progress:
            said = statement_of_scan(
                scan(
                    target,
                    workers=workers or workers_by_default(),
                    cache=cache,
                    mirrors=mirrors,
                    dependencies=named,
                    progress=progress,
                )
            )
    if format_ == "json":
        write_json(said.to_json(), output)
        return
    with report_file(output) as file:
        if format_ == "markdown":
            file.write("\n\n".join(plain_markdown(paragraph) for paragraph in said.paragraphs) + "\n")
        else:
            print_statement(said, file)
