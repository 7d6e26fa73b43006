"""The pipeline: the one place that knows the order of the rooms."""

from __future__ import annotations

import hashlib
import marshal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache as cached
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place, Summary
from codeaudit.evaluation.words import UNIT_TEST
from codeaudit.findings import Finding
from codeaudit.predictions import Prediction
from codeaudit.snapshot import Skipped, Snapshot, open_snapshot
from codeaudit.store import Cache, default_cache_dir
from codeaudit.target import Target, parse_target
from codeaudit.text import printable

if TYPE_CHECKING:
    from codeaudit.facts.tree import File

Progress = Callable[[str, int, int], None]  # (stage, done, total)
EXCERPT_LINES = 3


@dataclass(frozen=True)
class TargetInfo:
    """What was scanned, as the report names it."""

    repo: str  # https://host/owner/name where known, else the path given
    requested: str  # the target text as typed
    commit: str  # 40 hex
    tree: str
    dirty: bool

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Statistics:
    files: int
    parsed: int
    cached: int
    bytes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Scan:
    """Everything one scan found out. `to_json()` is the contract `codeaudit.scan/1`."""

    target: TargetInfo
    summary: Summary
    sites: tuple[EvaluationSite, ...]
    findings: tuple[Finding, ...]
    predictions: tuple[Prediction, ...]
    skipped: tuple[Skipped, ...]
    statistics: Statistics
    notes: tuple[str, ...] = field(default=())  # sentences a person should read (an option that nobody reads, …)
    excerpts: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)  # source lines that begin at a place


