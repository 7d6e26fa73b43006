"""The commands of `codeaudit registry`: parse, call one public function, render."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codeaudit.commands.common import (
    DISAGREES,
    ERROR,
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
from codeaudit.errors import UserError
from codeaudit.text import printable

if TYPE_CHECKING:
    from codeaudit.registry import RegistryEntry

registry_option = click.option(
    "--registry",
    "folders",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A folder of entries, looked in before those that are shipped; repeatable.",
)
collection_option = click.option("--collection", metavar="NAME", help="Only the entries of this collection.")


@click.group()
def registry() -> None:
    """Audited codebases on record, held against the code and against what was published."""


@registry.command("list")
@registry_option
@collection_option
@format_option("terminal", "json", "markdown", "csv")
@output_option
def list_command(folders: tuple[Path, ...], collection: str | None, format_: str, output: Path | None) -> None:
    """Every entry on one line."""
    from codeaudit.report.registry_tables import list_grid

    entries = _entries(folders, (), collection)
    if format_ == "json":
        write_json({"schema": "codeaudit.registry-list/1", "entries": [_brief(one) for one in entries]}, output)
    else:
        write_grids([list_grid(entries)], format_, output)


@registry.command()
@click.argument("entry_id", metavar="ID")
@registry_option
@cache_option
@mirror_option
@output_option
def show(
    entry_id: str, folders: tuple[Path, ...], cache: Path | None, mirrors: tuple[Path, ...], output: Path | None
) -> None:
    """One entry with its evidence, as a scan is shown; source lines where the repository is at hand."""
    from codeaudit.registry.lines import lines_of_entry
    from codeaudit.report.registry_terminal import print_entry

    (entry,) = _entries(folders, (entry_id,), None)
    lines, missing = lines_of_entry(entry, cache=cache, mirrors=mirrors, allow_network=False)
    for note in missing:
        click.echo(f"no source lines: {note}", err=True)
    with report_file(output) as file:
        print_entry(entry, lines, file)


@registry.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of an entry, for editors."""
    from codeaudit.registry import schema_text

    click.echo(schema_text(), nl=False)


@registry.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@registry_option
@quiet_option
def validate(files: tuple[Path, ...], folders: tuple[Path, ...], quiet: bool) -> None:
    """Say everything that is wrong with entries, each with its line. Exit code 1 where something is.

    Without FILE, all entries that the registry knows.
    """
    from codeaudit.registry import entry_files, read_entry, registry_folders

    paths: list[Path] = [] if files else list(entry_files(registry_folders(folders)).values())
    for file in files:
        if not file.exists():
            raise UserError(f"{printable(str(file))}: there is no such file", hint="name entries or folders of them")
        found = sorted(file.glob("*.yaml")) if file.is_dir() else [file]
        if not found:
            raise UserError(f"{printable(str(file))}: there is no *.yaml entry in it", hint="name entries or folders")
        paths += found
    wrong = 0
    for path in paths:
        _, problems = read_entry(path)
        wrong += bool(problems)
        for problem in problems:
            click.echo(str(problem))
    if not quiet:
        click.echo(f"{len(paths)} {'entry' if len(paths) == 1 else 'entries'}, {wrong} with problems", err=bool(wrong))
    raise SystemExit(DISAGREES if wrong else FINE)


@registry.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@registry_option
@collection_option
@format_option("terminal", "json", "markdown")
@output_option
@workers_option
@click.option("--executor", default="", metavar="NAME", help="local, or dask://HOST:PORT.")
@cache_option
@mirror_option
@click.option(
    "--run",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keeps finished entries, so that a killed check goes on (default: in the cache).",
)
@quiet_option
def check(
    ids: tuple[str, ...],
    folders: tuple[Path, ...],
    collection: str | None,
    format_: str,
    output: Path | None,
    workers: int | None,
    executor: str,
    cache: Path | None,
    mirrors: tuple[Path, ...],
    run: Path | None,
    quiet: bool,
) -> None:
    """Scan entries at their commits and compare, site by site, with the record and with what was published.

    Exit code 1 where a scan and the record disagree, 2 where an entry could not be scanned. With --quiet, only what
    does not agree is listed.
    """
    from codeaudit.registry.check import check_entries
    from codeaudit.report.registry_tables import check_grids

    entries = _entries(folders, ids, collection)
    with shown_progress(quiet) as progress:
        results = check_entries(
            entries,
            workers=workers or workers_by_default(),
            executor=executor,
            cache=cache,
            mirrors=mirrors,
            run=run,
            progress=progress,
        )
    if format_ == "json":
        write_json(
            {"schema": "codeaudit.registry-check/1", "entries": [result.to_json() for result in results]}, output
        )
    else:
        write_grids(check_grids(results, short=quiet), format_, output)
    outcomes = {result.outcome for result in results}
    raise SystemExit(ERROR if "failed" in outcomes else DISAGREES if "disagrees" in outcomes else FINE)


