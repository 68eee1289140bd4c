"""Tabular surrogates of the four tuning tasks: precomputed evaluations, interpolated by trees.

A table holds the real 5-fold R² on part of the data's rows, at points that ``tabulate`` chose. Extremely randomized
trees without bootstrap go through every point of the table and average in between, so the largest value of the
surrogate is the largest of the table. It is a stand-in for the task, not the task: its name says so, and so should
every figure.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from boke_bench.problems.tuning import DATA, MODELS
from boke_bench.protocol import Array

TABLES = Path(__file__).parent / "tables"
TREES = 200


class Surrogate:
    """A tuning task by its table.

    Args:
        model: "rf" or "xgb".
        data: "california" or "wine".
    """

    def __init__(self, model: str, data: str) -> None:
        if model not in MODELS or data not in DATA:
            raise ValueError(f"There are surrogates of {list(MODELS)} on {list(DATA)}. Got {model!r} on {data!r}.")
        X, y = read(model, data)
        self._trees = _trees(model, data)
        self.dim = X.shape[1]
        self.optimum: float | None = float(y.max())
        self.name = f"{MODELS[model]} on {DATA[data]} (surrogate)"

    def __call__(self, x: Array) -> float:
        return self.true(x)

    def true(self, x: Array) -> float:
        row = np.asarray(x, dtype=np.float32).reshape(1, -1)  # what the trees compare with
        return float(np.mean([tree.predict(row)[0, 0] for tree in self._trees]))


@cache  # growing them takes as long as a whole run of the cheapest optimizer
def _trees(model: str, data: str) -> list[Any]:
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(TREES, random_state=0, n_jobs=1).fit(*read(model, data))
    return [tree.tree_ for tree in forest.estimators_]


def read(model: str, data: str) -> tuple[Array, Array]:
    """The points (n, d) of a table and their values (n,)."""
    with gzip.open(TABLES / f"{model}_{data}.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]
