"""What a suggestion costs: beside other optimizers, against the length of the history, and taken apart.

Everything runs in one process on one core, and seconds are those of the processor. Optimizers that are compared take
turns, ten steps each, so that a busy machine slows all of them and most steps of each are warm. The objective is a
bowl: its own time is not counted.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

import boke
from boke import engine, history
from boke.acquisition import PaperBeta
from boke.bandwidth import Silverman
from boke.engine import Draw
from boke.kernels import get_kernel
from boke.model import KernelModel
from boke.policies import BOKE, KRUCB, BOKELocal, BOKEPlus, DensityExploration
from boke.quasirandom import sobol
from boke.scores import normal_scores
from boke.sums import Points
from boke_bench.protocol import Array

Row = dict[str, Any]
PAPER = {2: 1.96, 5: 2.80, 10: 3.31}  # seconds of BOKE in the paper's table, on the authors' machine


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    dims: tuple[int, ...] = (2, 10, 50)
    sizes: tuple[int, ...] = (100, 300, 1000, 10_000, 100_000, 1_000_000)
    steps: int = 200
    seconds: float = 2.5  # for one optimizer at one size; at least three steps are made
    run: int = 1000
    gp_run: int = 100
    short_run: int = 200
    paper_run: int = 500
    batches: tuple[int, ...] = (16, 128, 1024)
    seeds: int = 100
    quality_run: int = 300
    catalogues: tuple[int, ...] = (10_000, 100_000)
    histories: tuple[int, ...] = (1000, 10_000, 100_000)


QUICK = Scale((2, 10), (100, 1000), 20, 2.0, 40, 12, 20, 40, (8, 32), 2, 40, (2000,), (1000,))
TURN = 10  # steps of an optimizer before the next one's: the first of them finds the caches full of other things
LIMITS = {"tpe": 10_000, "turbo-enn": 100_000, "gp-ei": 300, "skopt": 300}  # longest history an optimizer is given


def bowl(x: Array) -> float:
    return -float(np.square(x - 0.3).sum())


def bowls(X: Array) -> Array:
    return np.asarray(-np.square(X - 0.3).sum(axis=1))


def timed(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


@dataclass(frozen=True)
class Step:
    """One evaluation of the bowl, at what an optimizer asks for; its call returns the seconds of the optimizer alone.

    Attributes:
        ask: Makes a suggestion.
        point: Of a suggestion (d,).
        tell: Takes a suggestion and its value.
    """

    ask: Callable[[], Any]
    point: Callable[[Any], Array]
    tell: Callable[[Any, float], object]

    def __call__(self) -> float:
        start = time.process_time()
        asked = self.ask()
        spent = time.process_time() - start
        value = bowl(self.point(asked))
        return spent + timed(lambda: self.tell(asked, value))


# optimizers, told everything at once


def of_boke(X: Array, y: Array, seed: int = 0, **settings: Any) -> Step:
    optimizer = boke.Optimizer([(0.0, 1.0)] * X.shape[1], direction="maximize", rng=seed, **settings)
    if len(X):
        optimizer.tell_many(X, y)
    return Step(optimizer.ask, lambda trial: trial.x, optimizer.tell)


def of_tpe(X: Array, y: Array, seed: int = 0) -> Step:
    """Optuna's TPE as it comes, in memory."""
    study, axes = _study(X, y, seed)
    return Step(partial(study.ask, axes), lambda trial: np.array([trial.params[name] for name in axes]), study.tell)


def _study(X: Array, y: Array, seed: int, **settings: Any) -> tuple[Any, dict[str, Any]]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    axes: dict[str, Any] = {f"x{j}": optuna.distributions.FloatDistribution(0.0, 1.0) for j in range(X.shape[1])}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, **settings))
    make = partial(optuna.trial.create_trial, distributions=axes)
    rows = zip(X.tolist(), y.tolist(), strict=True)
    study.add_trials([make(params=dict(zip(axes, x, strict=True)), value=v) for x, v in rows])
    return study, axes


