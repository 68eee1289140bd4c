"""Clusters of observations, which a model of one length takes for noise.

Where a search has closed in on a point, a model's other observations are from long before. In its one length the
cluster is a point then, and its values, which it has many of, look like noise.
"""

from __future__ import annotations

import numpy as np

from boke.data import Data, features
from boke.elementary import squared_distances
from boke.space import Array, Space

DENSE = 100.0  # times as far as the observations of a cluster: there they are one point
MORE = 8  # times as many observations are looked at where some are in a cluster elsewhere


def clearer(X: Array, y: Array, data: Data, space: Space) -> tuple[Array, Array] | None:
    """Observations and their values instead of X (n, d), the nearest to the first one, if some of those are a cluster.

    A cluster around the first one is taken without the others; of a cluster elsewhere, as another search has left it, a
    single observation, and more distant ones instead.
    """
    n = len(X)
    if (some := around_the_first(X, space)) < n:
        return X[:some], y[:some]
    if 4 * len(scattered(X, n, space)) > 3 * n:
        return None
    more, values = data.nearest(X[0], MORE * n, space)
    rows = scattered(more, n, space)[:n]
    return (more[rows], values[rows]) if len(rows) > _coefficients(space) else None


def around_the_first(X: Array, space: Space) -> int:
    """How many of the rows of X (n, d), nearest to the first one first, are no more than DENSE times as far from it as
    those that a quadratic takes. All, if so many are the same point.
    """
    enough = _coefficients(space)
    if len(X) <= enough:
        return len(X)
    away = squared_distances(features(X[:1], space), features(X, space))[0]
    return int(np.count_nonzero(away <= DENSE**2 * away[enough])) if away[enough] > 0.0 else len(X)


def scattered(X: Array, n: int, space: Space) -> list[int]:
    """Rows of X (m, d) that are not DENSE times as close to one before as the n-th is to the first."""
    Z = features(X, space)
    away = squared_distances(Z, Z)
    close = np.tril(away <= away[0, min(n, len(X)) - 1] / DENSE**2, -1)
    left_out = close.any(axis=1)
    for i in np.flatnonzero(left_out):  # one that is close only to what is left out itself stays
        left_out[i] = (close[i] & ~left_out)[:i].any()
    return np.flatnonzero(~left_out).tolist()


def _coefficients(space: Space) -> int:
    """Those of a quadratic."""
    return (space.dim + 1) * (space.dim + 2) // 2
