"""The registry: audited codebases as YAML, held against the code and against what was published.

Offers the reading of entries. Comparisons and runs have modules of their own: who reads entries loads no scan.
"""

from __future__ import annotations

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
from codeaudit.registry.read import (
    entry_files,
    entry_from_text,
    load_entries,
    load_entry,
    read_entry,
    registry_folders,
    schema_text,
)

__all__ = [
    "CheckpointEntry",
    "Classification",
    "Dependency",
    "FileSource",
    "PrintedClasses",
    "PrintedLine",
    "Published",
    "PublishedAudit",
    "RegistryEntry",
    "SiteOfRecord",
    "entry_files",
    "entry_from_text",
    "load_entries",
    "load_entry",
    "read_entry",
    "registry_folders",
    "schema_text",
]
