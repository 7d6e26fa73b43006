"""Rows of a CSV file, plain or gzip, with their line numbers and clear errors. Not for what the columns mean."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import IO

import numpy as np

from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.variation.readers.source import trouble

CHUNK = 2_048  # rows parsed at once; with many more, the garbage collector walks them again and again
BLANK = frozenset(("", "none", "null", "na", "n/a"))  # nothing was measured; "nan" is a measurement that is no number


@dataclass
class Rows:
    """A chunk of rows, each as long as the header, with the line on which each ends."""

    cells: list[list[str]]
    lines: Sequence[int]

    def column(self, index: int) -> list[str]:
        return list(map(itemgetter(index), self.cells))


@dataclass
class CsvFile:
    """One file's head: the lines of comment before the header, and the header."""

    path: Path
    comments: list[str]
    header: tuple[str, ...]
    header_line: int
    cut_short: list[int] = field(default_factory=list)  # an unfinished last line that was left out

    def chunks(self, size: int = CHUNK) -> Iterator[Rows]:
        """All rows below the header. UserError for a row of another length, but for an unfinished last line."""
        with _opened(self.path) as file:
            reader = csv.reader(file, delimiter=_delimiter(self.path))
            try:
                for _ in islice(reader, len(self.comments) + 1):
                    pass
                while True:
                    before = reader.line_num
                    cells = list(islice(reader, size))
                    if not cells:
                        return
                    yield self._checked(Rows(cells, _lines(before, reader.line_num, cells)))
            except (csv.Error, EOFError, OSError, zlib.error) as error:
                raise _damage(self.path, reader.line_num + 1, error) from None

    def _checked(self, rows: Rows) -> Rows:
        width = len(self.header)
        if set(map(len, rows.cells)) == {width}:
            return rows
        cells, lines = [], []
        for row, line in zip(rows.cells, rows.lines, strict=True):
            if len(row) == width:
                cells.append(row)
                lines.append(line)
            elif row and line == _last_line_unfinished(self.path):
                self.cut_short.append(line)
            elif row:
                why = f"{len(row)} fields, but the header has {width}"
                raise trouble(self.path, line, why, "mend the line, or leave the file out with --skip-bad")
        return Rows(cells, lines)


def _lines(before: int, after: int, cells: list[list[str]]) -> Sequence[int]:
    """The line on which each row ends. A quoted cell may span lines, which the reader doesn't tell afterwards."""
    if after - before == len(cells):
        return range(before + 1, after + 1)
    lines, line = [], before
    for row in cells:
        line += 1 + sum(cell.count("\n") for cell in row)
        lines.append(line)
    return lines


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.suffixes else ","


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _damage(path: Path, line: int, error: Exception) -> Exception:
    if isinstance(error, csv.Error):
        return trouble(path, line, f"no CSV: {error}", "is it a text file?")
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return trouble(path, None, error.strerror or str(error), "check the path and its permissions")
    return trouble(path, line, "the gzip stream is damaged or ends early", "copy the file again, or use --skip-bad")


def _last_line_unfinished(path: Path) -> int | None:
    """The number of the last line where it lacks its newline, as a killed run leaves it."""
    count, ends = 0, True
    with _opened(path) as file:
        for text in file:
            count += 1
            ends = text.endswith(("\n", "\r"))
    return None if ends else count


def open_csv(path: Path) -> CsvFile:
    """Read comments and header. UserError where there is no header or a name stands in it twice."""
    comments: list[str] = []
    line = 0
    try:
        with _opened(path) as file:
            for line, text in enumerate(file, start=1):
                if text.startswith("#"):
                    comments.append(text.rstrip("\r\n"))
                    continue
                if not text.strip():
                    raise trouble(path, line, "an empty line where the header should be", "delete it")
                header = tuple(name.strip() for name in next(csv.reader([text], delimiter=_delimiter(path))))
                break
            else:
                raise trouble(path, None, "no header: the file is empty", "leave it out with --skip-bad")
    except (csv.Error, EOFError, OSError, zlib.error) as error:
        raise _damage(path, line + 1, error) from None
    twice = next((name for index, name in enumerate(header) if name in header[:index]), None)
    if twice is not None:
        raise trouble(path, line, f"the column {twice!r} stands twice in the header", "rename one of them")
    return CsvFile(path, comments, header, line)


def numbers(path: Path, name: str, cells: list[str], lines: Sequence[int], *, blank: bool) -> FloatArray:
    """A column as floats (T,). Blank cells become NaN where `blank` allows them. UserError at the first bad cell."""
    try:
        return np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError:
        pass
    found = np.empty(len(cells))
    for index, cell in enumerate(cells):
        try:
            found[index] = float(cell)
        except ValueError:
            if not (blank and cell.strip().lower() in BLANK):
                shown = cell if len(cell) <= 40 else cell[:37] + "..."
                why = f"column {name!r} holds {shown!r}, which is no number"
                raise trouble(path, lines[index], why, "mend it, or choose other columns") from None
            found[index] = np.nan
    return found
