"""minimize and maximize: the loop around an Optimizer, serial, through a map or with asynchronous workers."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boke.history import State, Trial, as_value
from boke.journal import uninterrupted
from boke.optimizer import Optimizer, Rng
from boke.policies import Policy
from boke.progress import Progress
from boke.space import Space
from boke.workers import evaluated

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult  # most of what an import would take

MAP_BATCH = 8  # points handed at once to a map-like, whose number of workers nobody can ask for

Fun = Callable[[Any], Any]
Callback = Callable[["OptimizeResult"], Any]
Outcome = tuple[Trial, Any]  # a value, or the exception that was raised instead


def minimize(
    fun: Fun,
    bounds: Any,
    *,
    n_trials: int = 100,
    x0: Any = None,
    policy: Policy | None = None,
    rng: Rng = None,
    callback: Callback | None = None,
    workers: int | Executor | Callable[..., Iterable[Any]] = 1,
    progress: bool = False,
    raise_on_error: bool = False,
    timeout: float | None = None,
    log: str | os.PathLike[str] | None = None,
    stop: Mapping[str, float] | None = None,
) -> OptimizeResult:
    """Minimize a function of a few variables with as few evaluations as possible.

    Args:
        fun: The objective. It gets an array for plain bounds and a dict for named parameters. None, nan or an
            exception count as a failed evaluation, and the run goes on.
        bounds: [(low, high), ...], scipy Bounds, or {name: Float | Int | Categorical}.
        n_trials: Number of evaluations.
        x0: A point or a list of points to evaluate first.
        policy: What chooses the next point; None is the best measured one.
        rng: None, a seed or a numpy Generator.
        callback: Called with an OptimizeResult after every evaluation; True or StopIteration ends the run.
        workers: Number of processes (-1 for all cores), an Executor, or a map-like ``map(fun, points)``. Processes
            and Executors are kept busy asynchronously, a map-like gets batches.
        progress: Show a progress bar (needs tqdm).
        raise_on_error: Let an exception of ``fun`` end the run instead of counting as a failure.
        timeout: Seconds that an evaluation may take. One that takes longer is killed and counts as failed, so ``fun``
            runs in processes, with one worker too.
        log: File in which every step is kept (see ``Optimizer.open``). Where there is one, the run goes on from it:
            ``n_trials`` counts all evaluations, and those that were under way when the last run was killed come first.
        stop: Thresholds of ``Optimizer.stop``, such as {"target": 0.01, "gain": 1e-6}, that end the run early; with {}
            only a finite space that was tried whole does.

    Returns:
        OptimizeResult with x and fun (best observed), nfev, nit, success, status, message, x_iters, func_vals,
        recommendation (best estimated: params, value, interval, support), stop and optimizer. status is 0 when the
        budget was used up, 1 when the callback stopped the run, 2 when it was interrupted, 3 when no evaluation
        succeeded and 4 when a reason of ``stop`` ended it. stop says why as a dict: {reason: what was reached}.
    """
    return _optimize(direction="minimize", **locals())  # all of the arguments, by name


def maximize(
    fun: Fun,
    bounds: Any,
    *,
    n_trials: int = 100,
    x0: Any = None,
    policy: Policy | None = None,
    rng: Rng = None,
    callback: Callback | None = None,
    workers: int | Executor | Callable[..., Iterable[Any]] = 1,
    progress: bool = False,
    raise_on_error: bool = False,
    timeout: float | None = None,
    log: str | os.PathLike[str] | None = None,
    stop: Mapping[str, float] | None = None,
) -> OptimizeResult:
    """Maximize a function; the arguments and the result are those of ``minimize``, and larger is better."""
    return _optimize(direction="maximize", **locals())  # all of the arguments, by name


def _optimize(
    direction: Literal["minimize", "maximize"],
    fun: Fun,
    bounds: Any,
    n_trials: int,
    x0: Any,
    policy: Policy | None,
    rng: Rng,
    callback: Callback | None,
    workers: int | Executor | Callable[..., Iterable[Any]],
    progress: bool,
    raise_on_error: bool,
    timeout: float | None,
    log: str | os.PathLike[str] | None,
    stop: Mapping[str, float] | None,
) -> OptimizeResult:
    if not callable(fun):
        raise TypeError(f"The 'fun' parameter must be callable. Got {fun!r}.")
    if isinstance(n_trials, bool) or not isinstance(n_trials, int | np.integer) or n_trials < 1:
        raise ValueError(f"The 'n_trials' parameter must be a positive integer. Got {n_trials!r}.")
    if callback is not None and not callable(callback):
        raise TypeError(f"The 'callback' parameter must be callable. Got {callback!r}.")
    evaluate = _evaluator(workers, fun, timeout)
    first = _start_points(x0, Space.of(bounds))
    _check_stop(stop, Space.of(bounds))
    if log is None:
        optimizer = Optimizer(bounds, direction=direction, policy=policy, rng=rng)
    else:
        optimizer = Optimizer.open(log, bounds, direction=direction, policy=policy, rng=rng)
    with optimizer:
        status = _run(evaluate, fun, optimizer, n_trials, first, callback, progress, raise_on_error, stop)
    return _result(optimizer, status, stop)


def _run(
    evaluate: Callable[..., Any],
    fun: Fun,
    optimizer: Optimizer,
    n_trials: int,
    first: list[Any],
    callback: Callback | None,
    progress: bool,
    raise_on_error: bool,
    stop: Mapping[str, float] | None,
) -> int:
    """The loop itself; returns the status."""
    history = optimizer.history
    under_way = [history[int(i)] for i in np.flatnonzero(history.states == State.PENDING.value)]
    done = {tuple(row) for row in history.native[history.states != State.REMOVED.value].tolist()}
    start = [point for point in first if tuple(optimizer.space.to_native(point).tolist()) not in done]
    left = int(n_trials) - int((history.told_at >= 0).sum())

    def trials() -> Iterator[Trial]:
        waiting, points = deque(under_way), deque(start)
        for _ in range(left):
            if waiting:
                yield waiting.popleft()
            else:
                yield optimizer.register(points.popleft()) if points else optimizer.ask()

    status = 0
    with Progress(max(left, 0), progress) as bar:
        outcomes = evaluate(fun, trials(), optimizer)
        try:
            for trial, value in outcomes:
                if isinstance(value, BaseException) and raise_on_error:
                    optimizer.tell(trial, None, reason=_describe(value))
                    raise value
                _tell(optimizer, trial, value)
                bar.update(_best_value(optimizer))
                if callback is not None and _wants_to_stop(callback, _summary(optimizer, trial)):
                    status = 1
                    break
                if stop is not None and optimizer.stop(**stop):
                    status = 4
                    break
        except KeyboardInterrupt:
            status = 2
        finally:
            outcomes.close()
            # OSError of a log on a full disk, say: it has been heard of; a second Ctrl-C must not cost the result
            with contextlib.suppress(OSError, KeyboardInterrupt), uninterrupted():
                for number in np.flatnonzero(optimizer.history.states == State.PENDING.value):
                    optimizer.remove(int(number))  # started, and never to be finished
    return status


def _evaluator(workers: Any, fun: Fun, timeout: float | None) -> Callable[..., Any]:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise ValueError(f"The 'timeout' parameter must be a positive number of seconds. Got {timeout!r}.")
    if timeout is not None and callable(getattr(workers, "submit", workers)):
        raise ValueError("The 'timeout' parameter needs a number of workers: others' processes cannot be killed.")
    if isinstance(workers, Executor):
        return lambda f, trials, optimizer: _submitted(f, trials, optimizer, workers)
    if callable(workers):
        return lambda f, trials, optimizer: _mapped(f, trials, optimizer, workers)
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or (workers < 1 and workers != -1):
        raise ValueError(
            f"The 'workers' parameter must be a positive integer, -1, an Executor or a map-like. Got {workers!r}."
        )
    if workers == 1 and timeout is None:
        return _serial
    count = int(workers) if workers > 0 else (os.cpu_count() or 1)
    try:
        pickle.dumps(fun)
    except Exception as error:
        why = "a timeout" if workers == 1 else f"workers={workers}"
        advice = "define it at the top level of a module"
        advice += f", or pass workers=ThreadPoolExecutor({count})" if timeout is None else ""
        raise TypeError(f"The 'fun' parameter must be picklable for {why}: {advice}. ({error})") from None
    return lambda f, trials, optimizer: evaluated(
        f, ((trial, _point(optimizer, trial)) for trial in trials), count, timeout
    )


def _serial(fun: Fun, trials: Iterator[Trial], optimizer: Optimizer) -> Iterator[Outcome]:
    for trial in trials:
        try:
            value = fun(_point(optimizer, trial))
        except (Exception, SystemExit) as error:
            value = error
        yield trial, value


def _mapped(
    fun: Fun, trials: Iterator[Trial], optimizer: Optimizer, map_like: Callable[..., Iterable[Any]]
) -> Iterator[Outcome]:
    safe = _Safe(fun)
    while batch := list(islice(trials, MAP_BATCH)):
        yield from zip(batch, map_like(safe, [_point(optimizer, t) for t in batch]), strict=True)


def _submitted(fun: Fun, trials: Iterator[Trial], optimizer: Optimizer, executor: Executor) -> Iterator[Outcome]:
    """Keep somebody else's Executor busy: as soon as one result is in, the next point is asked for."""
    width = getattr(executor, "_max_workers", None) or MAP_BATCH
    running: dict[Future[Any], Trial] = {}
    try:
        while True:
            for trial in islice(trials, width - len(running)):
                running[executor.submit(fun, _point(optimizer, trial))] = trial
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda f: running[f].number):
                error = future.exception()
                yield running.pop(future), future.result() if error is None else error
    finally:
        for future in running:
            future.cancel()


