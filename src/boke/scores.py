"""Scales of y: what kernel means and β_t see instead of the raw values."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from boke.compiled import NATIVE
from boke.space import Array

SCALES = ("rank", "standardize", "none")


def scaled(y: Array, how: str) -> Array:
    """Bring finite values (t,) to the scale ``how``, one of SCALES."""
    if how == "rank":
        return normal_scores(y)
    if how == "none":
        return y
    if len(y) == 0 or y.min() == y.max():
        return np.zeros_like(y)
    # first to [0, 1]: neither values near 1e308 nor a signal on a large constant are safe in a variance
    low, high = float(y.min()), float(y.max())
    y = (y - low) / (high - low) if math.isfinite(high - low) else (0.5 * y - 0.5 * low) / (0.5 * high - 0.5 * low)
    return np.asarray((y - y.mean()) / y.std())


def normal_scores(y: Array) -> Array:
    """Φ⁻¹((rank + 1/2) / t), ties averaged: the same for every increasing transformation of the values."""
    order = np.argsort(y)  # equal values come in any order: they get equal scores
    if NATIVE is not None:
        return np.asarray(NATIVE.normal_quantiles(NATIVE.levels(y, order)))
    return np.asarray(scipy.special.ndtri(plain_levels(y, order)))


def plain_levels(y: Array, order: NDArray[np.int64]) -> Array:
    """(rank + 1/2) / t, ties averaged, of values (t,) that ``order`` (t,) sorts."""
    ordered, rank = y[order], np.arange(0.5, len(y))
    if (ordered[1:] == ordered[:-1]).any():
        _, level, count = np.unique(ordered, return_inverse=True, return_counts=True)
        rank = (np.cumsum(count) - 0.5 * count)[level]
    levels = np.empty(len(y))
    levels[order] = rank / len(y)
    return levels
