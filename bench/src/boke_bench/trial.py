"""One run: an optimizer asks, a problem answers, every step is timed.

The optimizer's time is that of the processor, not of the clock on the wall. Runs have one thread, so the two are
equal on an idle machine; on a busy one only the former means anything. The sum of the latter is kept, too.
"""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

import numpy as np

from boke.design import latin_hypercube
from boke_bench import designs
from boke_bench.experiment import Run, Spec, key
from boke_bench.protocol import Array, Optimizer, Problem
from boke_bench.store import Record


class RunError(RuntimeError):
    """A run that cannot go on."""


class Trace:
    """Values and seconds of the steps so far."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float, float, float]] = []
        self.wall_s = 0.0
        self.name = ""
        self.optimum: float | None = None

    def add(self, y: float, true: float, optimizer_s: float, objective_s: float) -> None:
        self.steps.append((y, true, optimizer_s, objective_s))


class Stopwatch:
    """Adds up processor and wall time while it runs."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0

    def __enter__(self) -> Stopwatch:
        self._wall, self._cpu = perf_counter(), process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s += process_time() - self._cpu
        self.wall_s += perf_counter() - self._wall


def execute(spec: Spec) -> Record:
    """Do a run. Whatever goes wrong inside is in the record, with the steps made until then."""
    trace, error = Trace(), ""
    started, clock, load = datetime.now(UTC).isoformat(timespec="seconds"), perf_counter(), _load()
    try:
        (designs.grow if spec["kind"] == "design" else optimize)(spec, trace)
    except Exception:
        error = traceback.format_exc(limit=-8)
    columns = np.array(trace.steps, dtype=float).reshape(-1, 4).T
    return Record(
        id=Run(spec, 0).id,
        spec=spec,
        error=error,
        started=started,
        seconds=perf_counter() - clock,
        load=load,
        name=trace.name,
        optimum=trace.optimum,
        y=columns[0],
        true=columns[1],
        optimizer_s=columns[2],
        objective_s=columns[3],
        wall_s=trace.wall_s,
    )


def optimize(spec: Spec, trace: Trace) -> None:
    """Run the optimizer of a spec on its problem until the budget is spent."""
    problem = build_problem(spec["problem"], key("problem", spec["problem"], spec["seed"]))
    trace.name, trace.optimum = str(problem.name), None if problem.optimum is None else float(problem.optimum)
    X0 = initial_design(spec["problem"], spec["seed"], spec["n_init"], problem.dim)
    seed = key("optimizer", spec["problem"], spec["seed"]) % 2**31
    optimizer = build_optimizer(spec["optimizer"], problem.dim, seed, X0, spec["budget"], spec["options"])
    noisy, reason = _noisy(spec["problem"]), ""
    for t in range(spec["budget"]):
        watch = Stopwatch()
        with watch:
            asked = optimizer.ask()
        x = _checked(asked, problem.dim)
        clock = perf_counter()
        y, why = _evaluate(problem, x)
        objective_s = perf_counter() - clock
        reason = why or reason
        # without noise the observation is the truth, and asking twice may cost minutes (tuning)
        true = y if not noisy or math.isnan(y) else float(problem.true(x))
        with watch:
            optimizer.tell(x, None if math.isnan(y) else y)
        trace.add(y, true, watch.cpu_s, objective_s)
        trace.wall_s += watch.wall_s
        if t + 1 == spec["n_init"] and all(math.isnan(step[0]) for step in trace.steps):
            raise RunError(f"No point of the initial design could be evaluated. The last one said: {reason}")


def initial_design(problem: Mapping[str, Any], seed: int, n: int, d: int) -> Array:
    """The Latin hypercube (n, d) from which every optimizer starts; a function of problem and seed."""
    return latin_hypercube(n, d, rng=np.random.default_rng(key("design", problem, seed)))


def build_problem(spec: Mapping[str, Any], seed: int) -> Problem:
    """A problem of the bench, or of somebody else: kind = "package.module:factory", called like ``make_problem``."""
    if ":" in spec["kind"]:
        stranger: Problem = imported(spec["kind"])(spec, seed)
        return stranger
    from boke_bench.problems import make_problem

    return make_problem(spec, seed)


def build_optimizer(name: str, dim: int, seed: int, X0: Array, budget: int, options: Mapping[str, Any]) -> Optimizer:
    """An optimizer of the bench, or of somebody else: "package.module:factory", called like ``make_optimizer``."""
    if ":" in name:
        stranger: Optimizer = imported(name)(name, dim, seed, X0, budget, **options)
        return stranger
    from boke_bench.baselines import make_optimizer

    return make_optimizer(name, dim, seed, X0, budget, **options)


def imported(path: str) -> Any:
    """What "package.module:name" stands for."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _noisy(spec: Mapping[str, Any]) -> bool:
    """Whether an observation may differ from the true value; of a stranger's problem nobody knows."""
    if spec.get("noise") or ":" in spec["kind"]:
        return True
    from boke_bench.problems import SEEDED

    return spec["kind"] in SEEDED


def _evaluate(problem: Problem, x: Array) -> tuple[float, str]:
    """The value, or nan and the reason."""
    try:
        y = float(problem(x))
    except Exception as error:
        return math.nan, f"{type(error).__name__}: {error}"
    return (y, "") if math.isfinite(y) else (math.nan, f"the value was {y}")


def _checked(x: Any, dim: int) -> Array:
    point = np.array(x, dtype=float)
    if point.shape != (dim,) or not (np.isfinite(point).all() and point.min() >= 0.0 and point.max() <= 1.0):
        raise RunError(f"The optimizer asked for {point!r}, which is not a point of the unit cube of dimension {dim}.")
    return point


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
