"""An entry in the shape of a scan, so that reports show both alike. Pure."""

from __future__ import annotations

from codeaudit.evaluation.sites import Place, Summary
from codeaudit.registry.comparison import recorded_places
from codeaudit.registry.entries import RegistryEntry
from codeaudit.registry.lines import SourceLines
from codeaudit.scan import Scan, Statistics, TargetInfo

_EXCERPT = 3  # lines shown at a place


def entry_as_scan(entry: RegistryEntry, lines: SourceLines) -> Scan:
    """The classification of record as a scan would report it; source lines as far as they are known."""
    record = entry.classification
    sites = tuple(item.site for item in record.sites) if record else ()
    notes = [record.note] if record and record.note else []
    notes += [f"{item.site.id}: {item.note}" for item in record.sites if item.note] if record else []
    excerpts = {}
    for place in recorded_places(entry):
        shown = [lines.at(Place(place.file, place.line + step)) for step in range(_EXCERPT)]
        if any(shown):
            excerpts[place] = tuple(shown)
    return Scan(
        target=TargetInfo(entry.url, entry.target, entry.commit, "", False),
        summary=record.summary if record else Summary(False, "none", False),
        sites=sites,
        findings=(),
        predictions=(),
        skipped=(),
        statistics=Statistics(0, 0, 0, 0, 0.0),
        notes=(*notes, *entry.notes),
        excerpts=excerpts,
    )
