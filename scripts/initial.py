"""How many points may the initial design have? More tell more, and leave less of a short run to what they tell.

    OMP_NUM_THREADS=1 python scripts/initial.py run       # adds to results/initial.jsonl what is missing
    python scripts/initial.py table                       # writes results/initial.md from what is there

A run is 100 evaluations of one of the 24 BBOB functions, without noise or with 5 % of the signal's standard deviation.
Each problem has a design of its own. Regret is the smallest true one of the points that were evaluated.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import ioh
import numpy as np
from rows import Row, fill, stored

from boke import Optimizer
from boke.policies import BOKE, BOKELocal, BOKEPlus

STORE, TABLE = Path("results/initial.jsonl"), Path("results/initial.md")
DIMENSIONS, INSTANCES, NOISES, BUDGETS = (7, 10, 20), (15, 16, 17, 18), (0.0, 0.05), (15, 20, 30, 50, 100)
SIZES = (20, 12, 8)  # at most, of 16, 22 and 42, which are 2 (d + 1)
POLICIES = {"default": BOKELocal, "BOKE+": BOKEPlus, "BOKE": BOKE}
FLOOR = 1e-8  # of regrets: below it they are equal


def run(policy: str, size: int, noise: float, function: int, d: int, instance: int) -> Row:
    problem = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
    rng = np.random.default_rng((instance, function))
    scale = noise * float(np.std([problem(x.tolist()) for x in rng.uniform(-5.0, 5.0, (200, d))]))
    chosen = POLICIES[policy](n_init=min(size, 2 * (d + 1)))
    optimizer = Optimizer([(-5.0, 5.0)] * d, policy=chosen, rng=1000 * instance + function)
    regrets = []
    for _ in range(max(BUDGETS)):
        trial = optimizer.ask()
        value = float(problem(list(trial.params.values())))
        optimizer.tell(trial, value + scale * rng.normal())
        regrets.append(value - float(problem.optimum.y))
    best = {str(t): max(min(regrets[:t]), FLOOR) for t in BUDGETS}
    return {
        "policy": policy, "size": size, "noise": noise, "function": function, "d": d, "instance": instance,
        "regret": best,
    }  # fmt: skip


def study() -> None:
    jobs = [
        (policy, size, noise, f, d, i)
        for policy in POLICIES
        for i in INSTANCES[: None if policy == "default" else 1]
        for noise in NOISES
        for d in DIMENSIONS
        for f in range(1, 25)
        for size in SIZES
    ]
    done = {tuple(r[k] for k in ("policy", "size", "noise", "function", "d", "instance")) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def table() -> None:
    of: dict[tuple[str, float, int], dict[tuple[int, int, int], Row]] = {}
    for r in stored(STORE):
        of.setdefault((r["policy"], r["noise"], r["size"]), {})[r["d"], r["function"], r["instance"]] = r
    text = [
        "# The size of the initial design",
        "",
        "Written by `python scripts/initial.py table` from `results/initial.jsonl`: the 24 BBOB functions, instances",
        "15 to 18 (15 alone for BOKE and BOKE+), in 7, 10 and 20 dimensions. How often the best point after so many",
        "evaluations is better with a smaller design than with one of 20 points at most (half of the ties included),",
        "and the mean difference of log10 regret, negative where the smaller one is better, with its standard error.",
        "",
        "| policy | noise | at most | d | runs | " + " | ".join(map(str, BUDGETS)) + " |",
        "|---|---|---|---|---|" + "---|" * len(BUDGETS),
    ]
    for (policy, noise, size), rows in of.items():
        plain = of[policy, noise, SIZES[0]]
        for d in (*DIMENSIONS, None) if size != SIZES[0] else ():
            both = [(rows[k]["regret"], plain[k]["regret"]) for k in rows.keys() & plain.keys() if d in (k[0], None)]
            cells = []
            for t in map(str, BUDGETS if both else ()):
                gain = np.array([math.log10(a[t] / b[t]) for a, b in both])
                share = ((gain < 0) + 0.5 * (gain == 0)).mean()
                cells.append(f"{share:.0%}, {gain.mean():+.2f} ± {gain.std() / math.sqrt(len(gain)):.2f}")
            text.append(f"| {policy} | {noise:.0%} | {size} | {d or 'all'} | {len(both)} | {' | '.join(cells)} |")
    TABLE.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    {"run": study, "table": table}[parser.parse_args().what]()
