"""Run a function on many units in child processes, so that a crash or a hang costs one unit. Not a scheduler.

For pure functions over hostile input: a parser written in C or Rust can overflow its stack and take the interpreter
with it. Results come back pickled from our own children only.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_WALL = 3.0  # a child may wait this many times longer than it may compute
_MEMORY = 2 << 30  # bytes that a child may take beyond those that it starts with


@dataclass(frozen=True)
class Crash:
    """A unit that gave no result, and why."""

    reason: str


def run_isolated(
    function: Callable[[T], R], units: Sequence[T], *, workers: int, timeout: float
) -> Iterator[tuple[int, R | Crash]]:
    """(index of the unit, result or `Crash`), in the order in which units finish: sort by index where order matters.

    A child serves many units and is replaced only after it died. `timeout` is in seconds of a unit's computing time (so
    that a busy machine doesn't change results); one that computes nothing is ended after three times as long. Memory is
    bounded too. A unit whose child was killed from outside is tried once more, for that says nothing about the unit.
    Children end with the generator, whatever ends it, and soon after their parent is killed. Where this process has
    several threads it can't fork: then `function` must be importable by its name and the units picklable.
    """
    start = _forking(function, units, timeout) if _may_fork() else _starting(function, units, timeout)
    busy: dict[Connection, tuple[_Child, int]] = {}
    fresh = iter(range(len(units)))
    again: list[int] = []
    killed: set[int] = set()

    def following() -> int | None:
        return again.pop() if again else next(fresh, None)

    try:
        while True:
            while len(busy) < max(1, workers) and (index := following()) is not None:
                child = start(list(busy))
                busy[child.pipe] = child, index
                child.send(index)
            if not busy:
                return
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                child, index = busy.pop(pipe)
                result, exitcode = child.receive(timeout)
                if exitcode == -signal.SIGKILL and index not in killed:
                    killed.add(index)
                    again.append(index)
                    child.end()
                    continue
                chosen = following() if exitcode is None else None
                if chosen is None:
                    child.end()
                else:
                    busy[pipe] = child, chosen
                    child.send(chosen)
                yield index, result
    finally:
        for child, _ in busy.values():
            child.end()


class _Process(Protocol):
    @property
    def exitcode(self) -> int | None: ...

    def kill(self) -> None: ...

    def join(self) -> None: ...


@dataclass(frozen=True)
class _Child:
    process: _Process
    pipe: Connection
    message: Callable[[int], Any]  # what tells the child which unit is meant

    def send(self, index: int) -> None:
        with suppress(OSError):  # a child that died is noticed when its answer is awaited
            self.pipe.send(self.message(index))

    def receive(self, timeout: float) -> tuple[Any, int | None]:
        """The answer, and how the child ended where it did."""
        try:
            return self.pipe.recv(), None
        except (EOFError, OSError):
            self.process.join()
            exitcode = self.process.exitcode or 0
            return Crash(_cause(exitcode, timeout)), exitcode

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _cause(exitcode: int, timeout: float) -> str:
    if exitcode in (-signal.SIGPROF, -signal.SIGALRM):
        return f"it took longer than {timeout:g} s"
    if exitcode == -signal.SIGKILL:
        return "its process was killed twice; the machine may be short of memory"
    if exitcode < 0:
        return f"it ended the interpreter ({signal.Signals(-exitcode).name})"
    return f"it ended the interpreter (exit code {exitcode})"


def _may_fork() -> bool:
    """Only with one thread: a lock that another thread holds at the moment of the fork would never be released."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1


def _forking(function: Callable[[T], R], units: Sequence[T], timeout: float) -> Callable[[list[Connection]], _Child]:
    """Children inherit the units, so only an index travels."""
    context = get_context("fork")

    def start(siblings: list[Connection]) -> _Child:
        ours, theirs = context.Pipe()
        held = [*siblings, ours]  # a copy of these in the child would keep it from noticing that the parent is gone
        process = context.Process(
            target=_serve, args=(theirs, held, lambda index: function(units[index]), timeout), daemon=True
        )
        process.start()
        theirs.close()
        return _Child(process, ours, lambda index: index)

    return start


_PROGRAM = "import sys; sys.path[:] = {path!r}; from codeaudit.isolation import _main; _main({handle})"


class _Interpreter:
    """A fresh Python. Unlike multiprocessing's it doesn't run the caller's script again, which need not expect that."""

    def __init__(self, pipe: Connection) -> None:
        program = _PROGRAM.format(path=sys.path, handle=pipe.fileno())
        self._process = subprocess.Popen([sys.executable, "-c", program], pass_fds=[pipe.fileno()])

    @property
    def exitcode(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()

    def join(self) -> None:
        self._process.wait()


def _starting(function: Callable[[T], R], units: Sequence[T], timeout: float) -> Callable[[list[Connection]], _Child]:
    def start(siblings: list[Connection]) -> _Child:
        ours, theirs = Pipe()
        process = _Interpreter(theirs)
        theirs.close()
        ours.send((function, timeout))
        return _Child(process, ours, lambda index: units[index])

    return start


def _main(handle: int) -> None:
    pipe: Connection = Connection(handle)
    function, timeout = pipe.recv()
    _serve(pipe, [], function, timeout)


def _serve(pipe: Connection, held: list[Connection], work: Callable[[Any], Any], timeout: float) -> None:
    for other in held:
        other.close()
    _settle()
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        # The kernel ends the child when a timer runs out, also inside native code that never comes back.
        signal.setitimer(signal.ITIMER_PROF, timeout)
        signal.setitimer(signal.ITIMER_REAL, timeout * _WALL)
        try:
            answer = pickle.dumps(work(message), pickle.HIGHEST_PROTOCOL)
        except BaseException as error:
            first = (str(error).splitlines() or [""])[0][:200]
            answer = pickle.dumps(Crash(f"{type(error).__name__}: {first}" if first else type(error).__name__))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pipe.send_bytes(answer)


def _settle() -> None:
    """A child leaves Ctrl-C to its parent, says nothing on the terminal when it crashes, and writes no core file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _bound_memory()
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = os.fdopen(nowhere, "w")  # the inherited ones may hold text, or write elsewhere


def _bound_memory() -> None:
    """So that a hostile unit fails by itself, and alike on every machine, before the machine ends something else."""
    with suppress(OSError, ValueError):  # elsewhere than on Linux there is no such file, and no bound
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MEMORY
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
