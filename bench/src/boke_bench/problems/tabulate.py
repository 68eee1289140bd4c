"""Makes the tables behind the surrogates of the tuning tasks.

    python -m boke_bench.problems.tabulate rf california

A table has 512 quasi-random points and 96 more near the best so far. An interrupted table is completed by the same
command.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np
from scipy.stats import qmc

from boke_bench.problems.surrogate import TABLES
from boke_bench.problems.tuning import DATA, MODELS, RANGES, Tuning
from boke_bench.protocol import Array

ROWS = 2000  # of the data set behind every entry, so that a table takes minutes
SPREAD, NEAR_BEST = 512, 96
DIGITS = 5  # of a point in the table


def make(model: str, data: str, folder: str | None = None) -> Path:
    """Evaluate what is missing from a table and write it; work in progress is kept beside it and taken up again."""
    task = Tuning(model, data, folder=folder, rows=ROWS)
    work, table = TABLES / f"{model}_{data}.part.csv", TABLES / f"{model}_{data}.csv.gz"
    TABLES.mkdir(exist_ok=True)
    done: list[list[float]] = []
    if work.exists():
        with work.open() as file:
            done = [[float(v) for v in row] for row in csv.reader(file) if len(row) == task.dim + 1]
        with work.open("w", newline="") as file:  # without the line that an interruption cut short
            csv.writer(file).writerows(done)
    while len(done) < SPREAD + NEAR_BEST:
        x = _point(len(done), np.array(done), task.dim)
        done.append([*x.tolist(), round(task.true(x), 7)])
        with work.open("a", newline="") as file:
            csv.writer(file).writerow(done[-1])
    with gzip.GzipFile(table, "wb", mtime=0) as file:
        lines = [[*RANGES[model], "r2"], *([f"{value:.7g}" for value in row] for row in done)]
        file.write("".join(",".join(line) + "\n" for line in lines).encode())
    work.unlink()
    return table


def _point(i: int, done: Array, d: int) -> Array:
    """The i-th point: first a Sobol sequence, then normal steps of 0.1 away from one of the ten best so far."""
    if i < SPREAD:
        x = qmc.Sobol(d, scramble=True, rng=0).random(SPREAD)[i]
    else:
        rng = np.random.default_rng((i, d))
        best = done[np.argsort(-done[:, -1], kind="stable")[:10], :-1]
        x = np.clip(best[rng.integers(len(best))] + 0.1 * rng.standard_normal(d), 0.0, 1.0)
    return np.asarray(np.round(x, DIGITS))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the table of a tuning task, or complete an interrupted one.")
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("data", choices=list(DATA))
    parser.add_argument("--folder", help="folder of the data files")
    arguments = parser.parse_args()
    print(make(arguments.model, arguments.data, arguments.folder))


if __name__ == "__main__":
    main()
