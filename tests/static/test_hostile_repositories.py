"""A corpus of repositories made to harm their reader: each is scanned in bounded time and memory, and nothing is lost.

What a snapshot alone must withstand stands in test_snapshot.py; here the whole command meets the whole repository.
`CODEAUDIT_CORPUS=1 python -m pytest tests/static/test_hostile_repositories.py -s` tells time and memory of each case.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gitrepos import commit, git, new_repository, put_commit, put_object, put_tree

SECONDS = 150  # of computing time, for each process of a scan
MEMORY = 4 << 30  # bytes of address space, for each process of a scan

AGENT = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def act(self, obs, deterministic=False):
        dist = Categorical(logits=self.net(obs))
        return dist.probs.argmax() if deterministic else dist.sample()


def evaluate(policy, episodes=10):
    env = gym.make("CartPole-v1")
    returns = []
    for _ in range(episodes):
        obs, _ = env.reset(seed=1)
        done, total = False, 0.0
        while not done:
            action = policy.act(torch.tensor(obs))
            obs, reward, done, _, _ = env.step(action.item())
            total += reward
        returns.append(total)
    print("eval return", sum(returns) / len(returns))


if __name__ == "__main__":
    policy = Policy()
    policy.load_state_dict(torch.load("model.pt"))
    evaluate(policy)
"""


@dataclass(frozen=True)
class Scanned:
    """What a scan printed as JSON and on a terminal, and what it cost."""

    report: dict[str, Any]
    text: str
    seconds: float
    megabytes: float

    @property
    def skipped(self) -> dict[str, str]:
        return {one["file"]: one["reason"] for one in self.report["skipped"]}

    @property
    def files(self) -> set[str]:
        """The files in which an evaluation site was found."""
        return {site["file"] for site in self.report["sites"]}


@pytest.fixture
def scanned(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[Path, str], Scanned]:
    """Scans a commit with the kernel's own limits on time and memory, where every file outside the cache is noticed."""

    def scan(repository: Path, revision: str = "HEAD") -> Scanned:
        around = tmp_path / "around"
        for name in ("home", "here", "temporary"):
            (around / name).mkdir(parents=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(around / "home"), "TMPDIR": str(around / "temporary")}
        environment |= {"CODEAUDIT_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        before = names_in(repository)
        shown = []
        began = time.monotonic()
        spent = megabytes = 0.0
        for form in ("json", "terminal"):
            command = [sys.executable, "-m", "codeaudit", "scan", f"{repository}@{revision}", "--format", form]
            with (tmp_path / f"{form}.out").open("w+b") as out, (tmp_path / f"{form}.err").open("w+b") as errors:
                process = subprocess.Popen(
                    command, cwd=around / "here", env=environment, stdout=out, stderr=errors, preexec_fn=limit
                )
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                errors.seek(0)
                told = errors.read().decode()
                out.seek(0)
                shown.append(out.read().decode())
            assert process.returncode == 0, told
            spent = spent or time.monotonic() - began
            megabytes = max(megabytes, usage.ru_maxrss / 1024)
        assert "Traceback" not in shown[1] + told
        assert all(line.isprintable() for line in shown[1].split("\n"))
        assert names_in(around) == {"home", "here", "temporary"}  # not one byte outside the cache
        assert names_in(repository) == before
        if os.environ.get("CODEAUDIT_CORPUS"):
            name = request.node.name.removeprefix("test_")
            print(f"\n| {name} | {spent:.1f} s | {megabytes:,.0f} MB |")
        return Scanned(json.loads(shown[0]), shown[1], spent, megabytes)

    return scan


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "repository")


Scan = Callable[..., Scanned]


# --- names and kinds of files ----------------------------------------------------------------------------------------


def test_names_that_write_on_the_terminal(repository: Path, scanned: Scan) -> None:
    names = ["new\nline.py", "\x1b[31mred\x1b[0m.py", "\u202egnp.py", "tab\t.py", "\x07bell.py", "bidi\u2066\u2069.py"]
    names += ["\u200bzero.py", "%s%n.py", "[bold]markup[/bold].py", ";smile;.py", "'\"`$(touch owned)`.py", "-rf.py"]
    commit(repository, {**dict.fromkeys(names, AGENT), **{f"{name}.broken.py": "def (" for name in names}})
    found = scanned(repository)
    assert found.files == set(names)
    assert set(found.skipped) == {f"{name}.broken.py" for name in names}