@registry.command()
@click.argument("target", metavar="TARGET")
@click.option("--id", "entry_id", default="", metavar="ID", help="The entry's id (default: the repository's name).")
@click.option(
    "--registry",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write DIR/ID.yaml; without it the draft is printed.",
)
@with_option
@workers_option
@cache_option
@mirror_option
@quiet_option
def add(
    target: str,
    entry_id: str,
    folder: Path | None,
    dependencies: tuple[str, ...],
    workers: int | None,
    cache: Path | None,
    mirrors: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Draft an entry from a scan of TARGET, marked unreviewed, for a person to check.

    An entry that exists is never overwritten.
    """
    from codeaudit.registry.draft import add_entry

    named = named_targets(dependencies)
    with shown_progress(quiet) as progress:
        draft = add_entry(
            target,
            entry_id=entry_id,
            folder=folder,
            dependencies=named,
            workers=workers or workers_by_default(),
            cache=cache,
            mirrors=mirrors,
            progress=progress,
        )
    if draft.path is None:
        click.echo(draft.text, nl=False)
    elif not quiet:
        click.echo(f"wrote {printable(str(draft.path))}; check it against the code, then remove `reviewed: false`")


@registry.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@registry_option
@collection_option
@format_option("terminal", "markdown", "latex", "csv", "json")
@click.option(
    "--table",
    "which",
    type=click.Choice(("both", "field", "evidence")),
    help="The field-wide table, the evidence table, or both (default; for csv: field).",
)
@output_option
def table(
    ids: tuple[str, ...],
    folders: tuple[Path, ...],
    collection: str | None,
    format_: str,
    which: str | None,
    output: Path | None,
) -> None:
    """The field-wide table and the evidence table, from the entries, with totals."""
    from codeaudit.registry.fieldwide import field_rows, field_totals
    from codeaudit.report.registry_tables import evidence_grid, field_grid, field_json

    if format_ == "csv" and which == "both":
        raise UserError("a CSV file holds one table", hint="give --table field or --table evidence")
    which = which or ("field" if format_ == "csv" else "both")
    rows = field_rows(_entries(folders, ids, collection))
    totals = field_totals(rows)
    if format_ == "json":
        write_json(field_json(rows, totals), output)
        return
    grids = [field_grid(rows, totals)] if which in ("both", "field") else []
    grids += [evidence_grid(rows)] if which in ("both", "evidence") else []
    write_grids(grids, format_, output)


@registry.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@registry_option
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A run directory of `codeaudit verify`, or a folder of them; repeatable (default: those in the cache).",
)
@workers_option
@cache_option
@mirror_option
@quiet_option
def site(
    folder: Path,
    folders: tuple[Path, ...],
    runs: tuple[Path, ...],
    workers: int | None,
    cache: Path | None,
    mirrors: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Write a static web site of the registry to DIR: an overview, and a page for each entry.

    Every entry is scanned at its commit first, as by `check`: that takes minutes the first time and is kept. Pages show
    the evidence in its context as far as the repositories can be read. Nothing is loaded from elsewhere.
    """
    from codeaudit.registry.check import check_entries
    from codeaudit.report.site import write_site
    from codeaudit.report.site_runs import find_runs
    from codeaudit.store import default_cache_dir

    entries = _entries(folders, (), None)
    if not quiet:
        click.echo(f"scanning {len(entries)} entries at their commits; what was scanned before is kept", err=True)
    found = find_runs(runs or (default_cache_dir(cache) / "runs",), entries, named=bool(runs))
    with shown_progress(quiet) as progress:
        results = check_entries(
            entries,
            workers=workers or workers_by_default(),
            cache=cache,
            mirrors=mirrors,
            progress=progress,
        )
    written = write_site(folder, results, found)
    if not quiet:
        size = sum(path.stat().st_size for path in written)
        click.echo(f"wrote {len(written)} files, {size / 1e3:.0f} kB; open {printable(str(folder / 'index.html'))}")


# --- shared ----------------------------------------------------------------------------------------------------------


def _entries(folders: tuple[Path, ...], ids: tuple[str, ...], collection: str | None) -> list[RegistryEntry]:
    from codeaudit.registry import load_entries, registry_folders

    entries = load_entries(registry_folders(folders), ids)
    if collection is None:
        return entries
    chosen = [entry for entry in entries if entry.collection == collection]
    if not chosen:
        known = ", ".join(sorted({entry.collection for entry in entries if entry.collection}))
        raise UserError(f"no entry of the collection {printable(collection)!r}", hint=f"known: {known or 'none'}")
    return chosen


def _brief(entry: RegistryEntry) -> dict[str, Any]:
    summary = entry.classification.summary.to_json() if entry.classification else None
    return {
        "id": entry.id,
        "title": entry.title,
        "venue": entry.venue,
        "repository": entry.url,
        "commit": entry.commit,
        "collection": entry.collection,
        "reviewed": entry.reviewed,
        "summary": summary,
        "sites": len(entry.classification.sites) if entry.classification else 0,
        "checkpoints": len(entry.checkpoints),
    }
