"""Whether BOKE+ loses anything by looking at a sample of a long history instead of all of it.

    OMP_NUM_THREADS=1 python scripts/sampled.py run       # adds to results/sampled.jsonl what is missing
    python scripts/sampled.py table                       # writes results/sampled.md from what is there

A run is 5000 evaluations of one of the 24 BBOB functions without noise. Up to 2048 of them both see everything and do
the same. Regret is the smallest one of the points that were evaluated.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import ioh
import numpy as np
from rows import Row, duel, fill, stored

from boke import Optimizer
from boke.policies import BOKEPlus

STORE, TABLE = Path("results/sampled.jsonl"), Path("results/sampled.md")
DIMENSIONS, INSTANCES, BUDGETS = (2, 5, 10), (11, 12), (2000, 3000, 4000, 5000)
VARIANTS = {"sample": BOKEPlus(), "all": BOKEPlus(max_points=10**9)}
FLOOR = 1e-8  # of regrets: below it they are equal


def run(name: str, function: int, d: int, instance: int) -> Row:
    problem = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
    optimizer, lowest = Optimizer([(-5.0, 5.0)] * d, policy=VARIANTS[name], rng=instance), float(problem.optimum.y)
    regrets, seconds, spent = [], [], 0.0
    for _ in range(max(BUDGETS)):
        start = time.process_time()
        trial = optimizer.ask()
        spent += time.process_time() - start
        value = float(problem(list(trial.params.values())))
        start = time.process_time()
        optimizer.tell(trial, value)
        spent += time.process_time() - start
        regrets.append(value - lowest)
        seconds.append(spent)
    return {
        "variant": name, "function": function, "d": d, "instance": instance,
        "regret": {str(t): max(min(regrets[:t]), FLOOR) for t in BUDGETS},
        "seconds": {str(t): seconds[t - 1] for t in BUDGETS},
    }  # fmt: skip


def study() -> None:
    jobs = [(name, f, d, i) for i in INSTANCES for d in DIMENSIONS for f in range(1, 25) for name in VARIANTS]
    done = {(r["variant"], r["function"], r["d"], r["instance"]) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def table() -> None:
    of: dict[str, dict[tuple[int, int, int], Row]] = {name: {} for name in VARIANTS}
    for r in stored(STORE):
        of[r["variant"]][r["d"], r["function"], r["instance"]] = r
    both = sorted(of["sample"].keys() & of["all"].keys())
    text = [
        "# BOKE+ with a sample of a long history and with all of it",
        "",
        "Written by `python scripts/sampled.py table` from `results/sampled.jsonl`: the 24 BBOB functions, instances",
        "11 and 12, without noise. From more than 2048 observations on the model of BOKE+ is a random sample of 2048,",
        "a new one for each trial, and the neighbours of the best one; or all observations. How often the best point",
        "with the sample is better and worse (on the others they are the same), the mean difference of log10 regret,",
        "negative where the sample is better, with its standard error, and processor seconds of the optimizer, in the",
        "mean.",
        "",
        "| d | evaluations | runs | sample better | worse | log10 regret | seconds, sample | seconds, all |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for d in (*DIMENSIONS, None):
        rows = [(of["sample"][k], of["all"][k]) for k in both if d in (k[0], None)]
        for t in map(str, BUDGETS if rows else ()):
            better, worse, mean, error = duel([a["regret"][t] for a, _ in rows], [b["regret"][t] for _, b in rows])
            cells = [f"{better:.0%}", f"{worse:.0%}", f"{mean:+.2f} ± {error:.2f}"]
            cells += [f"{np.mean([side[i]['seconds'][t] for side in rows]):.1f}" for i in (0, 1)]
            text.append(f"| {d or 'all'} | {t} | {len(rows)} | {' | '.join(cells)} |")
    TABLE.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    {"run": study, "table": table}[parser.parse_args().what]()
