"""How far the work is and how long it will take: one line that rewrites itself, or now and then a new one."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean
from time import monotonic
from typing import TextIO

from boke_bench.experiment import Run

QUIET_S = 20.0  # between lines where a line cannot be rewritten


class Forecast:
    """Seconds that runs will take, from the runs that were like them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], list[float]] = defaultdict(list)

    def learn(self, run: Run, seconds: float) -> None:
        for kind in self._kinds(run):
            self._seen[kind].append(seconds)

    def of(self, run: Run) -> float:
        """The mean of the most similar runs; nan before there is any."""
        similar = next((self._seen[kind] for kind in self._kinds(run) if self._seen.get(kind)), [])
        return fmean(similar) if similar else float("nan")

    @staticmethod
    def _kinds(run: Run) -> Iterable[tuple[object, ...]]:
        problem = run.spec["problem"]
        dim = problem.get("dim")
        return (
            (run.optimizer, run.budget, problem.get("kind"), dim),
            (run.optimizer, run.budget),
            (run.optimizer,),
            (),
        )


class Progress:
    """Counts runs and says what is left.

    Args:
        title: Name of the experiment.
        todo: Runs that are to be done now.
        before: How many were done before.
        jobs: How many run at the same time.
        stream: Where to write.
    """

    def __init__(
        self, title: str, todo: list[Run], before: int, jobs: int, forecast: Forecast, stream: TextIO | None = None
    ) -> None:
        self.title, self.before, self.jobs, self.forecast = title, before, jobs, forecast
        self.left = {run.id: run for run in todo}
        self.total = before + len(todo)
        self.failed = 0
        self.stream = sys.stderr if stream is None else stream
        self._last, self._width = -QUIET_S, 0

    def finished(self, run: Run, seconds: float, failed: bool) -> None:
        """Take note of a run and show the line."""
        self.left.pop(run.id, None)
        self.failed += failed
        self.forecast.learn(run, seconds)
        self.show()

    def show(self, final: bool = False) -> None:
        rewrites = self.stream.isatty()
        if not final and not rewrites and monotonic() - self._last < QUIET_S:
            return
        self._last = monotonic()
        line = self.line()
        end = "\n" if final or not rewrites else ""
        self.stream.write(("\r" if rewrites else "") + line.ljust(self._width) + end)
        self.stream.flush()
        self._width = len(line) if rewrites and not final else 0

    def line(self) -> str:
        """noisy_batch1: 37 of 120 runs, 1 failed, about 4 min left"""
        done = self.total - len(self.left)
        text = f"{self.title}: {done} of {self.total} runs"
        if self.failed:
            text += f", {self.failed} failed"
        if self.left:
            rest = sum(self.forecast.of(run) for run in self.left.values()) / self.jobs
            text += f", about {duration(rest)} left" if rest == rest else ", time left unknown"
        return text


def duration(seconds: float) -> str:
    """A time as people say it: 12 s, 4 min, 1 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
