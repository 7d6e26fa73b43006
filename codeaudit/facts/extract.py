"""One file's bytes to its facts, encoded; in processes where a crash or a hang costs that file alone."""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from codeaudit.executor import Crash, run_isolated
from codeaudit.facts import tree as t
from codeaudit.facts.config import MAX_BYTES as MAX_CONFIG_BYTES
from codeaudit.facts.config import is_config

MAX_PYTHON_BYTES = 2_000_000
MAX_NOTEBOOK_BYTES = 10_000_000
CHUNK_BYTES = 60_000
SECONDS_PER_CHUNK = 30.0
MAX_DEPTH = 150  # brackets inside each other: LibCST dies of a few hundred more
MAX_OPERATORS = 3_000  # on one line: its time and its stack grow with the length of such a chain

MAX_LINKS = 1_000  # of one chain of attributes, calls and subscripts: its time grows with the square of them

BRACKET = re.compile(r"[()\[\]{}]")
CHAIN = re.compile(rf"(?:\.\w+|\(\w*\)|\[\w*\]){{{MAX_LINKS}}}")

Unit = tuple[tuple[str, bytes], ...]  # (path, bytes) of a few files
Encoded = bytes  # marshal of ("python", tree) | ("config", leaves) | ("failed", reason, line)


@cache
def facts_version() -> str:
    """Changes whenever the code that makes facts does: the key under which facts are cached."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def is_read(path: str) -> bool:
    """Whether facts are made of a file of this name."""
    return path.endswith((".py", ".ipynb")) or is_config(path)


def size_limit(path: str) -> int:
    if path.endswith(".py"):
        return MAX_PYTHON_BYTES
    return MAX_NOTEBOOK_BYTES if path.endswith(".ipynb") else MAX_CONFIG_BYTES


def extract_file(path: str, data: bytes) -> Encoded:
    """The facts of one file. Never raises for anything that the bytes hold."""
    try:
        return marshal.dumps(_facts(path, data))
    except _Failure as failure:
        return marshal.dumps(("failed", failure.reason, failure.line))
    except RecursionError:
        return marshal.dumps(("failed", "it is nested too deeply", None))
    except Exception as error:  # a bug in the extractor costs one file, and says so
        return marshal.dumps(("failed", f"it can't be read ({type(error).__name__})", None))


def extract(files: Sequence[tuple[str, bytes]], workers: int) -> Iterator[tuple[str, Encoded]]:
    """(path, facts) of every file, in any order. A chunk that crashes its process is tried again file by file."""
    units = list(_chunks(files))
    again: list[Unit] = []
    for index, result in run_isolated(_extract_unit, units, workers=workers, timeout=SECONDS_PER_CHUNK):
        if not isinstance(result, Crash):
            yield from result
        elif len(units[index]) > 1:
            again.extend((file,) for file in units[index])
        else:
            yield units[index][0][0], marshal.dumps(("failed", f"parsing it failed: {result.reason}", None))
    for index, result in (
        run_isolated(_extract_unit, again, workers=workers, timeout=SECONDS_PER_CHUNK) if again else ()
    ):
        if isinstance(result, Crash):
            yield again[index][0][0], marshal.dumps(("failed", f"parsing it failed: {result.reason}", None))
        else:
            yield from result


def decode(encoded: Encoded) -> tuple[str, Any, Any]:
    """("python", tree, None), ("config", leaves, None) or ("failed", reason, line)."""
    kind, *rest = marshal.loads(encoded)
    if kind == "python":
        return kind, t.decode(rest[0]), None
    if kind == "config":
        return kind, rest[0], None
    return "failed", rest[0], rest[1]


def _extract_unit(unit: Unit) -> list[tuple[str, Encoded]]:
    return [(path, extract_file(path, data)) for path, data in unit]


def _chunks(files: Sequence[tuple[str, bytes]]) -> Iterator[Unit]:
    # Large files first, so that no worker is left with one at the end.
    chunk: list[tuple[str, bytes]] = []
    size = 0
    for path, data in sorted(files, key=lambda f: (-len(f[1]), f[0])):
        chunk.append((path, data))
        size += len(data)
        if size >= CHUNK_BYTES:
            yield tuple(chunk)
            chunk, size = [], 0
    if chunk:
        yield tuple(chunk)


class _Failure(Exception):
    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def _facts(path: str, data: bytes) -> tuple[Any, ...]:
    if b"\0" in data:
        raise _Failure("it holds a NUL byte", data[: data.index(b"\0")].count(b"\n") + 1)
    text = _text(data)
    if is_config(path):
        from codeaudit.facts.config import read_config

        try:
            return "config", [list(leaf) for leaf in read_config(path, text)]
        except ValueError as error:
            raise _Failure(str(error)) from None
    from codeaudit.facts.python import Unparsable, parse_python

    lines = None
    if path.endswith(".ipynb"):
        from codeaudit.facts.notebook import notebook_source

        try:
            text, lines = notebook_source(text)
        except ValueError as error:
            raise _Failure(str(error)) from None
    if reason := _too_much(text):
        raise _Failure(reason)
    try:
        return "python", t.encode(parse_python(text, lines))
    except Unparsable as error:
        raise _Failure(error.reason, error.line) from None


def _too_much(text: str) -> str:
    """Why a source would cost the parser too much; "" for ordinary code. A quick look, not a parse."""
    depth = deepest = 0
    for line in text.split("\n"):
        if len(line) > 2 * MAX_LINKS:
            if sum(map(line.count, (*"+-*/%|&", " else "))) > MAX_OPERATORS:
                return f"a line holds more than {MAX_OPERATORS:,} operators"
            if CHAIN.search(line):
                return f"a chain of attributes, calls and subscripts has more than {MAX_LINKS:,} links"
        if line[:1].isalpha():  # a new statement: brackets in strings and comments don't add up over the file
            depth = 0
        if "(" in line or "[" in line or "{" in line or depth:
            for match in BRACKET.finditer(line):
                depth = depth + 1 if match[0] in "([{" else max(0, depth - 1)
                deepest = max(deepest, depth)
    return f"brackets are nested more than {MAX_DEPTH} deep" if deepest > MAX_DEPTH else ""


def _text(data: bytes) -> str:
    import io
    import tokenize

    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            return data.decode(encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            line = data[: error.start].count(b"\n") + 1
            raise _Failure("its bytes aren't in the encoding it declares", line) from None
