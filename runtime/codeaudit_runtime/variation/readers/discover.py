"""Which files hold curves, and which reader fits each. Not for reading the points or for choosing columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.variation.readers.arrays import source_from_npz
from codeaudit_runtime.variation.readers.csv_lines import CsvFile, open_csv
from codeaudit_runtime.variation.readers.events import source_from_events
from codeaudit_runtime.variation.readers.monitor import MonitorSource, monitor_head
from codeaudit_runtime.variation.readers.run_directories import REPORTS, source_from_report
from codeaudit_runtime.variation.readers.source import Source, path_facts, trouble
from codeaudit_runtime.variation.readers.tables import WANDB_SEPARATOR, TableSource, WandbSource

FORMATS = (
    "CSV tables (.csv, .tsv, also .gz), monitor files, TensorBoard event files, W&B exports, .npz, run directories"
)
SUB_ENVIRONMENT = re.compile(r"\d+(\.\d+)*\.monitor\.csv(\.gz)?")  # 0.monitor.csv, 0.1.monitor.csv


@dataclass(frozen=True)
class Found:
    """One file that may hold curves, and what of the command line led to it."""

    path: Path
    root: Path


@dataclass(frozen=True)
class LeftOut:
    """Something that was not used, and why."""

    what: str
    why: str


@dataclass
class Discovery:
    """The sources, the bad files left out on request, and how many files of other kinds were passed by."""

    sources: list[Source] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    others: int = 0


def discover(paths: Sequence[Path], *, kind: str | None = None, skip_bad: bool = False) -> Discovery:
    """Every source under the named files and folders, in the order of names.

    UserError where nothing is found, where a file is bad (unless `skip_bad`), or where folders hold several kinds of
    logs: a training folder often has the same run as monitor, progress and event file, and it must count once.
    """
    found = Discovery()
    files = list(_files(paths, found))
    if not files:
        shown = ", ".join(printable(str(path)) for path in paths)
        raise UserError(f"no learning curves in {shown}", hint=f"what can be read: {FORMATS}")
    for make in _makers(files):
        try:
            source = make()
        except UserError as error:
            if not skip_bad:
                raise
            found.left_out.append(LeftOut(error.what, error.hint))
            continue
        found.sources.append(source)
    if kind is not None:
        _keep_kind(found, kind)
    kinds = list(dict.fromkeys(source.kind for source in found.sources))
    if len(kinds) > 1:
        raise UserError(
            f"the files are of {len(kinds)} kinds ({', '.join(kinds)}), perhaps logs of the same runs",
            hint=f'choose one with --kind, for example --kind "{kinds[0]}"',
        )
    if not found.sources:
        raise UserError("no file is left", hint="look at the reasons without --skip-bad")
    return found


def _keep_kind(found: Discovery, kind: str) -> None:
    kinds = list(dict.fromkeys(source.kind for source in found.sources))
    if kind not in kinds:
        raise UserError(f"no file of the kind {printable(kind)!r}", hint=f"found: {', '.join(kinds) or 'none'}")
    found.left_out += [
        LeftOut(str(source.path), f"of the kind {source.kind}; --kind {kind}")
        for source in found.sources
        if source.kind != kind
    ]
    found.sources = [source for source in found.sources if source.kind == kind]


def _files(paths: Sequence[Path], found: Discovery) -> Iterator[Found]:
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders.sort()
                for name in sorted(names):
                    inner = Path(folder) / name
                    if not _looks_readable(inner) or not inner.is_file():
                        found.others += 1
                    elif inner.resolve() not in seen:
                        seen.add(inner.resolve())
                        yield Found(inner, path)
        elif not path.exists():
            raise UserError(f"{printable(str(path))}: no such file or folder", hint="check the path")
        elif path.resolve() not in seen:
            seen.add(path.resolve())
            yield Found(path, path.parent)


def _looks_readable(path: Path) -> bool:
    name = path.name.lower()
    return (
        name.removesuffix(".gz").endswith((".csv", ".tsv"))
        or name.endswith(".npz")
        or "tfevents" in name
        or name in REPORTS
    )


def _makers(files: Sequence[Found]) -> Iterator[Callable[[], Source]]:
    """One call for each source; files that are one run together come as one."""
    together: dict[tuple[str, Path], list[Found]] = {}
    for item in files:
        group = "single"
        if "tfevents" in item.path.name:
            group = "events"
        elif SUB_ENVIRONMENT.fullmatch(item.path.name):
            group = "monitor"
        key = (group, item.path if group == "single" else item.path.parent)
        together.setdefault(key, []).append(item)
    for (group, _), items in together.items():
        yield _maker(group, items)


def _maker(group: str, items: Sequence[Found]) -> Callable[[], Source]:
    first = items[0]
    facts = path_facts(first.path, first.root)
    paths = tuple(item.path for item in items)
    if group == "events":
        return lambda: source_from_events(paths, {**facts, "file": first.path.parent.as_posix()})
    if first.path.name in REPORTS:
        return lambda: source_from_report(first.path, facts)
    if first.path.name.lower().endswith(".npz"):
        return lambda: source_from_npz(first.path, facts)
    if len(items) > 1:
        facts["file"] = first.path.parent.as_posix()
    return lambda: _csv_source(paths, facts)


def _csv_source(paths: Sequence[Path], facts: dict[str, str]) -> Source:
    files = tuple(map(open_csv, paths))
    heads = [monitor_head(file) for file in files]
    if all(head is not None for head in heads):
        environment = str((heads[0] or {}).get("env_id") or "")
        return MonitorSource(files, {**facts, **({"env_id": environment} if environment else {})})
    file = files[heads.index(None)]
    if len(files) > 1:
        raise trouble(file.path, 1, "named like a monitor file, but without its first line", "rename or remove it")
    return _table_source(file, facts)


def _table_source(file: CsvFile, facts: dict[str, str]) -> Source:
    if any(name.endswith("__MIN") and WANDB_SEPARATOR in name for name in file.header):
        return WandbSource(file, facts)
    return TableSource(file, facts)
