"""What a registry entry holds. Plain data: `read` makes it from YAML, `comparison` holds it against the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from codeaudit.evaluation.sites import EvaluationSite, Place, Summary


@dataclass(frozen=True)
class FileSource:
    """Where one file lies: relative to a folder of checkpoints, and as a blob `owner/name@commit:path`."""

    file: str
    git: str
    sha256: str


@dataclass(frozen=True)
class Published:
    """A printed return: mean and standard deviation over a number of episodes, and where it is printed."""

    mean: float
    std: float
    episodes: int
    line: str = ""


@dataclass(frozen=True)
class CheckpointEntry:
    """One trained agent."""

    id: str
    source: FileSource
    format: str
    algorithm: str
    environment: str  # the id that the publication names
    run_as: str  # the id that is run, where the named one no longer exists
    normalization: FileSource | None = None
    published: Published | None = None
    note: str = ""


@dataclass(frozen=True)
class Dependency:
    """Another repository in which lines of evidence stand."""

    name: str
    url: str
    commit: str
    why: str = ""

    @property
    def target(self) -> str:
        return f"{self.url}@{self.commit}"


@dataclass(frozen=True)
class SiteOfRecord:
    """A classified site as a person confirmed it. A role that is "unknown" is one that the code can't tell."""

    site: EvaluationSite
    note: str = ""


@dataclass(frozen=True)
class Classification:
    """The classification of record."""

    summary: Summary
    sites: tuple[SiteOfRecord, ...]
    complete: bool = True  # False: the sites are a selection
    note: str = ""


@dataclass(frozen=True)
class PrintedLine:
    """One line that a publication cited, and where the code has what it was cited for, if elsewhere."""

    at: Place
    shows: str = ""
    moved_to: Place | None = None
    why: str = ""


@dataclass(frozen=True)
class PrintedClasses:
    """The printed classes in our words; None where nothing was printed."""

    heldout_evaluation: bool | None = None
    rule: str | None = None
    provenance: str | None = None
    in_loop: bool | None = None


@dataclass(frozen=True)
class PublishedAudit:
    """What a publication printed about the codebase's evaluation."""

    source: str
    commit: str = ""  # as printed, often abbreviated
    evidence: str = ""
    stochastic: str = ""
    in_loop: str = ""
    concerns: tuple[str, ...] = ()  # ids of the sites that the printed classes speak of
    classes: PrintedClasses = PrintedClasses()
    lines: tuple[PrintedLine, ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class RegistryEntry:
    """One audited codebase."""

    id: str
    title: str
    url: str
    commit: str
    published_site: str  # the file whose evaluation site made the printed returns of the checkpoints, or ""
    checkpoints: tuple[CheckpointEntry, ...]
    folder: Path
    venue: str = ""
    paper: str = ""
    collection: str = ""
    reviewed: bool = True
    dependencies: tuple[Dependency, ...] = ()
    classification: Classification | None = None
    published: PublishedAudit | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def target(self) -> str:
        return f"{self.url}@{self.commit}"

    @property
    def slug(self) -> str:
        """`owner/name`."""
        return "/".join(self.url.removesuffix("/").removesuffix(".git").split("/")[-2:])
