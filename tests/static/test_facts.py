"""Facts of one file: every call on its own line, nothing lost between processes, and no source that raises."""

from __future__ import annotations

import ast
import json
import marshal
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeaudit.facts import tree as t
from codeaudit.facts.config import read_config
from codeaudit.facts.extract import decode, extract, extract_file
from codeaudit.facts.notebook import notebook_source
from codeaudit.facts.python import parse_python

SOURCE = '''
import argparse
from torch import nn


@decorated(
    name="x",
)
class Agent(nn.Module):
    """A docstring
    over lines."""

    def act(
        self,
        obs,  # a comment
        deterministic=False,
        *args,
        key: int = call(1),
        **kwargs,
    ) -> int:
        with (open("a")) as f, torch.no_grad():
            text = f"""line {one(
                1)} and
            {two(2)}"""
        if deterministic:
            return (
                self.net(obs)
                .argmax(dim=-1)
            )
        elif not (
            kwargs.get("x")
            and other()
        ):
            return [g(i) for i in range(3) if h(i)]
        try:
            value = a if b() else \\
                c()
        except (ValueError, TypeError) as error:
            raise RuntimeError("x") from error
        finally:
            done()
        x: dict = {"a": f(1), **more()}
        lambda y, z=q(): w(y)
        for i, (j, k) in enumerate(zip(a, b)):
            x[i][j:k] += p(i)
        else:
            r()
        while (n := s()) > 0: u(); v()
        async_call = yield from v2()
        assert m(), l()
        del x[o()]
        return t2(*args, **kwargs)
'''


def lines_of(tree: t.File) -> list[tuple[int, int]]:
    return sorted((node.line, node.end_line) for node in t.walk(tree) if isinstance(node, t.Call))


def lines_by_ast(source: str) -> list[tuple[int, int]]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return sorted((node.lineno, node.end_lineno or node.lineno) for node in calls)


def test_every_call_is_on_the_line_that_pythons_own_parser_gives() -> None:
    assert lines_of(parse_python(SOURCE)) == lines_by_ast(SOURCE)


def test_our_own_code_keeps_its_lines() -> None:
    from pathlib import Path

    import codeaudit

    for path in sorted(Path(codeaudit.__file__).parent.rglob("*.py")):
        source = path.read_text("utf-8")
        assert lines_of(parse_python(source)) == lines_by_ast(source), path


@given(st.lists(st.sampled_from(SOURCE.split("\n")), max_size=30).map("\n".join))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_shuffled_lines_never_raise_and_never_move(source: str) -> None:
    kind, value, _ = decode(extract_file("a.py", source.encode()))
    try:
        expected = lines_by_ast(source)
    except (SyntaxError, ValueError):
        return
    if kind == "python":
        assert lines_of(value) == expected


@given(st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("name", ["a.py", "a.ipynb", "a.yaml", "a.json", "a.gin"])
def test_any_bytes_give_facts_or_a_reason(name: str, data: bytes) -> None:
    kind, value, _ = decode(extract_file(name, data))
    assert kind in ("python", "config") or (kind == "failed" and value)


def test_a_tree_survives_the_cache() -> None:
    encoded = t.encode(parse_python(SOURCE))
    assert t.encode(t.decode(marshal.loads(marshal.dumps(encoded)))) == encoded


def test_a_tuple_is_taken_apart_where_both_sides_are_written_out() -> None:
    from codeaudit.program.flow import flow_of

    flow = flow_of(parse_python("a, (b, c) = f(), g()\nx, *y = h()\n").body)
    assert [d.selector for d in flow.definitions["a"]] == [()]
    assert [d.selector for d in flow.definitions["b"]] == [(0,)]
    assert [d.selector for d in flow.definitions["y"]] == [("1:",)]


def test_a_notebook_counts_lines_in_the_raw_file() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["env.step(action)"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "x = 1\n", "f(x)"]},
        {"cell_type": "code", "source": ["g(\n", "    x)"]},
    ]
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
    source, lines = notebook_source(text)
    calls = [node for node in t.walk(parse_python(source, lines)) if isinstance(node, t.Call)]
    raw = text.split("\n")
    assert [raw[c.line - 1].strip() for c in calls] == ['"f(x)"', '"g(\\n",']


def test_configuration_gives_dotted_names_values_and_lines() -> None:
    text = textwrap.dedent("""\
        evaluation:
          episodes: 10
          sample: false
          name: "false"
        list: [{deep: 1.5e-3}]
        """)
    assert sorted(read_config("a.yaml", text)) == [
        ("evaluation.episodes", 10, 2),
        ("evaluation.name", "false", 4),
        ("evaluation.sample", False, 3),
        ("list.deep", 0.0015, 5),
    ]
    assert list(read_config("a.gin", "Agent.epsilon_eval = 0.01 # small\n")) == [("Agent.epsilon_eval", 0.01, 1)]


def test_recursive_anchors_end() -> None:
    assert list(read_config("a.yaml", "a: &x\n  b: 1\n  again: *x\n")) == [("a.b", 1, 2)]


HOSTILE = {
    "sum.py": b"x = " + b" + ".join([b"1"] * 20_000) + b"\n",
    "brackets.py": b"x = " + b"(" * 3_000 + b"1" + b")" * 3_000 + b"\n",
    "nul.py": b"x = 1\n\0\n",
    "python2.py": b"print 'a'\n",
    "encoding.py": b"y = 1\nx = '\xff'\n",
    "branches.py": b"def f(x):\n" + b"".join(b"    if x == %d:\n        return g(x)\n" % i for i in range(3_000)),
    "good.py": b"f(1)\n",
}


def test_hostile_files_cost_themselves_alone() -> None:
    found = {path: decode(encoded) for path, encoded in extract(sorted(HOSTILE.items()), workers=2)}
    assert found["good.py"][0] == found["branches.py"][0] == "python"
    reasons = {path: (value, line) for path, (kind, value, line) in found.items() if kind == "failed"}
    assert reasons == {
        "sum.py": ("a line holds more than 3,000 operators", None),
        "brackets.py": ("brackets are nested more than 150 deep", None),
        "nul.py": ("it holds a NUL byte", 2),
        "python2.py": ("it isn't valid Python 3", 1),
        "encoding.py": ("its bytes aren't in the encoding it declares", 2),
    }


def test_lines_of_configuration_are_those_of_git() -> None:
    """YAML breaks lines at U+0085 and U+2028 too."""
    text = "note: a\x85\u2028\nrule: greedy\n"
    assert [(key, line) for key, _, line in read_config("a.yaml", text)] == [("note", 1), ("rule", 2)]
