"""Scales of y: what kernel means and β_t see instead of the raw values."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from boke.space import Array

SCALES = ("rank", "standardize", "none")


def scaled(y: Array, how: str) -> Array:
    """Bring finite values (t,) to the scale ``how``, one of SCALES."""
    if how == "rank":
        return normal_scores(y)
    if how == "none":
        return y
    y = y / max(float(np.abs(y).max(initial=0.0)), 1e-300)  # values near 1e308 must not overflow in the variance
    spread = float(y.std())
    return (y - y.mean()) / spread if spread > 0 else np.zeros_like(y)


def normal_scores(y: Array) -> Array:
    """Φ⁻¹((rank + 1/2) / t), ties averaged: the same for every increasing transformation of the values."""
    _, place, count = np.unique(y, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - 0.5 * (count + 1)  # mean rank of each level, from 0
    return np.asarray(ndtri((middle[place] + 0.5) / len(y)))
