"""Noise or a rugged function? The values of two points that are as good as one tell.

A model takes for noise whatever it cannot explain. Where it finds some, the first thing to do is to look at its best
point again, from next to it: noise draws anew, a function does not. Distances are in units of the radius of the
neighbourhood that the model is of.
"""

from __future__ import annotations

import math

import numpy as np

from boke.compiled import NATIVE
from boke.elementary import largest_differences
from boke.keys import Numbers
from boke.space import Array

OFFSET, CLOSE = 1e-5, 1e-4  # of a probe from the point that it repeats, and of points that are as good as one
SURE = 0.02  # of √2 standard deviations of the noise: two draws of it are as close in 1.6 % of cases


def repeats(X: Array, y: Array, radius: float, deviation: float) -> bool | None:
    """Whether values come back where points (n, d) do; None if no point did. Equal values are a plateau's: they do not.

    Args:
        X: Points, as many as are worth a look.
        y: Their values (n,).
        radius: Of the neighbourhood.
        deviation: The standard deviation that noise would have, in units of y.
    """
    i, j = (plain_pairs if NATIVE is None else NATIVE.pairs)(X, CLOSE * radius)
    if len(i) == 0:
        return None
    with np.errstate(over="ignore"):  # values of 1e308 and -1e308
        gaps = np.abs(y[i] - y[j])
    return bool(gaps.max() < SURE * math.sqrt(2.0) * deviation and gaps.max() > 0.0)


def plain_pairs(X: Array, limit: float) -> tuple[Numbers, Numbers]:
    """The pairs i < j of rows (n, d) whose largest difference is below a limit."""
    return np.nonzero(np.triu(largest_differences(X, X) < limit, 1))  # type: ignore[return-value]


def come_back(X: Array, y: Array) -> bool | None:
    """Whether all values (n,) of points (n, d) that repeat are the same; None if no point repeats."""
    order = np.lexsort((y, *X.T))
    same = (X[order[1:]] == X[order[:-1]]).all(axis=1)
    return bool((y[order[1:]] == y[order[:-1]])[same].all()) if same.any() else None


def beside(x: Array, radius: float) -> Array:
    """A point (d,) beside x (d,), towards the middle of the cube."""
    return np.asarray(x + OFFSET * radius / math.sqrt(len(x)) * np.where(x < 0.5, 1.0, -1.0))
