"""How a search begins: how many points has the initial design, and is the first of them the middle of the space?

    OMP_NUM_THREADS=1 python scripts/initial.py run       # adds to results/initial.jsonl what is missing
    python scripts/initial.py table                       # writes results/initial.md from what is there

A run is 100 evaluations, without noise or with 5 % of the signal's standard deviation, of one of the 24 BBOB functions,
whose optimum is in the inner 80 % of each column as a rule, or of one of six functions whose optimum is anywhere in the
cube, or has half of its columns at the ends of their ranges. Each run has a design of its own. Regret is the smallest
true one of the points that were evaluated.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ioh
import numpy as np
from rows import Row, duel, fill, stored

from boke import Optimizer
from boke.policies import BOKE, BOKELocal, BOKEPlus
from boke.space import Array

STORE, TABLE = Path("results/initial.jsonl"), Path("results/initial.md")
DIMENSIONS, NOISES, BUDGETS = (3, 7, 10, 20), (0.0, 0.05), (10, 15, 20, 30, 50, 100)
INSTANCES = {"bbob": range(15, 19), "anywhere": range(10), "ends": range(10)}
POLICIES = {"default": BOKELocal, "BOKE+": BOKEPlus, "BOKE": BOKE}
DESIGNS = {"20": ("lhs", 20), "12": ("lhs", 12), "middle": ("middle", 12)}  # and 2 (d + 1) points at most
FLOOR = 1e-8  # of regrets: below it they are equal

Objective = Callable[[Array], float]


def rosenbrock(z: Array) -> float:
    return float(np.sum(100.0 * ((z[1:] + 1.0) - (z[:-1] + 1.0) ** 2) ** 2 + z[:-1] ** 2))


def ackley(z: Array) -> float:
    near = 20.0 * math.exp(-0.2 * math.sqrt(np.mean(z * z)))
    return 20.0 + math.e - near - math.exp(np.mean(np.cos(2.0 * math.pi * z)))


MOVED: list[Callable[[Array, Array], float]] = [
    lambda z, R: float(np.sum(z * z)),
    lambda z, R: float(np.sum(np.logspace(0.0, 4.0, len(z)) * np.square(R @ z))),
    lambda z, R: rosenbrock(z),
    lambda z, R: ackley(z),
    lambda z, R: float(np.sum(np.abs(z))),
    lambda z, R: float(np.sum(z * z + 5.0 - 5.0 * np.cos(3.0 * z))),
]


def problem(kind: str, function: int, d: int, instance: int) -> Objective:
    """A function of [-5, 5]^d whose smallest value is 0."""
    if kind == "bbob":
        found: Any = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
        return lambda x: float(found(x.tolist()) - found.optimum.y)
    rng = np.random.default_rng((instance, function, d))
    best, R = rng.uniform(-5.0, 5.0, d), np.linalg.qr(rng.normal(size=(d, d)))[0]
    if kind == "ends":
        best = np.where(rng.random(d) < 0.5, rng.choice([-5.0, 5.0], d), best)
    return lambda x: MOVED[function](x - best, R)


def run(kind: str, policy: str, design: str, noise: float, function: int, d: int, instance: int) -> Row:
    objective, rng = problem(kind, function, d, instance), np.random.default_rng((instance, function))
    scale = noise * float(np.std([objective(x) for x in rng.uniform(-5.0, 5.0, (200, d))]))
    init, most = DESIGNS[design]
    chosen = POLICIES[policy](init=init, n_init=min(most, 2 * (d + 1)))
    optimizer = Optimizer([(-5.0, 5.0)] * d, policy=chosen, rng=1000 * instance + function)
    regrets = []
    for _ in range(max(BUDGETS)):
        trial = optimizer.ask()
        regrets.append(objective(np.array(list(trial.params.values()))))
        optimizer.tell(trial, regrets[-1] + scale * rng.normal())
    best = [max(min(regrets[:t]), FLOOR) for t in BUDGETS]
    return {"job": [kind, policy, design, noise, function, d, instance], "regret": best}


def study() -> None:
    jobs = [
        (kind, policy, design, noise, f, d, i)
        for kind, instances in INSTANCES.items()
        for policy in (POLICIES if kind == "bbob" else ("default",))
        for i in instances[: None if policy == "default" else 2]
        for noise in NOISES
        for d in DIMENSIONS
        for f in (range(1, 25) if kind == "bbob" else range(len(MOVED)))
        for design in DESIGNS
    ]
    done = {tuple(r["job"]) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def table() -> None:
    of: dict[tuple[str, str, str, float], dict[tuple[int, int, int], list[float]]] = {}
    for r in stored(STORE):
        kind, policy, design, noise, *which = r["job"]
        of.setdefault((kind, policy, design, noise), {})[tuple(which)] = r["regret"]
    text = [
        "# How a search begins",
        "",
        "Written by `python scripts/initial.py table` from `results/initial.jsonl`. Initial designs: a Latin hypercube",
        "of 20 points at most, one of 12, and one of 12 whose first point is the middle of the space. Problems: the 24",
        "BBOB functions, instances 15 to 18 (15 and 16 for BOKE and BOKE+), six functions whose optimum is anywhere in",
        "the cube, and the same with half of the optimum's columns at the ends of their ranges, ten of each. How often",
        "the best point after so many evaluations is better with the second design than with the first (half of the",
        "ties included), and the mean difference of log10 regret, negative where the second is better.",
    ]
    for second, first, title in (
        ("12", "20", "12 points at most, or 20"),
        ("middle", "12", "The middle first, or not"),
    ):
        text += [
            "",
            f"## {title}",
            "",
            "| problems | policy | noise | d | runs | " + " | ".join(map(str, BUDGETS)) + " |",
        ]
        text += ["|---|---|---|---|---|" + "---|" * len(BUDGETS)]
        for kind, policy, _, noise in (key for key in of if key[2] == second):
            a, b = of[kind, policy, second, noise], of[kind, policy, first, noise]
            for d in (*DIMENSIONS, None):
                both = [k for k in a.keys() & b.keys() if d in (k[1], None) and not (second == "12" and k[1] == 3)]
                if not both:
                    continue
                found = duel([a[k] for k in both], [b[k] for k in both])
                columns = zip(0.5 + 0.5 * (found.better - found.worse), found.mean, strict=True)
                cells = [f"{p:.0%}, {g:+.2f}" for p, g in columns]
                text.append(f"| {kind} | {policy} | {noise:.0%} | {d or 'all'} | {len(both)} | {' | '.join(cells)} |")
    TABLE.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    {"run": study, "table": table}[parser.parse_args().what]()
