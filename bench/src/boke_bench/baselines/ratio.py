"""BORE and LFBO: a classifier tells good points from the rest, and the next point is where it is surest.

Both work on y' = -y, as published: τ is the γ-quantile of y' and a point is good if y' < τ. The classifier is XGBoost
with 100 trees, refitted at every step on one thread. scikit-learn's two gradient boostings took 4 to 20 times as long
for the same 100 trees and 50 to 500 points.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import xgboost

from boke_bench.baselines.base import Screening
from boke_bench.protocol import Array

TREES = 100
PARAMETERS = {"objective": "binary:logistic", "eta": 0.3, "min_child_weight": 1, "nthread": 1, "verbosity": 0}


class DensityRatio(Screening):
    """The point of a fresh Sobol set that the classifier finds likeliest to be good; ties are broken at random.

    Args:
        gamma: Share of the observations that counts as good.
        local: See Screening.
    """

    def __init__(self, X0: Array, seed: int, *, gamma: float, local: float = 0.0) -> None:
        super().__init__(X0, seed, local=local)
        self.gamma = gamma

    def suggest(self) -> Array:
        C = self.candidates()
        X, y = self.data()
        y = -y
        threshold = float(np.quantile(y, self.gamma)) if len(y) else 0.0
        if not (y < threshold).any():  # nothing yet, or many ties at the best value: nothing to tell apart
            return self.rng.random(self.dim)
        X, label, weight = self.labelled(X, y, threshold)
        data = xgboost.DMatrix(X, label, weight=weight, nthread=1)
        # what xgboost.train does, without its callbacks, which take a quarter of the time
        classifier = xgboost.Booster({**PARAMETERS, "seed": int(self.rng.integers(2**31))}, [data])
        for i in range(TREES):
            classifier.update(data, i)
        score = classifier.inplace_predict(C)
        return np.array(C[self.rng.choice(np.flatnonzero(score == score.max()))])

    @abstractmethod
    def labelled(self, X: Array, y: Array, threshold: float) -> tuple[Array, Array, Array]:
        """The training set: points, labels and weights."""


class BORE(DensityRatio):
    """Probability of improvement: every observation once, good or not, all of weight one (Tiao et al. 2021)."""

    def __init__(self, X0: Array, seed: int, *, gamma: float = 0.25, local: float = 0.0) -> None:
        super().__init__(X0, seed, gamma=gamma, local=local)

    def labelled(self, X: Array, y: Array, threshold: float) -> tuple[Array, Array, Array]:
        return X, (y < threshold).astype(float), np.ones(len(y))


class LFBO(DensityRatio):
    """Expected improvement: good ones weighted by how good, against all observations (Song et al. 2022)."""

    def __init__(self, X0: Array, seed: int, *, gamma: float = 0.33, local: float = 0.0) -> None:
        super().__init__(X0, seed, gamma=gamma, local=local)

    def labelled(self, X: Array, y: Array, threshold: float) -> tuple[Array, Array, Array]:
        good = y < threshold
        gain = threshold - y[good]
        positives, total = len(gain), len(gain) + len(y)
        weight = np.concatenate([gain / gain.mean() * total / positives, np.full(len(y), total / len(y))])
        label = np.concatenate([np.ones(positives), np.zeros(len(y))])
        return np.vstack([X[good], X]), label, weight / weight.mean()
