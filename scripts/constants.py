"""The constants that the paper leaves open, chosen by measurement: c_ℓ of the bandwidth, c_β, C of KR-UCB.

    OMP_NUM_THREADS=1 python scripts/constants.py grid        # every variant, 5 seeds
    OMP_NUM_THREADS=1 python scripts/constants.py noise       # bandwidths under noise of 5 % of the signal variance
    OMP_NUM_THREADS=1 python scripts/constants.py final       # the defaults, 10 seeds; 5 on functions never tuned on
    python scripts/constants.py table                         # writes results/constants.md from what is there

A run is 200 evaluations of a BBOB function on the unit cube, 20 of them a Latin hypercube shared by all variants.
Regret is that of the best queried point without noise, as in the paper. Finished runs are lines of
results/constants.jsonl; running the command again adds only what is missing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import ioh
import numpy as np
from rows import fill, stored

from boke.acquisition import PaperBeta
from boke.bandwidth import Silverman
from boke.data import Data
from boke.design import latin_hypercube, sobol
from boke.policies import BOKE, KRUCB, BOKELocal, BOKEPlus, Key, Policy
from boke.space import Space

STORE, TABLE = Path("results/constants.jsonl"), Path("results/constants.md")
DIMENSIONS, BUDGET, INITIAL = (2, 5, 10), 200, 20
TUNED = {1: "Sphere", 8: "Rosenbrock", 15: "rotated Rastrigin"}
UNSEEN = {3: "Rastrigin", 6: "attractive sector", 12: "bent cigar", 17: "Schaffer F7", 21: "Gallagher 101"}

DEFAULTS: dict[str, Policy | None] = {
    "random search": None,
    "BOKE (default)": BOKE(n_init=0),
    "BOKE+ (default)": BOKEPlus(n_init=0),
    "KR-UCB (default)": KRUCB(n_init=0),
    "BOKELocal": BOKELocal(n_init=0),
}
GRID: dict[str, Policy | None] = {
    "random search": None,
    "BOKE naive: c_l=1 c_b=1 standardized": BOKE(
        n_init=0, bandwidth=Silverman(1.0), beta=PaperBeta(1.0), y_scale="standardize"
    ),
    **{
        f"BOKE c_l={c_l} c_b={c_b}": BOKE(n_init=0, bandwidth=Silverman(c_l), beta=PaperBeta(c_b))
        for c_l in (0.05, 0.1, 0.2)
        for c_b in (0.001, 0.003, 0.01)
    },
    **{
        f"BOKE+ c_l={c_l} c_b={c_b}": BOKEPlus(n_init=0, bandwidth=Silverman(c_l), beta=PaperBeta(c_b))
        for c_l in (0.05, 0.1, 0.2)
        for c_b in (0.003, 0.01)
    },
    **{f"KR-UCB c_l=0.1 C={C}": KRUCB(n_init=0, bandwidth=Silverman(0.1), C=C) for C in (0.01, 0.1, 1.0)},
}


NOISY: dict[str, Policy | None] = {
    "random search, noisy": None,
    **{f"BOKE c_l={c_l}, noisy": BOKE(n_init=0, bandwidth=Silverman(c_l)) for c_l in (0.05, 0.1, 0.2)},
    **{f"BOKE+ c_l={c_l}, noisy": BOKEPlus(n_init=0, bandwidth=Silverman(c_l)) for c_l in (0.05, 0.1, 0.2)},
}


def run(name: str, policy: Policy | None, function: int, d: int, seed: int, instance: int) -> dict[str, Any]:
    problem = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
    space = Space.of([(0.0, 1.0)] * d)
    X = np.vstack([latin_hypercube(INITIAL, d, rng=1000 * seed + instance), np.empty((BUDGET - INITIAL, d))])
    y, true = np.empty(BUDGET), np.empty(BUDGET)
    noise = np.random.default_rng((seed, function, d)).normal(size=BUDGET)
    sample = [problem((10.0 * x - 5.0).tolist()) for x in sobol(256, d, rng=0)] if name in NOISY else [0.0]
    noise *= np.sqrt(0.05 * np.var(sample))
    seconds = 0.0
    for t in range(BUDGET):
        start = time.perf_counter()
        if t >= INITIAL:
            known = Data(X[:t], y[:t], X[:0], np.arange(t), np.arange(t) >= INITIAL)
            key = Key(seed, t)
            X[t] = key.generator().random(d) if policy is None else policy.suggest(known, space, key).x
        seconds += time.perf_counter() - start
        true[t] = -problem((10.0 * X[t] - 5.0).tolist())
        y[t] = true[t] + noise[t]
    regret = -true.max() - problem.optimum.y
    return {
        "variant": name, "function": function, "d": d, "seed": seed, "instance": instance,
        "regret": float(regret), "seconds": round(seconds, 3),
    }  # fmt: skip


def jobs(stage: str) -> list[tuple[str, Policy | None, int, int, int, int]]:
    if stage in ("grid", "noise"):
        variants = GRID if stage == "grid" else NOISY
        plan = [(f, s, 1 + s) for s in range(5) for f in TUNED]
        return [(n, p, f, d, s, i) for f, s, i in plan for n, p in variants.items() for d in DIMENSIONS]
    plan = [(f, s, 1 + s % 5) for f in TUNED for s in range(10)]
    plan += [(f, s, 6 + s) for f in UNSEEN for s in range(5)]
    return [(n, p, f, d, s, i) for f, s, i in plan for n, p in DEFAULTS.items() for d in DIMENSIONS]


def study(stage: str, workers: int) -> None:
    done = {(r["variant"], r["function"], r["d"], r["seed"], r["instance"]) for r in stored(STORE)}
    todo = [job for job in jobs(stage) if (job[0], *job[2:]) not in done]
    fill(STORE, run, todo, workers)


def table() -> str:
    rows = stored(STORE)
    out = ["# Measured constants", "", "Made by `python scripts/constants.py table` from `results/constants.jsonl`."]
    for title, variants, functions in (
        ("Grid (5 seeds, instances 1-5)", GRID, TUNED),
        ("Noise of 5 % of the signal variance (5 seeds, instances 1-5)", NOISY, TUNED),
        ("Defaults on the functions of the grid (10 seeds, instances 1-5)", DEFAULTS, TUNED),
        ("Defaults on functions that were not tuned on (5 seeds, instances 6-10)", DEFAULTS, UNSEEN),
    ):
        seeds = 10 if variants is DEFAULTS else 5
        columns = [(f, d) for f in functions for d in DIMENSIONS]
        out += ["", f"## {title}", "", f"log10 of the median regret after {BUDGET} evaluations; lower is better.", ""]
        out.append("| variant | " + " | ".join(f"{functions[f]} {d}" for f, d in columns) + " | mean | s/run |")
        out.append("|---" * (len(columns) + 3) + "|")
        for name in variants:
            cells = []
            for f, d in columns:
                found = [r["regret"] for r in rows if (r["variant"], r["function"], r["d"]) == (name, f, d)][:seeds]
                cells.append(float(np.log10(max(np.median(found), 1e-12))) if found else float("nan"))
            cost = [r["seconds"] for r in rows if r["variant"] == name and r["function"] in functions]
            numbers = " | ".join(f"{c:.2f}" for c in [*cells, float(np.mean(cells)), float(np.mean(cost or [np.nan]))])
            out.append(f"| {name} | {numbers} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["grid", "noise", "final", "table"])
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.stage != "table":
        study(args.stage, args.workers)
    TABLE.write_text(table())
    print(TABLE.read_text())


if __name__ == "__main__":
    main()
