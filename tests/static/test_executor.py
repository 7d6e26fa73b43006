"""Work runs in this process, in local processes, or in isolation; crashes, hangs and kills cost what they must."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from codeaudit.errors import UserError
from codeaudit.executor import Crash, InProcessExecutor, map_units, open_executor, run_isolated

PATIENCE = 60.0  # seconds; far more than anything here takes


def square(number: int) -> int:
    return number * number


def shout(word: str) -> str:
    if not word:
        raise ValueError("an empty word")
    return word.upper()


def environment_of(_: int) -> tuple[int, str]:
    return os.getpid(), os.environ["OMP_NUM_THREADS"]


# --- the seam ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["", "local", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    workers = 2 if request.param == "processes" else 1
    with open_executor("" if workers == 2 else str(request.param), workers) as opened:
        yield opened


def test_results_come_in_the_order_of_the_units(executor: Executor) -> None:
    done: dict[int, int] = {}
    results = map_units(executor, square, range(700), on_done=done.__setitem__)
    assert results == [number * number for number in range(700)]
    assert done == dict(enumerate(results))
    assert map_units(executor, square, []) == []


def test_an_exception_of_a_unit_is_raised_again(executor: Executor) -> None:
    with pytest.raises(ValueError, match="an empty word"):
        map_units(executor, shout, ["a", "", "b"])
    assert map_units(executor, shout, ["a"]) == ["A"]  # and the executor goes on


def test_in_this_process_each_unit_is_handed_over_before_the_next_begins() -> None:
    log: list[str] = []

    def work(number: int) -> int:
        log.append(f"work {number}")
        return number

    map_units(InProcessExecutor(), work, range(3), on_done=lambda index, _: log.append(f"done {index}"))
    assert log == ["work 0", "done 0", "work 1", "done 1", "work 2", "done 2"]


def test_processes_are_others_and_compute_with_one_thread() -> None:
    with open_executor("local", 2) as executor:
        answers = map_units(executor, environment_of, range(8))
    assert os.getpid() not in {pid for pid, _ in answers}
    assert {threads for _, threads in answers} == {"1"}


def end_interpreter(_: int) -> None:
    os._exit(3)


def test_a_worker_that_dies_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="a worker process died"), open_executor("", 2) as executor:
        map_units(executor, end_interpreter, [1, 2])


@pytest.mark.parametrize(("spec", "workers", "said"), [("cloud://x", 1, "no executor"), ("", 0, "0 workers")])
def test_unknown_executors_are_refused(spec: str, workers: int, said: str) -> None:
    with pytest.raises(UserError, match=said), open_executor(spec, workers):
        pass


def test_a_cluster_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"rl-codeaudit\[cluster\]"), open_executor("dask://127.0.0.1:8786"):
        pass


# --- isolation --------------------------------------------------------------------------------------------------------


def misbehave(how: str) -> object:
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        os._exit(7)
    if how == "hang":
        while True:
            pass
    if how == "wait":
        threading.Event().wait()
    if how == "raise":
        raise ValueError("first line\nsecond line")
    if how == "leave":
        sys.exit("bye")
    if how == "recurse":
        return misbehave(how)
    if how == "unpicklable":
        return threading.Lock()
    if how == "print":
        print("noise", flush=True)
        os.write(2, b"noise")
    if how == "large":
        return "x" * 5_000_000
    if how == "devour":
        return len(bytearray(8 << 30))
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how.startswith("/"):  # killed from outside, once
        try:
            Path(how).unlink()
        except FileNotFoundError:
            return "alive"
        os.kill(os.getpid(), signal.SIGKILL)
    return how.upper()


HOW = ["a", "segfault", "b", "exit", "hang", "c", "raise", "leave", "wait", "recurse", "unpicklable", "print", "large"]
HOW += ["devour", "killed"]


@pytest.fixture(params=["forked", "fresh"])
def several_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """With several threads the children are fresh interpreters, without they are forks."""
    if request.param == "forked":
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("workers", [1, 3])
def test_what_goes_wrong_in_a_unit_costs_that_unit(workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    results = dict(run_isolated(misbehave, HOW, workers=workers, timeout=0.4))
    reasons = {HOW[index]: result.reason for index, result in results.items() if isinstance(result, Crash)}
    assert reasons == {
        "segfault": "it ended the interpreter (SIGSEGV)",
        "exit": "it ended the interpreter (exit code 7)",
        "hang": "it took longer than 0.4 s",
        "wait": "it took longer than 0.4 s",
        "raise": "ValueError: first line",
        "leave": "SystemExit: bye",
        "recurse": "RecursionError: maximum recursion depth exceeded",
        "unpicklable": "TypeError: cannot pickle '_thread.lock' object",
        "devour": "MemoryError",
        "killed": "its process was killed twice; the machine may be short of memory",
    }
    good = {HOW[index]: result for index, result in results.items() if not isinstance(result, Crash)}
    assert good == {"a": "A", "b": "B", "c": "C", "print": "PRINT", "large": "x" * 5_000_000}
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("several_threads")
def test_a_unit_whose_process_is_killed_from_outside_is_tried_again(tmp_path: Path) -> None:
    marks = [tmp_path / "first", tmp_path / "second"]
    for mark in marks:
        mark.touch()
    units = ["a", *map(str, marks), "b"]
    results = dict(run_isolated(misbehave, units, workers=2, timeout=PATIENCE))
    assert results == {0: "A", 1: "alive", 2: "alive", 3: "B"}
    assert not any(mark.exists() for mark in marks)


@pytest.mark.usefixtures("several_threads")
def test_a_parser_that_kills_the_interpreter_costs_one_file() -> None:
    from libcst import parse_module

    sources = ["x = 1\n", "(" * 100_000, "y = 2\n"]
    results = dict(run_isolated(parse_module, sources, workers=1, timeout=20))
    assert isinstance(results[1], Crash)
    assert [results[index].code for index in (0, 2)] == ["x = 1\n", "y = 2\n"]  # type: ignore[union-attr]


def identity(_: int) -> int:
    return os.getpid()


@pytest.mark.usefixtures("several_threads")
def test_children_serve_many_units_and_no_more_of_them_than_workers() -> None:
    pids = [pid for _, pid in run_isolated(identity, range(200), workers=2, timeout=PATIENCE)]
    assert len(pids) == 200
    assert 1 <= len(set(pids)) <= 2
    assert os.getpid() not in pids
    assert list(run_isolated(identity, [], workers=2, timeout=1)) == []


def test_a_generator_left_early_ends_its_children() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        running = run_isolated(announce_and_wait, [(address, False), (address, True)], workers=2, timeout=PATIENCE)
        assert next(running) == (0, None)
        server.settimeout(PATIENCE)
        held = accept(server)
        running.close()  # type: ignore[attr-defined]
        assert held.recv(1) == b""  # the child, which held the other end, is gone
        held.close()


def announce_and_wait(unit: tuple[tuple[str, int], bool]) -> None:
    """Open a connection that ends when this process does, and wait on it for ever, where the unit says so."""
    address, wait = unit
    if wait:
        connection = socket.create_connection(address)
        connection.send(b"!")
        connection.recv(1)


def accept(server: socket.socket) -> socket.socket:
    held, _ = server.accept()
    held.settimeout(PATIENCE)
    assert held.recv(1) == b"!"
    return held


PARENTS = {
    "isolated": """
