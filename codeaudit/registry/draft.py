"""A scan as a draft of an entry, for a person to check: YAML text that the reader takes. Never overwrites an entry."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.registry.read import entry_from_text
from codeaudit.scan import Progress, Scan, scan
from codeaudit.snapshot import open_snapshot
from codeaudit.store import default_cache_dir
from codeaudit.target import parse_target
from codeaudit.text import printable

_WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z<][\w .,;/()'<>-]*[\w.)>]", re.ASCII)
_RESERVED = ("yes", "no", "true", "false", "on", "off", "null", "y", "n")


@dataclass(frozen=True)
class Draft:
    """A drafted entry, and where it was written."""

    id: str
    text: str
    path: Path | None


def add_entry(
    target: str,
    *,
    entry_id: str = "",
    folder: Path | None = None,
    dependencies: Mapping[str, str] | None = None,
    workers: int = 1,
    cache: Path | None = None,
    mirrors: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Draft:
    """Scan `target` and draft an entry, kept in `folder` where one is given. UserError where that id is taken."""
    named = dependencies or {}
    result = scan(target, workers=workers, cache=cache, mirrors=mirrors, dependencies=named, progress=progress)
    pinned = []
    for name, other in named.items():
        snapshot = open_snapshot(parse_target(other), mirrors=mirrors, cache=default_cache_dir(cache))
        pinned.append((name, snapshot.repo, snapshot.commit))
    name, text = draft_entry(result, entry_id, pinned)
    path = (folder or Path()) / f"{name}.yaml"
    _, problems = entry_from_text(text, path)
    if problems:
        raise UserError(f"no entry can be drafted: {problems[0].what}", hint="give another --id, or write it by hand")
    if folder is None:
        return Draft(name, text, None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{printable(str(path))} is there already", hint="give another --id") from None
    except OSError as error:
        raise UserError(f"{printable(str(path))}: {error.strerror}", hint="choose another --registry") from None
    return Draft(name, text, path)


def draft_entry(scan: Scan, entry_id: str = "", dependencies: Sequence[tuple[str, str, str]] = ()) -> tuple[str, str]:
    """(id, YAML text) of an entry as the scan sees it, marked unreviewed.

    `dependencies` are (name, url, commit). Raises UserError for a working tree and for a repository without an address,
    neither of which another person could check.
    """
    target = scan.target
    if target.dirty:
        raise UserError("an entry needs a commit, and this is a working tree", hint="add @COMMIT to the target")
    if not target.repo.startswith(("https://", "http://")):
        raise UserError(
            f"{target.repo}: an entry needs the repository's address, and the clone names no origin",
            hint="give owner/name@commit, with --mirror for a local copy",
        )
    name = entry_id or re.sub(r"[^A-Za-z0-9._-]+", "-", target.repo.removesuffix("/").rpartition("/")[2]).lower()
    return name, "\n".join(_draft(scan, name, dependencies)) + "\n"


def _draft(scan: Scan, name: str, dependencies: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield "# Drafted by `codeaudit registry add`. Check each line against the code, give the sites names and notes of"
    yield "# your own, then take `reviewed: false` away."
    yield f"id: {name}"
    yield f"title: {_text(name)}"
    yield "reviewed: false"
    yield "repository:"
    yield f"  url: {scan.target.repo}"
    yield f'  commit: "{scan.target.commit}"'
    if dependencies:
        yield "dependencies:"
        for dependency, url, commit in dependencies:
            yield from (f"- name: {dependency}", f"  url: {url}", f'  commit: "{commit}"')
    yield "classification:"
    yield "  summary:"
    yield f"    heldout_evaluation: {str(scan.summary.heldout_evaluation).lower()}"
    yield f"    policy_gradient_rule: {scan.summary.policy_gradient_rule}"
    yield f"    in_loop: {str(scan.summary.in_loop).lower()}"
    yield "  sites:" if scan.sites else "  sites: []"
    used: set[str] = set()
    for site in scan.sites:
        yield from _site(site, _site_id(site, used))


def _site(site: EvaluationSite, name: str) -> Iterator[str]:
    yield f"  - id: {name}"
    yield f"    at: {_text(_at(Place(site.file, site.line)))}"
    yield f"    function: {_text(site.function)}"
    yield f"    agent: {site.agent}"
    yield f"    rule: {site.rule}"
    if site.epsilon is not None and site.rule == "epsilon_greedy":
        yield f"    epsilon: {site.epsilon:g}"
    yield f"    provenance: {site.provenance}"
    yield f"    procedure: {site.procedure}"
    if site.role != "unknown":
        yield f"    role: {site.role}"
    said = {Place(site.file, site.line)}
    for key in ("default_site", "sink", "env_site", "report_site"):
        place: Place | None = getattr(site, key)
        if place is not None:
            said.add(place)
            yield f"    {key}: {_text(_at(place))}"
    if site.provenance == "inherited_default" and site.default_site is None:
        yield f"    default_site: {_text(_at(Place(site.file, site.line)))}  # the scan did not find it"
    rest = [step for step in site.evidence if step.place not in said]
    if rest:
        yield "    evidence:"
        for step in rest:
            yield f"    - at: {_text(_at(step.place))}"
            yield f"      what: {_text(step.what)}"
    yield f"    confidence: {site.confidence}"
    if site.unknown:
        yield "    note: >-"
        yield from (f"      {line}" for line in textwrap.wrap(f"Not decided: {site.unknown}.", _WIDTH))


def _site_id(site: EvaluationSite, used: set[str]) -> str:
    stem = site.file.rpartition("/")[2].rpartition(".")[0] or site.file
    function = "" if site.function == "<module>" else site.function
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{stem}-{function}").strip("-").lower() or "site"
    number, unique = 1, name
    while unique in used:
        number += 1
        unique = f"{name}-{number}"
    used.add(unique)
    return unique


def _at(place: Place) -> str:
    return f"{place.file}:{place.line}"


def _text(text: str) -> str:
    """A YAML scalar that reads back as this text."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _RESERVED and not text.startswith("- ")
    place = re.fullmatch(r"[A-Za-z0-9_][\w./-]*(:[A-Za-z0-9_][\w./-]*)?:[0-9]+", text, re.ASCII)
    return text if plain or place else json.dumps(text, ensure_ascii=True)
