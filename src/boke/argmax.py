"""Candidates -> screen -> polish: the maximizer of a function over the decision set.

It knows the function only by its values and slopes. Everything is batched: no loop over candidates.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from boke.compiled import NATIVE
from boke.elementary import exp, squared_distances
from boke.keys import Taken
from boke.quasirandom import sobol
from boke.space import Array, Mask, Space

Rows = NDArray[np.int_]

INCUMBENTS = 5  # centers whose close neighbourhood is screened
STARTS = 16  # points that are polished
GAP = 2.0  # bandwidths between starts
LEASH = 8.0  # how far, in bandwidths, polishing may lead away from its start
LOCAL_PAYS = 1000  # below this many observations looking at neighbours only costs more than it saves


class Function(Protocol):
    def __call__(self, X: Array) -> Array: ...
    def gradient(self, X: Array) -> tuple[Array, Array]: ...
    def near(self, centers: Array, radius: float) -> Function: ...
    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None: ...


def around(centers: Array, reach: Array, bandwidth: Array, space: Space, rng: Generator) -> Array:
    """A point at each distance of ``reach`` (n,), in bandwidths, from one of the centers (m, d).

    Half of the points move all columns, half only a few, which in high dimensions is the likelier way up. Gridded
    columns move by a cell at least; a categorical column that moves is drawn anew.
    """
    n, d = len(reach), centers.shape[1]
    start = centers[rng.integers(len(centers), size=n)]
    step = rng.standard_normal((n, d))
    few = np.broadcast_to(~space.categorical, (n, d)).copy()
    few[1::2] = rng.random((n // 2, d)) < 2.0 / d
    few[np.arange(n), rng.integers(d, size=n)] = True
    step *= few
    step *= (reach / np.sqrt(np.einsum("nd,nd->n", step, step)))[:, None] * bandwidth
    if not space.smooth:
        step = np.where(np.abs(step) < space.spacing, np.sign(step) * space.spacing, step)
        start = np.where(space.categorical & few, rng.random((n, d)), start)
        step[:, space.categorical] = 0.0
    return np.asarray(np.minimum(np.maximum(start + step, 0.0), 1.0))


def argmax(
    f: Function,
    space: Space,
    budget: int,
    rng: Generator,
    *,
    bandwidth: Array,
    centers: Array,
    taken: Taken,
    rim: float = 0.0,
    extra: Array | None = None,
    repeat: bool = False,
) -> Array:
    """The best point (d,) found with about ``budget`` evaluations of ``f``.

    A quarter of the budget screens the whole cube, half of it the neighbourhood of ``centers``, the best first, and a
    quarter goes into polishing, where a value with its gradient counts as two. A finite decision set of at most
    ``budget`` points is searched whole. Points of ``taken`` are passed over as long as there are others, unless
    ``repeat``.

    With ``rim``, the distance in bandwidths at which an observation no longer takes away from the exploration bonus,
    most of the neighbourhood's share goes there. Beside a center nothing is much better than the center and the full
    bonus, so the second half of these candidates is kept for centers at least as good as that of the best candidate.
    ``extra`` candidates of the caller take their places from this share.
    """
    finite = space.enumerate(budget)
    if finite is not None:
        values = f(finite)
        return np.array(finite[_first_fresh(finite, values, None if repeat else taken, 1)[0]])
    screen = _Screen(f, space, bandwidth, centers if len(taken) >= LOCAL_PAYS else None)
    screen.add(space.snap(sobol(budget // 4 if len(centers) else budget * 3 // 4, space.dim, rng)))
    if len(centers):
        rims = budget * 3 // 16 if rim else 0
        reach = 0.25 * exp(math.log(4.0 * LEASH) * rng.random(budget // 2 - 2 * rims))
        screen.around(centers[:INCUMBENTS], reach, rng)
        if extra is not None:
            screen.add(space.snap(extra[: 2 * rims]))
            rims -= (len(extra[: 2 * rims]) + 1) // 2
        for _ in range(2 if rim else 0):
            screen.around(centers[: screen.rank(centers)], rim * (1.0 + 0.4 * rng.random(rims)), rng)
    X, values = np.vstack(screen.X), np.concatenate(screen.values)
    top = _first_fresh(X, values, None if repeat else taken, 5 * STARTS)
    top = top[_spread(X[top] / bandwidth, STARTS)]
    X, values = X[top], values[top]
    if space.continuous.any():
        g = f.near(X, LEASH) if len(taken) >= LOCAL_PAYS else f
        polished, better = polish(g, X, bandwidth * space.continuous, max(1, budget // 8 // STARTS))
        old = _known(polished, None if repeat else taken)  # a corner that was tried before, say
        X, values = np.where(old[:, None], X, polished), np.where(old, values, better)
    return np.array(X[np.argmax(values)])


class _Screen:
    """Candidates and their values, batch by batch; those near centers look at observations near centers only."""

    def __init__(self, f: Function, space: Space, bandwidth: Array, centers: Array | None) -> None:
        self.f, self.space, self.bandwidth, self.local = f, space, bandwidth, centers is not None
        self.X: list[Array] = []
        self.values: list[Array] = []

    def add(self, X: Array, f: Function | None = None) -> None:
        self.X.append(X)
        self.values.append((f or self.f)(X))

    def around(self, centers: Array, reach: Array, rng: Generator) -> None:
        X = self.space.snap(around(centers, reach, self.bandwidth, self.space, rng))
        near = None
        if self.local and len(centers) <= INCUMBENTS:
            near = self.f.near(centers, _farthest(X, centers, self.bandwidth, self.space.categorical))
        self.add(X, near)

    def rank(self, centers: Array) -> int:
        """How many centers are at least as good as the one nearest to the best candidate so far; at first, all."""
        if len(self.values) < 3:
            return len(centers)
        best = max(range(len(self.values)), key=lambda i: self.values[i].max(initial=-np.inf))
        x = self.X[best][np.argmax(self.values[best])]
        away = (centers - x)[:, ~self.space.categorical] / self.bandwidth[~self.space.categorical]
        return int(np.argmin(np.einsum("nd,nd->n", away, away))) + 1


def polish(f: Function, X: Array, scale: Array, steps: int) -> tuple[Array, Array]:
    """Projected gradient ascent from every row of X (n, d) at once, each with its own step length: points and values.

    ``scale`` (d,) is the unit of length of each column, 0 for a column that must not move. A step that gains makes
    the next one longer, one that loses makes it shorter; no row moves more than LEASH units from its start.
    """
    if (compiled := f.polish(X, scale, steps, LEASH)) is not None:
        return compiled
    start, X = X, X.copy()
    unit = np.where(scale > 0.0, scale, 1.0)
    values, slopes = f.gradient(X)
    length = np.full(len(X), 0.5)
    for _ in range(steps - 1):
        direction = slopes * scale
        direction[np.where(direction < 0.0, X <= 0.0, X >= 1.0)] = 0.0
        norm = np.sqrt(np.einsum("nd,nd->n", direction, direction))
        active = (norm > 1e-12) & (length > 0.05)
        if not active.any():
            break
        move = direction * (length / np.where(norm > 0.0, norm, 1.0))[:, None] * scale
        trial = np.minimum(np.maximum(X + np.where(active[:, None], move, 0.0), 0.0), 1.0)
        trial_values, trial_slopes = f.gradient(trial)
        away = (trial - start) / unit
        gain = (trial_values > values) & (np.einsum("nd,nd->n", away, away) <= LEASH**2)
        X[gain], values[gain], slopes[gain] = trial[gain], trial_values[gain], trial_slopes[gain]
        length *= np.where(gain, 1.5, 0.35)
    return X, values


def _spread(X: Array, n: int) -> Rows:
    """The first n rows of X, passing over those within GAP of a chosen one: starts on one hill are one start."""
    return np.array((plain_spread if NATIVE is None else NATIVE.spread)(X, GAP, n), dtype=np.int64)


def plain_spread(X: Array, gap: float, n: int) -> list[int]:
    """The same, and its definition."""
    far = squared_distances(X, X) > gap**2
    left = np.ones(len(X), bool)
    chosen: list[int] = []
    while len(chosen) < n and left.any():
        chosen.append(int(np.argmax(left)))
        left &= far[chosen[-1]]
    return chosen


def _farthest(X: Array, centers: Array, bandwidth: Array, categorical: Mask) -> float:
    """Largest distance, in bandwidths, of a row of X from its nearest center."""
    away = ((X[:, None] - centers[None]) / bandwidth)[:, :, ~categorical]
    return float(np.sqrt(np.square(away).sum(axis=2).min(axis=1).max(initial=0.0)))


def _first_fresh(X: Array, values: Array, taken: Taken | None, n: int) -> Rows:
    """Row numbers of the n largest values among the points not yet known; of all points if every one is."""
    order = np.argsort(-values, kind="stable")
    for rows in (order[: 4 * n], order):  # the best few are nearly always new
        fresh = rows[~_known(X[rows], taken)]
        if len(fresh) >= min(n, len(X)):
            return fresh[:n]
    return fresh[:n] if len(fresh) else order[:n]


def _known(X: Array, taken: Taken | None) -> Mask:
    return np.zeros(len(X), bool) if taken is None else taken(X)
