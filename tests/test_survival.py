"""Kills, full disks and damaged files end in the same bytes; two runs on one cache and folder do each other no harm.

`CODEAUDIT_KILLS=100 python -m pytest tests/test_survival.py -s` kills as often as that and tells what became of it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from registries import fixture_entry

from fixtures import build

KILLS = int(os.environ.get("CODEAUDIT_KILLS", "0"))
PATIENCE = 300.0  # seconds; far more than any of these commands takes
ENTRIES = ("callee-default", "ppo-literal", "helper-default")

Bytes = dict[str, bytes]


@dataclass(frozen=True)
class Resumable:
    """A command whose run directory and cache lie in the folder that it is started in."""

    folder: Path  # what it reads
    arguments: tuple[str, ...]

    def start(self, place: Path, *, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        place.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CODEAUDIT_")}
        environment |= {"CODEAUDIT_CACHE": "cache", "CODEAUDIT_MIRROR": str(build.default_cache()), "NO_COLOR": "1"}
        command = [*before, sys.executable, "-m", "codeaudit", *self.arguments]
        # In a folder of its own, and a session of its own, so that nothing of it can outlive the test.
        return subprocess.Popen(
            command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def finish(self, place: Path) -> Bytes:
        return finished(self.start(place), place)


def finished(process: subprocess.Popen[bytes], place: Path) -> Bytes:
    shown, errors = process.communicate(timeout=PATIENCE)
    return outcome(process.returncode, shown, errors, place)


def outcome(code: int, shown: bytes, errors: bytes, place: Path) -> Bytes:
    """Everything that a finished command printed and kept."""
    assert code in (0, 1), errors.decode()
    kept = {str(path.relative_to(place)): path.read_bytes() for path in files_in(place / "run")}
    return {"exit code": b"%d" % code, "stdout": shown, **kept}


def files_in(folder: Path) -> list[Path]:
    """Files of a run or cache, without what the machine has a part in and what a killed process had begun to write."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path.name != "machine.json" and not path.name.startswith("."))


@pytest.fixture(scope="module")
def registry_check(tmp_path_factory: pytest.TempPathFactory) -> Resumable:
    folder = tmp_path_factory.mktemp("registry")
    for name in ENTRIES:
        (folder / f"{name}.yaml").write_text(fixture_entry(name))
    arguments = ("registry", "check", *ENTRIES, "--registry", str(folder), "--run", "run", "--workers", "2", "--quiet")
    return Resumable(folder, (*arguments, "--format", "json"))


@pytest.fixture(scope="module")
def filled(registry_check: Resumable, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Bytes]:
    """The folder of an undisturbed run, and what came of it."""
    place = tmp_path_factory.mktemp("filled")
    return place, registry_check.finish(place)


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Resumable:
    pytest.importorskip("torch", reason="the runtime extra is not installed")
    from made_agents import ppo_archive

    folder = tmp_path_factory.mktemp("agent")
    (folder / "agent.zip").write_bytes(ppo_archive())
    arguments = ("evaluate", str(folder / "agent.zip"), "--env", "CartPole-v1", "--episodes", "96", "--workers", "2")
    return Resumable(folder, (*arguments, "--out", "run", "--quiet", "--format", "json"))


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Resumable:
    pytest.importorskip("torch", reason="the runtime extra is not installed")
    from codeaudit.cli import main

    folder = tmp_path_factory.mktemp("grid")
    train = ["train", "distributional", "--env", "riskygrid", "--seeds", "1", "--steps", "5_100", "--quiet"]
    assert main([*train, "--out", str(folder)]) == 0
    fast = ("--rollouts", "100", "--states", "150", "--draws", "499", "--workers", "1", "--quiet", "--format", "json")
    return Resumable(folder, ("claims", str(folder), "--out", "run", *fast))


