"""What changed in evaluation between two scans of one codebase. Pure: scans nothing and shows nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.registry.comparison import Difference, class_differences, matched
from codeaudit.scan import Scan

ChangeWord = Literal["unchanged", "moved", "changed", "added", "removed"]


@dataclass(frozen=True)
class SiteChange:
    """One evaluation site in the older and the newer commit; it may stand in one of them only."""

    change: ChangeWord
    old: EvaluationSite | None
    new: EvaluationSite | None
    differences: tuple[Difference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "change": self.change,
            "old": self.old.to_json() if self.old else None,
            "new": self.new.to_json() if self.new else None,
            "differences": [_as_change(item) for item in self.differences],
        }


@dataclass(frozen=True)
class Changes:
    """Everything that changed in evaluation between two commits."""

    old: Scan
    new: Scan
    sites: tuple[SiteChange, ...]
    summary: tuple[Difference, ...]

    @property
    def any(self) -> bool:
        """Whether a site came, went or changed its class. A site that only moved has not changed."""
        return bool(self.summary) or any(item.change in ("changed", "added", "removed") for item in self.sites)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "codeaudit.diff/1",
            "old": self.old.target.to_json(),
            "new": self.new.target.to_json(),
            "changed": self.any,
            "summary": [_as_change(item) for item in self.summary],
            "sites": [item.to_json() for item in self.sites],
        }


def compare_scans(old: Scan, new: Scan) -> Changes:
    """Which site became which: by file and function, then by its code, then, in a file that moved, by function."""
    pairs = _pairs(old, new)
    changes = [
        _change(site, new.sites[pairs[index]] if index in pairs else None) for index, site in enumerate(old.sites)
    ]
    taken = set(pairs.values())
    changes += [SiteChange("added", None, site) for index, site in enumerate(new.sites) if index not in taken]
    before, after = old.summary.to_json(), new.summary.to_json()
    summary = tuple(
        Difference(key, _plain(before[key]), _plain(after[key])) for key in before if before[key] != after[key]
    )
    return Changes(old, new, tuple(sorted(changes, key=_order)), summary)


def _pairs(old: Scan, new: Scan) -> dict[int, int]:
    pairs = matched(old.sites, new.sites)
    # What is left over may have moved to another file or function: the same call in the same words is the same site.
    for i, site in enumerate(old.sites):
        if i in pairs:
            continue
        code = _code(old.excerpts, site)
        for j, other in enumerate(new.sites):
            if code and j not in pairs.values() and code == _code(new.excerpts, other):
                pairs[i] = j
                break
    left = [i for i in range(len(old.sites)) if i not in pairs]
    right = [j for j in range(len(new.sites)) if j not in pairs.values()]
    renamed = matched([replace(old.sites[i], file="") for i in left], [replace(new.sites[j], file="") for j in right])
    for i, j in renamed.items():
        one, other = old.sites[left[i]], new.sites[right[j]]
        if one.file.rpartition("/")[2] == other.file.rpartition("/")[2]:
            pairs[left[i]] = right[j]
    return pairs


def _code(excerpts: Mapping[Place, Sequence[str]], site: EvaluationSite) -> str:
    lines = excerpts.get(Place(site.file, site.line), ())
    return " ".join(lines[0].split()) if lines else ""


def _change(old: EvaluationSite, new: EvaluationSite | None) -> SiteChange:
    if new is None:
        return SiteChange("removed", old, None)
    differences = tuple(class_differences(old, new))
    if old.role == "unknown" != new.role:
        differences += (Difference("role", "unknown", new.role),)
    if old.epsilon != new.epsilon and None in (old.epsilon, new.epsilon):
        differences += (Difference("epsilon", _plain(old.epsilon), _plain(new.epsilon)),)
    moved = (old.file, old.line) != (new.file, new.line)
    word: ChangeWord = "changed" if differences else "moved" if moved else "unchanged"
    return SiteChange(word, old, new, differences)


def _order(change: SiteChange) -> tuple[str, int, str]:
    site = change.new or change.old
    assert site is not None
    return site.file, site.line, site.id


def _as_change(item: Difference) -> dict[str, Any]:
    return {"what": item.what, "old": item.recorded, "new": item.found}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
