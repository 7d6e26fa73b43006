"""The command line: each command parses, calls one public function and renders. It decides nothing itself.

Everything but click is imported inside the command that needs it: a warm scan must start and end within half a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from codeaudit import __version__, extras
from codeaudit.commands.common import (
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
)
from codeaudit.errors import UserError
from codeaudit.text import printable

INTERRUPTED, BROKEN_PIPE = 130, 141
SCAN_FORMATS = ("terminal", "json", "markdown", "html")
# Commands with a module of their own, which is imported when one of them is named.
LOADED_WHEN_NAMED = {
    "check": "codeaudit.commands.check",
    "rule": "codeaudit.commands.check",
    "rules": "codeaudit.commands.check",
    "registry": "codeaudit.commands.registry",
    "diff": "codeaudit.commands.evaluation",
    "statement": "codeaudit.commands.evaluation",
}


class ReaderGone(Exception):
    """Whoever read our output went away, as `| head` does."""


class Commands(click.Group):
    """The commands of this file, those with a module of their own, then those that optional parts offer."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LOADED_WHEN_NAMED:
            found: click.Command = getattr(import_module(LOADED_WHEN_NAMED[cmd_name]), cmd_name)
            return found
        return super().get_command(ctx, cmd_name) or extras.mounted(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *LOADED_WHEN_NAMED, *extras.mounted_names()})

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # before click turns these two into errors like any other
            raise extras.Interrupted from None
        except BrokenPipeError:
            raise ReaderGone from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="codeaudit", message="%(prog)s %(version)s")
@click.option("--traceback", is_flag=True, help="Show the whole traceback of an internal error.")
def commands(traceback: bool) -> None:
    """Which policy do the reported test returns of a reinforcement-learning codebase measure?

    \b
    codeaudit scan owner/name@commit       classify a repository's evaluation sites
    codeaudit scan .                       the same for a working tree

    Exit codes: 0 fine, 1 findings or disagreement, 2 an error that a person must fix, 130 interrupted.
    """


@commands.command()
@click.argument("target", metavar="TARGET")
@format_option(*SCAN_FORMATS)
@output_option
@workers_option
@cache_option
@mirror_option
@click.option(
    "--library",
    "libraries",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A YAML model of a library's behaviour, beside those shipped; repeatable.",
)
@with_option
@quiet_option
def scan(
    target: str,
    format_: str,
    output: Path | None,
    workers: int | None,
    cache: Path | None,
    mirrors: tuple[Path, ...],
    libraries: tuple[Path, ...],
    dependencies: tuple[str, ...],
    quiet: bool,
) -> None:
    """Classify every evaluation site of TARGET, with evidence.

    TARGET is owner/name@commit, the URL of a repository with @commit, a local clone with @commit, or a folder.
    Nothing of it is executed, imported or checked out.
    """
    from codeaudit.scan import scan as scan_target

    named = named_targets(dependencies)
    with shown_progress(quiet) as progress:
        result = scan_target(
            target,
            workers=workers or workers_by_default(),
            cache=cache,
            mirrors=mirrors,
            libraries=libraries,
            dependencies=named,
            progress=progress,
        )
    with report_file(output) as file:
        if format_ == "json":
            from codeaudit.report.json import json_text, scan_to_json

            file.write(json_text(scan_to_json(result)))
        elif format_ == "markdown":
            from codeaudit.report.markdown import scan_to_markdown

            file.write(scan_to_markdown(result))
        elif format_ == "html":
            from codeaudit.report.html import scan_to_html

            file.write(scan_to_html(result))
        else:
            from codeaudit.report.terminal import print_scan

            print_scan(result, file, quiet=quiet)


@commands.command()
@click.argument("report")
def schema(report: str) -> None:
    """Print the JSON Schema of a report, such as `scan`."""
    from importlib.resources import files

    folder = files("codeaudit").joinpath("schemas")
    known = {item.name.removesuffix(".schema.json"): item for item in folder.iterdir()}
    if report not in known:
        raise UserError(f"no report is called {report!r}", hint=f"known: {', '.join(sorted(known))}")
    click.echo(known[report].read_text("utf-8"), nl=False)


@commands.command()
@click.option("--format", "--output-format", "format_", type=click.Choice(("terminal", "json")), default="terminal")
@cache_option
def doctor(format_: str, cache: Path | None) -> None:
    """Say what is installed, what is missing and which extra brings it."""
    from codeaudit.doctor import checks_to_json, examine, print_checks

    checks = examine(cache)
    if format_ == "json":
        from codeaudit.report.json import json_text

        click.echo(json_text(checks_to_json(checks)), nl=False)
    else:
        print_checks(checks, sys.stdout)
    if any(check.broken for check in checks):
        raise SystemExit(ERROR)


@commands.group()
def cache() -> None:
    """Where clones and parsed files are kept."""


@cache.command("dir")
@cache_option
def cache_dir(cache: Path | None) -> None:
    """Print the cache folder."""
    from codeaudit.store import default_cache_dir

    click.echo(str(default_cache_dir(cache)))


@cache.command("clear")
@cache_option
def cache_clear(cache: Path | None) -> None:
    """Delete the clones and parsed files that can be made again; run directories stay."""
    from codeaudit.store import Cache, default_cache_dir

    root = default_cache_dir(cache)
    click.echo(f"freed {Cache(root).clear() / 1e6:.1f} MB in {printable(str(root))}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on `argv` (default: the process's); the exit code. Prints no traceback unless asked to."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = commands.main(arguments, prog_name="codeaudit", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else FINE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FINE if stop.code is None else ERROR
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ERROR
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        help_ = f"; see `{context.command_path} --help`" if context else ""
        return _complain(f"error: {error.format_message().rstrip('.')}{help_}")
    except UserError as error:
        return _complain(f"error: {error}")
    except (extras.Interrupted, KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):  # say nothing, also not when the interpreter flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if "--traceback" in arguments[:1]:
            raise
        said = str(error).partition("\n")[0]
        return _complain(
            f"internal error: {type(error).__name__}: {said}; please report it "
            f"(`codeaudit --traceback {arguments[0] if arguments else ''} …` shows where)"
        )


def _complain(message: str) -> int:
    """One line on the error stream, with nothing in it that could drive a terminal."""
    sys.stderr.write(printable(" ".join(message.splitlines())) + "\n")
    return ERROR
