"""The runner: worker processes that each do one run at a time, and a parent that alone writes to the store.

A worker that dies takes one run with it; the run becomes a row that says so and another worker is started. Workers
whose parent is gone end themselves, so that a killed runner leaves nobody behind who does what its successor does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from boke_bench.experiment import Experiment, Run
from boke_bench.progress import Forecast, Progress
from boke_bench.store import Record, Store
from boke_bench.trial import execute

# Read when the libraries are loaded, so they have to be set before a worker starts.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS",
    ),
    "1",
)  # fmt: skip


def run_experiment(
    experiment: Experiment,
    store: Store,
    environment: Mapping[str, Any],
    *,
    jobs: int = 1,
    retry: bool = False,
    redo: bool = False,
    wanted: Callable[[Run], bool] = lambda run: True,
    limit_s: float | None = None,
) -> Progress:
    """Do the runs of an experiment that the store does not have.

    Args:
        experiment: What to run.
        store: Where results go; the caller holds ``store.exclusive()``.
        environment: Recorded with each run.
        jobs: Number of processes; experiments that measure seconds always have one.
        retry: Do failed runs again.
        redo: Do all wanted runs again, finished or not.
        wanted: Which runs to do.
        limit_s: Longest time for a run; one that takes longer is stopped and has failed.
    """
    jobs = 1 if experiment.timed else jobs
    store.remember(experiment, _now())
    runs = [run for run in experiment.runs() if wanted(run)]
    if redo:
        store.forget(run.id for run in runs)
    known, forecast = store.statuses(), Forecast()
    for run in runs:
        if run.id in known:
            forecast.learn(run, known[run.id].seconds)
    todo = [run for run in runs if run.id not in known or (retry and known[run.id].failed)]
    progress = Progress(experiment.name, todo, len(runs) - len(todo), jobs, forecast)
    progress.show()
    try:
        with closing(perform(todo, jobs, log=Path(f"{store.path}.log"), limit_s=limit_s)) as finished:
            for run, record in finished:
                store.add(replace(record, environment=environment))
                progress.finished(run, record.seconds, record.failed)
    finally:
        progress.show(final=True)
    return progress


def perform(
    runs: Sequence[Run], jobs: int, *, log: Path | None = None, limit_s: float | None = None
) -> Generator[tuple[Run, Record], None, None]:
    """Do runs in ``jobs`` processes and hand each over as it ends, in no fixed order."""
    queue = deque(runs)
    workers: list[_Worker] = []
    with _environ(ONE_THREAD):
        try:
            for _ in range(min(jobs, len(queue))):
                workers.append(_Worker(log))
            while queue or any(worker.run for worker in workers):
                for i, worker in enumerate(workers):
                    if worker.run is None and queue:
                        if not worker.process.is_alive():
                            worker.stop()
                            workers[i] = worker = _Worker(log)
                        worker.give(queue.popleft())
                busy = [worker for worker in workers if worker.run]
                ready = wait([end for worker in busy for end in worker.ends], timeout=_patience(busy, limit_s))
                for worker in busy:
                    if late := limit_s is not None and worker.age > limit_s and not worker.pipe.poll():
                        worker.process.kill()
                    if late or any(end in ready for end in worker.ends):
                        run = worker.run
                        record = worker.take(f"Stopped after {worker.age:.0f} s, the time limit." if late else "")
                        if run is not None and record is not None:
                            yield run, record
        finally:
            for worker in workers:
                worker.stop()
            if log is not None and log.is_file() and not log.stat().st_size:
                log.unlink()


class _Worker:
    """A process, the run that it does, and the pipe to it."""

    def __init__(self, log: Path | None) -> None:
        context = multiprocessing.get_context("spawn")  # forks of a process with threads may hang
        self.pipe, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(other, log))
        self.process.start()
        other.close()  # so that a dead worker is the end of the file, and a dead parent too
        self.run: Run | None = None
        self._since: float | None = None

    @property
    def ends(self) -> list[Connection | int]:
        return [self.pipe, self.process.sentinel]

    @property
    def age(self) -> float:
        """Seconds since the run began."""
        return 0.0 if self._since is None else monotonic() - self._since

    def give(self, run: Run) -> None:
        self.run, self._since = run, None
        with suppress(OSError):  # it died while it had nothing to do; take() will find out
            self.pipe.send(run.spec)

    def take(self, reason: str = "") -> Record | None:
        """The record of the run, or one that says how the worker died; None if it has only begun."""
        run = self.run
        assert run is not None
        with suppress(EOFError, OSError):
            if not reason and self.pipe.poll():
                record: Record | None = self.pipe.recv()
                if record is None:
                    self._since = monotonic()
                else:
                    self.run = None
                return record
        self.process.join()
        self.run = None
        return _lost(run, reason or f"The worker process died ({_cause(self.process.exitcode)}).", self.age)

    def stop(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, log: Path | None) -> None:
    """Do the runs that come through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if log is not None:  # what libraries print must not run into the progress line
        with open(log, "a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    while True:
        try:
            spec = pipe.recv()
            pipe.send(None)  # the clock starts now; loading this module took a while
            pipe.send(execute(spec))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _lost(run: Run, error: str, seconds: float) -> Record:
    none = np.empty(0)
    return Record(run.id, run.spec, error, _now(), seconds, float("nan"), "", None, none, none, none, none)


def _cause(code: int | None) -> str:
    return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"


def _patience(busy: Sequence[_Worker], limit_s: float | None) -> float | None:
    if limit_s is None:
        return None
    return max(0.05, limit_s - max(worker.age for worker in busy))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _environ(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
