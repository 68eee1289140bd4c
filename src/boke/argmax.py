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
from boke.engine import Draw
from boke.keys import Taken
from boke.pool import Pool
from boke.quasirandom import sobol
from boke.space import Array, Mask, Space

Rows = NDArray[np.int_]

INCUMBENTS = 5  # centers whose close neighbourhood is screened
STARTS = 16  # points that are polished
GAP = 2.0  # bandwidths between starts
LEASH = 8.0  # how far, in bandwidths, polishing may lead away from its start


class Function(Protocol):
    def __call__(self, X: Array) -> Array: ...
    def over(self, X: Array, pool: Pool) -> Array | None: ...
    def gradient(self, X: Array) -> tuple[Array, Array]: ...
    def near(self, centers: Array, radius: float) -> Function: ...
    def screen(self, draw: Draw, most: int) -> Array | None: ...
    def polish(self, X: Array, scale: Array, steps: int, leash: float) -> tuple[Array, Array] | None: ...


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
    standing: Array | None = None,
    pool: Pool | None = None,
) -> Array:
    """The best point (d,) found with about ``budget`` evaluations of ``f``.

    A quarter of the budget screens the whole cube, half of it the neighbourhood of ``centers``, the best first, and a
    quarter goes into polishing, where a value with its gradient counts as two. A finite decision set of at most
    ``budget`` points is searched whole. Points of ``taken`` are passed over as long as there are others, unless
    ``repeat``.

    With ``rim``, the distance in bandwidths at which an observation no longer takes away from the exploration bonus,
    most of the neighbourhood's share goes there. Beside a center nothing is much better than the center and the full
    bonus, so the second half of these candidates is kept for centers at least as good as that of the best candidate.
    ``extra`` candidates of the caller take their places from this share. ``standing`` candidates, if there are any, are
    those of the whole cube: they stay for a while, and only the best of them are looked at with the others. ``pool``
    keeps what it knows of the sums at these or at the points of a finite decision set.
    """
    known = None if repeat else taken
    finite = space.enumerate(budget)
    if finite is not None:
        values = _over(f, finite, pool)
        return np.array(finite[np.argmax(values) if known is None else first_fresh(finite, values, known, 1)[0]])
    cube = None if standing is None else standing[_largest(_over(f, standing, pool), 2 * STARTS)]
    draw = _draw(space.dim, budget, rng, cube, centers, rim, centers[:0] if extra is None else extra)
    X = _best(f, space, bandwidth, draw, known, rng)
    if not (space.smooth or space.continuous.any()):
        return np.array(X[0])
    X = X[_spread(X / bandwidth, STARTS)]
    polished, values = polish(f.near(X, LEASH), X, bandwidth * space.continuous, max(1, budget // 8 // STARTS))
    old = _known(polished, known)  # a corner that was tried before, say
    if np.count_nonzero(old):
        polished, values = np.where(old[:, None], X, polished), np.where(old, f(X), values)
    return np.array(polished[np.argmax(values)])


def _over(f: Function, X: Array, pool: Pool | None) -> Array:
    """f at candidates (n, d), with what a pool knows."""
    kept = None if pool is None else f.over(X, pool)
    return f(X) if kept is None else kept


def _draw(d: int, budget: int, rng: Generator, cube: Array | None, centers: Array, rim: float, extra: Array) -> Draw:
    """The candidates all over the cube, drawn if there are none, and all random numbers of the others."""
    if cube is None:
        cube = sobol(budget // 4 if len(centers) else budget * 3 // 4, d, rng)
    n, rims = (budget // 2, budget * 3 // 16 if rim else 0) if len(centers) else (0, 0)
    extra = extra[: 2 * rims]
    rims -= (taken := (len(extra) + 1) // 2)
    n -= 2 * taken
    which, chance, step = rng.random((n, 3)), rng.random(((n + 1) // 2, d)), rng.standard_normal((n, d))
    return Draw(cube, extra, centers, which, chance, step, rim, rims, INCUMBENTS, LEASH)


def _best(f: Function, space: Space, bandwidth: Array, draw: Draw, taken: Taken | None, rng: Generator) -> Array:
    """The best candidates, the best first, without those that are taken."""
    if space.smooth and (found := f.screen(draw, 6 * STARTS)) is not None:
        old = _known(found, taken)
        known = np.count_nonzero(old)
        if known == 0 or len(old) - known >= 5 * STARTS:
            return (found[~old] if known else found)[: 5 * STARTS]
    X, values = screen(f, space, bandwidth, draw, rng)
    return X[first_fresh(X, values, taken, 5 * STARTS)]


def screen(f: Function, space: Space, bandwidth: Array, draw: Draw, rng: Generator) -> tuple[Array, Array]:
    """All candidates and their values."""
    batches: list[tuple[Array, Array]] = []

    def add(X: Array, f: Function = f) -> None:
        X = space.snap(X)
        batches.append((X, f(X)))

    def add_around(rows: slice, centers: Array, reach: Array) -> None:
        X = space.snap(around(draw, rows, centers, reach, bandwidth, space, rng))
        few = len(centers) <= INCUMBENTS
        add(X, f.near(centers, _farthest(X, centers, bandwidth, space.categorical)) if few else f)

    u, middle = draw.which[:, 2], len(draw.which) - draw.rims
    near = slice(middle - draw.rims)
    add(draw.cube)
    if len(u):
        add_around(near, draw.centers[: draw.few], 0.25 * exp(math.log(4.0 * draw.leash) * u[near]))
        add(draw.extra)
    if draw.rims:
        add_around(slice(near.stop, middle), draw.centers, draw.rim * (1.0 + 0.4 * u[near.stop : middle]))
        X, values = map(np.concatenate, zip(*batches, strict=True))
        rank = _nearest(draw.centers, X[np.argmax(values)], bandwidth, space.categorical) + 1
        add_around(slice(middle, len(u)), draw.centers[:rank], draw.rim * (1.0 + 0.4 * u[middle:]))
    X, values = map(np.concatenate, zip(*batches, strict=True))
    return X, values


def around(
    draw: Draw, rows: slice, centers: Array, reach: Array, bandwidth: Array, space: Space, rng: Generator
) -> Array:
    """A point at each distance of ``reach`` (n,), in bandwidths, from one of the centers (m, d).

    Half of the points move all columns, half only a few, which in high dimensions is the likelier way up. Gridded
    columns move by a cell at least; a categorical column that moves is drawn anew.
    """
    which, step = draw.which[rows], draw.step[rows]
    n, d = step.shape
    start = centers[(which[:, 0] * len(centers)).astype(int)]
    moves = np.broadcast_to(~space.categorical, (n, d)).copy()
    moves[1::2] = draw.chance[np.arange(rows.start or 0, rows.stop)[1::2] // 2] < 2.0 / d
    moves[np.arange(n), (which[:, 1] * d).astype(int)] = True
    step = step * moves
    step *= (reach / np.sqrt(np.einsum("nd,nd->n", step, step)))[:, None] * bandwidth
    if not space.smooth:
        step = np.where(np.abs(step) < space.spacing, np.sign(step) * space.spacing, step)
        start = np.where(space.categorical & moves, rng.random((n, d)), start)
        step[:, space.categorical] = 0.0
    return np.asarray(np.minimum(np.maximum(start + step, 0.0), 1.0))


def _nearest(centers: Array, x: Array, bandwidth: Array, categorical: Mask) -> int:
    """Which center (m, d) is nearest to x (d,)."""
    away = (centers - x)[:, ~categorical] / bandwidth[~categorical]
    return int(np.argmin(np.einsum("nd,nd->n", away, away)))


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


def first_fresh(X: Array, values: Array, taken: Taken | None, n: int) -> Rows:
    """Row numbers of the n largest values among the points not yet known; of all points if every one is."""
    for most in (2 * n, len(X)):  # the best few are nearly always new
        rows = _largest(values, most)
        fresh = rows[~_known(X[rows], taken)]
        if len(fresh) >= min(n, len(X)):
            return fresh[:n]
    return fresh[:n] if len(fresh) else rows[:n]


def _largest(values: Array, n: int) -> Rows:
    """Row numbers of the n largest values, the largest first and equal ones by number."""
    if n >= len(values):
        return np.argsort(-values, kind="stable")
    rows = np.flatnonzero(values >= np.partition(values, -n)[-n])  # no need to sort the others
    return rows[np.argsort(-values[rows], kind="stable")[:n]]


def _known(X: Array, taken: Taken | None) -> Mask:
    return np.zeros(len(X), bool) if taken is None else taken(X)