from codeaudit.isolation import run_isolated
list(run_isolated(announce_and_wait, [(address, True)] * 2, workers=2, timeout=0.5))
""",
    "isolated, fresh": """
import threading
from codeaudit.isolation import run_isolated
threading.Thread(target=threading.Event().wait, daemon=True).start()
list(run_isolated(announce_and_wait, [(address, True)] * 2, workers=2, timeout=0.5))
""",
    "processes": """
from codeaudit.executor import map_units, open_executor
if __name__ == "__main__":
    with open_executor("", 2) as executor:
        map_units(executor, announce_and_wait, [(address, True)] * 2)
""",
}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("program", PARENTS.values(), ids=PARENTS)
def test_children_end_with_their_parent(program: str, number: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        # Started in the background, a shell's children ignore Ctrl-C: this one shall not.
        interruptible = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        head = f"from test_executor import announce_and_wait\naddress = {server.getsockname()!r}\n{interruptible}"
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        parent = subprocess.Popen([sys.executable, "-c", head + program], env=environment, stderr=subprocess.PIPE)
        held = [accept(server), accept(server)]
        parent.send_signal(number)
        _, errors = parent.communicate(timeout=PATIENCE)
        for connection in held:
            assert connection.recv(1) == b""
            connection.close()
    assert parent.returncode != 0
    assert errors.count(b"Traceback") <= 1  # the parent's own; children die without a word


def test_the_caller_needs_no_guard_around_its_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import math, threading\n"
        "from codeaudit.isolation import run_isolated\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "print(sorted(run_isolated(math.sqrt, [4.0, 9.0], workers=2, timeout=60)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{[(0, math.sqrt(4)), (1, math.sqrt(9))]}\n", "")