class _Safe:
    """Calls the objective and returns its exception instead of raising it, so that one failure is one failure."""

    def __init__(self, fun: Fun) -> None:
        self.fun = fun

    def __call__(self, point: Any) -> Any:
        try:
            return self.fun(point)
        except (Exception, SystemExit) as error:
            return error


def _point(optimizer: Optimizer, trial: Trial) -> Any:
    return optimizer.space.to_user(optimizer.history.native[trial.number])


def _tell(optimizer: Optimizer, trial: Trial, value: Any) -> None:
    if isinstance(value, BaseException):
        optimizer.tell(trial, None, reason=_describe(value))
        return
    try:
        as_value(value)
    except TypeError:
        optimizer.tell(trial, None, reason=f"the objective returned {value!r:.200}, not a real number")
    else:
        optimizer.tell(trial, value)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:1000]


def _wants_to_stop(callback: Callback, result: OptimizeResult) -> bool:
    try:
        return callback(result) is True
    except StopIteration:
        return True


def _start_points(x0: Any, space: Space) -> list[Any]:
    """One point or several, checked before anything is evaluated."""
    if x0 is None:
        return []
    if isinstance(x0, dict) or (not space.named and np.ndim(x0) == 1):
        x0 = [x0]
    points = list(x0)
    for point in points:
        space.to_native(point)
    return points


