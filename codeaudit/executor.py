"""Where work units run: this process, local processes, or a cluster. It knows nothing about the work.

One seam, the standard `concurrent.futures.Executor`. Units are pure and carry their own seeds, so where they run
doesn't change what they give.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any, TypeVar

from codeaudit.errors import UserError
from codeaudit.isolation import Crash, run_isolated
from codeaudit.text import printable

__all__ = ["Crash", "InProcessExecutor", "map_units", "open_executor", "run_isolated"]

T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 256  # units handed over before the first must come back


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

    def take(done: Iterable[Future[R]]) -> None:
        for future in done:
            index = pending.pop(future)
            results[index] = future.result()
            if on_done is not None:
                on_done(index, results[index])

    try:
        for index, unit in enumerate(units):
            future = executor.submit(function, unit)
            pending[future] = index
            if future.done():  # computed here: what `on_done` saves must not wait for the units after it
                take([future])
            elif len(pending) == _IN_FLIGHT:
                take(wait(pending, return_when=FIRST_COMPLETED).done)
        while pending:
            take(wait(pending, return_when=FIRST_COMPLETED).done)
    except BrokenExecutor:
        raise UserError("a worker process died", hint="it may have run out of memory: use fewer --workers") from None
    finally:
        for future in pending:
            future.cancel()
    return [results[index] for index in range(len(units))]


def _settle() -> None:
    """A worker computes with one thread, dies quietly of Ctrl-C, and doesn't outlive its parent."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
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
        from distributed import Client  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise UserError("a cluster needs Dask", hint="pip install 'rl-codeaudit[cluster]'") from None
    address = "tcp://" + spec.removeprefix("dask://")
    try:
        client = Client(address, timeout="30s")
    except (OSError, ValueError) as error:
        raise UserError(f"{printable(spec)}: no Dask scheduler answers ({printable(str(error))})") from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
