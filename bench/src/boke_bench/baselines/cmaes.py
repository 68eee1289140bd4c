"""CMA-ES by pycma: from the best point so far, in the box, restarted with a doubled population when it stops."""

from __future__ import annotations

import warnings
from typing import Any

import cma
import numpy as np

from boke_bench.baselines.base import Baseline
from boke_bench.protocol import Array


class CMAES(Baseline):
    """pycma asks for a whole generation and wants all of it told; this keeps the books between the two.

    A point that no generation asked for is remembered and may become the start; it enters no generation. The first
    start is the best point known when the initial design is used up, every later one a uniform point (IPOP).

    Args:
        sigma0: First step size.
    """

    def __init__(self, X0: Array, seed: int, *, sigma0: float = 0.25) -> None:
        super().__init__(X0, seed)
        self.sigma0 = sigma0
        self._strategy: Any = None
        self._queue: list[Array] = []  # rows of the generation that were not asked for yet
        self._generation: list[Array] = []
        self._told: dict[bytes, float] = {}

    def suggest(self) -> Array:
        if self._strategy is None:
            X, y = self.data()
            self._start(X[np.argmax(y)] if len(X) else self.rng.random(self.dim), None)
        if not self._queue and self._complete():
            self._next_generation()
        if not self._queue:  # somebody evaluates in parallel: a further sample of the same distribution
            return self._inside(self._strategy.ask(1)[0])
        return self._queue.pop(0)

    def learn(self, x: Array, y: float) -> None:
        if any(np.array_equal(x, row) for row in self._generation):
            self._told[x.tobytes()] = y

    def _start(self, x: Array, population: int | None) -> None:
        options: dict[str, Any] = {
            "bounds": [0.0, 1.0],
            "popsize": population,
            "randn": lambda *shape: self.rng.standard_normal(shape),  # pycma's default is NumPy's global generator
            "seed": np.nan,
            "verbose": -9,
        }
        options = {key: value for key, value in options.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one coordinate gets a second one that means nothing, see _inside
            self._strategy = cma.CMAEvolutionStrategy(np.resize(x, max(self.dim, 2)), self.sigma0, options)
        self._raw: list[Array] = []
        self._generation = []

    def _complete(self) -> bool:
        return all(row.tobytes() in self._told for row in self._generation)

    def _next_generation(self) -> None:
        if self._generation:
            values = np.array([self._told[row.tobytes()] for row in self._generation])
            losses = -np.where(np.isnan(values), self.data()[1].min(), values)
            self._strategy.tell(self._raw, losses.tolist())
            if self._strategy.stop():
                self._start(self.rng.random(self.dim), 2 * self._strategy.popsize)
        self._raw = self._strategy.ask()
        self._generation = [self._inside(row) for row in self._raw]
        self._queue, self._told = list(self._generation), {}

    def _inside(self, row: Array) -> Array:
        """The point of the cube; in one dimension pycma works in two, and the second is dropped."""
        return np.asarray(np.clip(np.asarray(row, dtype=float)[: self.dim], 0.0, 1.0))
