"""The cache forgets what is damaged and stops nobody; a run directory survives kills and mixes no two runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codeaudit.errors import UserError
from codeaudit.store import Cache, RunDirectory, default_cache_dir


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[:-1],
    "cut in the head": lambda whole: whole[:20],
    "empty": lambda whole: b"",
    "longer": lambda whole: whole + b"\0",
    "one bit": lambda whole: whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:],
    "head bit": lambda whole: whole[:25] + bytes([whole[25] ^ 1]) + whole[26:],
    "other version": lambda whole: whole.replace(b"-1\n", b"-0\n", 1),
    "zeros": lambda whole: bytes(len(whole)),
}


def test_what_was_put_is_got_back_whatever_its_bytes_and_names(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    names = ["a", "A", "../../escape", "with\nnewline", "", "x" * 5000, "é\udcff", "ab", "b"]
    for number, key in enumerate(names):
        for namespace in ("facts", "other", "factsa"):
            assert cache.get(namespace, key) is None
            assert cache.put(namespace, key, f"{namespace} {number}\0".encode())
    for number, key in enumerate(names):
        for namespace in ("facts", "other", "factsa"):
            assert Cache(tmp_path / "cache").get(namespace, key) == f"{namespace} {number}\0".encode()
    assert cache.put("facts", "a", b"") and cache.get("facts", "a") == b""
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_missing_and_can_be_put_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cache = Cache(tmp_path)
    cache.put("facts", "key", b"some data")
    [entry] = [path for path in files_in(tmp_path) if path.name != "CACHEDIR.TAG"]
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.get("facts", "key") is None
    assert cache.put("facts", "key", b"some data")
    assert cache.get("facts", "key") == b"some data"


def test_an_entry_moved_to_another_key_is_missing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("facts", "one", b"1")
    [first] = [path for path in files_in(tmp_path) if path.name != "CACHEDIR.TAG"]
    cache.put("facts", "two", b"2")
    [second] = [path for path in files_in(tmp_path) if path.name != "CACHEDIR.TAG" and path != first]
    second.write_bytes(first.read_bytes())
    assert cache.get("facts", "two") is None


def test_an_unwritable_cache_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file")
    assert cache.put("facts", "key", b"data") is False
    assert cache.get("facts", "key") is None
    assert (cache.size(), cache.clear()) == (0, 0)


FULL_DISK = """
import resource, sys
from pathlib import Path
from codeaudit.errors import UserError
from codeaudit.store import Cache, RunDirectory
cache, run = Cache(Path(sys.argv[1]) / "cache"), RunDirectory(Path(sys.argv[1]) / "run", {"seed": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
print(cache.put("facts", "small", b"x" * 100), cache.put("facts", "large", b"x" * 5000), cache.get("facts", "large"))
try:
    run.save("large", b"x" * 5000)
except UserError as error:
    print("can't write the run" in str(error), run.unit("large"), run.keys())
"""


def test_a_full_disk_costs_the_cache_one_entry_and_is_an_error_for_a_run(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True False None\nTrue None []\n", "")
    assert all(path.stat().st_size <= 1000 for path in files_in(tmp_path))
    assert not [path for path in files_in(tmp_path) if path.name.startswith(".")]  # no unfinished file


def test_clearing_frees_what_can_be_made_again_and_nothing_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / "clones").mkdir()
    (tmp_path / "clones" / "of-a-person.txt").write_text("precious")
    run = RunDirectory(tmp_path / "runs" / "one", {"seed": 1})
    run.save("unit", b"hours of work")
    cache.put("facts", "a", b"x" * 1000)
    cache.put("facts", "b", b"x" * 2000)
    assert cache.size() > 3000
    assert cache.clear() > 3000
    assert (cache.size(), cache.get("facts", "a")) == (0, None)
    assert run.unit("unit") == b"hours of work"
    assert (tmp_path / "clones" / "of-a-person.txt").read_text() == "precious"
    assert cache.put("facts", "a", b"again")


def test_where_the_cache_lies() -> None:
    chosen = Path("/chosen")
    everything = {"CODEAUDIT_CACHE": "/named", "XDG_CACHE_HOME": "/xdg"}
    assert default_cache_dir(chosen, everything) == chosen
    assert default_cache_dir(None, everything) == Path("/named")
    assert default_cache_dir(None, {"XDG_CACHE_HOME": "/xdg"}) == Path("/xdg/codeaudit")
    home = Path.home() / ".cache" / "codeaudit"
    assert default_cache_dir(None, {}) == default_cache_dir(None, {"XDG_CACHE_HOME": "relative"}) == home


# --- run directories --------------------------------------------------------------------------------------------------


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    manifest = {"seed": 1, "levels": "0:200", "policies": ["a", {"b": 2.5}], "pair": (1, 2)}
    first = RunDirectory(tmp_path / "run", manifest)
    assert first.unit("episode/1") is None
    first.save("episode/1", b"returns\n")
    first.save("../x", b"")
    again = RunDirectory(tmp_path / "run", dict(reversed(manifest.items())))
    assert again.unit("episode/1") == b"returns\n"
    assert again.keys() == ["../x", "episode/1"]
    again.save("episode/1", b"other")
    assert first.unit("episode/1") == b"other"
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["seed"] == 1


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"seed": 2, "levels": "0:200"}, r"with seed 1, and this one has 2"),
        ({"seed": 1}, r'with levels "0:200", and this one has unset'),
        ({"seed": 1, "levels": "0:200", "extra": None}, r"with extra unset, and this one has null"),
        ({"seed": True, "levels": "0:200"}, r"with seed 1, and this one has true"),
    ],
)
def test_another_manifest_is_refused_and_the_setting_named(
    tmp_path: Path, other: dict[str, object], named: str
) -> None:
    RunDirectory(tmp_path / "run", {"seed": 1, "levels": "0:200"}).save("unit", b"kept")
    with pytest.raises(UserError, match=named):
        RunDirectory(tmp_path / "run", other)
    assert RunDirectory(tmp_path / "run", {"seed": 1, "levels": "0:200"}).unit("unit") == b"kept"


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_unit_is_made_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    run = RunDirectory(tmp_path, {"seed": 1})
    run.save("whole", b"fine")
    run.save("unit", b"some data")
    unit = next(path for path in files_in(tmp_path / "units") if b"some data" in path.read_bytes())
    unit.write_bytes(damage(unit.read_bytes()))
    assert run.unit("unit") is None
    assert run.keys() == ["whole"]
    run.save("unit", b"some data")
    assert run.keys() == ["unit", "whole"]


def test_what_is_no_run_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="can't write"):
        RunDirectory(tmp_path / "file", {"seed": 1})
    for text in ("", "[]", '{"seed"'):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(UserError, match="damaged"):
            RunDirectory(tmp_path, {"seed": 1})


WRITER = """
import sys
from pathlib import Path
from codeaudit.store import Cache, RunDirectory
root, start = Path(sys.argv[1]), int(sys.argv[2])
run, cache = RunDirectory(root / "run", {"seed": 1}), Cache(root / "cache")
print("ready", flush=True)
for number in range(start, 10**9 if start else 200):
    key, data = str(number % 50), str(number % 50).encode() * 20000
    assert cache.get("facts", key) in (None, data) and run.unit(key) in (None, data)
    run.save(key, data)
    assert cache.put("facts", key, data)
print("done", flush=True)
"""


def start_writer(root: Path, start: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(root), str(start)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_writers_and_a_kill_lose_nothing_and_leave_no_lock(tmp_path: Path) -> None:
    killed = [start_writer(tmp_path, start) for start in (1, 7)]
    for process in killed:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    steady = start_writer(tmp_path, 0)
    assert steady.stdout is not None and steady.stdout.readline() == "ready\n"
    for process in killed:
        process.send_signal(signal.SIGKILL)
        assert process.communicate()[1] == ""
    assert steady.communicate() == ("done\n", "")
    run = RunDirectory(tmp_path / "run", {"seed": 1})
    assert run.keys() == sorted(str(number) for number in range(50))
    assert all(run.unit(str(number)) == str(number).encode() * 20000 for number in range(50))


def test_unfinished_files_of_long_ago_are_swept(tmp_path: Path) -> None:
    RunDirectory(tmp_path, {"seed": 1})
    for name, age in ((".old", 100_000), (".recent", 10)):
        left = tmp_path / "units" / name
        left.write_bytes(b"half")
        os.utime(left, (left.stat().st_mtime - age,) * 2)
    RunDirectory(tmp_path, {"seed": 1})
    assert [path.name for path in (tmp_path / "units").iterdir()] == [".recent"]


IMPORTS = """
import sys
import codeaudit.store, codeaudit.snapshot, codeaudit.target
heavy = ["libcst", "git", "rich", "typer", "concurrent.futures", "multiprocessing", "tempfile", "asyncio", "yaml"]
print([name for name in heavy if name in sys.modules])
"""


def test_reading_from_a_cache_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
