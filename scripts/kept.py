"""What BOKE and BOKE+ may keep from one trial to the next: the candidates all over the cube, or the sample?

    OMP_NUM_THREADS=1 python scripts/kept.py run       # adds to results/kept.jsonl what is missing
    OMP_NUM_THREADS=1 python scripts/kept.py cost      # writes results/kept-cost.json: what keeping sums would save
    python scripts/kept.py table                       # writes results/kept.md from what is there

A run is one of the 24 BBOB functions without noise. Regret is the smallest one of the points that were evaluated.
Candidates that stay are a window on a random sequence, which moves on a little with each trial; sums at them could be
kept. A sample that stays is much the same for 128 trials, and knows all that was asked for since the last 128 began.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ioh
import numpy as np
from rows import Row, duel, fill, stored
from scipy.spatial import cKDTree

import boke.argmax
from boke import Optimizer
from boke.acquisition import UpperConfidenceBound
from boke.bandwidth import Silverman
from boke.data import Data
from boke.engine import Draw
from boke.model import KernelModel
from boke.policies import BEST, BOKE, STRIDE, BOKEPlus, Key, Suggestion
from boke.pool import Pool
from boke.quasirandom import sobol
from boke.space import Array, Space
from boke.window import Window

STORE, COSTS, TABLE = Path("results/kept.jsonl"), Path("results/kept-cost.json"), Path("results/kept.md")
DIMENSIONS, INSTANCES = (2, 5, 10), (13, 14)
FLOOR = 1e-8  # of regrets: below it they are equal
PARTS = ("afresh", "kept", "nearby", "tree")


@dataclass(frozen=True)
class Standing:
    """A policy whose candidates all over the cube stay: ``count`` of them, of which ``stride`` are new each time."""

    policy: BOKE
    count: int
    stride: int

    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        window = Window(key.seed, self.count, key.number, self.stride)
        with patch.object(boke.argmax, "sobol", lambda n, d, rng: window.points(window.places, space)):
            return self.policy.suggest(data, space, key)


@dataclass(frozen=True)
class Steady(BOKEPlus):
    """BOKE+ with a sample that stays for a while."""

    def _seen(self, data: Data, space: Space, key: Key) -> Data:
        if len(data) <= self.max_points:
            return data
        block = self.max_points // 4
        begun = key.number // block * block
        assert data.asked is not None
        assert data.keys is not None
        recent = data.asked & (data.numbers >= begun - block)
        count = self.max_points - int(recent.sum())
        some = data.sample(count, Key(key.seed, begun).start(), BEST, space)
        chosen = recent | np.isin(data.numbers, some.numbers)
        columns = (column[chosen] for column in (data.numbers, data.asked, data.keys))
        return Data(data.X[chosen], data.y[chosen], data.silent, *columns)


@dataclass(frozen=True)
class Question:
    """What is compared: a policy with the same one that keeps something."""

    title: str
    budgets: tuple[int, ...]
    plain: Any
    kept: Any


QUESTIONS = {
    f"{name}, {count}": Question(
        f"{policy}: {count} candidates that stay, {stride} of them new each time, instead of 256 that are all new",
        (500, 1000, 1500),
        of(),
        Standing(of(), count, stride),
    )
    for name, policy, of in (("boke", "BOKE", BOKE), ("plus", "BOKE+", BOKEPlus))
    for count, stride in ((256, 4), (1024, 16))
} | {
    "sample": Question(
        "BOKE+, `max_points` = 512: a sample that stays, and all of the last trials, instead of a new one each time",
        (1250, 2500),
        BOKEPlus(max_points=512),
        Steady(max_points=512),
    )
}


def run(question: str, side: str, function: int, d: int, instance: int) -> Row:
    asked = QUESTIONS[question]
    problem = ioh.get_problem(function, instance=instance, dimension=d, problem_class=ioh.ProblemClass.BBOB)
    optimizer, lowest = Optimizer([(-5.0, 5.0)] * d, policy=getattr(asked, side), rng=instance), problem.optimum.y
    regrets = []
    for _ in range(max(asked.budgets)):
        trial = optimizer.ask()
        value = float(problem(list(trial.params.values())))
        optimizer.tell(trial, value)
        regrets.append(value - float(lowest))
    best = {str(t): max(min(regrets[:t]), FLOOR) for t in asked.budgets}
    return {"question": question, "side": side, "function": function, "d": d, "instance": instance, "regret": best}


def study() -> None:
    sides = [(q, side) for q in QUESTIONS for side in ("plain", "kept") if not (side == "plain" and q.endswith("1024"))]
    jobs = [(*side, f, d, i) for i in INSTANCES for d in DIMENSIONS for f in range(1, 25) for side in sides]
    done = {(r["question"], r["side"], r["function"], r["d"], r["instance"]) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def costs() -> None:
    """Microseconds of parts of a suggestion, medians of 25; half of the observations are around one point."""
    rows = []
    for d in (2, 5, 10, 20):
        for t in (1000, 2000, 5000, 20_000):
            rng = np.random.default_rng(0)
            X = rng.random((t + 30, d))
            near = X[::2] = np.clip(0.3 + 0.1 * rng.normal(size=X[::2].shape), 0.0, 1.0)
            y, pool, spent = -np.square(X - 0.3).sum(axis=1), Pool(), []
            for n in range(t, t + 30):
                model = KernelModel(X[:n], y[:n], bandwidth=Silverman(0.1))
                spent.append(parts(UpperConfidenceBound(model, 0.003, 1e-4), pool, n, near))
            median = np.median(spent[5:], axis=0)
            rows.append(
                {"d": d, "t": t} | {name: round(1e6 * float(v), 1) for name, v in zip(PARTS, median, strict=True)}
            )
    COSTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def parts(f: UpperConfidenceBound, pool: Pool, number: int, near: Array) -> list[float]:
    """Seconds for the candidates all over the cube, afresh and kept; and for those nearby, with all and by a tree."""
    d, ell = near.shape[1], float(f.model.bandwidth[0])
    space, rng = Space.of([(0.0, 1.0)] * d), np.random.default_rng(number)
    nearby = np.clip(near[rng.integers(len(near), size=512)] + 4.0 * ell * rng.normal(size=(512, d)) / d**0.5, 0.0, 1.0)
    tree = cKDTree(f.model.X)  # its making is not counted
    assert f.screen(drawn(nearby[:8]), 8) is not None  # the model is ready for all of them

    def kept() -> None:
        window = Window(0, 256, number, STRIDE)
        C = window.points(window.places, space)
        values = f.over(C, pool)
        assert values is not None
        f.screen(drawn(C[np.argsort(-values)[:32]]), 32)

    return [
        timed(lambda: f.screen(drawn(sobol(256, d, rng)), 96)),
        timed(kept),
        timed(lambda: f.screen(drawn(nearby), 96)),
        timed(lambda: tree.query_ball_point(nearby, 15.0 * ell)),
    ]


def drawn(cube: Array) -> Draw:
    """Candidates all over the cube and no others."""
    none = cube[:0]
    return Draw(cube, none, none, np.empty((0, 3)), none, none, 0.0, 0, 5, 8.0)


def timed(step: Callable[[], object]) -> float:
    start = time.process_time_ns()
    step()
    return 1e-9 * (time.process_time_ns() - start)


def table() -> None:
    of: dict[tuple[str, str], dict[tuple[int, int, int], Row]] = {}
    for r in stored(STORE):
        of.setdefault((r["question"], r["side"]), {})[r["d"], r["function"], r["instance"]] = r
    text = [
        "# What BOKE and BOKE+ might keep from one trial to the next",
        "",
        "Written by `python scripts/kept.py table` from `results/kept.jsonl` and `results/kept-cost.json`: the 24 BBOB",
        "functions, instances 13 and 14, without noise. How often the best point is better and worse with what is kept",
        "(in the other runs it is the same), and the mean difference of log10 regret, positive where keeping is worse,",
        "with its standard error.",
    ]
    for name, question in QUESTIONS.items():
        plain, kept = of.get((name.replace("1024", "256"), "plain"), {}), of.get((name, "kept"), {})
        text += ["", f"## {question.title}", ""]
        text += ["| d | evaluations | runs | better | worse | log10 regret |", "|---|---|---|---|---|---|"]
        for d in (*DIMENSIONS, None):
            both = [
                (kept[k]["regret"], plain[k]["regret"]) for k in sorted(kept.keys() & plain.keys()) if d in (k[0], None)
            ]
            for t in map(str, question.budgets if both else ()):
                better, worse, mean, error = duel([a[t] for a, _ in both], [b[t] for _, b in both])
                cells = [f"{better:.0%}", f"{worse:.0%}", f"{mean:+.2f} ± {error:.2f}"]
                text.append(f"| {d or 'all'} | {t} | {len(both)} | {' | '.join(cells)} |")
    text += [
        "",
        "## What it saves",
        "",
        "Microseconds, median. The 256 candidates all over the cube: drawn and summed over afresh, in single",
        "precision; or a window with four new ones, a pool that knows the others, and a second look at the best 32.",
        "And 512 candidates near the observations: summed over all of these; and only to find those within 15",
        "bandwidths, beyond which they do not count, by SciPy's k-d tree, which is there already.",
        "",
        "| d | observations | all over, afresh | kept | nearby, all | by a tree |",
        "|---|---|---|---|---|---|",
    ]
    for r in json.loads(COSTS.read_text()) if COSTS.exists() else ():
        text.append(f"| {r['d']} | {r['t']:,} | " + " | ".join(f"{r[name]:,.0f}" for name in PARTS) + " |")
    TABLE.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "cost", "table"))
    {"run": study, "cost": costs, "table": table}[parser.parse_args().what]()
