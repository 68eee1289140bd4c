"""HEBO: warped Gaussian process and an evolutionary search for the Pareto front of three acquisitions.

HEBO 0.3.6 declares numpy < 1.25, which boke cannot meet, but works with a newer one when it is installed by hand:

    pip install gpytorch pandas disjoint-set catboost pymoo==0.6.0 && pip install --no-deps HEBO
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import torch
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO

from boke_bench.baselines.base import Baseline, global_seed
from boke_bench.protocol import Array


class Hebo(Baseline):
    """Settings are HEBO's own; failures it drops by itself."""

    def __init__(self, X0: Array, seed: int) -> None:
        super().__init__(X0, seed)
        self.names = [f"x{j}" for j in range(self.dim)]
        space = DesignSpace().parse([{"name": name, "type": "num", "lb": 0.0, "ub": 1.0} for name in self.names])
        self._inner = HEBO(space, rand_sample=2, scramble_seed=seed)

    def suggest(self) -> Array:
        with torch.random.fork_rng(devices=[]), global_seed(self.rng) as seed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            guess = self._inner.suggest(1)
        return np.asarray(guess[self.names].to_numpy(dtype=float)[0])

    def learn(self, x: Array, y: float) -> None:
        self._inner.observe(pd.DataFrame([x], columns=self.names), np.array([[-y]]))