def test_names_that_lead_out_of_the_tree(repository: Path, scanned: Scan, tmp_path: Path) -> None:
    git_dir = repository / ".git"
    blob = put_object(git_dir, "blob", AGENT.encode())
    inner = put_tree(git_dir, [("100644", b"evil.py", blob)])
    link = put_object(git_dir, "blob", b"/etc/passwd")
    entries = [
        ("40000", b"..", inner),
        ("40000", b".git", inner),
        ("100644", b"/abs.py", blob),
        ("100644", str(tmp_path / "owned.py").encode(), blob),
        ("100644", b"a/../../b.py", blob),
        ("100644", b"good.py", blob),
        ("120000", b"link.py", link),
        ("160000", b"module", "1" * 40),
    ]
    made = put_commit(git_dir, put_tree(git_dir, entries))
    found = scanned(repository, made)
    assert found.files == {"good.py"}
    assert len(found.skipped) == 7
    assert not (tmp_path / "owned.py").exists()


def test_attributes_hooks_and_submodules_that_name_commands(repository: Path, scanned: Scan, tmp_path: Path) -> None:
    owned = tmp_path / "owned"
    touch = f"touch {owned}"
    attributes = "*.py filter=evil diff=evil merge=evil export-ignore export-subst ident text eol=crlf\n"
    attributes += "*.py working-tree-encoding=UTF-16\n"
    modules = (
        f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "{touch}"\n[submodule "y"]\n\tpath = -u{touch}\n\turl = -u\n'
    )
    commit(
        repository, {"agent.py": AGENT + "# $Id$ $Format:%H$\n", ".gitmodules": modules, "hooks/post-checkout": touch}
    )
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        place = repository / ".git" / "hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{touch}\n")
        place.chmod(0o755)
    config = f"[core]\n\tfsmonitor = {touch}\n\tsshCommand = {touch}\n\tpager = {touch}\n\teditor = {touch}\n"
    config += f'[filter "evil"]\n\tclean = {touch}\n\tsmudge = {touch}\n\tprocess = {touch}\n\trequired\n'
    config += f'[diff "evil"]\n\tcommand = {touch}\n\ttextconv = {touch}\n[protocol "ext"]\n\tallow = always\n'
    made = git(repository, "rev-parse", "HEAD")
    tree = git(repository, "ls-tree", made).splitlines()
    fields = [line.split(None, 3) for line in tree]
    extra = put_object(repository / ".git", "blob", attributes.encode())
    entries = [(mode, name.encode(), id) for mode, _, id, name in fields if "/" not in name]
    entries = [(mode.lstrip("0"), name, id) for mode, name, id in entries] + [("100644", b".gitattributes", extra)]
    entries += [("160000", b"x", "2" * 40)]
    made = put_commit(repository / ".git", put_tree(repository / ".git", sorted(entries, key=lambda one: one[1])))
    with (repository / ".git" / "config").open("a") as file:
        file.write(config)
    found = scanned(repository, made)
    assert found.files == {"agent.py"}
    assert found.skipped == {"x": "a submodule; not read"}
    assert not owned.exists()


# --- size ------------------------------------------------------------------------------------------------------------


def pack(git_dir: Path, data: bytes, claimed: int, stream: bytes) -> str:
    """A pack of one blob whose entry claims a size and holds a stream of its own, with an index. The blob's id."""
    id = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()
    head, rest = (3 << 4) | (claimed & 15), claimed >> 4
    size = bytearray()
    while rest:
        size.append(head | 128)
        head, rest = rest & 127, rest >> 7
    entry = bytes(size) + bytes([head]) + stream
    whole = b"PACK" + struct.pack(">II", 2, 1) + entry
    whole += hashlib.sha1(whole, usedforsecurity=False).digest()
    index = b"\xfftOc" + struct.pack(">I", 2)
    index += b"".join(struct.pack(">I", int(first >= id[0])) for first in range(256))
    index += id + struct.pack(">II", zlib.crc32(entry), 12) + whole[-20:]
    index += hashlib.sha1(index, usedforsecurity=False).digest()
    place = git_dir / "objects" / "pack"
    place.mkdir(exist_ok=True)
    (place / f"pack-{id.hex()}.pack").write_bytes(whole)
    (place / f"pack-{id.hex()}.idx").write_bytes(index)
    return id.hex()


