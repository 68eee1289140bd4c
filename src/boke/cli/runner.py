"""The loop behind ``boke run``: workers that ask, evaluate and tell until the study has its trials.

Everything is in the storage as soon as it is known. A worker that is killed costs the trial it was running; several
processes, on one machine or many, may run the same study.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from boke.cli.config import Distributions
from boke.cli.programs import Evaluator, Outcome

PATIENCE = 60.0  # seconds for which a storage may be out of reach
LOST = "lost"  # attribute of trials whose worker was killed: they don't count
T = TypeVar("T")


@dataclass(frozen=True)
class Finished:
    """What the main thread hears of a trial."""

    number: int
    values: list[float] | None
    reason: str | None


class Runner:
    """Runs workers, each with an evaluator of its own, as threads of this process."""

    def __init__(self, study: Study, space: Distributions, evaluators: list[Evaluator], folder: Path) -> None:
        self.study, self.space, self.evaluators, self.folder = study, space, evaluators, folder
        self.stop = threading.Event()
        self.signal: int | None = None
        self._asking = threading.Lock()
        self._news: queue.Queue[Finished | BaseException] = queue.Queue()

    def run(self, total: int, heard: Callable[[Finished], None]) -> None:
        """Evaluate until the study has ``total`` trials; ``heard`` is called in this thread for each."""
        reap(self.study)
        threads = [
            threading.Thread(target=self._work, args=(evaluator, total), daemon=True) for evaluator in self.evaluators
        ]
        signs = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {sign: signal.signal(sign, self._on_signal) for sign in signs}
        try:
            for thread in threads:
                thread.start()
            self._listen(threads, heard)
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()
            for evaluator in self.evaluators:
                evaluator.close()
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _listen(self, threads: list[threading.Thread], heard: Callable[[Finished], None]) -> None:
        while True:
            alive = any(thread.is_alive() for thread in threads)
            try:
                news = self._news.get(timeout=0.1)
            except queue.Empty:
                if not alive:
                    return
                continue
            if isinstance(news, BaseException):
                raise news
            heard(news)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self.stop.set()

    def _work(self, evaluate: Evaluator, total: int) -> None:
        try:
            while not self.stop.is_set() and (trial := self._ask(total)) is not None:
                folder = self.folder / f"{trial.number:05d}"
                outcome = evaluate(trial.params, trial.number, folder, self.stop)
                patiently(lambda: self._tell(trial, outcome, folder))  # noqa: B023 (called at once)
                if not outcome.interrupted:
                    self._news.put(Finished(trial.number, outcome.values, outcome.reason))
        except BaseException as error:
            self.stop.set()
            self._news.put(error)

    def _ask(self, total: int) -> Trial | None:
        with self._asking:  # so that the threads of one process never start more than are left
            if self.stop.is_set() or patiently(lambda: counted(self.study)) >= total:
                return None
            trial = patiently(lambda: self.study.ask(self.space))
            patiently(lambda: trial.set_user_attr("worker", whoami()))
            return trial

    def _tell(self, trial: Trial, outcome: Outcome, folder: Path) -> None:
        with unless_finished():
            if outcome.values is not None:
                self.study.tell(trial, outcome.values)
            elif outcome.interrupted:  # back into the queue: the next run begins with it, as if it had gone on
                self.study._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
            else:
                fail(self.study, trial._trial_id, trial.number, outcome.reason, folder, lost=False)


@contextmanager
def unless_finished() -> Iterator[None]:
    """Told already: the storage answered to a first attempt after all, or somebody else ended the trial."""
    try:
        yield
    except UpdateFinishedTrialError:
        pass
    except ValueError as error:
        if "finished" not in str(error) and "Cannot tell a" not in str(error):
            raise


def fail(study: Study, trial_id: int, number: int, reason: str | None, folder: Path | None, *, lost: bool) -> None:
    """Mark a trial as failed, with its reason and where its logs are."""
    attributes = {"reason": reason or "no value", "log": None if folder is None else str(folder), LOST: lost or None}
    for key, value in attributes.items():
        if value is not None:
            study._storage.set_trial_user_attr(trial_id, key, value)
    study.tell(number, state=TrialState.FAIL)


def counted(study: Study) -> int:
    """Trials that are done or under way."""
    return sum(counts(trial) for trial in study.get_trials(deepcopy=False))


def counts(trial: FrozenTrial) -> bool:
    """A running trial without an owner is about to get one, or its owner was killed in that very moment."""
    if trial.state.is_finished():
        return not trial.user_attrs.get(LOST)
    return trial.state is TrialState.RUNNING and "worker" in trial.user_attrs


def reap(study: Study) -> list[int]:
    """Fail the trials of workers of this machine that are no more. Those of other machines are not ours to judge."""
    gone = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get("worker")
        if isinstance(worker, str) and worker.startswith(f"{socket.gethostname()}:") and not _lives(worker):
            with unless_finished():  # another process that starts at the same moment may have seen it, too
                fail(study, trial._trial_id, trial.number, "its worker was killed", None, lost=True)
            gone.append(trial.number)
    return gone


def whoami() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def _lives(worker: str) -> bool:
    _, pid, started = worker.rsplit(":", 2)
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        return True
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """When a process began, in ticks since boot: a number that a later process of the same pid does not have."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def patiently(call: Callable[[], T]) -> T:
    """Try again while a database is out of reach, as during a restart; what is known must not be lost by that."""
    deadline, pause = time.monotonic() + PATIENCE, 0.1
    while True:
        try:
            return call()
        except StorageInternalError:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 5.0)


def summary(study: Study) -> dict[str, Any]:
    """Where a study stands."""
    trials = study.get_trials(deepcopy=False)
    states = {state.name.lower(): sum(trial.state is state for trial in trials) for state in TrialState}
    answer: dict[str, Any] = {"study": study.study_name, "trials": len(trials), **states}
    answer["directions"] = [direction.name.lower() for direction in study.directions]
    done = [t for t in trials if t.state is TrialState.COMPLETE and t.duration is not None]
    if done:
        answer["seconds_per_trial"] = sum(t.duration.total_seconds() for t in done if t.duration) / len(done)
        best = sorted(study.best_trials, key=lambda trial: trial.number)[:100]
        answer["best"] = [point(trial) for trial in best]
    return answer


def point(trial: FrozenTrial) -> dict[str, Any]:
    """A finished trial as JSON."""
    values = trial.values or []
    value: Any = values[0] if len(values) == 1 else list(values)
    return {"trial": trial.number, "value": value, "params": trial.params}
