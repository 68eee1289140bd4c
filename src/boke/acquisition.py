"""Acquisition functions: built from a fitted model, then plain callables X (n, d) -> values (n,).

``gradient(X)`` returns values and slopes (n, d) together, ``near`` the same function for places around some centers,
and ``polish`` where ``argmax.polish`` leads to, if that is compiled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from boke.fill import cells
from boke.model import KernelModel
from boke.space import Array

INSIDE = (0.1, 0.5, 1.5)  # bandwidths from the corner of a cell to a candidate in it


class Acquisition(Protocol):
    def __call__(self, X: Array) -> Array: ...
    def gradient(self, X: Array) -> tuple[Array, Array]: ...
    def near(self, centers: Array, radius: float) -> Acquisition: ...
    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None: ...


@dataclass(frozen=True)
class UpperConfidenceBound:
    """IKR-UCB: a(x) = m(x) + β_t σ̂(x) (eq. IKR-UCB)."""

    model: KernelModel
    beta: float
    rho: float

    def __call__(self, X: Array) -> Array:
        p = self.model.predict(X)
        return p.mean + self.beta / np.sqrt(p.density + self.rho)

    def gradient(self, X: Array) -> tuple[Array, Array]:
        p = self.model.predict(X, gradient=True)
        assert p.dmean is not None and p.ddensity is not None
        sigma = 1.0 / np.sqrt(p.density + self.rho)
        return p.mean + self.beta * sigma, p.dmean - (0.5 * self.beta * sigma * sigma * sigma)[:, None] * p.ddensity

    def near(self, centers: Array, radius: float) -> UpperConfidenceBound:
        return UpperConfidenceBound(self.model.near(centers, radius), self.beta, self.rho)

    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None:
        return self.model.polish(X, scale, self.beta, self.rho, steps, leash)

    def corners(self, n: int) -> Array:
        """Candidates (3 n, 2) in the corners of Voronoi cells of a plane: the most promising n, from inside the cells.

        With a small bandwidth m is nearly constant on the cell of an observation and the bonus grows with the distance
        from it, so that a maximum sits in a corner of a cell, often a sliver that few random points meet.
        """
        X = self.model.X / self.model.bandwidth
        corner, site = cells(X, 1.0 / self.model.bandwidth)
        away = np.sqrt(np.square(corner - X[site]).sum(axis=1))
        hoped = self.model.y[site] + self.beta / np.sqrt(self.model.kernel.value(np.square(away)) + self.rho)
        best = np.argsort(-hoped, kind="stable")[:n]
        there, home = corner[best], X[site[best]] - corner[best]
        share = np.array(INSIDE)[:, None] / np.maximum(away[best], 1e-12)
        inside = there + np.minimum(share, 1.0)[:, :, None] * home
        return np.asarray(np.clip(inside.reshape(-1, 2) * self.model.bandwidth, 0.0, 1.0))


@dataclass(frozen=True)
class Mean:
    """Pure exploitation: m(x) (eq. max KR)."""

    model: KernelModel

    def __call__(self, X: Array) -> Array:
        return self.model.mean(X)

    def gradient(self, X: Array) -> tuple[Array, Array]:
        p = self.model.predict(X, gradient=True)
        assert p.dmean is not None
        return p.mean, p.dmean

    def near(self, centers: Array, radius: float) -> Mean:
        return Mean(self.model.near(centers, radius))

    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None:
        return self.model.polish(X, scale, 0.0, 1.0, steps, leash)


@dataclass(frozen=True)
class Sparsity:
    """Density exploration: -ln W(x), whose maximizer is argmin W (eq. min KDE).

    The logarithm keeps far-away points apart where W itself has underflowed.
    """

    model: KernelModel

    def __call__(self, X: Array) -> Array:
        return -self.model.predict(X).log_density

    def gradient(self, X: Array) -> tuple[Array, Array]:
        p = self.model.predict(X, gradient=True)
        assert p.dlog_density is not None
        return -p.log_density, -p.dlog_density

    def near(self, centers: Array, radius: float) -> Sparsity:
        return self  # far points are what it is about

    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None:
        return None


class Beta(Protocol):
    def __call__(self, t: int, d: int) -> float: ...


@dataclass(frozen=True)
class PaperBeta:
    """β_t = c (1 + √(d ln(t + 1))) (section 5)."""

    c: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.c) and self.c >= 0):
            raise ValueError(f"The 'c' parameter of PaperBeta must be at least 0. Got {self.c}.")

    def __call__(self, t: int, d: int) -> float:
        return self.c * (1.0 + math.sqrt(d * math.log(t + 1)))


@dataclass(frozen=True)
class UCB1Beta:
    """β_t = √(2 ln t): with ℓ → 0 and ρ → 0 the policy over arms is UCB1 (eq. max UCB1, appendix B)."""

    def __call__(self, t: int, d: int) -> float:
        return math.sqrt(2.0 * math.log(max(t, 1)))


def kr_ucb(model: KernelModel, C: float) -> Array:
    """m(x_i) + C √(ln Σ_j W(x_j) / W(x_i)) at the observations themselves (eq. max KR-UCB select)."""
    p = model.predict(model.X)
    return p.mean + C * np.sqrt(math.log(max(p.density.sum(), 1.0)) / p.density)
