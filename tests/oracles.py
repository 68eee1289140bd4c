"""Slow, plain versions of every formula: what the tests compare the library with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from boke.kernels import KERNELS

Array = NDArray[np.float64]

NAMES = sorted(KERNELS)
COMPACT = [name for name in NAMES if name != "gaussian"]
CATEGORY_DISTANCE = 0.5


def psi(name: str, r: float) -> float:
    """Ψ at the scaled distance r (section 3.1)."""
    if name == "gaussian":
        return math.exp(-(r**2) / 2)
    if r > 1:
        return 0.0
    return {"triangular": 1 - r, "epanechnikov": 1 - r**2, "quartic": (1 - r**2) ** 2}[name]


def kernel(name: str, x: Array, z: Array, ell: Array, categorical: Sequence[bool]) -> float:
    """k(x, z): Ψ of the numeric columns times Ψ(0.5 / ℓ) for every category that differs."""
    r = math.sqrt(math.fsum(((a - b) / h) ** 2 for a, b, h, c in zip(x, z, ell, categorical, strict=True) if not c))
    k = psi(name, r)
    for a, b, h, c in zip(x, z, ell, categorical, strict=True):
        if c and a != b:
            k *= psi(name, CATEGORY_DISTANCE / h)
    return k


class KernelSums:
    """W, S and m at one point by loops over the data (eq. KDE, eq. KR)."""

    def __init__(self, name, X, y, ell, w=None, categorical=None):
        self.name, self.X, self.y = name, X, y
        self.ell = np.broadcast_to(ell, X.shape[1:])
        self.w = np.ones(len(y)) if w is None else w
        self.categorical = np.zeros(X.shape[1], bool) if categorical is None else categorical

    def terms(self, q: Array) -> list[float]:
        return [w * kernel(self.name, q, x, self.ell, self.categorical) for x, w in zip(self.X, self.w, strict=True)]

    def density(self, q: Array) -> float:
        return math.fsum(self.terms(q))

    def weighted_sum(self, q: Array) -> float:
        return math.fsum(k * y for k, y in zip(self.terms(q), self.y, strict=True))

    def mean(self, q: Array) -> float:
        W = self.density(q)
        return self.weighted_sum(q) / W if W > 0 else math.fsum(self.w * self.y) / math.fsum(self.w)

    def without(self, i: int) -> KernelSums:
        """The same sums with observation i left out."""
        rest = np.arange(len(self.y)) != i
        return KernelSums(self.name, self.X[rest], self.y[rest], self.ell, self.w[rest], self.categorical)


def numeric_gradient(f: Callable[[Array], float], x: Array, step: float = 1e-5) -> Array:
    """Central differences with one Richardson step: error O(step⁴)."""
    slopes = np.empty(len(x))
    for j, unit in enumerate(np.eye(len(x))):
        wide, close = ((f(x + h * unit) - f(x - h * unit)) / (2 * h) for h in (2 * step, step))
        slopes[j] = (4 * close - wide) / 3
    return slopes


def fill_bounds(X: Array, gap: float = 1e-6) -> tuple[float, float]:
    """Bounds on the fill distance of X (t, d) by branch and bound; the distance to X has Lipschitz constant 1."""
    d, half = X.shape[1], 0.5
    centers = np.full((1, d), 0.5)
    corners = np.stack(np.meshgrid(*[(-0.5, 0.5)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    lower = 0.0
    while True:
        far = np.sqrt(np.square(centers[:, None] - X[None]).sum(axis=2).min(axis=1))
        rims = centers[:, None] + 2 * half * corners  # the corners of a cell belong to the cube too
        at_rims = np.sqrt(np.square(rims[:, :, None] - X).sum(axis=3).min(axis=2))
        lower = max(lower, far.max(), at_rims.max())
        slack = half * math.sqrt(d)
        if slack < gap:
            return lower, lower + slack
        kept = centers[far + slack >= lower - 1e-12]
        half /= 2
        centers = (kept[:, None] + 2 * half * corners).reshape(-1, d)


def greedily_separated(X: Array, h: float) -> list[int]:
    kept: list[int] = []
    for i, x in enumerate(X):
        if all(math.dist(x, X[j]) > h for j in kept):
            kept.append(i)
    return kept


def grid(n: int, d: int) -> Array:
    """n^d points of the unit cube, its corners among them."""
    return np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * d, indexing="ij"), axis=-1).reshape(-1, d)
