"""Monotone transformations of the values: above the median as they are, below it logarithmic, in several degrees."""

from __future__ import annotations

import math

import numpy as np

from boke.compiled import NATIVE
from boke.space import Array

LENGTHS = [0.3, 1.0, 3.0, math.inf]  # how far below the median, in units of the upper spread, values become logarithmic
WARPS = np.array(LENGTHS)[:, None]
EARNED = [5.0, 5.0, 5.0, 0.0]  # log likelihood by which bent versions must beat the straight one


def warped(y: Array) -> tuple[Array, Array]:
    """Versions (w, n) of the values and their log Jacobians (w,), less what each must earn.

    Above the median values are kept; below it they become logarithmic, which tames the slopes of steep functions.
    Each version is standardized, and its Jacobian makes the likelihoods comparable.
    """
    if NATIVE is None:
        return plain_warped(y)
    Y, jacobian = NATIVE.warped(y, LENGTHS, EARNED)
    return Y, jacobian


def plain_warped(y: Array) -> tuple[Array, Array]:
    """The same, and its definition."""
    bent, slope, _ = _bent(y)
    middles, sd = _moments(bent)
    return (bent - middles) / sd, slope - len(y) * np.log(sd[:, 0]) - EARNED


def unwarped(values: Array, y: Array, version: int) -> Array:
    """What the model says about a version of y, in units of y: the inverse of ``warped``."""
    only = WARPS[version : version + 1]
    bent, _, (factor, middle, unit) = _bent(y, only)
    middles, sd = _moments(bent)
    r = values * sd[0, 0] + middles[0, 0]
    length = float(only[0, 0])
    if math.isfinite(length):
        r = np.where(r < 0.0, -length * np.expm1(np.minimum(-r / length, 700.0)), r)
    return np.asarray((middle + unit * r) * factor)


def _bent(y: Array, warps: Array = WARPS) -> tuple[Array, Array, tuple[float, float, float]]:
    """The versions before they are standardized, the logarithms of their slopes, and factor, middle and unit of y."""
    factor = _factor(y)
    y = y / factor
    ordered = np.sort(y)
    middle, high, top = (float(ordered[i]) for i in (len(y) // 2, min(int(0.9 * len(y)), len(y) - 1), -1))
    unit = max(high - middle, 1e-6 * (top - middle))
    unit = unit if unit > 0.0 else 1.0
    r = np.maximum(y - middle, -1e8 * unit) / unit
    below = np.maximum(-r, 0.0) / warps
    with np.errstate(over="ignore", invalid="ignore"):  # the last version is not bent: its length is infinite
        bent = np.where(below > 0.0, -warps * np.log1p(below), r)
    return bent, -np.log1p(below).sum(axis=1), (factor, middle, unit)


def _moments(bent: Array) -> tuple[Array, Array]:
    middles = bent.mean(axis=1, keepdims=True)
    sd = np.sqrt(np.square(bent - middles).mean(axis=1, keepdims=True))
    sd[sd == 0.0] = 1.0
    return middles, sd


def _factor(y: Array) -> float:
    """What makes values that could overflow small."""
    largest = float(np.abs(y).max())
    return largest if largest > 1e150 else 1.0