def _check_stop(stop: Mapping[str, float] | None, space: Space) -> None:
    if stop is None:
        return
    known = ("target", "gain")
    if not isinstance(stop, Mapping) or not set(stop) <= set(known):
        raise ValueError(f"The 'stop' parameter must be a dict with keys of {list(known)}. Got {stop!r}.")
    Optimizer(space, rng=0).stop(**stop)


def _best_value(optimizer: Optimizer) -> float | None:
    return None if np.isnan(optimizer.history.values).all() else optimizer.best.value


def _summary(optimizer: Optimizer, trial: Trial) -> OptimizeResult:
    """What a callback gets: the best so far and the trial that has just finished."""
    from scipy.optimize import OptimizeResult

    history = optimizer.history
    found = not np.isnan(history.values).all()
    best = optimizer.best if found else None
    return OptimizeResult(
        x=None if best is None else _point(optimizer, best),
        fun=math.nan if best is None else best.value,
        nfev=int((history.told_at >= 0).sum()),
        nit=int((history.told_at >= 0).sum()),
        trial=history[trial.number],
        optimizer=optimizer,
    )


def _result(optimizer: Optimizer, status: int, stop: Mapping[str, float] | None) -> OptimizeResult:
    from scipy.optimize import OptimizeResult

    history = optimizer.history
    told = np.flatnonzero(history.told_at >= 0)
    values = history.values[told]
    failed = int(np.isnan(values).sum())
    found = failed < len(values)
    why: dict[str, float] = optimizer.stop(**(stop or {}))
    if status != 4:
        why = {("budget", "callback", "interrupt", "budget")[status]: len(told), **why}
    if not found and status == 0:
        status = 3
    message = [
        "The budget of trials is used up.",
        "The callback stopped the run.",
        "The run was interrupted; this is what was known by then.",
        "No evaluation succeeded.",
        f"There is a reason to stop: {', '.join(why)}.",
    ][status]
    if failed:
        last = int(told[np.flatnonzero(np.isnan(values))[-1]])
        message += f" {failed} of {len(values)} evaluations failed; the last one: {history.reason(last) or 'no value'}."
    space = optimizer.space
    points = [space.to_user(row) for row in history.native[told]]
    listed = space.named or space.mixed
    best = optimizer.best if found else None
    return OptimizeResult(
        x=None if best is None else _point(optimizer, best),
        fun=math.nan if best is None else best.value,
        nfev=len(told),
        nit=len(told),
        success=found and status != 2,
        status=status,
        message=message,
        x_iters=points if listed else np.array(points).reshape(-1, space.dim),
        func_vals=values,
        recommendation=optimizer.recommend() if found else None,
        stop=why,
        optimizer=optimizer,
    )
