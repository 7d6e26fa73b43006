"""Registry entries from YAML files: find, check line by line, build. Compares nothing with any code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place, Summary
from codeaudit.evaluation.summary import summarise
from codeaudit.registry.document import Document, Problem, Said, check, read_document
from codeaudit.registry.entries import (
    CheckpointEntry,
    Classification,
    Dependency,
    FileSource,
    PrintedClasses,
    PrintedLine,
    Published,
    PublishedAudit,
    RegistryEntry,
    SiteOfRecord,
)
from codeaudit.text import printable

_PACKAGE = Path(__file__).resolve().parent.parent
_SHIPPED = (_PACKAGE / "_registry", _PACKAGE.parent / "registry")  # installed, and in a work tree
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LARGEST = 4 << 20  # bytes of one entry
PLACES = ("default_site", "sink", "env_site", "report_site")


def registry_folders(extra: Sequence[Path] = ()) -> list[Path]:
    """The folders that are looked in: those named first, then the one that is shipped."""
    return [*extra, *(folder for folder in _SHIPPED if folder.is_dir())]


def _there(folders: Sequence[Path]) -> Sequence[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise UserError(
                f"{printable(str(folder))}: there is no such folder", hint="name a folder of *.yaml entries"
            )
    return folders


def entry_files(folders: Sequence[Path]) -> dict[str, Path]:
    """The file of each entry by id, sorted; an id in several folders is that of the first. UserError for no folder."""
    found: dict[str, Path] = {}
    for folder in _there(folders):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def load_entries(folders: Sequence[Path], ids: Sequence[str] = ()) -> list[RegistryEntry]:
    """The entries named, or all of them, in the order of their ids. UserError for the first that is malformed."""
    if ids:
        return [load_entry(entry_id, folders) for entry_id in dict.fromkeys(ids)]
    return [_entry_of(path) for path in entry_files(folders).values()]


def load_entry(entry_id: str, folders: Sequence[Path]) -> RegistryEntry:
    """The entry `entry_id`, from the first folder that has it. UserError where none has it or it is malformed."""
    if not _ID.fullmatch(entry_id):
        raise UserError(f"{printable(entry_id)!r} is no entry id", hint="see `codeaudit registry list`")
    for folder in _there(folders):
        path = folder / f"{entry_id}.yaml"
        if path.is_file():
            return _entry_of(path)
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    raise UserError(f"no registry entry {entry_id!r}", hint=f"known: {', '.join(known) or 'none'}")


def _entry_of(path: Path) -> RegistryEntry:
    entry, problems = read_entry(path)
    if entry is None or problems:
        more = f" (and {len(problems) - 1} more)" if problems[1:] else ""
        raise UserError(f"{problems[0]}{more}", hint=f"`codeaudit registry validate {printable(str(path))}` says all")
    return entry


def read_entry(path: Path) -> tuple[RegistryEntry | None, list[Problem]]:
    """The entry of a file, and everything that is wrong with it, in the order of lines."""
    name = str(path)
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            return None, [Problem(name, 1, f"{size:,} bytes, over the limit of {_LARGEST:,}")]
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        return None, [Problem(name, 1, f"can't be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        return None, [Problem(name, line, "not UTF-8 text")]
    return entry_from_text(text, path)


def entry_from_text(text: str, path: Path) -> tuple[RegistryEntry | None, list[Problem]]:
    """As `read_entry`, for text that is or will be in the file `path`."""
    document, problems = read_document(str(path), text)
    if document is None:
        return None, problems
    said = list(check(document.value, schema()))
    try:
        said += _loose_ends(document.value, path)
    except (KeyError, TypeError, AttributeError):  # they hang on a part that is malformed and told of already
        assert said
    if not said and not problems:
        said += _contradictions(document.value)
    told = {problem.line for problem in problems}
    problems += [problem for item in said if (problem := document.problem(*item)).line not in told]
    return (None, sorted(problems)) if problems else (_entry(document, path), [])


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of an entry."""
    loaded: Mapping[str, Any] = json.loads(schema_text())
    return loaded


def schema_text() -> str:
    return files("codeaudit").joinpath("schemas").joinpath("registry.schema.json").read_text("utf-8")


def place(text: str) -> Place:
    """`path:line`, or `NAME:path:line` in a dependency."""
    file, _, line = text.rpartition(":")
    return Place(file, int(line))


# --- what no schema can say ------------------------------------------------------------------------------------------


def _loose_ends(value: Mapping[str, Any], path: Path) -> Iterator[Said]:
    """Names that are given twice or lead nowhere."""
    if value["id"] != path.stem:
        yield ("id",), f"id is `{value['id']}`, and the file is called {printable(path.name)}"
    for name in ("dependencies", "checkpoints"):
        key = "name" if name == "dependencies" else "id"
        yield from _twice(value.get(name, []), key, (name,))
    sites = value.get("classification", {"sites": []})["sites"]
    yield from _twice(sites, "id", ("classification", "sites"))
    names = {item["name"] for item in value.get("dependencies", [])}
    for way, text in _places(value):
        name, colon, _ = text.rpartition(":")[0].partition(":")
        if colon and name not in names:
            yield way, f"`{printable(text)}` lies in `{printable(name)}`, which is not among the dependencies"
    ids = {site["id"] for site in sites}
    for index, name in enumerate(value.get("published", {}).get("concerns", [])):
        if name not in ids:
            yield ("published", "concerns", index), f"`{printable(str(name))}` is not the id of a site of this entry"


