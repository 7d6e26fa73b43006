"""Fixes: layout and comments stay, behaviour stays for safe ones, twice is once, and nothing outside the tree is
written.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lintcases import codes, lint

from codeaudit.errors import UserError
from codeaudit.fix import diff, fixed, fixed_files, write_changes
from codeaudit.rules import all_rules
from codeaudit.rules.base import Edit, Files, Rule


def add(line: int, name: str = "act", keyword: str = "deterministic", value: str = "False") -> Edit:
    return Edit("add_keyword", "a.py", line, name, keyword, value, safe=True)


def restore(line: int, name: str = "evaluate", receiver: str = "net") -> Edit:
    return Edit("restore_mode", "a.py", line, name, receiver, "", safe=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = act()\n", "x = act(deterministic=False)\n"),
        ("x = p.act(obs)  # why\n", "x = p.act(obs, deterministic=False)  # why\n"),
        ("x = p.act(obs, )\n", "x = p.act(obs, deterministic=False, )\n"),
        ("x = p.act(\n    obs,\n    masks,\n)\n", "x = p.act(\n    obs,\n    masks,\n    deterministic=False,\n)\n"),
        ("x = p.act(\n    obs,  # seen\n)\n", "x = p.act(\n    obs,  # seen\n    deterministic=False,\n)\n"),
        (
            "x = p.act(\n    obs,\n    masks  # last\n)\n",
            "x = p.act(\n    obs,\n    masks,  # last\n    deterministic=False\n)\n",
        ),
        ("x = p.act(obs,\n          masks)\n", "x = p.act(obs,\n          masks,\n          deterministic=False)\n"),
        ("x = p.act(obs)\r\ny = 1\r\n", "x = p.act(obs, deterministic=False)\r\ny = 1\r\n"),
        ("x = p.act(obs)", "x = p.act(obs, deterministic=False)"),
    ],
)
def test_a_keyword_is_added_in_the_layout_of_the_call(before: str, after: str) -> None:
    done, made = fixed(before.encode(), [add(1)])
    assert done.decode() == after
    assert len(made) == 1
    assert fixed(done, [add(1)]) == (done, ())


@pytest.mark.parametrize(
    "source",
    [
        "x = p.act(obs, deterministic=True)\n",  # said already
        "x = p.act(*args)\n",  # may be said already
        "x = p.act(obs, **more)\n",
        "x = p.act(o for o in obs)\n",  # would need parentheses of its own
        "x = p.step(obs)\n",  # another call
        "\nx = p.act(obs)\n",  # another line
        "x = p.act(obs\n",  # no Python
        "x = '\udcff'\n",
    ],
)
def test_a_call_that_cannot_take_the_keyword_stays(source: str) -> None:
    data = source.encode("utf-8", "surrogateescape")
    assert fixed(data, [add(1)]) == (data, ())


def test_the_encoding_of_the_file_is_kept() -> None:
    source = "# -*- coding: latin-1 -*-\nx = act('\xe4')\n".encode("latin-1")
    assert fixed(source, [add(2)])[0] == "# -*- coding: latin-1 -*-\nx = act('\xe4', deterministic=False)\n".encode(
        "latin-1"
    )


def test_the_mode_is_restored_before_the_only_return() -> None:
    source = b"def evaluate(net):\n    net.eval()\n    r = run(net)  # slow\n\n    # the score\n    return r\n"
    wanted = source.replace(b"# slow\n", b"# slow\n    net.train()\n")
    done, made = fixed(source, [restore(1)])
    assert (done, len(made)) == (wanted, 1)
    assert fixed(done, [restore(1)]) == (done, ())


def test_the_mode_is_restored_at_the_end_where_nothing_is_returned() -> None:
    assert fixed(b"def evaluate(net):\n    net.eval()\n    run(net)\n", [restore(1)])[0].endswith(
        b"    run(net)\n    net.train()\n"
    )


def test_a_function_with_several_ways_out_is_left_to_a_person() -> None:
    source = b"def evaluate(net):\n    net.eval()\n    if not net:\n        return 0\n    return run(net)\n"
    assert fixed(source, [restore(1)]) == (source, ())


FIXABLE = [
    pytest.param(rule, files, id=f"{rule.code}-{number}")
    for rule in all_rules()
    if rule.fixable
    for number, files in enumerate(rule.bad)
]


@pytest.mark.parametrize(("rule", "files"), FIXABLE)
def test_what_a_rule_calls_fixable_is_fixed_by_one_pass(rule: Rule, files: Files) -> None:
    found = [p for p in lint(files) if p.finding.code == rule.code]
    edits = [p.edit for p in found if p.edit is not None]
    assert all(edit.safe == (rule.fixable == "safe") for edit in edits)
    contents = {path: text.encode() for path, text in files.items()}
    changes, made = fixed_files(contents, edits)
    assert made == tuple(edits)
    after = {**files, **{path: new.decode() for path, (_, new) in changes.items()}}
    left = [p for p in lint(after) if p.finding.code == rule.code]
    assert len(left) == len(found) - len(edits)
    assert all(p.edit is None for p in left)


def test_a_rule_with_a_fix_has_an_example_that_it_fixes() -> None:
    for rule in all_rules():
        edits = [p.edit for files in rule.bad for p in lint(files) if p.finding.code == rule.code and p.edit]
        assert bool(edits) == bool(rule.fixable), rule.code


def test_a_fixed_evaluation_is_explicit() -> None:
    (rule,) = (r for r in all_rules() if r.code == "CA101")
    files = dict(rule.bad[0])
    edits = [p.edit for p in lint(files) if p.edit is not None and p.edit.safe]
    changes, _ = fixed_files({path: text.encode() for path, text in files.items()}, edits)
    assert changes["main.py"][1].decode() == rule.good[0]["main.py"]
    assert "CA101" not in codes(lint(rule.good[0]))


# --- writing ---------------------------------------------------------------------------------------------------------


def test_files_are_written_with_their_permissions(tmp_path: Path) -> None:
    place = tmp_path / "pkg" / "a.py"
    place.parent.mkdir()
    place.write_bytes(b"old\n")
    place.chmod(0o750)
    write_changes(tmp_path, {"pkg/a.py": (b"old\n", b"new\n")})
    assert place.read_bytes() == b"new\n"
    assert place.stat().st_mode & 0o777 == 0o750
    assert [p.name for p in place.parent.iterdir()] == ["a.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"somebody's\n")
    with pytest.raises(UserError, match="changed while"):
        write_changes(tmp_path, {"a.py": (b"old\n", b"new\n")})
    assert (tmp_path / "a.py").read_bytes() == b"somebody's\n"


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir()
    tree.mkdir()
    (outside / "a.py").write_bytes(b"old\n")
    (tree / "a.py").symlink_to(outside / "a.py")
    (tree / "pkg").symlink_to(outside)
    for path in ("a.py", "pkg/a.py"):
        with pytest.raises(UserError, match="can't be written"):
            write_changes(tree, {path: (b"old\n", b"new\n")})
    assert (outside / "a.py").read_bytes() == b"old\n"


@pytest.mark.parametrize("path", ["../a.py", "/a.py", "pkg/../../a.py", "./a.py"])
def test_no_path_leads_out_of_the_tree(tmp_path: Path, path: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "a.py").write_bytes(b"old\n")
    with pytest.raises(UserError, match="outside"):
        write_changes(tree, {path: (b"old\n", b"new\n")})
    assert (tmp_path / "a.py").read_bytes() == b"old\n"


def test_a_diff_shows_hostile_names_escaped() -> None:
    shown = diff({"a\x1b[31m.py": (b"x = 1\n", b"x = 2")})
    assert "\x1b" not in shown
    assert shown.splitlines()[2:] == ["@@ -1 +1 @@", "-x = 1", "+x = 2", "\\ No newline at end of file"]


def test_a_notebook_is_left_to_a_person() -> None:
    cell = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "source": ["import torch\n", "x = torch.load('a.pt')\n"],
    }
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    (found,) = [p for p in lint({"a.ipynb": notebook}) if p.finding.code == "CA801"]
    assert found.edit is None


FIRST_FINISHED = """\
def evaluate(agent, eval_envs, num_episodes):
    returns = []
    obs = eval_envs.reset()
    # until there are enough
    while len(returns) < num_episodes:
        obs, _, done, infos = eval_envs.step(agent.act(obs))
        for info in infos:
            if "episode" in info or "final" in info:
                returns.append(info["episode"]["r"])  # its return
    return returns
