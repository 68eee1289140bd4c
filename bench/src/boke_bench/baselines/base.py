"""What the baselines share: the initial design comes first, and every observation is remembered."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.random import Generator

from boke.quasirandom import sobol
from boke_bench.protocol import Array

CANDIDATES = 1024  # evaluations of the acquisition function for one suggestion, the same for every method


class Baseline(ABC):
    """Hands out the rows of the initial design, then what ``suggest`` returns.

    Args:
        X0: The initial design (n0, d).
        seed: Seed of all randomness.
    """

    def __init__(self, X0: Array, seed: int) -> None:
        self.design = np.array(X0, dtype=float)
        self.dim = int(self.design.shape[1])
        self.rng: Generator = np.random.default_rng((seed, 1))  # not the numbers that made X0 from the same seed
        self._asked = 0
        self._points: list[Array] = []
        self._values: list[float] = []

    def ask(self) -> Array:
        self._asked += 1
        if self._asked <= len(self.design):
            return np.array(self.design[self._asked - 1])
        return np.asarray(np.clip(self.suggest(), 0.0, 1.0))

    def tell(self, x: Array, y: float | None) -> None:
        x, value = np.array(x, dtype=float), math.nan if y is None or not math.isfinite(y) else float(y)
        self._points.append(x)
        self._values.append(value)
        self.learn(x, value)

    @abstractmethod
    def suggest(self) -> Array:
        """The next point (d,) after the initial design."""

    def learn(self, x: Array, y: float) -> None:  # noqa: B027
        """Take in one observation; nan is a failure. Methods that read ``data`` need not."""

    def data(self) -> tuple[Array, Array]:
        """All points told (t, d) and their values (t,).

        A failure counts as the worst value seen, or as 0 where nothing has a value yet.
        """
        X, y = np.array(self._points).reshape(-1, self.dim), np.array(self._values)
        return X, np.where(np.isnan(y), np.nanmin(y), y) if np.isfinite(y).any() else np.zeros(len(y))


class Screening(Baseline):
    """A baseline that maximizes its acquisition by evaluating it at candidates.

    Args:
        local: Share of the candidates that lie around the five best observations instead of anywhere, at distances
            from 0.001 to 0.3 in each coordinate. The paper's Sobol sampling has none; boke itself has three quarters.
    """

    def __init__(self, X0: Array, seed: int, *, local: float = 0.0) -> None:
        super().__init__(X0, seed)
        self.local = local

    def candidates(self) -> Array:
        """Freshly scrambled Sobol points (CANDIDATES, d), a share of them replaced by neighbours of the best."""
        C = sobol(CANDIDATES, self.dim, self.rng)
        X, y = self.data()
        n = round(self.local * CANDIDATES)
        if n and len(X):
            best = X[np.argsort(-y, kind="stable")[:5]]
            reach = 0.001 * 300.0 ** self.rng.random((n, 1))
            near = best[self.rng.integers(len(best), size=n)] + reach * self.rng.standard_normal((n, self.dim))
            C[:n] = np.clip(near, 0.0, 1.0)
        return C


class RandomSearch(Baseline):
    """Independent uniform points."""

    def suggest(self) -> Array:
        return self.rng.random(self.dim)


@contextmanager
def global_seed(rng: Generator) -> Iterator[int]:
    """Seed Python's and NumPy's global generators for libraries that know no other, and put them back afterwards."""
    seed = int(rng.integers(2**32))
    before, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield seed
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)  # noqa: NPY002