def zeros(count: int) -> bytes:
    """A zlib stream that inflates to so many MB of zeros."""
    compressor = zlib.compressobj(9)
    return b"".join(compressor.compress(bytes(1 << 20)) for _ in range(count)) + compressor.flush()


@pytest.mark.parametrize("claimed", [6, 1 << 20, 3 << 30, 1 << 60], ids=["few bytes", "1 MB", "3 GB", "an exabyte"])
def test_a_pack_that_inflates_without_end(repository: Path, tmp_path: Path, claimed: int) -> None:
    """The scan says that the object is damaged or too large; it inflates no more than was promised, or than fits."""
    git_dir = repository / ".git"
    blob = pack(git_dir, b"x = 1\n", claimed, zeros(512))
    good = put_object(git_dir, "blob", AGENT.encode())
    made = put_commit(git_dir, put_tree(git_dir, [("100644", b"bomb.py", blob), ("100644", b"good.py", good)]))
    command = [sys.executable, "-m", "codeaudit", "scan", f"{repository}@{made}", "--format", "json"]
    environment = os.environ | {"CODEAUDIT_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit
    )
    shown, errors = process.communicate()
    if process.returncode == 0:
        skipped = {one["file"]: one["reason"] for one in json.loads(shown)["skipped"]}
        assert set(skipped) == {"bomb.py"}
        assert skipped["bomb.py"] in ("larger than 10 MiB", "its bytes are not in this clone")
    else:
        assert process.returncode == 2 and errors.count(b"\n") == 1
        assert f"the object {blob} is damaged" in errors.decode()


def test_a_hundred_thousand_files(repository: Path, scanned: Scan) -> None:
    git_dir = repository / ".git"
    blobs = [put_object(git_dir, "blob", b"x = %d\n" % number) for number in range(20)]
    folders = []
    for folder in range(100):
        names = [b"%04d.%s" % (number, b"py" if number < 20 else b"txt") for number in range(1000)]
        tree = put_tree(git_dir, [("100644", name, blobs[place % 20]) for place, name in enumerate(names)])
        folders.append(("40000", b"d%03d" % folder, tree))
    agent = put_object(git_dir, "blob", AGENT.encode())
    found = scanned(repository, put_commit(git_dir, put_tree(git_dir, [("100644", b"agent.py", agent), *folders])))
    assert found.files == {"agent.py"}
    assert found.report["statistics"]["files"] == 2001


