"""exp, log and distances that round the same on every processor.

NumPy's exp and log round differently where there is AVX-512, and a last bit is enough to send two runs apart; those of
the C library do not. Where they are not compiled, SciPy's power transforms with the exponent 0 are plain loops over
them. SciPy is not imported before it is needed: its special functions and distances take longer to import than a
hundred suggestions.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from boke.compiled import NATIVE

Numbers = NDArray[np.float64]


def exp(x: ArrayLike) -> Numbers:
    if NATIVE is None:
        return np.asarray(scipy.special.inv_boxcox(x, 0.0))
    return np.asarray(NATIVE.exp(np.asarray(x, dtype=float, order="C")))


def log(x: ArrayLike) -> Numbers:
    if NATIVE is None:
        return np.asarray(scipy.special.boxcox(x, 0.0))
    return np.asarray(NATIVE.log(np.asarray(x, dtype=float, order="C")))


def squared_distances(X: Numbers, others: Numbers) -> Numbers:
    """Squared distances (n, m) of rows (n, d) from others (m, d)."""
    return _distances(X, others, "sqeuclidean")


def largest_differences(X: Numbers, others: Numbers) -> Numbers:
    """Distances (n, m) in the column where they are largest."""
    return _distances(X, others, "chebyshev")


def _distances(X: Numbers, others: Numbers, metric: str) -> Numbers:
    if X.shape[1] == 0:
        return np.zeros((len(X), len(others)))
    if NATIVE is None:
        return np.asarray(scipy.spatial.distance.cdist(X, others, metric))
    return np.asarray(NATIVE.distances(np.ascontiguousarray(X), np.ascontiguousarray(others), metric == "chebyshev"))