def _contradictions(value: Mapping[str, Any]) -> Iterator[Said]:
    """Parts that are well-formed and can't both be true."""
    classification = value.get("classification", {"sites": []})
    sites = classification["sites"]
    for index, site in enumerate(sites):
        where = ("classification", "sites", index)
        if "epsilon" in site and site["rule"] != "epsilon_greedy":
            yield (*where, "epsilon"), f"site `{site['id']}` has an epsilon, and its rule is {site['rule']}"
        if site["provenance"] == "inherited_default" and "default_site" not in site:
            yield where, f"site `{site['id']}` inherits a default and needs `default_site`, the line of that default"
    if "classification" in value:
        written = classification["summary"]
        for key, follows in summarise([_site(site) for site in sites]).to_json().items():
            if written[key] != follows and classification.get("complete", True):
                way = ("classification", "summary", key)
                yield way, f"summary.{key} is {_yaml(written[key])}, and from the sites follows {_yaml(follows)}"


def _twice(items: Sequence[Mapping[str, Any]], key: str, way: tuple[str, ...]) -> Iterator[Said]:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if item[key] in first:
            yield (*way, index, key), f"{way[-1]}[{first[item[key]] + 1}] is called `{item[key]}` too"
        first.setdefault(item[key], index)


def _places(value: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for index, site in enumerate(value.get("classification", {}).get("sites", [])):
        where = ("classification", "sites", index)
        for name in ("at", *PLACES):
            if name in site:
                yield (*where, name), site[name]
        for number, step in enumerate(site.get("evidence", [])):
            yield (*where, "evidence", number, "at"), step["at"]
    for index, line in enumerate(value.get("published", {}).get("lines", [])):
        for name in ("at", "moved_to"):
            if name in line:
                yield ("published", "lines", index, name), line[name]


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- from values to data classes -------------------------------------------------------------------------------------


def _entry(document: Document, path: Path) -> RegistryEntry:
    value: Mapping[str, Any] = document.value
    published = value.get("published", {})
    return RegistryEntry(
        id=value["id"],
        title=value["title"],
        url=value["repository"]["url"],
        commit=value["repository"]["commit"],
        published_site=published.get("site", ""),
        checkpoints=tuple(_checkpoint(item) for item in value.get("checkpoints", [])),
        folder=path.parent,
        venue=value.get("venue", ""),
        paper=value.get("paper", ""),
        collection=value.get("collection", ""),
        reviewed=value.get("reviewed", True),
        dependencies=tuple(Dependency(**item) for item in value.get("dependencies", [])),
        classification=_classification(value["classification"]) if "classification" in value else None,
        published=_audit(published) if "source" in published else None,
        notes=tuple(value.get("notes", [])),
    )


def _classification(value: Mapping[str, Any]) -> Classification:
    return Classification(
        summary=Summary(**value["summary"]),
        sites=tuple(SiteOfRecord(_site(item), item.get("note", "")) for item in value["sites"]),
        complete=value.get("complete", True),
        note=value.get("note", ""),
    )


def _site(value: Mapping[str, Any]) -> EvaluationSite:
    at = place(value["at"])
    default_site, sink, env_site, report_site = (place(value[name]) if name in value else None for name in PLACES)
    return EvaluationSite(
        id=value["id"],
        file=at.file,
        line=at.line,
        end_line=at.line,
        function=value["function"],
        agent=value["agent"],
        rule=value["rule"],
        provenance=value["provenance"],
        procedure=value["procedure"],
        role=value.get("role", "unknown"),
        confidence=value.get("confidence", "high"),
        epsilon=value.get("epsilon"),
        evidence=(
            Evidence(at, "selects the action"),
            *(Evidence(place(step["at"]), step["what"]) for step in value.get("evidence", [])),
        ),
        default_site=default_site,
        sink=sink,
        env_site=env_site,
        report_site=report_site,
    )


def _audit(value: Mapping[str, Any]) -> PublishedAudit:
    return PublishedAudit(
        source=value["source"],
        commit=value.get("commit", ""),
        evidence=value.get("evidence", ""),
        stochastic=value.get("stochastic", ""),
        in_loop=value.get("in_loop", ""),
        concerns=tuple(value.get("concerns", [])),
        classes=PrintedClasses(**value.get("classes", {})),
        lines=tuple(
            PrintedLine(
                place(item["at"]),
                item.get("shows", ""),
                place(item["moved_to"]) if "moved_to" in item else None,
                item.get("why", ""),
            )
            for item in value.get("lines", [])
        ),
        differences=tuple(value.get("differences", [])),
    )


def _checkpoint(value: Mapping[str, Any]) -> CheckpointEntry:
    published = value.get("published")
    return CheckpointEntry(
        id=value["id"],
        source=_source(value["source"]),
        format=value["format"],
        algorithm=value["algorithm"],
        environment=value["environment"],
        run_as=value.get("run_as", value["environment"]),
        normalization=_source(value["normalization"]) if "normalization" in value else None,
        published=Published(
            float(published["mean"]), float(published["std"]), published["episodes"], published.get("line", "")
        )
        if published
        else None,
        note=value.get("note", ""),
    )


def _source(value: Mapping[str, Any]) -> FileSource:
    return FileSource(value.get("file", ""), value.get("git", ""), value["sha256"])
