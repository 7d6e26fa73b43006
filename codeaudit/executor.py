"""Where work units run: this process, local processes, or a cluster. It knows nothing about the work.

One seam, the standard `concurrent.futures.Executor`. Units are pure and carry their own seeds, so where they run
doesn't change what they give. A cluster is Dask's: queues, scheduling and a unit's second try are its affair.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from codeaudit import __version__
from codeaudit.errors import UserError
from codeaudit.isolation import Crash, run_isolated
from codeaudit.text import printable

__all__ = ["Crash", "InProcessExecutor", "map_units", "open_executor", "run_isolated"]

T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 2048  # units handed over before the first must come back; far more than a cluster has workers
_ANSWERS = 10.0  # seconds in which a scheduler must answer
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class InProcessExecutor(Executor):
    """Runs each unit at once, here."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_executor(spec: str = "", workers: int = 1) -> Iterator[Executor]:
    """An executor by name: "" or "local" (this process for one worker, else processes), or "dask://HOST:PORT".

    Processes are spawned, not forked, and compute with one thread each. Raises `UserError` for another name, and where
    the cluster's library is missing or the cluster doesn't answer.
    """
    if workers < 1:
        raise UserError(f"{workers} workers can do no work", hint="give --workers 1 or more")
    if spec in ("", "local"):
        if workers == 1:
            yield InProcessExecutor()
            return
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_settle)
        try:
            yield pool
        except BaseException:
            for process in list((pool._processes or {}).values()):  # don't wait for units that nobody wants any more
                process.kill()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    elif spec.startswith("dask://"):
        with _dask_executor(spec) as executor:
            yield executor
    else:
        raise UserError(f"'{printable(spec)}' is no executor", hint="use 'local' or 'dask://HOST:PORT'")


def map_units(
    executor: Executor,
    function: Callable[[T], R],
    units: Sequence[T],
    *,
    on_done: Callable[[int, R], None] | None = None,
) -> list[R]:
    """The results in the order of the units. `on_done(index, result)` is called here as each comes back, in any order.

    The first exception of a unit is raised again here, after the units not yet begun are cancelled. Raises `UserError`
    where a worker process died.
    """
    results: dict[int, R] = {}
    pending: dict[Future[R], int] = {}
    finished: SimpleQueue[Future[R]] = SimpleQueue()

    def take(*, patient: bool) -> None:
        future = finished.get(patient)
        index = pending.pop(future)
        results[index] = future.result()
        if on_done is not None:
            on_done(index, results[index])

    try:
        for index, unit in enumerate(units):
            future = executor.submit(function, unit)
            pending[future] = index
            future.add_done_callback(finished.put)
            with suppress(Empty):  # what is done is handed over at once: a kill must not lose it
                while True:
                    take(patient=len(pending) >= _IN_FLIGHT)
        while pending:
            take(patient=True)
    except BrokenExecutor:
        raise UserError("a worker process died", hint="it may have run out of memory: use fewer --workers") from None
    finally:
        for future in pending:
            future.cancel()
    return [results[index] for index in range(len(units))]


def _settle() -> None:
    """A worker computes with one thread, dies quietly of Ctrl-C, and doesn't outlive its parent."""
    for name in _THREADS:
        os.environ[name] = "1"
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


@contextmanager
def _dask_executor(spec: str) -> Iterator[Executor]:
    try:
        from distributed import Client, KilledWorker  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise UserError("a cluster needs Dask", hint="pip install 'rl-codeaudit[cluster]'") from None
    shown = printable(spec)
    for logger in ("distributed", "distributed.client"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)  # what goes wrong is said here, once
    host, _, port = spec.removeprefix("dask://").rpartition(":")
    try:
        # Dask would try a closed port again and again, and tell of it in the background.
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS).close()
        client = Client(f"tcp://{host}:{port}", timeout=_ANSWERS)
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(
            f"{shown}: no Dask scheduler answers ({printable(str(error))})", hint="is `dask scheduler` running there?"
        ) from None
    try:
        yield _ClusterExecutor(client.get_executor(pure=False))
    except KilledWorker:
        raise UserError(
            f"{shown}: several workers died of one unit", hint="they may have run out of memory: see the workers' logs"
        ) from None
    except CancelledError:
        raise UserError(
            f"{shown}: the scheduler went away", hint="start it again, then run the same command: finished work is kept"
        ) from None
    finally:
        client.close(timeout=5)


class _ClusterExecutor(Executor):
    """Dask's executor, whose workers run each unit as a local process would: alone, with one thread, in our folder."""

    def __init__(self, dask: Executor) -> None:
        self._dask = dask
        self._folder = str(Path.cwd())

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        # Bytes, so that the scheduler needs nothing that only units import.
        work = pickle.dumps((fn, args, kwargs), pickle.HIGHEST_PROTOCOL)
        return self._dask.submit(_at_worker, _Parcel(__version__, sys.version_info[:2], self._folder, work))


@dataclass(frozen=True)
class _Parcel:
    """One unit on its way to a cluster's worker, and what must be the same there."""

    version: str
    python: tuple[int, int]
    folder: str
    work: bytes


_ALONE = threading.Lock()


def _at_worker(parcel: _Parcel) -> Any:
    """Run a unit in a worker of a cluster. Its threads take turns: units share what a process keeps between them."""
    here, there = (__version__, sys.version_info[:2]), (parcel.version, parcel.python)
    if here != there:
        ours, theirs = (f"codeaudit {tool} on Python {major}.{minor}" for tool, (major, minor) in (here, there))
        raise UserError(f"a worker runs {ours}, this command {theirs}", hint="install the same on every worker")
    with _ALONE:
        for name in _THREADS:
            os.environ[name] = "1"
        before = Path.cwd()
        with suppress(OSError):  # without a shared disk a relative path is told as not found
            os.chdir(parcel.folder)
        try:
            function, args, kwargs = pickle.loads(parcel.work)
            return function(*args, **kwargs)
        except ImportError as error:
            raise UserError(
                f"a worker lacks a library ({printable(str(error))})", hint="install the same extras on every worker"
            ) from None
        finally:
            os.chdir(before)
