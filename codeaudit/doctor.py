"""What of codeaudit is installed, what is missing, which extra brings it. Looks only; installs and repairs nothing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, util
from pathlib import Path
from typing import IO, Any, Literal

from codeaudit import __version__, store
from codeaudit.extras import BROUGHT_BY, KNOWN, NEEDS, install_hint
from codeaudit.text import printable

OLDEST_GIT = (2, 29)
BASE = ("click", "libcst", "yaml", "rich")
State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    part: str  # "base", the name of an extra, or "machine"
    name: str
    state: State
    detail: str  # a version, a path, or what to do

    @property
    def broken(self) -> bool:
        """Whether the base install can't work; a missing extra is no fault."""
        return self.state == "broken"

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def examine(cache: Path | None = None) -> list[Check]:
    """Every check, in the order of the report. `cache` overrides where the cache is looked for."""
    return [
        Check("base", "codeaudit", "ok", __version__),
        Check("base", "python", "ok", f"{platform.python_version()} on {platform.system()} ({sys.executable})"),
        _git(),
        *(_package("base", name) for name in BASE),
        *(_package(extra, name, purpose) for name, (extra, purpose) in BROUGHT_BY.items()),
        *(_command(name) for name in KNOWN),
        _cache(store.default_cache_dir(cache)),
        *_folders("CODEAUDIT_MIRROR"),
        *_folders("CODEAUDIT_CHECKPOINTS"),
    ]


def _git() -> Check:
    path = shutil.which("git")
    if path is None:
        return Check("base", "git", "broken", "not found; install git 2.29 or newer")
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Check("base", "git", "broken", f"{path} does not run: {error}")
    words = said.split()
    numbers = tuple(int(part) for part in words[2].split(".")[:2] if part.isdigit()) if len(words) > 2 else ()
    if numbers and numbers < OLDEST_GIT:
        return Check("base", "git", "broken", f"{said}; 2.29 or newer is needed")
    return Check("base", "git", "ok", said.removeprefix("git version "))


def _package(part: str, name: str, purpose: str = "") -> Check:
    """Whether a package is there, without importing it."""
    if util.find_spec(name) is not None:
        return Check(part, name, "ok", _version(name))
    if part == "base":
        return Check(part, name, "broken", "missing; install rl-codeaudit again")
    return Check(part, name, "missing", f"{purpose}: {install_hint(part)}")


def _version(name: str) -> str:
    for distribution in _distributions().get(name, ()):
        return metadata.version(distribution)
    return "version unknown"


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    """Which distributions bring an import name; reads the metadata of everything that is installed."""
    return metadata.packages_distributions()


def _command(name: str) -> Check:
    found = util.find_spec("codeaudit_runtime") is not None
    extra = NEEDS.get(name, "runtime")
    parts = {"variation"} if extra == "variation" else {"runtime", extra}
    needs = [package for package, (part, _) in BROUGHT_BY.items() if part in parts and util.find_spec(package) is None]
    if found and not needs:
        return Check("commands", name, "ok", KNOWN[name])
    return Check("commands", name, "missing", install_hint(extra))


def _cache(folder: Path) -> Check:
    if not folder.exists():
        return Check("machine", "cache", "ok", f"{folder} (not there yet)")
    if not os.access(folder, os.W_OK):
        return Check("machine", "cache", "broken", f"{folder} is not writable; choose another with CODEAUDIT_CACHE")
    return Check("machine", "cache", "ok", f"{folder}, {store.Cache(folder).size() / 1e6:.1f} MB")


def _folders(variable: str) -> list[Check]:
    """One check for each folder that an environment variable names."""
    return [
        Check("machine", variable, "ok", folder)
        if Path(folder).is_dir()
        else Check("machine", variable, "missing", f"{folder} is no folder")
        for folder in os.environ.get(variable, "").split(os.pathsep)
        if folder
    ]


def checks_to_json(checks: list[Check]) -> dict[str, Any]:
    """The same as plain data."""
    return {"schema": "codeaudit.doctor/1", "checks": [check.to_json() for check in checks]}


def print_checks(checks: list[Check], file: IO[str]) -> None:
    """A table for a person."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    marks = {"ok": ("ok", "green"), "missing": ("missing", "yellow"), "broken": ("broken", "bold red")}
    table = Table.grid(padding=(0, 2))
    for overflow in ("ellipsis", "ellipsis", "ellipsis", "fold"):
        table.add_column(overflow=overflow)
    part = ""
    for check in checks:
        mark = Text(*marks[check.state])
        table.add_row(Text(check.part if check.part != part else "", "bold"), check.name, mark, printable(check.detail))
        part = check.part
    Console(file=file, highlight=False, emoji=False, markup=False).print(table)
