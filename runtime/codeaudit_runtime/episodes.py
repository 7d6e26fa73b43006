"""One row per finished episode: the table that every analysis reads. Not for running or judging anything."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.spaces import FloatArray


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode. `draw` is the draw's seed; `index` counts a slot's episodes from 0, burn-in left out."""

    checkpoint: str
    rule: str
    level_set: str
    draw: int
    slot: int
    index: int
    level: int | None  # level id, where the environment tells
    seed: int | None  # the episode's own seed, where it has one
    total: float  # undiscounted return, in the environment's reward units
    discounted: float
    length: int  # steps
    truncated: bool  # ended by a limit rather than by the environment
    entropy: float | None  # mean over the episode's steps of the policy's entropy, nats
    revisits: float  # share of steps whose observation was already seen in this episode


COLUMNS = tuple(field.name for field in fields(EpisodeRow))


def bytes_from_rows(rows: Iterable[EpisodeRow]) -> bytes:
    """Rows as bytes; the same rows always give the same bytes."""
    return json.dumps([astuple(row) for row in rows], separators=(",", ":"), allow_nan=False).encode()


def rows_from_bytes(content: bytes) -> tuple[EpisodeRow, ...]:
    return tuple(EpisodeRow(*row) for row in json.loads(content))


def returns_of(rows: Iterable[EpisodeRow]) -> FloatArray:
    """Returns (episodes,) in the order of the rows."""
    return np.array([row.total for row in rows], dtype=np.float64)


def mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return float(np.mean(known)) if known else None


def write_database(path: Path, rows: Iterable[EpisodeRow]) -> None:
    """The rows as table `episodes` of a fresh SQLite file; the same rows give the same bytes.

    `return` is the column name of `total`. Raises UserError where the disk is full; an older file is then still whole.
    """
    names = ["return" if name == "total" else name for name in COLUMNS]
    columns = ", ".join(f'"{name}"' for name in names)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        connection = sqlite3.connect(partial, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("BEGIN")
            connection.execute(f"CREATE TABLE episodes ({columns})")
            marks = ", ".join("?" * len(names))
            connection.executemany(f"INSERT INTO episodes VALUES ({marks})", map(astuple, rows))
            connection.execute("COMMIT")
        finally:
            connection.close()
        partial.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise UserError(
            f"{path}: cannot be written ({error})", hint="is the disk full? Finished work is kept"
        ) from None
