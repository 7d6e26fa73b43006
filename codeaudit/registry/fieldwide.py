"""One row an entry, and totals over all of them: what the field-wide tables show. Pure; no format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.registry.entries import Classification, RegistryEntry

_NOBODY = ("inherited_default", "framework_default")
_POLICIES = ("policy_gradient", "actor_critic_continuous")
_ORDER = (
    "explicit",
    "config",
    "inherited_default",
    "training_sampler",
    "hard_coded",
    "framework_default",
    "unknown",
)


@dataclass(frozen=True)
class Row:
    """One codebase as the field-wide tables show it."""

    entry: RegistryEntry
    heldout: bool
    rule: str  # of its policy-gradient agents, as in the summary; of all its agents where it has none
    provenances: tuple[str, ...]  # of the sites that the rule is read from
    in_loop: bool
    sites: tuple[EvaluationSite, ...]  # those sites

    @property
    def by_default(self) -> bool:
        """Whether nobody chose the rule at one of its sites or more."""
        return any(provenance in _NOBODY for provenance in self.provenances)

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(Place(site.file, site.line) for site in self.sites))


@dataclass(frozen=True)
class Totals:
    """Counts of codebases. All but the first two are among those with held-out evaluation."""

    codebases: int
    heldout: int
    sampled: int
    by_default: int  # sampled, and nobody set it
    in_loop: int
    training_sampler: int
    differences: int  # of all: the publication and the code say different things somewhere


def field_rows(entries: Sequence[RegistryEntry]) -> list[Row]:
    """A row for each entry that has a classification, in the order given."""
    return [_row(entry, entry.classification) for entry in entries if entry.classification is not None]


def _row(entry: RegistryEntry, classification: Classification) -> Row:
    sites = main_sites([item.site for item in classification.sites])
    rules = {site.rule for site in sites}
    rule = classification.summary.policy_gradient_rule
    if rule == "none":
        rule = rules.pop() if len(rules) == 1 else "mixed" if rules else "none"
    provenances = {site.provenance for site in sites}
    return Row(
        entry,
        classification.summary.heldout_evaluation,
        rule,
        tuple(name for name in _ORDER if name in provenances),
        classification.summary.in_loop,
        tuple(sites),
    )


def main_sites(sites: Sequence[EvaluationSite]) -> list[EvaluationSite]:
    """The sites that a summary's rule is read from: policy-gradient ones, held-out ones, if there are any."""
    main = [site for site in sites if site.role != "demo" and site.agent != "random"] or list(sites)
    main = [site for site in main if site.agent in _POLICIES] or main
    return [site for site in main if site.role == "heldout"] or main


def field_totals(rows: Sequence[Row]) -> Totals:
    heldout = [row for row in rows if row.heldout]
    sampled = [row for row in heldout if row.rule == "sampled"]
    return Totals(
        codebases=len(rows),
        heldout=len(heldout),
        sampled=len(sampled),
        by_default=sum(row.by_default for row in sampled),
        in_loop=sum(row.in_loop for row in heldout),
        training_sampler=sum("training_sampler" in row.provenances for row in sampled),
        differences=sum(bool(row.entry.published and row.entry.published.differences) for row in rows),
    )
