"""The command line: each command parses, calls one public function and renders. It decides nothing itself.

Everything but click is imported inside the command that needs it: a warm scan must start and end within half a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from codeaudit import __version__, extras
from codeaudit.errors import UserError
from codeaudit.text import printable

FINE, ERROR, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141
SCAN_FORMATS = ("terminal", "json", "markdown", "html")


class ReaderGone(Exception):
    """Whoever read our output went away, as `| head` does."""


class Commands(click.Group):
    """The commands of this file, then those that optional parts offer; the latter are looked up only when named."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or extras.mounted(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *extras.mounted_names()})

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

    Exit codes: 0 fine, 1 findings or disagreement, 2 an error that a person must fix.
    """


def workers_by_default() -> int:
    """As many as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="CODEAUDIT_CACHE",
    metavar="DIR",
    help="Where clones and parsed files are kept (default: the user's cache folder).",
)


@commands.command()
@click.argument("target", metavar="TARGET")
@click.option(
    "--format",
    "--output-format",
    "format_",
    type=click.Choice(SCAN_FORMATS),
    default="terminal",
    show_default=True,
    help="What to print.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report there instead of printing it.",
)
@click.option("--workers", type=click.IntRange(1, 1024), metavar="N", help="Processes that parse (default: all cores).")
@cache_option
@click.option(
    "--mirror",
    "mirrors",
    type=click.Path(path_type=Path),
    multiple=True,
    envvar="CODEAUDIT_MIRROR",
    metavar="DIR",
    help="A folder of git repositories named OWNER+NAME, tried first; repeatable.",
)
@click.option(
    "--library",
    "libraries",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A YAML model of a library's behaviour, beside those shipped; repeatable.",
)
@click.option(
    "--with",
    "dependencies",
    multiple=True,
    metavar="NAME=TARGET",
    help="Look into the source of a dependency too; repeatable.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress, and nothing but the sites.")
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

    named = _named_targets(dependencies)
    with _progress(quiet) as progress:
        result = scan_target(
            target,
            workers=workers or workers_by_default(),
            cache=cache,
            mirrors=mirrors,
            libraries=libraries,
            dependencies=named,
            progress=progress,
        )
    with _report_file(output) as file:
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


def _named_targets(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=TARGET` options as a mapping."""
    named: dict[str, str] = {}
    for pair in pairs:
        name, equals, target = pair.partition("=")
        if not (equals and name and target):
            raise UserError(
                f"--with {pair!r} is not NAME=TARGET", hint="for example --with baselines=owner/baselines@0a1b2c3d"
            )
        if name in named:
            raise UserError(f"--with names {name} twice", hint="give each dependency once")
        named[name] = target
    return named


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """A callback (stage, done, total) that draws on the terminal's error stream; None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from codeaudit.report.progress import progress

    with progress() as callback:
        yield callback


@contextmanager
def _report_file(output: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a file that appears whole or not at all."""
    if output is None:
        yield sys.stdout
        return
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(output)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}", hint="choose another --output") from error
    finally:
        draft.unlink(missing_ok=True)


@commands.command()
@click.argument("report", type=click.Choice(["scan"]))
def schema(report: str) -> None:
    """Print the JSON Schema of a report."""
    from importlib.resources import files

    click.echo(files("codeaudit").joinpath("schemas").joinpath(f"{report}.schema.json").read_text("utf-8"), nl=False)


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
