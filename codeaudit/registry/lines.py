"""Source lines around places of a repository at a commit, read as data. Decides nothing about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.evaluation.sites import Place
from codeaudit.registry.comparison import recorded_places
from codeaudit.registry.entries import RegistryEntry
from codeaudit.snapshot import open_snapshot
from codeaudit.store import default_cache_dir
from codeaudit.target import parse_target

_LONGEST = 240  # characters of a line


@dataclass(frozen=True)
class SourceLines:
    """Lines by file and number. `files` are those that were looked at, also where they have no such line."""

    texts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def known(self, place: Place) -> bool:
        """Whether the repository of the place could be read."""
        return place.file in self.texts

    def at(self, place: Place) -> str:
        """The line, or "" where the file has none."""
        return self.texts.get(place.file, {}).get(place.line, "")

    def around(self, place: Place, context: int) -> list[tuple[int, str]]:
        """(number, text) of the line and its neighbours, as far as they were read."""
        lines = self.texts.get(place.file, {})
        return [(n, lines[n]) for n in range(place.line - context, place.line + context + 1) if n in lines]

    def to_json(self) -> dict[str, Any]:
        return {file: sorted(lines.items()) for file, lines in sorted(self.texts.items())}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceLines:
        return cls({file: {int(number): str(text) for number, text in lines} for file, lines in value.items()})


def read_lines(
    target: str,
    dependencies: Mapping[str, str],
    places: Iterable[Place],
    *,
    context: int,
    cache: Path,
    mirrors: Sequence[Path] = (),
    allow_network: bool = True,
) -> SourceLines:
    """The lines at and around `places`. UserError where the repository, or a dependency named, can't be read.

    A place in a dependency (`NAME:path`) that is not among `dependencies` is left out.
    """
    wanted: dict[str, set[int]] = {}
    for place in places:
        around = range(place.line - context, place.line + context + 1)
        wanted.setdefault(place.file, set()).update(number for number in around if number > 0)
    found: dict[str, dict[int, str]] = {}
    for prefix, source in (("", target), *((f"{name}:", other) for name, other in sorted(dependencies.items()))):
        snapshot = open_snapshot(parse_target(source), mirrors=mirrors, cache=cache, allow_network=allow_network)
        mine = {file: file.removeprefix(prefix) for file in wanted if _belongs(file, prefix)}
        there = {entry.path for entry in snapshot.entries}
        found.update({file: {} for file in mine})
        names = {path: file for file, path in mine.items() if path in there}
        for path, data in snapshot.read(sorted(names)):
            lines = data.decode("utf-8", "replace").split("\n")
            numbers = [number for number in sorted(wanted[names[path]]) if number <= len(lines)]
            found[names[path]] = {number: lines[number - 1].rstrip("\r")[:_LONGEST] for number in numbers}
    return SourceLines(found)


def _belongs(file: str, prefix: str) -> bool:
    name, colon, _ = file.partition(":")
    inside = bool(colon) and "/" not in name
    return file.startswith(prefix) if prefix else not inside


def usable_dependencies(
    entry: RegistryEntry, *, cache: Path, mirrors: Sequence[Path] = (), allow_network: bool = True
) -> tuple[dict[str, str], list[str]]:
    """The entry's dependencies that can be read (name → target), and why the others can't."""
    usable, notes = {}, []
    for one in entry.dependencies:
        try:
            read_lines(one.target, {}, [], context=0, cache=cache, mirrors=mirrors, allow_network=allow_network)
        except UserError as error:
            notes.append(f"without {one.name}: {error.what}")
        else:
            usable[one.name] = one.target
    return usable, notes


def lines_of_entry(
    entry: RegistryEntry,
    *,
    context: int = 3,
    cache: Path | None = None,
    mirrors: Sequence[Path] = (),
    allow_network: bool = True,
) -> tuple[SourceLines, list[str]]:
    """The lines around every place that an entry names, as far as they can be read, and why some can't."""
    root = default_cache_dir(cache)
    usable, notes = usable_dependencies(entry, cache=root, mirrors=mirrors, allow_network=allow_network)
    places = recorded_places(entry)
    try:
        lines = read_lines(
            entry.target, usable, places, context=context, cache=root, mirrors=mirrors, allow_network=allow_network
        )
    except UserError as error:
        return SourceLines(), [str(error), *notes]
    return lines, notes
