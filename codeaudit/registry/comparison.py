"""A scan held against an entry, site by site, and against what was printed. Pure: scans nothing and shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from codeaudit.evaluation.sites import EvaluationSite, Place, Summary
from codeaudit.registry.entries import Classification, PublishedAudit, RegistryEntry, SiteOfRecord

Status = Literal["agrees", "moved", "disagrees", "not found", "not on record"]

_CLASSES = ("rule", "provenance", "procedure", "role", "agent", "epsilon")
NOT_CITED = "not found"  # of evidence on record that the scan has none of
_EVIDENCE = ("default_site", "sink", "env_site", "report_site")
_NEAR = 2  # lines between two places that may be one call


@dataclass(frozen=True)
class Difference:
    """One thing of which record and scan say different things."""

    what: str
    recorded: str
    found: str

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "recorded": self.recorded, "found": self.found}


@dataclass(frozen=True)
class SiteComparison:
    """One site of the record with its site of the scan; either may be missing."""

    status: Status
    recorded: SiteOfRecord | None
    found: EvaluationSite | None
    differences: tuple[Difference, ...] = ()  # of classes
    elsewhere: tuple[Difference, ...] = ()  # of evidence: shown, and no disagreement

    @property
    def id(self) -> str:
        return self.recorded.site.id if self.recorded else self.found.id if self.found else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "recorded": _reference(self.recorded.site if self.recorded else None),
            "found": _reference(self.found),
            "differences": [item.to_json() for item in self.differences],
            "evidence_elsewhere": [item.to_json() for item in self.elsewhere],
        }


@dataclass(frozen=True)
class PrintedComparison:
    """One printed statement held against scan and record."""

    printed: str
    status: Status
    detail: str

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class EntryComparison:
    """Everything that a fresh scan says about one entry."""

    sites: tuple[SiteComparison, ...] = ()
    summary: tuple[Difference, ...] = ()
    printed: tuple[PrintedComparison, ...] = ()
    absent: tuple[Place, ...] = ()  # recorded places at which the commit has no line

    @property
    def disagrees(self) -> bool:
        """Whether scan and record contradict each other. What others printed and where evidence lies don't count."""
        wrong = ("disagrees", "not found", "not on record")
        return bool(self.summary or self.absent or any(site.status in wrong for site in self.sites))

    def to_json(self) -> dict[str, Any]:
        return {
            "agrees": not self.disagrees,
            "summary": [item.to_json() for item in self.summary],
            "sites": [site.to_json() for site in self.sites],
            "published": [item.to_json() for item in self.printed],
            "absent_lines": [f"{place.file}:{place.line}" for place in self.absent],
        }


def compare_entry(
    entry: RegistryEntry, summary: Summary, sites: Sequence[EvaluationSite], absent: Sequence[Place] = ()
) -> EntryComparison:
    """An entry against the summary and sites of a scan at its commit."""
    if entry.classification is None:
        return EntryComparison(absent=tuple(absent))
    compared = compare_sites(entry.classification, sites)
    return EntryComparison(
        sites=tuple(compared),
        summary=tuple(_summary_differences(entry.classification, summary)),
        printed=tuple(compare_printed(entry.published, entry.commit, compared, summary, sites))
        if entry.published
        else (),
        absent=tuple(absent),
    )


def compare_sites(record: Classification, sites: Sequence[EvaluationSite]) -> list[SiteComparison]:
    """Every site of the record, then those that the scan has besides. A selection says nothing about the latter."""
    recorded = [item.site for item in record.sites]
    pairs = matched(recorded, sites)
    compared = [
        _compared(item, sites[pairs[index]] if index in pairs else None) for index, item in enumerate(record.sites)
    ]
    taken = set(pairs.values())
    if record.complete:
        compared += [
            SiteComparison("not on record", None, site) for index, site in enumerate(sites) if index not in taken
        ]
    return compared


def matched(left: Sequence[EvaluationSite], right: Sequence[EvaluationSite]) -> dict[int, int]:
    """Which site of `left` is which of `right`: same file and line, else same function, the likest classes first."""
    candidates = []
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            distance = abs(one.line - other.line)
            name = one.function.rpartition(".")[2]
            same_function = name == other.function.rpartition(".")[2] and name != "<module>"  # which is no name at all
            if one.file == other.file and (distance <= _NEAR or same_function):
                candidates.append((distance > 0, len(list(class_differences(one, other))), distance, i, j))
    pairs: dict[int, int] = {}
    for *_, i, j in sorted(candidates):
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    return pairs


def class_differences(recorded: EvaluationSite, found: EvaluationSite) -> Iterator[Difference]:
    """The classes in which two sites differ. A role that the record leaves out is not compared."""
    for name in _CLASSES:
        one, other = getattr(recorded, name), getattr(found, name)
        if one == other or (name == "role" and one == "unknown") or (name == "epsilon" and None in (one, other)):
            continue
        yield Difference(name, f"{one}", f"{other}")


