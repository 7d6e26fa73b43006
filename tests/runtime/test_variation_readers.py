"""Readers of learning curves: every format gives the same curves, and a bad file is named with its line and why."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from codeaudit_runtime.variation.columns import Wanted
from codeaudit_runtime.variation.loading import Loaded, load_curves

from codeaudit.errors import UserError

# Written by tensorboardX 2.6.5: rollout/ep_rew_mean 1.5, NaN, 3.25 at 0, 100, 200; train/loss; a text.
OLD_EVENTS = base64.b64decode(
    "GAAAAAAAAACjf0siCV3O9Tw7w9pBGg1icmFpbi5FdmVudDoyEapfTicAAAAAAAAAu+GxRgki2vU8O8PaQSocChoKE3JvbGxvdXQvZXBfcmV3X21l"
    "YW4VAADAP2AGkWopAAAAAAAAADf/XwAJrO71PDvD2kEQZCocChoKE3JvbGxvdXQvZXBfcmV3X21lYW4VAADAf6Pm95wqAAAAAAAAAK6NkfUJRO/1"
    "PDvD2kEQyAEqHAoaChNyb2xsb3V0L2VwX3Jld19tZWFuFQAAUEADv07jIAAAAAAAAAAp7alQCYfv9Tw7w9pBEGQqEwoRCgp0cmFpbi9sb3NzFQAA"
    "AD+EOSYjOwAAAAAAAAAaI6xcCRvw9Tw7w9pBKjAKLgoRbm90ZS90ZXh0X3N1bW1hcnlCDwgHEgQSAggBQgVoZWxsb0oICgYKBHRleHRabRI2"
)
# Written by tensorboard 2.21.0 as tensors: eval/mean_reward 0.1, 1.5, 2.5, 2.75 at -1, 1, 2, 2.
NEW_EVENTS = base64.b64decode(
    "SAAAAAAAAAD+kkidCTZx+jw7w9pBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2ZpbGVfd3JpdGVy"
    "WPZEuToAAAAAAAAAEpXq4hD///////////8BKi0KKwoQZXZhbC9tZWFuX3Jld2FyZEIKCAESACoEzczMPUoLCgkKB3NjYWxhcnPyL2JJOgAAAAAA"
    "AAASleriCQAAAAAAAABAEAEqLQorChBldmFsL21lYW5fcmV3YXJkQgoIARIAKgQAAMA/SgsKCQoHc2NhbGFyc69deJY6AAAAAAAAABKV6uIJAAAA"
    "AAAACEAQAiotCisKEGV2YWwvbWVhbl9yZXdhcmRCCggBEgAqBAAAIEBKCwoJCgdzY2FsYXJzqSN4kToAAAAAAAAAEpXq4gkAAAAAAAAIQBACKi0K"
    "KwoQZXZhbC9tZWFuX3Jld2FyZEIKCAESACoEAAAwQEoLCgkKB3NjYWxhcnO03BzF"
)
MONITOR = '#{"t_start": 100.0, "env_id": "CartPole-v1"}\nr,l,t\n'
Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts a file in the test's folder; folders in the name are made."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def load(*paths: Path, **options: object) -> Loaded:
    names = {"value", "step", "run", "groups", "algorithm"}
    wanted = Wanted(**{key: value for key, value in options.items() if key in names})  # type: ignore[arg-type]
    rest = {key: value for key, value in options.items() if key not in names}
    return load_curves(paths, wanted, **rest)  # type: ignore[arg-type]


def points(loaded: Loaded) -> list[tuple[str, str, str, list[float], list[float]]]:
    return [(c.task, c.algorithm, c.run, c.steps_T.tolist(), c.values_T.tolist()) for c in loaded.curves]


TIDY = "game,split,seed,steps,return\nmaze,test,1,20,4\nmaze,test,1,10,3\nmaze,test,0,10,1\nmaze,train,0,10,2\n"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv"])
def test_tidy_tables_in_any_order_plain_or_gzip(write: Write, name: str) -> None:
    content = TIDY.replace(",", "\t") if name == "a.tsv" else TIDY
    path = write(name, gzip.compress(content.encode()) if name.endswith("gz") else content)
    loaded = load(path, groups=("game", "split"))
    assert points(loaded) == [
        ("maze, test", "", "0", [10], [1]),
        ("maze, test", "", "1", [10, 20], [3, 4]),
        ("maze, train", "", "0", [10], [2]),
    ]
    assert loaded.inputs[0].columns.guessed == ("value", "step", "run")


def test_a_key_that_is_missing_shows_as_a_step_twice(write: Write) -> None:
    with pytest.raises(UserError, match=r"a\.csv:5: game maze, seed 0 has step 10 twice.*--group.*columns left: split"):
        load(write("a.csv", TIDY))


def test_progress_files_are_one_run_each_and_blank_cells_are_no_points(write: Write) -> None:
    for seed in (10, 2):
        write(f"runs/ppo_{seed}/progress.csv", f"rollout/ep_rew_mean,time/total_timesteps\n,100\n{seed},200\nnan,300\n")
    loaded = load(write("runs/ppo_1/progress.csv", "time/total_timesteps,rollout/ep_rew_mean\n5,1\n").parent.parent)
    assert [curve.run.split("/")[-2] for curve in loaded.curves] == ["ppo_1", "ppo_2", "ppo_10"]
    assert loaded.curves[2].steps_T.tolist() == [200, 300]
    assert np.isnan(loaded.curves[2].values_T[1])


def test_monitor_files_of_sub_environments_are_merged_by_time(write: Write) -> None:
    write("run/0.monitor.csv", MONITOR + "1,10,1\n3,10,5\n")
    write("run/1.monitor.csv", MONITOR.replace("100.0", "101.0") + "2,7,1\n")
    loaded = load(write("run/notes.txt", "x").parent)
    assert points(loaded)[0][3:] == ([10, 17, 27], [1, 2, 3])
    assert loaded.curves[0].task == "CartPole-v1"
    assert loaded.inputs[0].columns.guessed == ("task",)
    assert "1 other files" in loaded.notes[0]


def test_monitor_files_of_other_names_are_runs(write: Write) -> None:
    write("m/seed1.monitor.csv", MONITOR + "1,10,1\n")
    folder = write("m/seed2.monitor.csv", MONITOR + "2,10,1\n").parent
    assert [values for *_, values in points(load(folder))] == [[1], [2]]


def test_wandb_exports_are_wide(write: Write) -> None:
    head = '"Step","a - return","a - return__MIN","a - return__MAX","b - return","b - return__MIN","b - return__MAX"'
    loaded = load(write("w.csv", head + '\n"1","0.5","0","1","",,\n"2","","","","7","7","7"\n'))
    assert points(loaded) == [("", "", "a", [1], [0.5]), ("", "", "b", [2], [7])]


def test_old_and_new_event_files(write: Write) -> None:
    old = load(write("tb/old/events.out.tfevents.1.host", OLD_EVENTS))
    assert old.inputs[0].columns.choice.value == "rollout/ep_rew_mean"
    assert old.curves[0].steps_T.tolist() == [0, 100, 200]
    assert old.curves[0].values_T[[0, 2]].tolist() == [1.5, 3.25] and np.isnan(old.curves[0].values_T[1])
    new = load(write("tb/new/events.out.tfevents.1.host", NEW_EVENTS))
    assert new.curves[0].steps_T.tolist() == [-1, 1, 2]
    assert new.curves[0].values_T.tolist() == [struct.unpack("<f", struct.pack("<f", 0.1))[0], 1.5, 2.75]
    assert "logged twice" in new.notes[0]
    loss = load(write("tb/old/events.out.tfevents.1.host", OLD_EVENTS), value="train/loss")
    assert loss.curves[0].values_T.tolist() == [0.5]


def test_event_files_of_one_folder_are_one_run(write: Write) -> None:
    write("r/events.out.tfevents.1.host", NEW_EVENTS)
    folder = write("r/events.out.tfevents.2.host", NEW_EVENTS).parent
    assert len(load(folder).curves) == 1


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_evaluations_and_tables_in_npz(tmp_path: Path) -> None:
    evaluations = npz(tmp_path / "evaluations.npz", timesteps=[10, 20], results=[[1.0, 3.0], [5.0, 7.0]])
    assert points(load(evaluations))[0][3:] == ([10, 20], [2, 6])
    table = load(npz(tmp_path / "table.npz", **{"walker-walk": np.arange(6).reshape(2, 3)}))
    assert points(table) == [
        ("walker-walk", "", "0", [1, 2, 3], [0, 1, 2]),
        ("walker-walk", "", "1", [1, 2, 3], [3, 4, 5]),
    ]


def test_pickled_arrays_are_refused_and_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))  # type: ignore[return-value]

    path = npz(tmp_path / "evaluations.npz", timesteps=[1], results=np.array([Trap()], dtype=object))
    with pytest.raises(UserError, match=r"evaluations\.npz: it holds pickled objects"):
        load(path)
    assert not (tmp_path / "sprung").exists()


def test_own_run_directories_give_one_score_an_agent_and_rule(write: Write) -> None:
    for seed in (0, 1):
        rules = {"greedy": {"mean": 5.0 + seed}, "sampled": {"mean": 3.0}, "uniform_random": {"mean": 0.0}}
        checkpoint = {"id": "agent", "environment": "CartPole-v1", "algorithm": "ppo", "rules": rules}
        report = {"schema": "codeaudit.evaluate/1", "checkpoints": [checkpoint]}
        path = write(f"out/seed{seed}/evaluation.json", json.dumps(report))
    assert points(load(path.parent.parent)) == [
        ("CartPole-v1", "ppo, greedy", "seed0/agent", [0], [5]),
        ("CartPole-v1", "ppo, greedy", "seed1/agent", [0], [6]),
        ("CartPole-v1", "ppo, sampled", "seed0/agent", [0], [3]),
        ("CartPole-v1", "ppo, sampled", "seed1/agent", [0], [3]),
    ]


def test_algorithms_are_folders_files_or_a_column(write: Write) -> None:
    for name in ("ppo_1", "ppo_2", "sac-a", "dqn"):
        write(f"runs/{name}/progress.csv", "step,return\n1,1\n")
    loaded = load(write("runs/README.md", "x").parent, compare=("ppo", "SAC"))
    assert [curve.algorithm for curve in loaded.curves] == ["SAC", "ppo", "ppo"]
    assert [item.why for item in loaded.left_out] == ["of none of ppo, SAC"]
    inner = write("ppo/x/sac_2/progress.csv", "step,return\n1,1\n")
    assert load(inner, compare=("sac",)).curves[0].algorithm == "sac"
    outer = load(inner, write("ppo/x/y/progress.csv", "step,return\n1,1\n"), compare=("ppo", "sac"))
    assert [curve.algorithm for curve in outer.curves] == ["ppo", "sac"]
    table = write("t.csv", "algo,seed,step,return\nppo,0,1,1\nsac,0,1,2\ntd3,0,1,3\n")
    assert [curve.algorithm for curve in load(table, compare=("sac", "ppo")).curves] == ["ppo", "sac"]
    with pytest.raises(UserError, match="'a2c', but no run belongs to it"):
        load(table, compare=("ppo", "a2c"))


BAD: list[tuple[str, str | bytes, str]] = [
    ("a.csv", "seed,step,return\n0,1,1\n0,x,2\n", r"a\.csv:3: column 'step' holds 'x', which is no number"),
    ("a.csv", "seed,step,return\n0,1,1\n0,2,?\n0,3,1\n", r"a\.csv:3: column 'return' holds '\?'"),
    ("a.csv", "seed,step,return\n0,1,1\n0,2\n0,3,1\n", r"a\.csv:3: 2 fields, but the header has 3"),
    ("a.csv", "seed,step,return\n0,,1\n", r"a\.csv:2: a value without a finite 'step'"),
    ("a.csv", "step,return\n1,1\n2,2\n1,5\n", r"a\.csv:4: column 'step' goes back; several runs"),
    ("a.csv", "step,step\n1,1\n", r"a\.csv:1: the column 'step' stands twice"),
    ("a.csv", "", r"a\.csv: no header: the file is empty"),
    ("a.csv", "step,return\n", r"a\.csv: no row has a 'return'"),
    ("a.csv", "step,foo,bar\n1,1,1\n", r"a\.csv: which column is the return\?; name it with --value; there are step"),
    ("a.csv", "foo,return\n1,1\n", r"a\.csv: which column counts steps\?"),
    ("w.csv", '"a - return","a - return__MIN"\n1,1\n', r"w\.csv: which column counts steps"),
    ("a.csv.gz", gzip.compress(b"seed,step,return\n" + b"0,1,1\n" * 9000)[:-20], r"a\.csv\.gz:\d+: the gzip stream"),
    ("a.csv.gz", b"no gzip", r"a\.csv\.gz:1: the gzip stream"),
    ("0.monitor.csv", MONITOR + "1,0,3\n", r"0\.monitor\.csv:3: an episode without length"),
    ("0.monitor.csv", MONITOR + "1,a,3\n", r"0\.monitor\.csv:3: column 'l' holds 'a'"),
    ("0.monitor.csv", MONITOR, r"0\.monitor\.csv: no episode"),
    ("events.out.tfevents.1", OLD_EVENTS[:100], r"tfevents\.1: record 3 at byte 95: the file ends inside it"),
    ("events.out.tfevents.1", b"x" * 40, r"record 1 at byte 0: its length is damaged, or this is no event file"),
    ("events.out.tfevents.1", OLD_EVENTS[:40], r"tfevents\.1: no scalar in it"),
    ("evaluations.npz", b"no zip", r"evaluations\.npz: no \.npz file, or a damaged one"),
    ("evaluation.json", "{", r"evaluation\.json:1: no JSON"),
    ("evaluation.json", '{"schema": "x"}', r"evaluation\.json: not a report of `codeaudit evaluate`"),
    ("evaluation.json", '{"schema": "codeaudit.evaluate/1"}', r"evaluation\.json: not a report of this version"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), BAD)
def test_a_bad_file_is_named_with_its_place_and_why(write: Write, name: str, content: str | bytes, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        load(write(f"bad/{name}", content))
    assert "\n" not in str(caught.value)


def test_bad_files_can_be_left_out_but_are_listed(write: Write) -> None:
    write("d/bad.csv", "step,return\n1,?\n")
    loaded = load(write("d/good.csv", "step,return\n1,5\n").parent, skip_bad=True)
    assert len(loaded.curves) == 1
    assert "bad.csv:2: column 'return' holds '?'" in loaded.left_out[0].what


def test_an_unfinished_last_line_is_left_out_and_said(write: Write) -> None:
    loaded = load(write("a.csv", "step,return,x\n1,5,0\n2,6,0\n3,7"))
    assert loaded.curves[0].steps_T.tolist() == [1, 2]
    assert loaded.notes == ["a.csv:4: the last line is unfinished and left out"]


def test_several_kinds_of_logs_of_the_same_runs_must_be_chosen_from(write: Write) -> None:
    write("run/progress.csv", "step,return\n1,5\n")
    folder = write("run/0.monitor.csv", MONITOR + "9,10,1\n").parent
    with pytest.raises(UserError, match=r"2 kinds \(monitor, table\).*--kind"):
        load(folder)
    assert load(folder, kind="monitor").curves[0].values_T.tolist() == [9]
    with pytest.raises(UserError, match="found: monitor, table"):
        load(folder, kind="tensorboard")


def test_one_run_in_two_files_is_no_two_runs(write: Write) -> None:
    write("d/a.csv", "seed,step,return\n0,1,5\n")
    folder = write("d/b.csv", "seed,step,return\n0,1,6\n").parent
    with pytest.raises(UserError, match=r"b\.csv: run 0 of the task is also in .*a\.csv.*--group file"):
        load(folder)
    assert len(load(folder, run="file").curves) == len(load(folder, groups=("file",)).curves) == 2
    assert load(folder.parent, groups=("path:1", "file")).curves[0].task.startswith("d, ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"value": "x"}, "--value names 'x', which is not there; there are game, split, seed, steps, return"),
        ({"step": "x"}, "--step names 'x'"),
        ({"run": "x"}, "--run names 'x'"),
        ({"groups": ("x",)}, "--group names 'x'"),
    ],
)
def test_a_column_that_is_not_there_is_named_with_those_that_are(
    write: Write, options: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        load(write("a.csv", TIDY), **options)


def test_nothing_to_read(write: Write) -> None:
    with pytest.raises(UserError, match="no learning curves in"):
        load(write("d/README.md", "x").parent)
    with pytest.raises(UserError, match="no such file"):
        load(Path("missing.csv"))


def test_hostile_names_are_shown_escaped(write: Write) -> None:
    path = write("a\x1b[31m.csv", "step,return\n1,\x1b[2J\n")
    with pytest.raises(UserError) as caught:
        load(path)
    assert str(caught.value).isprintable()