def scan(
    target: str,
    *,
    workers: int = 1,
    cache: Path | None = None,
    mirrors: Sequence[Path] = (),
    libraries: Sequence[Path] = (),
    dependencies: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Classify every evaluation site of a repository at a pinned commit, or of a working tree as it is.

    `dependencies` maps names to targets whose source is read too (`NAME:path` in reports). Raises UserError for
    anything
    that a person must fix. The result doesn't depend on `workers`.
    """
    started = time.monotonic()
    root = default_cache_dir(cache)
    store = Cache(root)
    say = progress or (lambda stage, done, total: None)
    say("fetch", 0, 1)
    parsed = parse_target(target)
    snapshot = open_snapshot(parsed, mirrors=mirrors, cache=root)
    others = {
        name: open_snapshot(parse_target(other), mirrors=mirrors, cache=root)
        for name, other in sorted((dependencies or {}).items())
    }
    key = _result_key(snapshot, others, libraries)
    ready = store.get("scans", key) if key else None
    if ready is not None:
        return _told_of_folder(_from_cache(ready, target, snapshot, time.monotonic() - started), parsed, snapshot)
    # Imported here: a scan that is answered from the cache needs none of the analysis.
    from codeaudit.evaluation.corrections import correct
    from codeaudit.evaluation.find import Audit
    from codeaudit.evaluation.summary import summarise
    from codeaudit.predictions import predict
    from codeaudit.program.index import Program
    from codeaudit.program.libraries import load_libraries
    from codeaudit.program.options import Options

    facts = read_facts(snapshot, store, workers, say)
    more = {name: read_facts(other, store, workers, say) for name, other in others.items()}
    say("analyse", 0, 1)
    program = Program(facts.files, {name: f.files for name, f in more.items()})
    configs = dict(facts.configs)
    for name, f in more.items():
        configs.update({f"{name}:{path}": leaves for path, leaves in f.configs.items()})
    audit = Audit(program, Options(program, configs), load_libraries(libraries))
    sites = audit.sites()
    sites, corrections = correct(sites, {path: file.corrections for path, file in facts.files.items()})
    sites, predictions = predict(sites)
    skipped = [*snapshot.skipped, *facts.skipped, *audit.failures]
    result = Scan(
        target=_target_info(target, snapshot),
        summary=summarise(sites),
        sites=tuple(sites),
        findings=(),
        predictions=tuple(predictions),
        skipped=tuple(sorted(skipped, key=lambda s: (s.file, s.line or 0, s.reason))),
        statistics=Statistics(
            facts.count, facts.parsed, facts.cached, facts.bytes, round(time.monotonic() - started, 3)
        ),
        notes=(*corrections, *audit.notes),
        excerpts=_excerpts(snapshot, others, sites),
    )
    if key:
        store.put("scans", key, pack(result))
    say("analyse", 1, 1)
    return _told_of_folder(result, parsed, snapshot)


# --- facts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """What the files of one snapshot say."""

    files: dict[str, File]
    configs: dict[str, list[tuple[str, Any, int]]]
    skipped: list[Skipped]
    count: int
    parsed: int
    cached: int
    bytes: int


def read_facts(snapshot: Snapshot, store: Cache, workers: int, say: Progress) -> Facts:
    """The facts of every file that has any: from the cache by blob id, else made now."""
    from codeaudit.facts.extract import decode, extract, facts_version, is_read, size_limit

    version = facts_version()
    wanted = [e for e in snapshot.entries if is_read(e.path)]
    skipped = [Skipped(e.path, f"{e.size:,} bytes of generated code or data, over the limit of {size_limit(e.path):,}")
               for e in wanted if e.size > size_limit(e.path)]  # fmt: skip
    tests = _unit_tests([e.path for e in wanted])
    skipped += [Skipped(f"{folder}/", f"{len(paths)} files of unit tests; not read") for folder, paths in tests.items()]
    wanted = [e for e in wanted if not any(e.path in paths for paths in tests.values())]
    copies = {e.path for e in wanted if ".ipynb_checkpoints/" in e.path}
    skipped += [Skipped(path, "a copy that Jupyter saved by itself") for path in sorted(copies)]
    wanted = [e for e in wanted if e.size <= size_limit(e.path) and e.path not in copies]
    encoded: dict[str, bytes] = {}
    for entry in wanted:
        ready = store.get("facts", _fact_key(version, entry.path, entry.blob))
        if ready is not None:
            encoded[entry.path] = ready
    hits = len(encoded)
    missing = [e for e in wanted if e.path not in encoded]
    blobs = {e.path: e.blob for e in missing}
    contents = list(snapshot.read([e.path for e in missing])) if missing else []
    say("parse", 0, len(missing))
    for done, (path, result) in enumerate(extract(contents, workers) if contents else (), start=1):
        encoded[path] = result
        store.put("facts", _fact_key(version, path, blobs[path]), result)
        say("parse", done, len(missing))
    files: dict[str, File] = {}
    configs: dict[str, list[tuple[str, Any, int]]] = {}
    for entry in wanted:
        if entry.path not in encoded:
            skipped.append(Skipped(entry.path, "its bytes can't be read"))
            continue
        kind, value, line = decode(encoded[entry.path])
        if kind == "python":
            files[entry.path] = value
        elif kind == "config":
            configs[entry.path] = [(str(k), v, int(n)) for k, v, n in value]
        elif entry.path.endswith((".py", ".ipynb")):
            skipped.append(Skipped(entry.path, str(value), line))
    return Facts(files, configs, skipped, len(wanted), len(missing), hits, sum(e.size for e in wanted))


def _unit_tests(paths: Sequence[str]) -> dict[str, set[str]]:
    """The folders that hold nothing but unit tests, with their files. Where a helper stands beside them, they show what
    it is called with, and all are read."""
    found: dict[str, set[str]] = {}
    for path in paths:
        folder, inside_it, _ = path.rpartition("tests/")
        if inside_it and (not folder or folder.endswith("/")) and path.endswith(".py"):
            found.setdefault(f"{folder}tests", set()).add(path)
    return {
        folder: inside
        for folder, inside in sorted(found.items())
        if all(UNIT_TEST.search(p) or p.endswith("/__init__.py") for p in inside)
    }


def _fact_key(version: str, path: str, blob: str) -> str:
    # The ending decides how a file is read; the rest of its name doesn't.
    return f"{version}-{path.rpartition('.')[2]}-{blob}"


# --- what a report shows ---------------------------------------------------------------------------------------------


def _target_info(target: str, snapshot: Snapshot) -> TargetInfo:
    return TargetInfo(snapshot.repo, target, snapshot.commit, snapshot.tree, snapshot.dirty)


def _told_of_folder(result: Scan, target: Target, snapshot: Snapshot) -> Scan:
    """The result, with a note where a folder inside the repository was named: what acts there may stand elsewhere."""
    repository = snapshot.source.repository
    named = Path(target.location).resolve()
    outermost = (repository.git_dir, repository.work_tree)
    if target.kind != "local" or repository.work_tree is None or named in [p.resolve() for p in outermost if p]:
        return result
    note = f"{printable(target.location)} lies within a repository, and all of the repository was scanned"
    return replace(result, notes=(note, *result.notes))


def _excerpts(
    snapshot: Snapshot, others: Mapping[str, Snapshot], sites: Iterable[EvaluationSite]
) -> dict[Place, tuple[str, ...]]:
    places = {step.place for site in sites for step in site.evidence} | {Place(s.file, s.line) for s in sites}
    by_source: dict[str, list[Place]] = {}
    for place in places:
        by_source.setdefault(place.file.partition(":")[0] if ":" in place.file else "", []).append(place)
    found: dict[Place, tuple[str, ...]] = {}
    for name, group in by_source.items():
        source = others.get(name) if name else snapshot
        if source is None:
            continue
        known = {entry.path for entry in source.entries}
        paths = {p.file.partition(":")[2] if name else p.file for p in group} & known
        texts = {path: data.decode("utf-8", "replace").split("\n") for path, data in source.read(sorted(paths))}
        for place in group:
            lines = texts.get(place.file.partition(":")[2] if name else place.file)
            if lines and 0 < place.line <= len(lines):
                found[place] = tuple(line[:200] for line in lines[place.line - 1 : place.line - 1 + EXCERPT_LINES])
    return dict(sorted(found.items()))


# --- whole results in the cache --------------------------------------------------------------------------------------


@cached
def code_version() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".yaml"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _result_key(snapshot: Snapshot, others: Mapping[str, Snapshot], libraries: Sequence[Path]) -> str:
    """The identity of everything that a result depends on; empty where it can't be told cheaply."""
    digest = hashlib.sha256(code_version().encode())
    for name, source in (("", snapshot), *sorted(others.items())):
        digest.update(f"\0{name}\0{source.commit}\0{source.dirty}".encode())
        for entry in source.entries:
            digest.update(f"{entry.path}\0{entry.blob}\n".encode("utf-8", "surrogateescape"))
    for path in libraries:
        try:
            digest.update(path.read_bytes())
        except OSError:
            return ""
    return digest.hexdigest()


_TYPES: dict[str, type] = {c.__name__: c for c in (Scan, TargetInfo, Summary, EvaluationSite, Evidence, Place, Finding,
                                                   Prediction, Skipped, Statistics)}  # fmt: skip


def pack(value: Any) -> bytes:
    """A scan as bytes for the cache."""
    return marshal.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [_plain(getattr(value, f.name)) for f in fields(value)])
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return (
            {_plain(k): _plain(v) for k, v in value.items()}
            if not value
            else {"": [[_plain(k), _plain(v)] for k, v in value.items()]}
        )
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, tuple):
        return _TYPES[value[0]](*[_rich(item) for item in value[1]])
    if isinstance(value, list):
        return tuple(_rich(item) for item in value)
    if isinstance(value, dict):
        return {_rich(k): _rich(v) for k, v in value.get("", [])}
    return value


def _from_cache(data: bytes, target: str, snapshot: Snapshot, seconds: float) -> Scan:
    result: Scan = _rich(marshal.loads(data))
    count = result.statistics.files
    statistics = replace(result.statistics, parsed=0, cached=count, seconds=round(seconds, 3))
    return replace(result, target=_target_info(target, snapshot), statistics=statistics)
