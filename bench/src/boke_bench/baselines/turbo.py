"""TuRBO-ENN by ennbo: a trust region whose surrogate is epistemic nearest neighbours instead of a GP."""

from __future__ import annotations

import numpy as np
from enn import create_optimizer, turbo_enn_config

from boke_bench.baselines.base import Baseline
from boke_bench.protocol import Array


class TurboENN(Baseline):
    """ennbo's optimizer with its own settings.

    It deals with its own initial design by counting asks: those are asked and thrown away once, and its place is
    taken by what was told by then. After a collapse of the trust region it draws a design of the same size itself.
    """

    def __init__(self, X0: Array, seed: int) -> None:
        super().__init__(X0, seed)
        self._first = max(len(self.design), 1)
        cube = np.tile([0.0, 1.0], (self.dim, 1))
        self._inner = create_optimizer(bounds=cube, config=turbo_enn_config(num_init=self._first), rng=self.rng)

    def suggest(self) -> Array:
        if not self._points:
            return self.rng.random(self.dim)
        if self._first:
            self._inner.ask(self._first)
            self._first = 0
        return np.asarray(self._inner.ask(1)[0], dtype=float)

    def learn(self, x: Array, y: float) -> None:
        self._inner.tell(x[None], self.data()[1][-1:])  # failures as the worst value so far