@pytest.mark.parametrize(("command", "kills"), [("registry_check", 8), ("evaluate", 0), ("claims", 1)])
def test_kills_at_random_moments_lose_nothing(
    command: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """SIGKILL for the main process, and sometimes for a process that works for it; then the same command goes on."""
    if not (KILLS or kills):
        pytest.skip("by hand: CODEAUDIT_KILLS=100")
    resumable: Resumable = request.getfixturevalue(command)
    began = time.monotonic()
    whole = resumable.finish(tmp_path / "whole")
    seconds = time.monotonic() - began
    chance = random.Random(command)
    place = tmp_path / "killed"
    counts = {"main": 0, "worker": 0, "told": 0, "finished": 0}
    while counts["main"] + counts["worker"] < (KILLS or kills):
        running = resumable.start(place)
        try:
            running.communicate(timeout=chance.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            workers = children_of(running.pid) if chance.random() < 0.4 else []
            end(chance.choice(workers) if workers else running.pid)
            counts["worker" if workers else "main"] += 1
        shown, errors = running.communicate(timeout=PATIENCE)
        if running.returncode == 2:  # a worker of a pool was killed
            assert b"a worker process died" in errors and errors.count(b"\n") == 1
            counts["told"] += 1
        elif running.returncode != -signal.SIGKILL:
            assert outcome(running.returncode, shown, errors, place) == whole
            counts["finished"] += 1
            shutil.rmtree(place)
    assert resumable.finish(place) == whole
    assert not list(place.rglob("*.lock"))
    print(f"\n{command}: {counts}; {seconds:.1f} s undisturbed; every finished run gave the same bytes")


def children_of(process: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit": lambda whole: whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:],
    "cut": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_files_are_noticed_and_made_again(
    registry_check: Resumable, filled: tuple[Path, Bytes], tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    place, whole = tmp_path / "place", filled[1]
    shutil.copytree(filled[0], place)
    before = {path: path.read_bytes() for path in files_in(place) if path.name not in ("manifest.json", "CACHEDIR.TAG")}
    assert len(before) > len(ENTRIES)
    for path, content in before.items():
        path.write_bytes(damage(content))
    assert registry_check.finish(place) == whole
    after = {path: path.read_bytes() for path in before}
    scans = {path for path in before if after[path] != before[path]}
    assert len(scans) <= len(ENTRIES)  # a scan's result holds its own time; all else is as it was, bit for bit


def test_two_runs_on_one_cache_and_folder_do_each_other_no_harm(
    registry_check: Resumable, filled: tuple[Path, Bytes], tmp_path: Path
) -> None:
    whole = filled[1]
    together = [registry_check.start(tmp_path / "together") for _ in range(2)]
    for process in together:
        shown, errors = process.communicate(timeout=PATIENCE)
        assert (shown, errors) == (whole["stdout"], b"")
    assert registry_check.finish(tmp_path / "together") == whole
    left = [path.name for path in (tmp_path / "together").rglob(".*")]
    assert not left


@pytest.fixture(scope="module")
def small_disk() -> Iterator[Callable[[int], list[str]]]:
    """What to put before a command so that the folder `disk` in its place is a disk of so many kB."""
    inside = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs to mount a small disk (unshare --user --mount)")

    def before(size: int) -> list[str]:
        script = (
            f"mkdir -p disk && mount -t tmpfs -o size={size}k none disk && mkdir disk/run && ln -sfn disk/run run && "
            '"$@"; code=$?; '
            "ls -A disk/run/units 2>/dev/null | grep -c '^[.]' >hidden; cp -R disk/run kept 2>/dev/null; exit $code"
        )
        return [*inside, "sh", "-c", script, "sh"]

    yield before


@pytest.mark.parametrize("size", [8, 12])  # room for the manifest and one unit, and for two units
def test_a_full_disk_is_one_clear_line_and_keeps_what_is_finished(
    registry_check: Resumable,
    filled: tuple[Path, Bytes],
    tmp_path: Path,
    small_disk: Callable[[int], list[str]],
    size: int,
) -> None:
    place, whole = tmp_path / "full", filled[1]
    running = registry_check.start(place, before=small_disk(size))
    _, errors = running.communicate(timeout=PATIENCE)
    assert running.returncode == 2
    assert b"can't write the run: No space left on device" in errors and errors.count(b"\n") == 1
    assert (place / "hidden").read_text() == "0\n"  # nothing half written is left to fill the disk
    (place / "run").unlink()
    (place / "kept").rename(place / "run")
    assert registry_check.finish(place) == whole


def test_a_full_cache_costs_time_only(
    registry_check: Resumable, filled: tuple[Path, Bytes], tmp_path: Path, small_disk: Callable[[int], list[str]]
) -> None:
    place, whole = tmp_path / "full", filled[1]
    place.mkdir()
    script = 'mkdir cache && mount -t tmpfs -o size=16k none cache && exec "$@"'
    running = registry_check.start(place, before=[*small_disk(16)[:4], "sh", "-c", script, "sh"])
    assert finished(running, place) == whole
