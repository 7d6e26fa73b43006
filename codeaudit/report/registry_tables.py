"""The registry's tables as data: list, field-wide, evidence, check, diff. No format; the numbers come from below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.registry.changes import Changes, SiteChange
from codeaudit.registry.check import Checked
from codeaudit.registry.comparison import NOT_CITED, Difference, SiteComparison, Status
from codeaudit.registry.entries import RegistryEntry
from codeaudit.registry.fieldwide import Row as FieldRow
from codeaudit.registry.fieldwide import Totals, field_rows
from codeaudit.report import words
from codeaudit.report.grid import Cell, Grid, Tone
from codeaudit.report.links import blob_url, is_dependency
from codeaudit.scan import TargetInfo

SET_BY = {
    "explicit": "explicit",
    "config": "config",
    "inherited_default": "default",
    "training_sampler": "training sampler",
    "hard_coded": "hard-coded",
    "framework_default": "framework default",
    "unknown": "unknown",
}
RULE = {**words.RULE, "mixed": "mixed", "none": "none", "unknown": "unknown"}
TONE: dict[Status, Tone] = {
    "agrees": "good",
    "moved": "doubt",
    "disagrees": "bad",
    "not found": "bad",
    "not on record": "bad",
}
_PLACE = {"default_site": "default", "sink": "draw", "env_site": "environment", "report_site": "report"}
_SHORT = 12  # digits of a commit that are shown


def place_url(entry: RegistryEntry, place: Place) -> str:
    """The address of a line at the commit of the entry, or of its dependency; "" where none is known."""
    url, commit, inside = entry.url, entry.commit, place
    if is_dependency(place):
        name, _, path = place.file.partition(":")
        named = [one for one in entry.dependencies if one.name == name]
        if not named:
            return ""
        url, commit, inside = named[0].url, named[0].commit, Place(path, place.line)
    return blob_url(TargetInfo(url, "", commit, "", False), inside) or ""


def list_grid(entries: Sequence[RegistryEntry]) -> Grid:
    """What the registry holds."""
    rows = []
    for entry in entries:
        record = entry.classification
        row = field_rows([entry])[0] if record else None  # the same answers as in the field-wide table
        rows.append(
            (
                Cell(entry.id, "strong"),
                Cell(entry.title),
                Cell(entry.venue),
                Cell(entry.slug, "", entry.url),
                Cell(entry.commit[:_SHORT], "code"),
                Cell(_yes(row.heldout) if row else ""),
                Cell(RULE[row.rule] if row else ""),
                Cell(_in_loop(row) if row else ""),
                Cell(str(len(record.sites)) if record else "0"),
                Cell(str(len(entry.checkpoints)) if entry.checkpoints else ""),
                Cell("reviewed" if entry.reviewed else "unreviewed", "faint" if entry.reviewed else "doubt"),
            )
        )
    columns = (
        "id",
        "title",
        "venue",
        "repository",
        "commit",
        "held-out",
        "action rule",
        "in-loop",
        "sites",
        "agents",
        "state",
    )
    return Grid("", columns, tuple(rows), (words.count(len(entries), "entry", "entries"),), keep=(0, 4))


def _in_loop(row: FieldRow) -> str:
    return _yes(row.in_loop) if row.heldout else "n/a"


def field_grid(rows: Sequence[FieldRow], totals: Totals) -> Grid:
    """The field-wide table: one line a codebase."""
    cells = []
    for row in rows:
        entry = row.entry
        cells.append(
            (
                Cell(entry.title, "strong"),
                Cell(entry.venue or "–"),
                Cell(entry.slug, "", entry.url),
                Cell(entry.commit[:_SHORT], "code"),
                Cell(_yes(row.heldout)),
                Cell(RULE[row.rule]),
                Cell(", ".join(SET_BY[name] for name in row.provenances)),
                Cell(_in_loop(row)),
                Cell(_printed(entry), _printed_tone(entry)),
            )
        )
    columns = (
        "codebase",
        "venue",
        "repository",
        "commit",
        "held-out",
        "action rule",
        "set by",
        "in-loop",
        "published",
    )
    notes = ("Published: whether the policy is stochastic; whether the measurement is in-loop.", *total_words(totals))
    return Grid("Which policy the reported test returns measure", columns, tuple(cells), notes, keep=(3,))


def total_words(totals: Totals) -> list[str]:
    """The totals as sentences."""
    said = [
        f"Of {words.count(totals.codebases, 'codebase')}, {totals.heldout} evaluate on held-out levels or a separate "
        f"test environment. Of these, {totals.sampled} sample their actions: {totals.by_default} because nobody set "
        f"the rule, {totals.training_sampler} because training's own draw is reused, the others by choice. "
        f"{totals.in_loop} of {totals.heldout} measure in-loop, across policy versions."
    ]
    if totals.differences:
        noun = "entry" if totals.differences == 1 else "entries"
        said.append(
            f"† {totals.differences} {noun} differ from the publication in evidence; the evidence table says how."
        )
    return said


def _printed(entry: RegistryEntry) -> str:
    printed = entry.published
    if printed is None or not printed.stochastic:
        return ""
    return f"{printed.stochastic}; {printed.in_loop}{' †' if printed.differences else ''}"


def _printed_tone(entry: RegistryEntry) -> Tone:
    return "doubt" if entry.published and entry.published.differences else ""


def evidence_grid(rows: Sequence[FieldRow]) -> Grid:
    """The evidence table: the lines that decide, as recorded and as printed, and where the two differ."""
    cells = []
    for row in rows:
        entry, printed = row.entry, row.entry.published
        commit = f"{entry.commit[:_SHORT]}"
        if printed and printed.commit and not entry.commit.startswith(printed.commit):
            commit += f"\n(printed: {printed.commit})"
        cells.append(
            (
                Cell(entry.title, "strong"),
                Cell(commit, "doubt" if "\n" in commit else "code"),
                Cell("\n".join(chain_words(site) for site in row.sites)),
                Cell(printed.evidence if printed else ""),
                Cell("\n".join(printed.differences) if printed else "", "doubt"),
            )
        )
    columns = ("codebase", "commit", "evidence of record", "published evidence", "difference")
    return Grid("The lines that decide", columns, tuple(cells), tuple(_sources(rows)))


def _sources(rows: Sequence[FieldRow]) -> list[str]:
    sources = dict.fromkeys(row.entry.published.source for row in rows if row.entry.published)
    return [f"Published: {source}." for source in sources]


def chain_words(site: EvaluationSite) -> str:
    """`call (default …; draw …) → report`, the shape in which such evidence is printed."""
    inside = [
        f"{label} {_shared(place, site.file)}"
        for label, place in (("default", site.default_site), ("draw", site.sink))
        if place is not None
    ]
    text = f"{site.file}:{site.line}"
    if inside:
        text += f" ({'; '.join(inside)})"
    return f"{text} → {_shared(site.report_site, site.file)}" if site.report_site else text


def _shared(place: Place, file: str) -> str:
    return f":{place.line}" if place.file == file else f"{place.file}:{place.line}"


def field_json(rows: Sequence[FieldRow], totals: Totals) -> dict[str, Any]:
    """Both tables as data."""
    return {
        "schema": "codeaudit.registry-table/1",
        "totals": dict(vars(totals)),
        "codebases": [
            {
                "id": row.entry.id,
                "title": row.entry.title,
                "venue": row.entry.venue,
                "repository": row.entry.url,
                "commit": row.entry.commit,
                "heldout_evaluation": row.heldout,
                "rule": row.rule,
                "provenances": list(row.provenances),
                "in_loop": row.in_loop,
                "evidence": [chain_words(site) for site in row.sites],
                "published": _published_json(row.entry),
            }
            for row in rows
        ],
    }


def _published_json(entry: RegistryEntry) -> dict[str, Any] | None:
    if (printed := entry.published) is None:
        return None
    names = ("source", "commit", "evidence", "stochastic", "in_loop")
    return {**{name: getattr(printed, name) for name in names}, "differences": list(printed.differences)}


# --- check -----------------------------------------------------------------------------------------------------------


_EVIDENCE_NOTE = (
    "agrees: the classes (rule, provenance, procedure, role, agent, epsilon) are the same. Evidence that the scan has "
    "on another line, or not at all, is shown and doesn't count."
)


def check_grids(results: Sequence[Checked], *, short: bool = False) -> list[Grid]:
    """Outcome by entry, then site by site, then what was printed; `short` leaves out whatever agrees."""
    grids = [_outcomes(results)]
    sites, printed = _site_rows(results, short), _printed_rows(results, short)
    if sites:
        heads = ("entry", "site", "record", "status", "what differs")
        grids.append(Grid("Sites: the record and a fresh scan", heads, tuple(sites), (_EVIDENCE_NOTE,), keep=(0,)))
    if printed:
        columns = ("entry", "printed", "status", "what the code says")
        notes = ("What others printed doesn't count in the outcome.",)
        grids.append(Grid("Published statements and the code", columns, tuple(printed), notes, keep=(0,)))
    return grids


def _outcomes(results: Sequence[Checked]) -> Grid:
    statuses: tuple[Status, ...] = ("agrees", "moved", "disagrees", "not found", "not on record")
    rows = []
    total: Counter[str] = Counter()
    for one in results:
        counts = Counter(site.status for site in one.comparison.sites) if one.comparison else Counter()
        printed = Counter(item.status for item in one.comparison.printed) if one.comparison else Counter()
        total.update(counts)
        tone: Tone = "good" if one.outcome == "agrees" else "faint" if one.outcome == "nothing on record" else "bad"
        rows.append(
            (
                Cell(one.entry.id, "strong"),
                *(Cell(str(counts[status]) if counts[status] else "", TONE[status]) for status in statuses),
                Cell(_printed_counts(printed)),
                Cell(one.outcome, tone),
                Cell("\n".join(_remarks(one)), "doubt"),
            )
        )
    outcomes = Counter(one.outcome for one in results)
    said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    sites = ", ".join(f"{total[status]} {status}" for status in statuses if total[status])
    notes = [f"{words.count(len(results), 'entry', 'entries')}: {said}.", f"Sites: {sites or 'none'}."]
    columns = ("entry", *statuses, "published statements", "outcome", "remarks")
    return Grid("Record and code", columns, tuple(rows), tuple(notes), keep=(0,))


def _printed_counts(counts: Counter[Status]) -> str:
    return ", ".join(f"{counts[status]} {status}" for status in TONE if counts[status])


def _remarks(one: Checked) -> list[str]:
    if one.comparison is None:
        return [one.failure]
    said = [difference_words(item, "summary.") for item in one.comparison.summary]
    said += [f"no line {words.place_words(place)} at this commit" for place in one.comparison.absent]
    return said + list(one.notes)


def difference_words(item: Difference, prefix: str = "") -> str:
    """What record and scan say of one thing."""
    return f"{prefix}{item.what}: record {item.recorded}, scan {item.found}"


def _site_rows(results: Sequence[Checked], short: bool) -> list[tuple[Cell, ...]]:
    rows = []
    for one in results:
        for site in one.comparison.sites if one.comparison else ():
            if not (short and site.status == "agrees"):
                rows.append(_site_row(one.entry, site))
    return rows


def _site_row(entry: RegistryEntry, site: SiteComparison) -> tuple[Cell, ...]:
    shown = site.recorded.site if site.recorded else site.found
    assert shown is not None
    place = Place(shown.file, shown.line)
    return (
        Cell(entry.id, "strong"),
        Cell(shown.id if site.recorded else shown.function),
        Cell(words.place_words(place), "code", place_url(entry, place)),
        Cell(site.status, TONE[site.status]),
        Cell("\n".join(site_remarks(site))),
    )


def site_remarks(site: SiteComparison) -> list[str]:
    """What differs at one site, classes first."""
    if site.recorded is None and site.found is not None:
        return [
            f"the scan finds {words.rule_words(site.found)}, {SET_BY[site.found.provenance]}; no such site on record"
        ]
    said = [difference_words(item) for item in site.differences]
    if site.status == "moved" and site.found is not None:
        said.append(f"the scan has it at {words.place_words(Place(site.found.file, site.found.line))}")
    if site.found is not None and site.found.unknown and site.differences:
        said.append(f"not decided: {site.found.unknown}")
    return said + [
        f"evidence: {_PLACE[item.what]} {item.recorded} on record, {_cited(item)}" for item in site.elsewhere
    ]


def _cited(item: Difference) -> str:
    return "the scan cites none" if item.found == NOT_CITED else f"{item.found} in the scan"


def _printed_rows(results: Sequence[Checked], short: bool) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for one in results:
        for item in one.comparison.printed if one.comparison else ():
            if not (short and item.status == "agrees"):
                tone: Tone = "doubt" if item.status in ("moved", "not found") else TONE[item.status]
                rows.append(
                    (Cell(one.entry.id, "strong"), Cell(item.printed), Cell(item.status, tone), Cell(item.detail))
                )
    return rows


# --- diff ------------------------------------------------------------------------------------------------------------

_CHANGE_TONE: dict[str, Tone] = {
    "unchanged": "faint",
    "moved": "faint",
    "changed": "bad",
    "added": "doubt",
    "removed": "doubt",
}


def diff_grid(changes: Changes, *, short: bool = False) -> Grid:
    """Site by site, what changed between two commits."""
    old, new = changes.old.target, changes.new.target
    rows = tuple(
        _change_row(changes, item) for item in changes.sites if not (short and item.change in ("unchanged", "moved"))
    )
    counts = Counter[str](item.change for item in changes.sites)
    said = ", ".join(f"{counts[word]} {word}" for word in _CHANGE_TONE if counts[word])
    notes = [f"Sites: {said or 'none in either commit'}."]
    notes += [f"{item.what}: {item.recorded} → {item.found}" for item in changes.summary]
    columns = ("change", old.commit[:_SHORT] or "old", new.commit[:_SHORT] or "new", "classes now", "what changed")
    return Grid(f"Evaluation in {new.repo}", columns, rows, tuple(notes))


def _change_row(changes: Changes, item: SiteChange) -> tuple[Cell, ...]:
    shown = item.new or item.old
    assert shown is not None
    rest = (SET_BY[shown.provenance], words.PROCEDURE[shown.procedure], words.ROLE[shown.role])
    classes = ", ".join((words.rule_words(shown), *rest))
    return (
        Cell(item.change, _CHANGE_TONE[item.change]),
        _site_cell(changes.old.target, item.old),
        _site_cell(changes.new.target, item.new),
        Cell(classes),
        Cell("\n".join(f"{one.what}: {one.recorded} → {one.found}" for one in item.differences)),
    )


def _site_cell(target: TargetInfo, site: EvaluationSite | None) -> Cell:
    if site is None:
        return Cell("")
    place = Place(site.file, site.line)
    return Cell(f"{words.place_words(place)}\n{site.function}", "code", blob_url(target, place) or "")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
