"""Scans entries at their commits, several at once, and compares each. Knows no format and prints nothing.

A unit is one entry. Its result is kept under everything that it depends on, so that a killed run goes on where it
stopped and a changed entry or tool is looked at anew. What fails is not kept: it is tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place, Summary
from codeaudit.executor import map_units, open_executor
from codeaudit.registry.comparison import EntryComparison, compare_entry, recorded_places
from codeaudit.registry.entries import RegistryEntry
from codeaudit.registry.lines import SourceLines, read_lines, usable_dependencies
from codeaudit.scan import code_version, scan
from codeaudit.store import RunDirectory, default_cache_dir
from codeaudit.text import printable

CONTEXT = 4  # lines kept above and below a place
Progress = Callable[[str, int, int], None]  # (stage, done, total)


@dataclass(frozen=True)
class Checked:
    """One entry after its check: the comparison, or why there is none."""

    entry: RegistryEntry
    comparison: EntryComparison | None
    failure: str = ""
    notes: tuple[str, ...] = ()
    lines: SourceLines = field(default_factory=SourceLines)  # around each recorded place and each call that was found

    @property
    def outcome(self) -> str:
        """`agrees`, `disagrees`, `failed`, or `nothing on record`."""
        if self.comparison is None:
            return "failed"
        if self.entry.classification is None:
            return "nothing on record"
        return "disagrees" if self.comparison.disagrees else "agrees"

    def to_json(self) -> dict[str, Any]:
        report: dict[str, Any] = {
            "id": self.entry.id,
            "target": self.entry.target,
            "outcome": self.outcome,
            "notes": list(self.notes),
        }
        if self.comparison is None:
            report["failure"] = self.failure
        else:
            report["comparison"] = self.comparison.to_json()
        return report


@dataclass(frozen=True)
class _Unit:
    entry: RegistryEntry
    mirrors: tuple[Path, ...]
    cache: Path


def check_entries(
    entries: Sequence[RegistryEntry],
    *,
    workers: int = 1,
    executor: str = "",
    cache: Path | None = None,
    mirrors: Sequence[Path] = (),
    run: Path | None = None,
    progress: Progress | None = None,
) -> list[Checked]:
    """Each entry compared with a fresh scan at its commit, in the order given.

    `run` is a folder that keeps finished entries (default: one in the cache). A repository that can't be read fails its
    own entry only. Raises UserError for a folder or executor that can't be used.
    """
    root = default_cache_dir(cache)
    directory = RunDirectory(run or root / "runs" / "registry-check", {"command": "registry check", "layout": 1})
    say = progress or (lambda stage, done, total: None)
    found: dict[int, Mapping[str, Any]] = {}
    keys = [_key(entry) for entry in entries]
    for index, key in enumerate(keys):
        if (kept := directory.unit(key)) is not None:
            found[index] = json.loads(kept)
    missing = [index for index in range(len(entries)) if index not in found]
    done = len(found)
    say("check", done, len(entries))

    def keep(position: int, result: Mapping[str, Any]) -> None:
        nonlocal done
        index = missing[position]
        found[index] = result
        if "failure" not in result:
            directory.save(keys[index], json.dumps(result, sort_keys=True).encode())
        done += 1
        say("check", done, len(entries))

    if missing:
        units = [_Unit(entries[index], tuple(mirrors), root) for index in missing]
        with open_executor(executor, min(workers, len(missing)) if executor in ("", "local") else workers) as pool:
            map_units(pool, _examine, units, on_done=keep)
    return [_checked(entry, found[index]) for index, entry in enumerate(entries)]


def _key(entry: RegistryEntry) -> str:
    """Everything that the result of a unit depends on: the tool, the commits, and the lines to look at."""
    wanted = [f"{place.file}:{place.line}" for place in recorded_places(entry)]
    depends = [code_version(), entry.target, *(f"{one.name}={one.target}" for one in entry.dependencies), wanted]
    return f"{entry.id}-{hashlib.sha256(json.dumps(depends).encode()).hexdigest()}"


def _examine(unit: _Unit) -> Mapping[str, Any]:
    """One unit, in whichever process. Whatever goes wrong with this entry is its result."""
    entry = unit.entry
    try:
        dependencies, notes = usable_dependencies(entry, cache=unit.cache, mirrors=unit.mirrors)
        result = scan(entry.target, cache=unit.cache, mirrors=unit.mirrors, dependencies=dependencies)
        calls = [Place(site.file, site.line) for site in result.sites]
        lines = read_lines(
            entry.target,
            dependencies,
            [*recorded_places(entry), *calls],
            context=CONTEXT,
            cache=unit.cache,
            mirrors=unit.mirrors,
        )
    except UserError as error:
        return {"failure": str(error)}
    except Exception as error:  # a fault of ours in one repository must not take the others with it
        return {"failure": f"internal error: {type(error).__name__}: {printable(str(error))[:300]}"}
    return {
        "summary": result.summary.to_json(),
        "sites": [asdict(site) for site in result.sites],
        "notes": [f"scanned {note}" for note in notes],
        "lines": lines.to_json(),
    }


def _checked(entry: RegistryEntry, result: Mapping[str, Any]) -> Checked:
    if "failure" in result:
        return Checked(entry, None, str(result["failure"]))
    lines = SourceLines.from_json(result["lines"])
    sites = [_site(item) for item in result["sites"]]
    absent = [place for place in recorded_places(entry) if lines.known(place) and not lines.at(place).strip()]
    comparison = compare_entry(entry, Summary(**result["summary"]), sites, absent)
    return Checked(entry, comparison, notes=tuple(result["notes"]), lines=lines)


def _site(value: Mapping[str, Any]) -> EvaluationSite:
    def place(item: Mapping[str, Any] | None) -> Place | None:
        return Place(**item) if item else None

    fields = dict(value)
    for name in ("default_site", "sink", "env_site", "report_site"):
        fields[name] = place(fields[name])
    fields["evidence"] = tuple(Evidence(Place(**step["place"]), step["what"]) for step in fields["evidence"])
    fields["predictions"] = tuple(fields["predictions"])
    return EvaluationSite(**fields)
