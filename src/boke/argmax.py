"""Candidates -> screen -> polish: the maximizer of a function over the decision set.

It knows the function only by its values and slopes. Everything is batched: no loop over candidates.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import qmc

from boke.history import row_keys
from boke.space import Array, Mask, Space

Keys = NDArray[np.uint64]

STARTS = 8  # points that are polished
LEASH = 8.0  # how far, in bandwidths, polishing may lead away from its start
LOCAL_PAYS = 1000  # below this many observations looking at neighbours only costs more than it saves


class Function(Protocol):
    def __call__(self, X: Array) -> Array: ...
    def gradient(self, X: Array) -> tuple[Array, Array]: ...
    def near(self, centers: Array, radius: float) -> Function: ...


@lru_cache(maxsize=32)
def _sobol(n: int, d: int) -> Array:
    points = qmc.Sobol(d, scramble=True, rng=0, bits=32).random_base2(max(n - 1, 1).bit_length())[:n]
    return np.asarray(points * 2.0**32).astype(np.uint32)


def sobol(n: int, d: int, rng: Generator) -> Array:
    """n scrambled Sobol points (n, d): one matrix-scrambled set for all, a fresh digital shift for each call."""
    shift = rng.integers(0, 2**32, size=d, dtype=np.uint32)
    return ((_sobol(n, d) ^ shift) + 0.5) / 2.0**32


def around(centers: Array, n: int, bandwidth: Array, space: Space, rng: Generator) -> Array:
    """n points near the centers (m, d): gaussian steps of 0 to 2 bandwidths, one cell or more on gridded columns.

    Half of the points move all columns, half only a few, which in high dimensions is the likelier way up. A
    categorical column that moves is drawn anew.
    """
    d = centers.shape[1]
    start = centers[rng.integers(len(centers), size=n)]
    reach = 2.0 * rng.random((n, 1)) * bandwidth
    width = np.array([1.0 / cells if cells else 0.0 for cells in space.cells])
    moved = start + rng.normal(size=(n, d)) * np.maximum(reach, width)
    moved = np.where(space.categorical, rng.random((n, d)), moved)
    few = rng.random((n, d)) < 2.0 / d
    few[np.arange(n), rng.integers(d, size=n)] = True
    few |= (rng.random(n) < 0.5)[:, None] & ~space.categorical
    return np.clip(np.where(few, moved, start), 0.0, 1.0)


def argmax(
    f: Function,
    space: Space,
    budget: int,
    rng: Generator,
    *,
    bandwidth: Array,
    centers: Array,
    taken: Array,
    repeat: bool = False,
) -> Array:
    """The best point (d,) found with about ``budget`` evaluations of ``f``.

    A quarter of the budget screens the whole cube, a quarter the neighbourhood of ``centers``, half polishes. A
    finite decision set of at most ``budget`` points is searched whole. Points of ``taken`` are passed over as long
    as there are others, unless ``repeat``.
    """
    known = np.sort(row_keys(taken[:0] if repeat else taken))
    finite = space.enumerate(budget)
    if finite is not None:
        return _best(finite, f(finite), known)
    n = max(budget * 7 // 16 if len(centers) else budget * 7 // 8, 1)
    X = space.snap(sobol(n, space.dim, rng))
    values = f(X)
    many = len(taken) >= LOCAL_PAYS
    if len(centers):
        close = space.snap(around(centers, n, bandwidth, space, rng))
        g = f.near(centers, _farthest(close, centers, bandwidth, space.categorical)) if many else f
        X, values = np.vstack([close, X]), np.concatenate([g(close), values])
    fresh = np.ones(len(X), bool) if space.continuous.all() else ~_among(X, known)
    top = np.argsort(np.where(fresh, -values, np.inf), kind="stable")[:STARTS]
    X, values = X[top], values[top]
    if space.continuous.any():
        start = X
        g = f.near(X, LEASH) if many else f
        X, values = polish(g, X, bandwidth * space.continuous, max(2, budget // 8 // STARTS))
        X = np.where(_among(X, known)[:, None], start, X)  # a corner that was tried before, say
    return _best(X, values, known)


def polish(f: Function, X: Array, scale: Array, steps: int) -> tuple[Array, Array]:
    """Projected gradient ascent from every row of X (n, d) at once, each with its own step length.

    ``scale`` (d,) is the unit of length of each column, 0 for a column that must not move. A step that gains makes
    the next one longer, one that loses makes it shorter; no row moves more than LEASH units from its start.
    """
    start, X = X, X.copy()
    values, slopes = f.gradient(X)
    length = np.full(len(X), 0.5)
    for _ in range(steps - 1):
        direction = slopes * scale
        direction[((X <= 0.0) & (direction < 0.0)) | ((X >= 1.0) & (direction > 0.0))] = 0.0
        norm = np.sqrt(np.einsum("nd,nd->n", direction, direction))
        active = (norm > 1e-12) & (length > 1e-3)
        if not active.any():
            break
        move = direction * (length / np.where(norm > 0.0, norm, 1.0))[:, None] * scale
        trial = np.clip(X + np.where(active[:, None], move, 0.0), 0.0, 1.0)
        trial_values, trial_slopes = f.gradient(trial)
        away = (trial - start) / np.where(scale > 0.0, scale, 1.0)
        gain = (trial_values > values) & (np.einsum("nd,nd->n", away, away) <= LEASH**2)
        X[gain], values[gain], slopes[gain] = trial[gain], trial_values[gain], trial_slopes[gain]
        length *= np.where(gain, 1.5, 0.35)
    return X, values


def _farthest(X: Array, centers: Array, bandwidth: Array, categorical: Mask) -> float:
    """Largest distance, in bandwidths, of a row of X from its nearest center."""
    away = ((X[:, None] - centers[None]) / bandwidth)[:, :, ~categorical]
    return float(np.sqrt(np.square(away).sum(axis=2).min(axis=1).max(initial=0.0)))


def _best(X: Array, values: Array, known: Keys) -> Array:
    """The row with the largest value, passing over known points while there are others."""
    fresh = ~_among(X, known)
    return np.array(X[np.argmax(np.where(fresh, values, -np.inf)) if fresh.any() else np.argmax(values)])


def _among(X: Array, known: Keys) -> Mask:
    """Which rows of X have one of the (sorted) known keys."""
    keys = row_keys(X)
    place = np.searchsorted(known, keys)
    return np.asarray(known[np.minimum(place, len(known) - 1)] == keys) if len(known) else np.zeros(len(X), bool)
