"""Processes that evaluate points, each on its own: one that dies, hangs or is killed costs its own trial only."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

T = TypeVar("T")

GRACE = 0.3  # seconds between asking a process to end and ending it


def evaluated(
    fun: Callable[[Any], Any], points: Iterable[tuple[T, Any]], count: int, timeout: float | None
) -> Iterator[tuple[T, Any]]:
    """Pairs of a trial and its value, or the exception in its place, in the order in which they are finished.

    As soon as one is, the next point is taken from ``points``.
    """
    left, idle, busy = iter(points), list[Worker](), dict[Worker, T]()
    try:
        while True:
            for trial, point in islice(left, count - len(busy)):
                worker = idle.pop() if idle else Worker(fun, timeout)
                busy[worker] = trial
                worker.give(point)
            if not busy:
                return
            patience = min(worker.deadline for worker in busy) - time.monotonic()
            wait([worker.pipe for worker in busy], None if math.isinf(patience) else max(0.0, patience))
            for worker in list(busy):
                if (answer := worker.answer()) is None:
                    continue
                (idle.append if worker.alive else Worker.end)(worker)
                yield busy.pop(worker), answer[0]
    finally:
        for worker in [*idle, *busy]:
            worker.end()


class Worker:
    """One process, which lives from point to point unless it has to be ended."""

    def __init__(self, fun: Callable[[Any], Any], timeout: float | None) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_serve, args=(fun, theirs))
        self.process.start()
        theirs.close()
        self.timeout, self.deadline, self.ready, self.alive = timeout, math.inf, False, True

    def give(self, point: Any) -> None:
        with contextlib.suppress(OSError):  # it has died meanwhile: the answer will say so
            self.pipe.send(point)
        if self.ready:
            self._start_the_clock()

    def answer(self) -> tuple[Any] | None:
        """What came back, in a tuple, or None as long as there is nothing."""
        try:
            while self.pipe.poll():
                sent = self.pipe.recv()
                if self.ready:
                    return (sent,)
                self.ready = True
                self._start_the_clock()
        except (EOFError, OSError):
            self.alive = False
            self.process.join(GRACE)  # its files close a moment before it can be asked how it ended
            code = self.process.exitcode
            how = "" if code is None else f": exit code {code}" if code >= 0 else f": {signal.Signals(-code).name}"
            return (ChildProcessError(f"the process died{how}"),)
        if time.monotonic() < self.deadline:
            return None
        self.alive = False
        return (TimeoutError(f"it ran for more than {self.timeout:g} s"),)

    def _start_the_clock(self) -> None:
        if self.timeout is not None:
            self.deadline = time.monotonic() + self.timeout

    def end(self) -> None:
        end(self.process)
        self.pipe.close()


def end(process: BaseProcess) -> None:
    """End a process that has called ``begin``, and all that it has started."""
    pid = process.pid
    assert pid is not None
    for sign in (signal.SIGTERM, signal.SIGKILL):  # not reaped before the second, so the number is still its own
        for kill in (os.killpg, os.kill):  # in its first moments it has no group yet
            with contextlib.suppress(OSError):
                kill(pid, sign)
        process.join(GRACE)
    process.join()


def begin() -> None:
    """Make this process a group of its own, which Ctrl-C does not reach and which ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    with contextlib.suppress(OSError):
        os.setsid()
    threading.Thread(target=_follow, daemon=True).start()


def _serve(fun: Callable[[Any], Any], pipe: Connection) -> None:
    begin()
    pipe.send("ready")
    while True:
        point = pipe.recv()
        try:
            answer = fun(point)
        except (Exception, SystemExit) as error:
            answer = error
        try:
            pipe.send(answer)
        except Exception as error:  # values and exceptions that cannot be pickled
            pipe.send(TypeError(f"{answer!r:.200} cannot be sent back: {error}"))


def _follow() -> None:
    """End with the parent, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)
