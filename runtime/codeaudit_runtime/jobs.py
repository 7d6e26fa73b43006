"""Work units of any kind through a run directory: those kept are not done again. Not for saying which units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from codeaudit.executor import map_units, open_executor
from codeaudit.store import RunDirectory


class Job(Protocol):
    """A unit that can be pickled. `key` names everything that shapes its bytes."""

    @property
    def key(self) -> str: ...


J = TypeVar("J", bound=Job)


def done_jobs(
    jobs: Sequence[J],
    work: Callable[[J], bytes],
    run: RunDirectory | None,
    *,
    workers: int = 1,
    executor: str = "",
    on_done: Callable[[int, int], None] | None = None,
) -> list[bytes]:
    """What each job gives, in the order of the jobs; jobs with one key are done once. `on_done(done, all)`.

    Raises what the first failing job raised; jobs that were finished before are kept.
    """
    unique = {job.key: job for job in jobs}
    contents = {key: kept for key in unique if run is not None and (kept := run.unit(key)) is not None}
    todo = [job for key, job in unique.items() if key not in contents]

    def finish(index: int, content: bytes) -> None:
        if run is not None:
            run.save(todo[index].key, content)
        contents[todo[index].key] = content
        if on_done is not None:
            on_done(len(contents), len(unique))

    with open_executor(executor, min(workers, max(len(todo), 1))) as pool:
        map_units(pool, work, todo, on_done=finish)
    return [contents[job.key] for job in jobs]
