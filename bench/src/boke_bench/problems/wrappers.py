"""What can be laid over a problem: noise, another instance, a grid, failures, time. They stack in any order.

All of them change what ``__call__`` returns. ``true`` follows where the problem itself is another one (shift, grid)
and stays the noise-free value where only the evaluation is disturbed (noise, failures, time).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import numpy as np
from scipy.stats import qmc

from boke_bench.protocol import Array, Problem

SAMPLE = 1024  # points on which the variance of a signal is estimated
ENUMERABLE = 4096  # grid points up to which the best of them is looked up


class Wrapper:
    """A problem that passes everything through."""

    def __init__(self, inner: Problem) -> None:
        self.inner = inner
        self.name = inner.name
        self.dim = inner.dim
        self.optimum = inner.optimum

    def __call__(self, x: Array) -> float:
        return self.inner(x)

    def true(self, x: Array) -> float:
        return self.inner.true(x)


class Noisy(Wrapper):
    """Gaussian noise whose variance is a share of the variance of the signal over the cube.

    Args:
        inner: The problem.
        share: Noise variance / signal variance; the latter is that of the true values on a fixed Sobol sample.
        seed: Seed of the noise.
    """

    def __init__(self, inner: Problem, share: float, seed: int) -> None:
        super().__init__(inner)
        if share < 0:
            raise ValueError(f"The 'noise' of a problem must be at least 0. Got {share}.")
        self.name = f"{inner.name}, noise {share:.3g}"
        self.sigma = float(np.sqrt(share * signal_variance(inner)))
        self._rng = np.random.default_rng((seed, 1))

    def __call__(self, x: Array) -> float:
        return self.inner(x) + self.sigma * float(self._rng.standard_normal())


class Shifted(Wrapper):
    """Another instance: the landscape is moved by up to ``size`` in every coordinate.

    What was in the middle of the cube is at 1/2 + s afterwards, and both sides are stretched linearly to fit. Nothing
    leaves the cube, so the optimum keeps its value.

    Args:
        inner: The problem.
        size: Largest |s_j|, below 1/2.
        instance: Which s.
    """

    def __init__(self, inner: Problem, size: float, instance: int = 0) -> None:
        super().__init__(inner)
        if not 0 <= size < 0.5:
            raise ValueError(f"The 'shift' of a problem must be in [0, 0.5). Got {size}.")
        self.name = f"{inner.name}, shift {size:.3g} #{instance}"
        self.centre = 0.5 + np.random.default_rng((instance, 2)).uniform(-size, size, inner.dim)

    def __call__(self, x: Array) -> float:
        return self.inner(self._back(x))

    def true(self, x: Array) -> float:
        return self.inner.true(self._back(x))

    def _back(self, x: Array) -> Array:
        x = np.asarray(x, dtype=float)
        return np.where(x < self.centre, 0.5 * x / self.centre, 1.0 - 0.5 * (1.0 - x) / (1.0 - self.centre))


class Gridded(Wrapper):
    """Coordinates are rounded to equally spaced levels, 0 and 1 among them.

    The optimum is that of the grid where the problem knows its own and the grid is small enough to be looked through;
    otherwise it is unknown.

    Args:
        inner: The problem.
        levels: Their number, for all coordinates or for each; 0 leaves a coordinate continuous.
    """

    def __init__(self, inner: Problem, levels: int | Sequence[int]) -> None:
        super().__init__(inner)
        self.levels = np.broadcast_to(np.asarray(levels, dtype=int), inner.dim)
        if ((self.levels < 0) | (self.levels == 1)).any():
            raise ValueError(f"The 'levels' of a problem must be 0 or at least 2. Got {levels}.")
        self.name = f"{inner.name}, levels {levels}"
        self.optimum = self._best() if inner.optimum is not None and self.levels.any() else None

    def __call__(self, x: Array) -> float:
        return self.inner(self._snap(x))

    def true(self, x: Array) -> float:
        return self.inner.true(self._snap(x))

    def _snap(self, x: Array) -> Array:
        steps = np.maximum(self.levels - 1, 1)
        return np.where(self.levels > 0, np.rint(np.asarray(x, dtype=float) * steps) / steps, x)

    def _best(self) -> float | None:
        if (self.levels == 0).any() or np.prod(self.levels.astype(float)) > ENUMERABLE:
            return None
        axes = [np.linspace(0.0, 1.0, n) for n in self.levels]
        return max(self.inner.true(np.array(x)) for x in itertools.product(*axes))


class Failing(Wrapper):
    """Some evaluations return nan.

    Args:
        inner: The problem.
        share: How many of them, at random.
        seed: Seed of which.
    """

    def __init__(self, inner: Problem, share: float, seed: int) -> None:
        super().__init__(inner)
        if not 0 <= share <= 1:
            raise ValueError(f"The 'failures' of a problem must be in [0, 1]. Got {share}.")
        self.name = f"{inner.name}, failures {share:.3g}"
        self.share = share
        self._rng = np.random.default_rng((seed, 3))

    def __call__(self, x: Array) -> float:
        value = self.inner(x)
        return float("nan") if self._rng.random() < self.share else value


class Slow(Wrapper):
    """Evaluations take time: the call sleeps.

    Args:
        inner: The problem.
        seconds: How long; of a pair (low, high), a log-uniform time between the two.
        seed: Seed of the times.
    """

    def __init__(self, inner: Problem, seconds: float | Sequence[float], seed: int) -> None:
        super().__init__(inner)
        low, high = seconds if isinstance(seconds, Sequence) else (seconds, seconds)
        if not 0 < low <= high:
            raise ValueError(f"The 'seconds' of a problem must be positive, a pair in order. Got {seconds}.")
        self.name = f"{inner.name}, {seconds} s"
        self._log = (float(np.log(low)), float(np.log(high)))
        self._rng = np.random.default_rng((seed, 4))

    def __call__(self, x: Array) -> float:
        time.sleep(float(np.exp(self._rng.uniform(*self._log))))
        return self.inner(x)


def signal_variance(problem: Problem) -> float:
    """Variance of the true values over the cube, on a Sobol sample that is the same every time."""
    X = qmc.Sobol(problem.dim, scramble=True, rng=0).random(SAMPLE)
    return float(np.var([problem.true(x) for x in X]))
