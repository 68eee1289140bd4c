"""How soon the best of a thousand arms is found, and which arm is recommended under noise.

    OMP_NUM_THREADS=1 python scripts/catalogue.py run         # lines of results/catalogue.jsonl; adds what is missing
    python scripts/catalogue.py table                         # writes results/catalogue.md from what is there

The arms are random points of the cube, and their values those of one of the 24 BBOB functions there, with normal noise
whose variance is a share of that over the arms. Without noise the best pulled arm counts, with noise the recommended
one. Regrets are in standard deviations of the arms' values.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import ioh
import numpy as np
from rows import Row, fill, stored

from boke import Optimizer, Space
from boke.policies import BOKE, BOKELocal, BOKEPlus

STORE, TABLE = Path("results/catalogue.jsonl"), Path("results/catalogue.md")
ARMS, DIMENSIONS, SHARES, INSTANCES, BUDGETS = 1000, (2, 5), (0.0, 0.05), (6, 7), (30, 60, 120)
POLICIES = {"random": None, "BOKE": BOKE(), "BOKE+": BOKEPlus(), "default": BOKELocal()}


def run(policy: str, function: int, d: int, share: float, instance: int) -> Row:
    rng = np.random.default_rng((function, d, instance))
    points = rng.random((ARMS, d))
    problem = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
    values = np.array([-float(problem((10.0 * x - 5.0).tolist())) for x in points])
    sigma = float(values.std())
    space = Space.from_arms(points)
    assert space.unit_arms is not None
    number = {x.tobytes(): i for i, x in enumerate(space.unit_arms)}
    optimizer = Optimizer(space, direction="maximize", policy=POLICIES[policy], rng=instance)
    order, pulled, regrets = rng.permutation(ARMS), [], []
    for t in range(1, max(BUDGETS) + 1):
        trial = optimizer.register(points[order[t]]) if policy == "random" else optimizer.ask()
        pulled.append(number[np.ascontiguousarray(trial.x).tobytes()])
        optimizer.tell(trial, values[pulled[-1]] + float(np.sqrt(share)) * sigma * float(rng.standard_normal()))
        if t in BUDGETS:
            advised = number[np.ascontiguousarray(optimizer.recommend().x).tobytes()] if share else None
            found = values[pulled].max() if advised is None else values[advised]
            regrets.append(float(values.max() - found) / sigma)
    key = {"policy": policy, "function": function, "d": d, "noise": share, "instance": instance}
    return key | {"regrets": regrets, "different": len(set(pulled))}


def study() -> None:
    jobs = [
        (p, f, d, s, i) for i in INSTANCES for s in SHARES for d in DIMENSIONS for f in range(1, 25) for p in POLICIES
    ]
    done = {(r["policy"], r["function"], r["d"], r["noise"], r["instance"]) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def table() -> None:
    text = [
        "# A catalogue of a thousand arms",
        "",
        "Written by `python scripts/catalogue.py table` from `catalogue.jsonl`, which `python scripts/catalogue.py",
        f"run` fills: arms with values of the 24 BBOB functions, instances {INSTANCES[0]} and {INSTANCES[1]}. After",
        f"{', '.join(map(str, BUDGETS))} pulls; regret is a mean, in standard deviations of the arms' values.",
        "",
        "| d | noise | policy | runs | best arm found, % | regret | different arms |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
        *lines(stored(STORE)),
    ]
    TABLE.write_text("\n".join(text) + "\n")
    print(TABLE.read_text())


def lines(rows: list[Row]) -> Iterator[str]:
    for share in SHARES:
        for d in DIMENSIONS:
            for policy in POLICIES:
                mine = [r for r in rows if (r["policy"], r["d"], r["noise"]) == (policy, d, share)]
                if mine:
                    regrets = np.array([r["regrets"] for r in mine])
                    found = " / ".join(f"{100 * share:.0f}" for share in (regrets == 0.0).mean(axis=0))
                    mean = " / ".join(f"{regret:.3f}" for regret in regrets.mean(axis=0))
                    arms = np.mean([r["different"] for r in mine])
                    yield f"| {d} | {share:g} | {policy} | {len(mine)} | {found} | {mean} | {arms:.0f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    {"run": study, "table": table}[parser.parse_args().what]()