"""
BY_SLOT = """\
def evaluate(agent, eval_envs, num_episodes):
    returns = []
    obs = eval_envs.reset()
    # until there are enough
    slot_quota = -(-(num_episodes) // eval_envs.num_envs)  # episodes of each slot
    slot_counts = [0] * eval_envs.num_envs
    while min(slot_counts) < slot_quota:
        obs, _, done, infos = eval_envs.step(agent.act(obs))
        for slot, info in enumerate(infos):
            if ("episode" in info or "final" in info) and slot_counts[slot] < slot_quota:
                returns.append(info["episode"]["r"])  # its return
                slot_counts[slot] += 1
    return returns
"""


def quota(line: int) -> Edit:
    return Edit("slot_quota", "a.py", line, "returns", "", "eval_envs.num_envs", safe=False)


def test_each_slot_gets_a_quota() -> None:
    done, made = fixed(FIRST_FINISHED.encode(), [quota(5)])
    assert done.decode() == BY_SLOT
    assert len(made) == 1
    assert fixed(done, [quota(5), quota(7)]) == (done, ())


@pytest.mark.parametrize(
    "change",
    [
        ("len(returns) < num_episodes", "len(returns) < num_episodes and running"),
        ("returns.append", "returns.extend"),
        ("while len(returns) < num_episodes:", "for _ in range(num_episodes):"),
    ],
)
def test_a_loop_that_is_written_otherwise_stays(change: tuple[str, str]) -> None:
    data = FIRST_FINISHED.replace(*change).encode()
    assert fixed(data, [quota(5)]) == (data, ())


def test_quotas_give_every_slot_as_many_episodes() -> None:
    """The rewritten function, run: slot 0's episodes are short, and it still contributes no more than the others."""

    class Environments:
        num_envs = 3

        def __init__(self) -> None:
            self.time = 0

        def reset(self) -> int:
            return 0

        def step(self, _: object) -> tuple[int, None, None, list[dict[str, dict[str, int]]]]:
            self.time += 1
            ends = [self.time % length == 0 for length in (1, 3, 7)]
            return 0, None, None, [{"episode": {"r": slot}} if end else {} for slot, end in enumerate(ends)]

    class Agent:
        def act(self, obs: int) -> int:
            return obs

    space: dict[str, object] = {}
    exec(BY_SLOT, space)
    counted = space["evaluate"](Agent(), Environments(), 7)  # type: ignore[operator]
    assert sorted(counted) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
