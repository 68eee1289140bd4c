"""Fill distance h = sup over the unit cube of the distance to the nearest design point (eq. fill distance)."""

from __future__ import annotations

from itertools import product

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from boke.compiled import NATIVE
from boke.quasirandom import sobol
from boke.space import Array

Rows = NDArray[np.int64]


def fill_distance(X: ArrayLike, *, n_probes: int = 1 << 12) -> float:
    """Fill distance of a design X (t, d) in [0, 1]^d.

    Exact for d = 1 (gaps) and d = 2 (Voronoi vertices). Above, a lower bound: the largest distance over ``n_probes``
    scrambled Sobol points and, up to d = 10, the corners, improved by a local search from the best of them. On
    factorial grids, whose fill distance is known, it is within 2 % of the truth for d <= 5 (tests/test_fill.py). The
    probes are always the same, so that the value is a function of the design.
    """
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"The 'X' parameter of fill_distance must be a non-empty (t, d) array. Got shape {X.shape}.")
    if not (np.isfinite(X).all() and X.min() >= 0.0 and X.max() <= 1.0):
        raise ValueError("The 'X' parameter of fill_distance must lie in the unit cube. Got points outside it.")
    d = X.shape[1]
    if d == 1:
        x = np.sort(X[:, 0])
        return float(max(x[0], 1.0 - x[-1], np.diff(x, prepend=x[0]).max() / 2.0))
    tree = scipy.spatial.KDTree(X)
    if d == 2:
        return float(tree.query(vertices(X))[0].max())
    probes = sobol(n_probes, d, np.random.default_rng(0))
    if d <= 10:
        probes = np.vstack([probes, np.array(list(product((0.0, 1.0), repeat=d)))])
    return _search(tree, probes)


def vertices(X: Array, high: ArrayLike = (1.0, 1.0)) -> Array:
    """The points of the rectangle [0, high] at which the distance to X (t, 2) can have a local maximum.

    Mirroring the design at the four sides turns the points where cell edges meet a side into Voronoi vertices.
    """
    ends = np.asarray(high, dtype=float)
    parts = [X]
    for column in (0, 1):
        for end in (0.0, ends[column]):
            beyond = X.copy()
            beyond[:, column] = 2.0 * end - beyond[:, column]
            parts.append(beyond)
    corners = np.array(list(product((0.0, ends[0]), (0.0, ends[1]))))
    found = scipy.spatial.Voronoi(np.unique(np.vstack(parts), axis=0)).vertices
    inside = ((found >= -1e-9 * ends) & (found <= (1.0 + 1e-9) * ends)).all(axis=1)
    return np.vstack([np.clip(found[inside], 0.0, ends), corners])


def cells(X: Array, high: ArrayLike = (1.0, 1.0)) -> tuple[Array, Rows]:
    """Corners (k, 2) of the Voronoi cells of X (t, 2) in the rectangle [0, high], and whose they are (k,).

    A corner is listed for each of the cells that meet in it.
    """
    if NATIVE is None:
        return plain_cells(X, high)
    corners, site = NATIVE.cells(np.ascontiguousarray(X), *np.asarray(high, dtype=float).tolist())
    return np.asarray(corners), np.asarray(site)


def plain_cells(X: Array, high: ArrayLike) -> tuple[Array, Rows]:
    """The same by Qhull, in another order."""
    corners = vertices(X, high)
    away, site = scipy.spatial.KDTree(X).query(corners, k=min(8, len(X)))
    away, site = away.reshape(len(corners), -1), site.reshape(len(corners), -1)
    row, column = np.nonzero(away <= away[:, :1] + 1e-9 * float(np.max(high)))
    return corners[row], site[row, column]


def _search(tree: scipy.spatial.KDTree, probes: Array, starts: int = 32, rounds: int = 12, tries: int = 16) -> float:
    """Climb from the farthest probes by shrinking random steps; always the same ones."""
    rng = np.random.default_rng(0)
    h = tree.query(probes)[0]
    top = np.argsort(-h, kind="stable")[:starts]
    best, at = h[top], probes[top]
    step = 0.5 * best.max()
    for _ in range(rounds):
        moves = np.clip(at[:, None] + step * rng.normal(size=(len(at), tries, at.shape[1])), 0.0, 1.0)
        far = tree.query(moves)[0]
        pick = far.argmax(axis=1)
        rows = np.arange(len(at))
        better = far[rows, pick] > best
        at[better], best[better] = moves[rows, pick][better], far[rows, pick][better]
        step *= 0.7
    return float(best.max())
