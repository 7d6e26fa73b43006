"""The extractor meets mutated sources: whatever the bytes, a file gives facts or a reason, and nothing is raised.

`CODEAUDIT_FUZZ=100000 python -m pytest tests/static/test_fuzz_facts.py` tries as many inputs as that; CI tries 10,000.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import codeaudit
from codeaudit.facts import extract as extraction
from codeaudit.facts import tree as t
from codeaudit.facts.extract import decode, extract_file

ROOT = Path(__file__).resolve().parent.parent.parent
INPUTS = int(os.environ.get("CODEAUDIT_FUZZ", "10000"))
SHARES = {".py": 0.7, ".ipynb": 0.1, ".yaml": 0.1, ".json": 0.05, ".gin": 0.05}
LONGEST = 900  # characters of a piece: small inputs go wrong in as many ways, and there can be more of them
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")

# What parsers, tokenisers and line counters trip over.
TRICKS = (
    "\0", "\r", "\r\n", "\f", "\x0b", "\x1c", "\x85", "\u2028", "\ufeff", "\ud800", "\u202e", "é", "ª", "\\",
    "\\\n", "\\\r\n", "'", '"', "'''", '"""', "f'", "f'{", "rb'", "{", "}", "{{", "(", ")", "[", "]", ":", ":=",
    "->", "*", "**", "@", "=", "==", "!", "!r", "~", "...", ",", ";", "\t", " ", "\n", "\n\n", "#", "#\\\n",
    "# codeaudit: site rule=greedy x", "lambda", "async ", "await ", "yield", "match x:\n", "case _:\n",
    "type X = int\n", "except* E:\n", "print 'x'", "exec 'x'", "<>", "0777", "1_0", "1__0", "0x", "1e", "1j",
    "9" * 5000, "import *", "from . import", "global x", "nonlocal x", "del", "if True:", "else:", "pass",
    "%matplotlib", "!ls", "?", "&a", "*a", "<<: *a", "- ", "? ", "|\n", ">\n", "---\n", "%YAML 1.1\n", "!!binary",
    "!!python/object:os.system", "null", "NaN", "Infinity", "1e999", "@macro", "%x", "include 'a.gin'",
)  # fmt: skip


def sources() -> dict[str, list[str]]:
    """Pieces of real-looking files, by ending: of our fixture codebases, which look like research code, and our own."""
    found: dict[str, list[str]] = {ending: [] for ending in SHARES}
    ours = Path(codeaudit.__file__).parent
    for folder in (ROOT / "fixtures" / "repos", ours / "facts", ours / "schemas"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in found and path.is_file():
                text = path.read_text("utf-8", errors="surrogateescape")
                lines = text.splitlines(keepends=True)
                start = 0
                while start < len(lines):
                    piece = ""
                    while start < len(lines) and (not piece or len(piece) + len(lines[start]) <= LONGEST):
                        piece += lines[start]
                        start += 1
                    found[path.suffix].append(piece)
                    if path.suffix != ".py":  # a half of these is no notebook or document at all
                        found[path.suffix].append(text)
                        break
    assert all(found.values())
    return found


SOURCES = sources()


@st.composite
def mutated(draw: st.DrawFn, ending: str) -> bytes:
    """A piece of a real-looking file after some edits: of tokens, of lines, and at last of bytes."""
    parts = TOKEN.findall(draw(st.sampled_from(SOURCES[ending])))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(len(parts) - 1, 0)))
        end = place + draw(st.integers(0, 12))
        match draw(st.integers(0, 6)):
            case 0:
                parts[place:end] = []
            case 1:
                parts[place:place] = [draw(st.sampled_from(TRICKS))]
            case 2:
                parts[place:end] = [draw(st.sampled_from(TRICKS))]
            case 3:
                parts[place:place] = parts[place:end] * draw(st.sampled_from([1, 2, 40]))
            case 4:
                other = draw(st.integers(0, max(len(parts) - 1, 0)))
                parts[place:place] = parts[other : other + 30]
            case 5:
                parts[place:end] = parts[place:end][::-1]
            case _:
                parts[place:place] = [draw(st.text(max_size=3))]
    data = "".join(parts).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 5)) == 0 and data:
        place = draw(st.integers(0, len(data) - 1))
        data = data[:place] + draw(st.binary(max_size=2)) + data[place + draw(st.integers(0, 2)) :]
    return data


@pytest.mark.parametrize("ending", SHARES)
def test_no_mutated_file_raises(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`extract_file` turns a fault of ours into a reason too, so the faults are looked for below it."""
    faults: list[str] = []
    below = extraction._facts

    def watched(path: str, data: bytes) -> object:
        try:
            return below(path, data)
        except (extraction._Failure, RecursionError):
            raise
        except Exception as error:
            faults.append(repr(error))
            raise

    monkeypatch.setattr(extraction, "_facts", watched)

    @given(mutated(ending))
    @settings(
        max_examples=max(1, round(INPUTS * SHARES[ending])),
        deadline=None,
        database=None,
        derandomize="CODEAUDIT_FUZZ" not in os.environ,  # CI tries the same inputs every time
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    def check(data: bytes) -> None:
        faults.clear()
        kind, value, line = decode(extract_file(f"a{ending}", data))
        assert not faults, faults
        last = data.count(b"\n") + data.count(b"\r") + 2
        if kind == "python":
            assert all(1 <= node.line <= node.end_line <= last for node in t.walk(value) if isinstance(node, t.Call))
        elif kind == "config":
            assert all(1 <= at <= last for _, _, at in value)
        else:
            assert kind == "failed" and isinstance(value, str) and value.isprintable() and value
            assert line is None or 1 <= line <= last

    check()