def _compared(item: SiteOfRecord, found: EvaluationSite | None) -> SiteComparison:
    if found is None:
        return SiteComparison("not found", item, None)
    differences = tuple(class_differences(item.site, found))
    status: Status = "disagrees" if differences else "agrees" if item.site.line == found.line else "moved"
    return SiteComparison(status, item, found, differences, tuple(_elsewhere(item.site, found)))


def _elsewhere(recorded: EvaluationSite, found: EvaluationSite) -> Iterator[Difference]:
    known = places_of(found)
    for name in _EVIDENCE:
        one: Place | None = getattr(recorded, name)
        other: Place | None = getattr(found, name)
        near = one and any(place.file == one.file and abs(place.line - one.line) <= _NEAR for place in known)
        if one is not None and not near:
            yield Difference(name, _at(one), _at(other) if other else NOT_CITED)


def _summary_differences(record: Classification, summary: Summary) -> Iterator[Difference]:
    found = summary.to_json()
    for key, value in record.summary.to_json().items():
        if found[key] != value:
            yield Difference(key, _plain(value), _plain(found[key]))


# --- what others printed ---------------------------------------------------------------------------------------------


def compare_printed(
    printed: PublishedAudit,
    commit: str,
    compared: Sequence[SiteComparison],
    summary: Summary,
    sites: Sequence[EvaluationSite],
) -> Iterator[PrintedComparison]:
    """Commit, classes and lines as printed, each against the scan, with the record's word where a line is another's."""
    if printed.commit:
        if commit.startswith(printed.commit):
            yield PrintedComparison(f"commit {printed.commit}", "agrees", "")
        else:
            detail = f"the audited commit is {commit[: max(12, len(printed.commit))]}"
            yield PrintedComparison(f"commit {printed.commit}", "not found", detail)
    classes = printed.classes
    if classes.heldout_evaluation is not None:
        said = "held-out evaluation" if classes.heldout_evaluation else "no held-out evaluation"
        same = classes.heldout_evaluation == summary.heldout_evaluation
        yield PrintedComparison(said, "agrees" if same else "disagrees", "" if same else "the scan says otherwise")
    for name in printed.concerns:
        one = next((item for item in compared if item.recorded and item.recorded.site.id == name), None)
        yield from _printed_classes(printed, name, one.found if one else None)
    on_record = {place for item in compared if item.recorded for place in places_of(item.recorded.site)}
    for line in printed.lines:
        shows = line.shows
        if line.moved_to is not None:
            detail = _joined(shows, f"{_at(line.moved_to)} is meant: {line.why}")
            yield PrintedComparison(_at(line.at), "moved", detail)
        elif has_evidence(sites, line.at):
            yield PrintedComparison(_at(line.at), "agrees", shows)
        elif line.at in on_record:
            yield PrintedComparison(_at(line.at), "agrees", _joined(shows, "the record cites it, the scan doesn't"))
        else:
            yield PrintedComparison(_at(line.at), "not found", _joined(shows, "no evidence there"))


def _printed_classes(printed: PublishedAudit, name: str, found: EvaluationSite | None) -> Iterator[PrintedComparison]:
    said = [
        (value, getattr(found, key, None))
        for key in ("rule", "provenance")
        if (value := getattr(printed.classes, key)) is not None
    ]
    if printed.classes.in_loop is not None:
        said.append(("in_loop" if printed.classes.in_loop else "fixed_checkpoint", found.procedure if found else None))
    for value, there in said:
        if found is None:
            yield PrintedComparison(str(value), "not found", f"the scan has no site {name}")
        else:
            detail = "" if value == there else f"the scan says {there} at {found.file}:{found.line}"
            yield PrintedComparison(str(value), "agrees" if value == there else "disagrees", detail)


def places_of(site: EvaluationSite) -> set[Place]:
    """Every line that a site rests on."""
    named = {place for name in _EVIDENCE if (place := getattr(site, name)) is not None}
    return {step.place for step in site.evidence} | named


def has_evidence(sites: Sequence[EvaluationSite], place: Place) -> bool:
    """Whether some site of a scan rests on this line: inside its call, or on its chain of evidence."""
    for site in sites:
        if site.file == place.file and site.line <= place.line <= site.end_line:
            return True
        if place in places_of(site):
            return True
    return False


def recorded_places(entry: RegistryEntry) -> list[Place]:
    """Every line that an entry names, sorted, each once."""
    found: set[Place] = set()
    for item in entry.classification.sites if entry.classification else ():
        found |= places_of(item.site)
    for line in entry.published.lines if entry.published else ():
        found |= {line.at} | ({line.moved_to} if line.moved_to else set())
    return sorted(found)


def _reference(site: EvaluationSite | None) -> dict[str, Any] | None:
    if site is None:
        return None
    classes = {name: getattr(site, name) for name in _CLASSES if getattr(site, name) is not None}
    return {"id": site.id, "file": site.file, "line": site.line, "function": site.function, **classes}


def _at(place: Place) -> str:
    return f"{place.file}:{place.line}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _plain(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