def test_a_file_of_200_megabytes(repository: Path, scanned: Scan) -> None:
    git_dir = repository / ".git"
    line = b"x = 1  # " + b"-" * 54 + b"\n"
    large = [put_object(git_dir, "blob", line * (200 * 2**20 // len(line)))]
    large.append(put_object(git_dir, "blob", b'{"cells": [' + b"0, " * (4 << 20) + b"0]}"))
    large.append(put_object(git_dir, "blob", b"a: 1\n" * 100_000))
    large.append(put_object(git_dir, "blob", b"x = 1\n" * 400_000))
    agent = put_object(git_dir, "blob", AGENT.encode())
    names = (b"huge.py", b"notebook.ipynb", b"options.yaml", b"tables.py")
    entries = [("100644", name, blob) for name, blob in zip(names, large, strict=True)]
    found = scanned(repository, put_commit(git_dir, put_tree(git_dir, [("100644", b"agent.py", agent), *entries])))
    assert found.files == {"agent.py"}
    assert set(found.skipped) == {name.decode() for name in names}
    assert found.skipped["huge.py"] == "larger than 10 MiB"


# --- sources ---------------------------------------------------------------------------------------------------------

N = 20_000
DEEP: dict[str, str] = {
    "brackets.py": "x = " + "(" * N + ")" * N,
    "lists.py": "x = " + "[" * N + "]" * N,
    "open_braces.py": "x = " + "{" * N,
    "lambdas.py": "x = " + "lambda: " * N + "0",
    "nots.py": "x = " + "not " * N + "0",
    "minuses.py": "x = " + "-" * N + "1",
    "powers.py": "x = " + "2 ** " * N + "1",
    "attributes.py": "x = a" + ".b" * N,
    "calls.py": "x = f" + "()" * N,
    "subscripts.py": "x = a" + "[0]" * N,
    "ternaries.py": "x = " + "1 if a else " * N + "0",
    "comparisons.py": "x = " + "a < " * N + "b",
    "ands.py": "x = " + "a and " * N + "b",
    "walrus.py": "x = " + "(a := " * N + "1" + ")" * N,
    "strings.py": "x = (" + "'a' " * N + ")",
    "targets.py": "a = " * N + "1",
    "stars.py": "f(" + "*a, " * N + ")",
    "fors.py": "x = [a " + "for a in b " * N + "]",
    "awaits.py": "async def f():\n    x = " + "await " * N + "y",
    "decorators.py": "@a\n" * N + "def f(): pass",
    "elifs.py": "if a: pass\n" + "elif a: pass\n" * N + "else: pass",
    "indents.py": "".join("    " * depth + "if a:\n" for depth in range(300)) + "    " * 300 + "pass",
    "tabs.py": "".join("\t" * depth + "def f():\n" for depth in range(90)) + "\t" * 90 + "pass",
    "classes.py": "".join(" " * depth + "class A:\n" for depth in range(99)) + " " * 99 + "x = 1",
    "elses.py": "".join(" " * depth + "if a: pass\n" + " " * depth + "else:\n" for depth in range(99))
    + " " * 99
    + "pass",
    "fstrings.py": "x = f'" + "{f'" * 100 + "}" * 100 + "'",
    "withs.py": "with " + ", ".join(["open()"] * N) + ": pass",
    "backslashes.py": "x = 1" + " \\\n" * N + "+ 1",
    "blank.py": "\n" * 500_000,
    "semicolons.py": "f();" * N,
    "arguments.py": "def f(" + ", ".join(f"a{number}=f()" for number in range(N)) + "): pass",
    "globals.py": "def f():\n    global " + ", ".join(f"a{number}" for number in range(N)),
    "long_name.py": "a" * 1_000_000 + " = 1",
    "long_number.py": "x = " + "9" * 1_000_000,
    "long_string.py": "x = '" + "\\N{BULLET}" * 100_000 + "'",
    "deep.json": "[" * N + "]" * N,
    "deep.yaml": "- " * N + "a",
    "flow.yaml": "a: " + "{a: " * N + "1" + "}" * N,
    "recursive.yaml": "a: &a {b: *a, c: [*a, *a], d: &d [*d, *a]}\n",
    "laughs.yaml": "a0: &a0 [1,1]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 40)),
    "merge.yaml": "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)),
    "tags.yaml": "a: !!python/object/apply:os.system ['touch owned']\nb: !!python/name:os.system\n",
    "documents.yaml": "---\na: 1\n" * 20_000,
    "key.yaml": "? [a, {b: c}]\n: 1\n? !!binary aGk=\n: 2\n",
    "not_a_notebook.ipynb": '{"cells": [null, 1, {"cell_type": "code", "source": {"a": 1}}, {"cell_type": "code"}]}',
    "deep.ipynb": '{"cells": ' + "[" * N + "]" * N + "}",
    "strange.gin": "a.b = " + "(" * N + "\n" + "import os; " * 100,
}


def test_nesting_that_crashes_parsers(repository: Path, scanned: Scan) -> None:
    commit(repository, {**DEEP, "agent.py": AGENT, "null.py": "x = 1\0", "utf16.py": "x = 1\n".encode("utf-16")})
    found = scanned(repository)
    assert found.files == {"agent.py"}
    assert all(reason for reason in found.skipped.values())
    assert {"brackets.py", "lambdas.py", "powers.py", "ternaries.py", "null.py", "utf16.py"} <= set(found.skipped)
    assert not (repository / "owned").exists()
    left = found.report["statistics"]["files"] - len(found.skipped)
    assert left >= 10  # what is merely long is read


def test_fifty_thousand_branches(repository: Path, scanned: Scan) -> None:
    branches = "".join(f"    if x=={number}:return {number}\n" for number in range(50_000))
    commit(repository, {"branches.py": f"def f(x):\n{branches}", "agent.py": AGENT})
    found = scanned(repository)
    assert found.files == {"agent.py"}
    assert set(found.skipped) <= {"branches.py"}


def test_notebooks_with_megabytes_of_output(repository: Path, scanned: Scan) -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 8_000_000}}
    lines = {"output_type": "stream", "text": ["x" * 60 + "\n"] * 60_000}
    code = [line + "\n" for line in AGENT.split("\n")]
    notebooks = {
        f"{name}.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": code, "outputs": [output]}]}, indent=1)
        for name, output in (("picture", picture), ("lines", lines))
    }
    cells = [{"cell_type": "code", "source": [f"x{n} = {n}\n", "y = 1"]} for n in range(20_000)]
    notebooks["cells.ipynb"] = json.dumps({"cells": cells}, indent=1)
    commit(repository, notebooks)
    found = scanned(repository)
    assert found.files == {"picture.ipynb", "lines.ipynb"}
    assert set(found.skipped) <= {"cells.ipynb"}


