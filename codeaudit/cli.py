"""The command line: each command parses, calls one public function and renders. It decides nothing itself.

Everything but click is imported inside the command that needs it: a warm scan must start and end within half a second.
"""

from __future__ import annotations

import click

from codeaudit import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="codeaudit", message="%(prog)s %(version)s")
def commands() -> None:
    """Which policy do the reported test returns of a reinforcement-learning codebase measure?"""


@commands.command()
@click.argument("target")
@click.option("--format", "--output-format", "format_", type=click.Choice(["terminal", "json"]), default="terminal")
def scan(target: str, format_: str) -> None:
    """Classify every evaluation site of TARGET."""
    import json

    from codeaudit.scan import scan as scan_target

    click.echo(json.dumps(scan_target(target).to_json(), indent=2))


def main() -> int:
    """Run the command line; the exit code."""
    commands()
    return 0
