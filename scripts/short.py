"""Few evaluations: boke, Optuna's samplers and random search as they come, each with its own way to begin.

    OMP_NUM_THREADS=1 python scripts/short.py run       # adds to results/short.jsonl what is missing
    python scripts/short.py table                       # writes results/short.md from what is there

A run is 30 evaluations of one of the 24 BBOB functions, without noise or with 5 % of the signal's standard deviation.
Regret is the smallest true one of the points that were evaluated. The Gaussian process, which takes seconds for a run,
has every other function and one instance, and is left out where PyTorch is not installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ioh
import numpy as np
import optuna
from rows import Row, duel, fill, stored

import boke

STORE, TABLE = Path("results/short.jsonl"), Path("results/short.md")
DIMENSIONS, INSTANCES, NOISES, BUDGETS = (2, 5, 10, 20), (21, 22, 23, 24), (0.0, 0.05), (10, 15, 20, 25, 30)
SAMPLERS: dict[str, Callable[[int], Any]] = {
    "TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "CMA-ES": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
    "random search": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "GP": lambda seed: optuna.samplers.GPSampler(seed=seed),
}
FLOOR = 1e-8  # of regrets: below it they are equal
TORCH = find_spec("torch") is not None

Ask, Tell = Callable[[], Any], Callable[[Any, float], Any]


def started(name: str, d: int, seed: int) -> tuple[Ask, Tell]:
    names = [f"x{i:02}" for i in range(d)]
    if name == "boke":
        optimizer = boke.Optimizer({n: boke.Float(-5.0, 5.0) for n in names}, rng=seed)
        return optimizer.ask, optimizer.tell
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=SAMPLERS[name](seed))
    axes = {n: optuna.distributions.FloatDistribution(-5.0, 5.0) for n in names}
    return lambda: study.ask(axes), study.tell


def run(name: str, noise: float, function: int, d: int, instance: int) -> Row:
    problem = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
    rng = np.random.default_rng((instance, function))
    scale = noise * float(np.std([problem(x.tolist()) for x in rng.uniform(-5.0, 5.0, (200, d))]))
    ask, tell = started(name, d, 1000 * instance + function)
    regrets = []
    for _ in range(max(BUDGETS)):
        trial = ask()
        value = float(problem([trial.params[n] for n in sorted(trial.params)]))
        tell(trial, value + scale * rng.normal())
        regrets.append(value - float(problem.optimum.y))
    best = [max(min(regrets[:t]), FLOOR) for t in BUDGETS]
    return {"job": [name, noise, function, d, instance], "regret": best}


def study() -> None:
    jobs = [
        (name, noise, f, d, i)
        for i in INSTANCES
        for name in ("boke", *SAMPLERS)
        for noise in NOISES
        for d in DIMENSIONS
        for f in range(1, 25)
        if name != "GP" or (TORCH and i == INSTANCES[0] and f % 2)
    ]
    done = {tuple(r["job"]) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def table() -> None:
    of: dict[tuple[str, float], dict[tuple[int, int, int], list[float]]] = {}
    for r in stored(STORE):
        name, noise, *which = r["job"]
        of.setdefault((name, noise), {})[tuple(which)] = r["regret"]
    text = [
        "# Few evaluations",
        "",
        "Written by `python scripts/short.py table` from `results/short.jsonl`: the 24 BBOB functions, instances 21 to",
        "24, every optimizer as it comes and with its own way to begin; the others are Optuna's samplers. How often",
        "boke's best point after so many evaluations is better (half of the ties included), and the mean difference of",
        "log10 regret with its standard error, negative where boke is better. The Gaussian process has half of the",
        "functions and one instance.",
        "",
        "| beside | noise | d | runs | " + " | ".join(map(str, BUDGETS)) + " |",
        "|---|---|---|---|" + "---|" * len(BUDGETS),
    ]
    for noise in NOISES:
        for name in SAMPLERS:
            ours, theirs = of.get(("boke", noise), {}), of.get((name, noise), {})
            for d in (*DIMENSIONS, None):
                both = [k for k in ours.keys() & theirs.keys() if d in (k[1], None)]
                if not both:
                    continue
                found = duel([ours[k] for k in both], [theirs[k] for k in both])
                columns = zip(0.5 + 0.5 * (found.better - found.worse), found.mean, found.error, strict=True)
                cells = [f"{p:.0%}, {g:+.2f} ± {e:.2f}" for p, g, e in columns]
                text.append(f"| {name} | {noise:.0%} | {d or 'all'} | {len(both)} | {' | '.join(cells)} |")
    TABLE.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    {"run": study, "table": table}[parser.parse_args().what]()
