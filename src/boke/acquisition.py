"""Acquisition functions: built from a fitted model, then plain callables X (n, d) -> values (n,).

``gradient(X)`` returns values and slopes (n, d) together, ``over`` the values at candidates that a pool knows, ``near``
the same function for places around some centers, and, if that is compiled, ``screen`` the best of many candidates and
``polish`` where ``argmax.polish`` leads to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from boke.compiled import NATIVE
from boke.engine import Draw
from boke.fill import cells
from boke.kernels import Gaussian
from boke.model import KernelModel
from boke.pool import Pool
from boke.space import Array

NEAR_PAYS = 1000 if NATIVE is None else 4000  # with fewer observations it is sooner done to look at all of them
INSIDE = (0.1, 0.5, 1.5)  # bandwidths from the corner of a cell to a candidate in it


class Acquisition(Protocol):
    def __call__(self, X: Array) -> Array: ...
    def over(self, X: Array, pool: Pool) -> Array | None: ...
    def screen(self, draw: Draw, most: int) -> Array | None: ...
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

    def over(self, X: Array, pool: Pool) -> Array | None:
        if (found := self.model.over(X, pool)) is None:
            return None
        mean, density = found
        return np.asarray(mean + self.beta / np.sqrt(density + self.rho))

    def screen(self, draw: Draw, most: int) -> Array | None:
        return self.model.screen(draw, self.beta, self.rho, most)

    def gradient(self, X: Array) -> tuple[Array, Array]:
        p = self.model.predict(X, gradient=True)
        assert p.dmean is not None and p.ddensity is not None
        sigma = 1.0 / np.sqrt(p.density + self.rho)
        return p.mean + self.beta * sigma, p.dmean - (0.5 * self.beta * sigma * sigma * sigma)[:, None] * p.ddensity

    def near(self, centers: Array, radius: float) -> UpperConfidenceBound:
        return replace(self, model=_near(self.model, centers, radius))

    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None:
        return self.model.polish(X, scale, self.beta, self.rho, steps, leash)

    def corners(self, n: int) -> Array:
        """Candidates (at most 3 n, 2) in the n most promising corners of Voronoi cells in a plane, from inside these.

        With a small bandwidth m is nearly constant on the cell of an observation and the bonus grows with the distance
        from it, so that a maximum sits in a corner of a cell, often a sliver that few random points meet.
        """
        model = self.model
        if NATIVE is None or not isinstance(model.kernel, Gaussian):
            return self.plain_corners(n)
        X, y = np.ascontiguousarray(model.X), np.ascontiguousarray(model.y)
        return np.asarray(NATIVE.corners(X, y, model.bandwidth, self.beta, self.rho, n, INSIDE))

    def plain_corners(self, n: int) -> Array:
        """The same, and its definition."""
        X, y = self.model.X / self.model.bandwidth, self.model.y
        corner, site = cells(X, 1.0 / self.model.bandwidth)
        home = X[site] - corner
        near = self.model.kernel.value(np.square(home).sum(axis=1))
        hoped = y[site] + self.beta / np.sqrt(near + self.rho)
        rank = np.argsort(np.argsort(-y, kind="stable"), kind="stable")  # corners may be equally promising
        best = np.lexsort((rank[site], -hoped))[:n]
        corner, home = corner[best], home[best]
        away = np.sqrt(np.square(home).sum(axis=1))
        inside = [corner[away > part] + (part / away[away > part])[:, None] * home[away > part] for part in INSIDE]
        return np.asarray(np.clip(np.concatenate(inside) * self.model.bandwidth, 0.0, 1.0))


@dataclass(frozen=True)
class Mean:
    """Pure exploitation: m(x) (eq. max KR)."""

    model: KernelModel

    def __call__(self, X: Array) -> Array:
        return self.model.mean(X)

    def over(self, X: Array, pool: Pool) -> Array | None:
        return None if (found := self.model.over(X, pool)) is None else found[0]

    def screen(self, draw: Draw, most: int) -> Array | None:
        return self.model.screen(draw, 0.0, 1.0, most)

    def gradient(self, X: Array) -> tuple[Array, Array]:
        p = self.model.predict(X, gradient=True)
        assert p.dmean is not None
        return p.mean, p.dmean

    def near(self, centers: Array, radius: float) -> Mean:
        return replace(self, model=_near(self.model, centers, radius))

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

    def over(self, X: Array, pool: Pool) -> Array | None:
        return None  # a pool knows densities, and not their logarithms where they are too small

    def screen(self, draw: Draw, most: int) -> Array | None:
        return None

    def gradient(self, X: Array) -> tuple[Array, Array]:
        p = self.model.predict(X, gradient=True)
        assert p.dlog_density is not None
        return -p.log_density, -p.dlog_density

    def near(self, centers: Array, radius: float) -> Sparsity:
        return self  # far points are what it is about

    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None:
        return None


def _near(model: KernelModel, centers: Array, radius: float) -> KernelModel:
    return model if len(model.y) < NEAR_PAYS else model.near(centers, radius)


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
