"""Cost of one ask + tell beside Optuna's TPE, in one run on one core, and its growth with the number of trials.

    OMP_NUM_THREADS=1 python scripts/speed.py                 # writes results/speed.json and prints the table

Both optimizers get the same t random observations in bulk and then take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import optuna

import boke

D = 10
SIZES = (100, 1000, 10_000)


def objective(X: np.ndarray) -> np.ndarray:
    return np.square(X - 0.3).sum(axis=-1)


def boke_step(X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    optimizer = boke.Optimizer([(0.0, 1.0)] * D, rng=0)
    optimizer.tell_many(X, y)

    def step() -> None:
        trial = optimizer.ask()
        optimizer.tell(trial, float(objective(trial.x)))

    return step


def tpe_step(X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    columns = {f"x{j}": optuna.distributions.FloatDistribution(0.0, 1.0) for j in range(D)}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    rows = [dict(zip(columns, x, strict=True)) for x in X.tolist()]
    make = optuna.trial.create_trial
    study.add_trials([make(params=p, distributions=columns, value=v) for p, v in zip(rows, y.tolist(), strict=True)])

    def step() -> None:
        trial = study.ask(columns)
        study.tell(trial, float(objective(np.array([trial.params[name] for name in columns]))))

    return step


def seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("results/speed.json"))
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = []
    print(f"{'t':>7} {'boke ms':>9} {'TPE ms':>9} {'ratio':>7}")
    for t in SIZES:
        X = rng.random((t, D))
        ours, theirs = boke_step(X, objective(X)), tpe_step(X, objective(X))
        ours(), theirs()
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(args.repeats)]
        a, b = (1e3 * float(np.median(column)) for column in zip(*pairs, strict=True))
        ratio = float(np.median([p / q for p, q in pairs]))
        rows.append({"t": t, "boke_ms": a, "tpe_ms": b, "ratio": ratio})
        print(f"{t:>7} {a:>9.2f} {b:>9.2f} {ratio:>7.3f}", flush=True)
    exponent = float(np.polyfit(np.log([r["t"] for r in rows]), np.log([r["boke_ms"] for r in rows]), 1)[0])
    print(f"boke's cost grows like t^{exponent:.2f}")
    record = {
        "command": "OMP_NUM_THREADS=1 python scripts/speed.py",
        "dimension": D,
        "repeats": args.repeats,
        "rows": rows,
        "growth_exponent": exponent,
        "versions": {name: version(name) for name in ("bokeopt", "numpy", "scipy", "optuna")},
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