def of_enn(X: Array, y: Array, seed: int = 0) -> Step:
    from enn import create_optimizer, turbo_enn_config

    d, n = X.shape[1], max(2 * X.shape[1], 1) if len(X) == 0 else 1
    cube, rng = np.tile([0.0, 1.0], (d, 1)), np.random.default_rng(seed)
    inner = create_optimizer(bounds=cube, config=turbo_enn_config(num_init=n), rng=rng)
    if len(X):
        inner.ask(1)  # its initial design; what is told takes its place
        inner.tell(X, y)
    return Step(
        lambda: np.asarray(inner.ask(1), dtype=float),
        lambda points: points[0],
        lambda points, value: inner.tell(points, np.array([value])),
    )


def of_gp(X: Array, y: Array, seed: int = 0) -> Step:
    from boke_bench.baselines.gp import GPEI

    optimizer = GPEI(X if len(X) else np.random.default_rng(seed).random((5, 10)), seed)
    for x, value in zip(X, y, strict=True):
        optimizer.ask()
        optimizer.tell(x, float(value))
    return Step(optimizer.ask, lambda x: x, optimizer.tell)


def of_skopt(X: Array, y: Array, seed: int = 0) -> Step:
    """The Gaussian process of scikit-optimize as it comes."""
    from skopt import Optimizer

    optimizer = Optimizer(
        [(0.0, 1.0)] * X.shape[1], base_estimator="GP", n_initial_points=1 if len(X) else 10, random_state=seed
    )
    if len(X):
        optimizer.tell(X.tolist(), (-y).tolist())
    return Step(optimizer.ask, np.array, lambda x, value: optimizer.tell(x, -value))


MAKERS: dict[str, Callable[[Array, Array], Step]] = {
    "default": of_boke, "tpe": of_tpe, "turbo-enn": of_enn, "gp-ei": of_gp, "skopt": of_skopt,
}  # fmt: skip
NEEDS = {"turbo-enn": "enn", "gp-ei": "botorch", "tpe": "optuna", "skopt": "skopt"}
GPS = ("gp-ei", "skopt")  # which take long


def installed() -> list[str]:
    from importlib.util import find_spec

    return [name for name in MAKERS if name not in NEEDS or find_spec(NEEDS[name]) is not None]


# what is measured


def bulk(scale: Scale) -> Iterator[Row]:
    """ask + tell after t observations that were told at once: median and p99 in milliseconds."""
    for d in scale.dims:
        for t in scale.sizes:
            X = np.random.default_rng(0).random((t, d))
            y = bowls(X)
            names = [name for name in installed() if t <= LIMITS.get(name, t)]
            loading = {}
            steps = {}
            for name in names:
                start = time.process_time()
                steps[name] = MAKERS[name](X, y)
                steps[name]()
                loading[name] = time.process_time() - start
            spent: dict[str, list[float]] = {name: [] for name in names}
            for turn in range(0, scale.steps, TURN):
                for name in names:
                    for i in range(turn, min(turn + TURN, scale.steps)):
                        if i < 3 or sum(spent[name]) < scale.seconds:
                            spent[name].append(steps[name]())
            for name in names:
                ms = 1e3 * np.array(spent[name])
                yield {
                    "optimizer": name, "d": d, "t": t, "steps": len(ms), "median_ms": float(np.median(ms)),
                    "mean_ms": float(ms.mean()), "p99_ms": float(np.quantile(ms, 0.99)), "loading_s": loading[name],
                }  # fmt: skip


def exponent(rows: list[Row], d: int, what: str) -> float | None:
    """Slope of ln cost over ln t from 1000 observations on."""
    found = [(r["t"], r[what]) for r in rows if r["optimizer"] == "default" and r["d"] == d and r["t"] >= 1000]
    if len(found) < 2:
        return None
    t, cost = np.log(np.array(found)).T
    return float(np.polyfit(t, cost, 1)[0])


