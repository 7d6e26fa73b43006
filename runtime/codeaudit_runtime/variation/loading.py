"""From files and options to labelled curves, with everything that was left out or guessed. Not for statistics."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.variation.columns import Columns, Wanted, columns_of_source
from codeaudit_runtime.variation.curves import Curve
from codeaudit_runtime.variation.readers.discover import LeftOut, discover
from codeaudit_runtime.variation.readers.source import RawCurve, Source

BOUNDARY = "_-. "


@dataclass(frozen=True)
class Input:
    """One file of the report: where, of what kind, which columns, how many runs, and its content's SHA-256."""

    path: str
    kind: str
    columns: Columns
    runs: int
    sha256: str


@dataclass
class Loaded:
    """All curves, and what a reader must know about how they came to be."""

    curves: list[Curve] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load_curves(
    paths: Sequence[Path],
    wanted: Wanted,
    *,
    compare: Sequence[str] = (),
    kind: str | None = None,
    skip_bad: bool = False,
) -> Loaded:
    """Curves of everything under `paths`. Raises UserError (which file, which line, why)."""
    found = discover(paths, kind=kind, skip_bad=skip_bad)
    loaded = Loaded(left_out=list(found.left_out))
    if found.others:
        loaded.notes.append(f"{found.others} other files in the folders are no logs and were not read")
    for source in found.sources:
        try:
            columns = columns_of_source(source, wanted)
            reading = source.read(columns.choice)
        except UserError as error:
            if not skip_bad:
                raise
            loaded.left_out.append(LeftOut(error.what, error.hint))
            continue
        loaded.notes += reading.notes
        loaded.inputs.append(Input(str(source.path), source.kind, columns, len(reading.curves), _sha256(source.path)))
        for raw in reading.curves:
            curve = _labelled(raw, source, columns, compare)
            if curve is None:
                name = raw.run if raw.run is not None else "its run"
                loaded.left_out.append(LeftOut(f"{raw.where}: {name}", f"of none of {', '.join(compare)}"))
            else:
                loaded.curves.append(curve)
    if not loaded.curves:
        why = f"none belongs to {', '.join(map(printable, compare))}" if compare else "every file was left out"
        raise UserError(f"no curve is left: {why}", hint="see --compare and --skip-bad")
    _check_compared(loaded.curves, compare)
    loaded.curves = _named_apart(loaded.curves)
    return loaded


def _labelled(raw: RawCurve, source: Source, columns: Columns, compare: Sequence[str]) -> Curve | None:
    task = ", ".join(raw.keys[name] for name in columns.task)
    algorithm = ", ".join(raw.keys[name] for name in columns.algorithm)
    if compare:
        named = [name for name in compare if _begins(name, [raw.keys[key] for key in columns.algorithm])]
        if not columns.algorithm:
            named = _named_by_place(compare, [*PurePosixPath(source.facts["file"]).parts, raw.run or ""])
        if len(named) > 1:
            raise UserError(
                f"{printable(raw.where)}: belongs to {' and '.join(map(printable, named))}",
                hint="choose names for --compare that tell the files apart",
            )
        if not named:
            return None
        algorithm = named[0]
    run = raw.run if raw.run is not None else source.facts["file"]
    return Curve(task, algorithm, run, raw.steps_T, raw.values_T, raw.where)


def _named_by_place(compare: Sequence[str], places: Sequence[str]) -> list[str]:
    """The names that the innermost folder, file or run begins with: what stands further out matters less."""
    for place in reversed(places):
        if named := [name for name in compare if _begins(name, [place])]:
            return named
    return []


def _begins(name: str, places: Sequence[str]) -> bool:
    """Whether a folder, file or column entry is `name` or begins with it, as `ppo_1` and `ppo-seed3.csv` do."""
    wanted = name.lower()
    return any(
        place.lower() == wanted or (place.lower().startswith(wanted) and place[len(wanted)] in BOUNDARY)
        for place in places
    )


def _check_compared(curves: Sequence[Curve], compare: Sequence[str]) -> None:
    there = {curve.algorithm for curve in curves}
    for name in compare:
        if name not in there:
            raise UserError(
                f"--compare names {printable(name)!r}, but no run belongs to it",
                hint="a folder, a file or an entry of the algorithm column must be called so or begin with it",
            )


def _named_apart(curves: Sequence[Curve]) -> list[Curve]:
    """Curves in order of task, algorithm and run. UserError where one run comes from two files."""
    seen: dict[tuple[str, str, str], Curve] = {}
    for curve in curves:
        identity = (curve.task, curve.algorithm, curve.run)
        if identity in seen:
            first = printable(seen[identity].source)
            raise UserError(
                f"{printable(curve.source)}: run {printable(curve.run)} of {printable(curve.task or 'the task')} "
                f"is also in {first}",
                hint="tell them apart with --group file, --compare, or --run file where each file is one run",
            )
        seen[identity] = curve
    return sorted(curves, key=lambda curve: (_natural(curve.task), _natural(curve.algorithm), _natural(curve.run)))


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts run 2 before run 10."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for char in text + "\0":
        if char.isdecimal() and char.isascii():
            digits += char
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, char))
    return tuple(parts)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