# --- programs --------------------------------------------------------------------------------------------------------


def test_cycles_of_imports_classes_and_values(repository: Path, scanned: Scan) -> None:
    modules = {
        f"cycle/m{number}.py": f"from cycle.m{(number + 1) % 9} import *\n"
        f"from cycle.m{(number + 1) % 9} import A, f, x\n"
        f"class A(A):\n    def act(self): return self.act()\nclass B(A, A): pass\n"
        f"def f(a=x): return f(f)\nx = x\ny = z\nz = y\n"
        for number in range(9)
    }
    classes = "class A(B): pass\nclass B(C): pass\nclass C(A):\n    def step(self, a): return super().step(a)\n"
    values = (
        "x = y\ny = x\nf = lambda: f()\ng = h\nh = g\npolicy = C()\npolicy.a = policy\n"
        + AGENT
        + "evaluate(x)\nevaluate(policy)\n"
    )
    commit(
        repository,
        {**modules, "cycle/__init__.py": "from . import *\nfrom .m0 import *\n", "agent.py": classes + values},
    )
    assert scanned(repository).files == {"agent.py"}


def test_options_that_are_built_in_loops(repository: Path, scanned: Scan) -> None:
    source = (
        "import argparse\nparser = argparse.ArgumentParser()\nnames = ['a', 'b'] * 10**9\n"
        "for name in names:\n    for kind in (int, float):\n"
        "        parser.add_argument('--' + name, type=kind, default=names)\n"
        "while True:\n    parser.add_argument('--%s' % name, **{'default': parser})\n"
        "args = parser.parse_args()\nvars(args).update(vars(args))\nargs = argparse.Namespace(**vars(args), **args)\n"
    )
    many = "".join(f"parser.add_argument('--o{n}', default=args.o{(n + 1) % 3000})\n" for n in range(3000))
    commit(repository, {"agent.py": source + many + AGENT + "evaluate(args.o1, args.o2)\n"})
    assert scanned(repository).files == {"agent.py"}


@pytest.mark.parametrize("shape", ["chain", "doubling", "all to all", "values"])
def test_call_graphs_that_multiply(repository: Path, scanned: Scan, shape: str) -> None:
    if shape == "chain":
        text = "".join(f"def f{n}(p, a=None):\n    return f{n + 1}(p, a)\n" for n in range(1500)) + "f1500 = evaluate\n"
    elif shape == "doubling":
        text = (
            "".join(f"def f{n}(p):\n    f{n + 1}(p)\n    return f{n + 1}(p)\n" for n in range(60)) + "f60 = evaluate\n"
        )
    elif shape == "all to all":
        calls = "".join(f"    f{n}(p)\n" for n in range(40))
        text = "".join(f"def f{n}(p):\n{calls}" for n in range(40)) + "def g(p):\n    evaluate(p)\n"
    else:
        text = "x0 = evaluate\n" + "".join(f"x{n} = x{n - 1} if x{n - 1} else x{n - 1}\n" for n in range(1, 80))
        text += "f0 = x79\n"
    commit(repository, {"agent.py": AGENT + text + "f0(model)\n"})
    found = scanned(repository)
    assert "agent.py" in found.files or found.skipped