def sequential(scale: Scale) -> Iterator[Row]:
    """A whole run from nothing, d = 10: seconds of the optimizer, warm: it has been used before."""
    nothing = np.empty((0, 10))
    for name in installed():
        step = MAKERS[name](nothing, np.empty(0))
        for _ in range(20 if name in GPS else 100):
            step()
    runs = [(name, scale.gp_run if name in GPS else scale.run) for name in installed()]
    runs += [("default", scale.gp_run), ("default", scale.short_run), ("tpe", scale.short_run)]
    for name, n in runs:
        if name in installed():
            step = MAKERS[name](nothing, np.empty(0))
            yield {"optimizer": name, "d": 10, "evaluations": n, "seconds": sum(step() for _ in range(n))}


def sums(scale: Scale) -> Iterator[Row]:
    """Nanoseconds of one kernel evaluation in W and S, and of one exponential of NumPy's, in cache.

    Once in double precision and once in single, in which BOKE screens its candidates.
    """
    rng = np.random.default_rng(0)
    z, out = rng.random(4096), np.empty(4096)
    repeats, calls = max(20, 50 * scale.steps), max(2, scale.steps // 10)

    def ns(call: Callable[[], object], times: int, size: int) -> float:
        def several() -> None:
            for _ in range(times):
                call()

        return 1e9 * min(timed(several) for _ in range(5)) / times / size

    exp_ns = ns(lambda: np.exp(z, out=out), repeats, len(z))
    for d in (2, 10, 50):
        Z, Q = rng.random((1024, d)), rng.random((1024, d))
        model = KernelModel(Z, rng.normal(size=1024), bandwidth=0.5)
        query, none = Points(Q / 0.5, Q[:, :0]), np.empty((0, d))
        draw = Draw(Q, none, Z[:5], np.empty((0, 3)), none, none, 0.0, 0, 5, 8.0)  # the queries alone
        row: Row = {"d": d, "exp_ns": exp_ns, "kernel_ns": ns(partial(model._sums, query), calls, 1024**2)}
        row["ratio"] = row["kernel_ns"] / exp_ns
        if model.screen(draw, 0.01, 1e-4, 80) is not None:  # compiled
            row["single_ns"] = ns(partial(model.screen, draw, 0.01, 1e-4, 80), calls, 1024**2)
            row["single_ratio"] = row["single_ns"] / exp_ns
        yield row


def faithful_boke(T: int, d: int, seed: int) -> None:
    """BOKE word for word, in NumPy: IKR-UCB at 1024 quasi-random candidates, everything computed afresh."""
    rng = np.random.default_rng(seed)
    X = rng.random((2 * (d + 1), d))
    y = bowls(X)
    rule, beta = Silverman(0.1), PaperBeta(0.003)
    while len(X) < T:
        ell = rule(X, y, kernel=get_kernel("gaussian"), categorical=np.zeros(d, bool))
        C = sobol(1024, d, rng)
        K = np.exp(-0.5 * cdist(C / ell, X / ell, "sqeuclidean"))
        W, scores = K.sum(axis=1), normal_scores(y)
        mean = np.where(W > 0.0, K @ scores / np.where(W > 0.0, W, 1.0), scores.mean())
        x = C[np.argmax(mean + beta(len(X), d) * (W + 1e-4) ** -0.5)]
        X, y = np.vstack([X, x]), np.append(y, bowl(x))


def faithful_run(T: int, d: int) -> float:
    return timed(partial(faithful_boke, T, d, 0))


def paper(scale: Scale) -> Iterator[Row]:
    """The paper's table of runtimes, warm, medians of three: T evaluations, 1024 of the acquisition function each."""
    T, code = scale.paper_run, "from boke_bench import speed; speed.boke_run(12, {d}); print(speed.boke_run({T}, {d}))"
    for d in PAPER:
        runs: dict[str, Callable[[int], float]] = {
            "compiled_s": partial(boke_run, d=d),
            "default_s": partial(boke_run, d=d, policy=BOKELocal()),
            "faithful_numpy_s": partial(faithful_run, d=d),
        }
        for run in runs.values():
            run(3 * d + 6)  # beyond the initial design
        rounds = [{name: run(T) for name, run in runs.items()} for _ in range(3)]
        done = subprocess.run(
            [sys.executable, "-c", code.format(T=T, d=d)],
            env={**os.environ, "BOKE_SUMS": "numpy"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        medians = {name: float(np.median([one[name] for one in rounds])) for name in runs}
        yield {"d": d, "evaluations": T, "paper_s": PAPER[d], **medians, "same_policy_numpy_s": float(done.stdout)}


def boke_run(T: int, d: int, policy: BOKE | None = None) -> float:
    step = of_boke(np.empty((0, d)), np.empty(0), policy=policy or BOKE())
    return sum(step() for _ in range(T))


def batches(scale: Scale) -> Iterator[Row]:
    """ask(n) after 200 observations, and how far apart its points are, beside TPE with lies for pending trials."""
    for d in (2, 10):
        X = np.random.default_rng(0).random((200, d))
        y = bowls(X)
        for n in scale.batches:
            optimizer = boke.Optimizer([(0.0, 1.0)] * d, direction="maximize", rng=0)
            optimizer.tell_many(X, y)
            start = time.process_time()
            yield _batch("default", d, np.array([trial.x for trial in optimizer.ask(n)]), start)
            if "tpe" in installed():
                study, axes = _study(X, y, 0, constant_liar=True)
                start = time.process_time()
                asked = [list(study.ask(axes).params.values()) for _ in range(n)]
                yield _batch("tpe", d, np.array(asked), start)


def _batch(name: str, d: int, X: Array, start: float) -> Row:
    seconds = time.process_time() - start
    return {
        "optimizer": name, "d": d, "n": len(X), "seconds": seconds, "ms_per_point": 1e3 * seconds / len(X),
        "mean_gap": float(KDTree(X).query(X, 2)[0][:, 1].mean()), "duplicates": len(X) - len(np.unique(X, axis=0)),
    }  # fmt: skip


def catalogue(scale: Scale) -> Iterator[Row]:
    """ask + tell of BOKE over a finite set of points, d = 5, with kernel sums kept by a pool and made afresh."""
    for n in scale.catalogues:
        points = np.random.default_rng(0).random((n, 5))
        space = boke.Space.from_arms(points)
        for t in (100, 1000):
            row: Row = {"points": n, "d": 5, "t": t}
            for name in ("kept", "afresh"):
                optimizer = boke.Optimizer(space, direction="maximize", policy=BOKE(), rng=0)
                optimizer.history.pool = optimizer.history.pool if name == "kept" else None
                optimizer.tell_many(points[:t], bowls(points[:t]))
                step = Step(optimizer.ask, lambda trial: trial.x, optimizer.tell)
                row[f"{name}_first_ms"] = 1e3 * step()
                row[f"{name}_ms"] = 1e3 * float(np.median([step() for _ in range(max(5, scale.steps // 5))]))
            yield row


def of_policies(scale: Scale) -> Iterator[Row]:
    """ask + tell of every policy after t observations that were told at once, d = 2 and 10."""
    for d in (2, 10):
        for t in scale.histories:
            X = np.random.default_rng(0).random((t, d))
            y = bowls(X)
            for policy in (BOKE(), BOKEPlus(), DensityExploration(), KRUCB(), BOKELocal()):
                step = of_boke(X, y, policy=policy)
                first = step()
                spent = [step() for _ in range(max(5, scale.steps // 5))]
                yield {
                    "policy": type(policy).__name__, "d": d, "t": t, "first_ms": 1e3 * first,
                    "median_ms": 1e3 * float(np.median(spent)), "p99_ms": 1e3 * float(np.quantile(spent, 0.99)),
                }  # fmt: skip


def long_history(scale: Scale) -> Row:
    """tell_many, save, load, memory and forgetting at the largest size, d = 10."""
    t, d = max(scale.sizes), 10
    X = np.random.default_rng(0).random((t, d))
    y = bowls(X)
    row: Row = {"t": t, "d": d, **_life(X, y)}
    tracemalloc.start()
    step = of_boke(X, y)
    for _ in range(3):
        step()
    row["bytes_per_observation"] = tracemalloc.get_traced_memory()[0] / t
    tracemalloc.stop()
    row["bytes_of_the_data"] = 8 * (2 * d + 1)  # the point as given and in the unit cube, and its value
    for name, memory in (("window", {"window": t // 10}), ("half_life", {"half_life": t / 10})):
        step = of_boke(X, y, **memory)
        step()
        row[f"{name}_median_ms"] = 1e3 * float(np.median([step() for _ in range(max(5, scale.steps // 4))]))
    return row


def _life(X: Array, y: Array) -> Row:
    """Seconds from the data to the first suggestion, into a file and back."""
    optimizer = boke.Optimizer([(0.0, 1.0)] * X.shape[1], direction="maximize", rng=0)
    row = {"tell_many_s": timed(lambda: optimizer.tell_many(X, y))}
    row["first_ask_s"] = timed(lambda: optimizer.tell(optimizer.ask(), 0.0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        row["save_s"] = timed(lambda: optimizer.save(path))
        row["load_s"] = timed(lambda: boke.Optimizer.load(path))
    return row


def quality(scale: Scale) -> Iterator[Row]:
    """log10 regret with and without what begins at long histories: here from the first trial on."""
    from boke_bench.problems import make_problem

    for function in (1, 8, 15):
        for d in (2, 5):
            finals: dict[str, list[float]] = {"fast": [], "plain": []}
            for seed in range(scale.seeds):
                problem = make_problem({"kind": "bbob", "function": function, "dim": d, "instance": seed + 1}, seed)
                for name, most, limit in (("fast", 64, 0), ("plain", 10**9, 10**9)):
                    before, history.INDEXED = history.INDEXED, limit
                    optimizer = boke.Optimizer(
                        [(0.0, 1.0)] * d, direction="maximize", policy=BOKELocal(max_points=most), rng=seed
                    )
                    best = -math.inf
                    for _ in range(scale.quality_run):
                        trial = optimizer.ask()
                        optimizer.tell(trial, problem(trial.x))
                        best = max(best, problem.true(trial.x))
                    history.INDEXED = before
                    finals[name].append(math.log10(max((problem.optimum or 0.0) - best, 1e-12)))
            gain = np.array(finals["fast"]) - np.array(finals["plain"])
            yield {
                "function": function, "d": d, "seeds": scale.seeds, "evaluations": scale.quality_run,
                "fast": float(np.median(finals["fast"])), "plain": float(np.median(finals["plain"])),
                "mean_difference": float(gain.mean()), "standard_error": float(gain.std(ddof=1) / math.sqrt(len(gain))),
            }  # fmt: skip


def import_seconds() -> float:
    """Seconds of ``import boke`` in a new process, less those of an empty one; the best of five."""

    def run(code: str) -> float:
        start = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        end = os.times()
        return end.children_user + end.children_system - start.children_user - start.children_system

    return min(run("import boke") for _ in range(5)) - min(run("pass") for _ in range(5))


PARTS: dict[str, Callable[[Scale], Any]] = {
    "bulk": lambda scale: list(bulk(scale)),
    "sequential": lambda scale: list(sequential(scale)),
    "sums": lambda scale: list(sums(scale)),
    "paper": lambda scale: list(paper(scale)),
    "batches": lambda scale: list(batches(scale)),
    "catalogue": lambda scale: list(catalogue(scale)),
    "policies": lambda scale: list(of_policies(scale)),
    "long_history": long_history,
    "quality": lambda scale: list(quality(scale)),
    "import_s": lambda scale: import_seconds(),
}


def measure(scale: Scale, parts: Iterable[str], record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Put some parts, one after the other, into the record; yields the name and the seconds of each."""
    record["sums_engine"] = engine.config()["sums"]
    for name in parts:
        start = time.perf_counter()
        record[name] = PARTS[name](scale)
        if name == "bulk":
            record["exponent_of_median"] = exponent(record["bulk"], 10, "median_ms")
            record["exponent_of_mean"] = exponent(record["bulk"], 10, "mean_ms")
        yield name, time.perf_counter() - start
