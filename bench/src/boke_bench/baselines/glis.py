"""GLIS: radial basis functions with inverse distance weighting, the acquisition maximized by a particle swarm."""

from __future__ import annotations

from typing import Any

import numpy as np
from glis.solvers import GLIS

from boke_bench.baselines.base import Baseline, global_seed
from boke_bench.protocol import Array


class Told(GLIS):  # type: ignore[misc]
    """GLIS whose initial samples are given points (n, d) of the cube instead of a random design."""

    def __init__(self, X: Array) -> None:
        d = X.shape[1]
        super().__init__((np.zeros(d), np.ones(d)), n_initial_random=len(X), display=0)
        self._given = X

    def initialize_(self) -> Any:
        self.X = list(self._given)
        self.KnownFeasible = [1.0] * len(self._given)
        return (self._given - self.d0) / self.dd


class Glis(Baseline):
    """Settings are GLIS's own.

    GLIS only takes values of points that it proposed. So it is built anew for each suggestion, with all observations
    as its initial samples: the surrogate is a function of the data, and nothing is lost.
    """

    def suggest(self) -> Array:
        X, y = self.data()
        if len(X) < 2 or np.ptp(y) == 0:
            return self.rng.random(self.dim)
        solver = Told(X)
        with global_seed(self.rng):
            x = solver.initialize()
            for value in -y:
                x = solver.update(value)
        return np.asarray(x, dtype=float)
