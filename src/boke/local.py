"""The next point by a local model: a small Gaussian process on the nearest observations, inside a trust region."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.spatial.distance import cdist

from boke import gp
from boke.compiled import NATIVE
from boke.data import Data, features
from boke.keys import Numbers
from boke.quasirandom import sobol
from boke.region import LARGEST_SIDE, REPLAYED, TrustRegion, box
from boke.space import Array, Mask, Space

NEAREST = 60  # observations of a local model
SMOOTHED = 200  # observations of one that averages noise out
CANDIDATES, TOPS, EVALUATIONS = 256, 3, 30  # screened, climbed from, evaluations of each climb
CROWD, WIDER = 4, 4.0  # pending points that fill a region, and by how much the next one is larger
APART = 8  # of so many candidates for each the one farthest from pending points is looked at
NOISY = 1e-2  # share of noise from which on the smoothed values, not the observed ones, say which point is best
RESOLVED = 40  # observations that a region has under noise
MARGIN = 0.3  # improvement asked for under noise, in standard deviations of the values: smaller ones are mostly luck
# How far below the median, in units of the upper spread, values become logarithmic
LENGTHS = [0.3, 1.0, 3.0, math.inf]
WARPS = np.array(LENGTHS)[:, None]


@dataclass(frozen=True)
class LocalModel:
    """A fitted model with what is needed to use it: z = (features - origin) / scale.

    Attributes:
        center: The incumbent (d,), observed best or, under noise, smoothed best.
        best: The value to improve on, as the model sees it: that of the center, and a margin under noise.
        noisy: Whether the model found noise.
        X: The observations (n, d) that it is of.
        y: Their values (n,).
        version: Which version of the values it has chosen.
    """

    model: Any
    origin: Array
    scale: float
    center: Array
    best: float
    noisy: bool
    X: Array
    y: Array
    version: int

    def z(self, features: Array) -> Array:
        return np.asarray((features - self.origin) / self.scale)


def suggest(
    data: Data, space: Space, region: TrustRegion, local: Callable[[Numbers], Mask], rng: Generator
) -> Array | None:
    """The point (d,) with the largest expected improvement in the trust region; None if all of it is taken.

    Args:
        data: What is known; at least one value.
        space: The decision set.
        region: How the trust region behaves.
        local: Which trials, by number (n,), were local suggestions if they were asked for.
        rng: Randomness of the candidates.
    """
    fitted = fit(data, space)
    side = resolved(data, space, fitted.center) if fitted.noisy else region.side(data.outcomes(local, REPLAYED))
    if len(data.silent):  # trials that start at the same moment, unseen by each other, must not end in the same corner
        side *= rng.uniform(0.5, 1.0)
    cells = np.array([1.0 / c if c else 0.0 for c in space.cells])
    low, high, crowded = _room(data.silent, fitted.center, side, cells, ~space.categorical)
    if crowded:
        return _apart(fitted, data, low, high, space, rng)
    X, values = _improvements(fitted, low, high, space, rng)
    fresh = ~data.taken(space.encode(space.decode(X)))  # as a history would keep them: rounded
    if not fresh.any():
        return None
    return np.array(X[fresh][np.argmax(values[fresh])])


def _room(pending: Array, center: Array, side: float, cells: Array, numeric: Mask) -> tuple[Array, Array, bool]:
    """The box around the center; with CROWD points pending in it, a larger one with room for as many more, and True.

    The model says little about the next point of a large batch: it has been used up by the first few.
    """
    low, high = box(center, side, cells)
    room = CROWD
    while len(pending) >= room and side < 2.0:
        inside = ((pending >= low) & (pending <= high))[:, numeric].all(axis=1)
        if np.count_nonzero(inside) < room:
            break
        room, side = room + CROWD, side * WIDER
        low, high = box(center, side, cells)
    return low, high, room > CROWD


def _apart(fitted: LocalModel, data: Data, low: Array, high: Array, space: Space, rng: Generator) -> Array | None:
    """Of the candidates farthest from all pending points the one with the largest expected improvement."""
    U = sobol(CANDIDATES // 2, space.dim, rng)
    X = space.snap(np.where(space.categorical, U, low + (high - low) * U))
    gap = cdist(features(X, space), features(data.silent, space)).min(axis=1)
    X = X[np.argsort(-gap, kind="stable")[: len(X) // APART]]
    X = X[~data.taken(X)]
    if len(X) == 0:
        return None
    return np.array(X[np.argmax(fitted.model.log_ei(fitted.z(features(X, space)), fitted.best))])


def expected_gain(data: Data, space: Space) -> float:
    """What the next local step may bring: the largest expected improvement, in units of y, in a box around the center.

    The box reaches the RESOLVED-th nearest observation: it is small where the search has settled, and does not depend
    on the policy.
    """
    fitted = fit(data, space)
    fitted = replace(fitted, best=fitted.best - MARGIN * fitted.noisy)
    cells = np.array([1.0 / c if c else 0.0 for c in space.cells])
    low, high = box(fitted.center, resolved(data, space, fitted.center), cells)
    _, values = _improvements(fitted, low, high, space, np.random.default_rng(0))
    ends = np.array([fitted.best, fitted.best + 1.0])
    unit = np.diff(unwarped(ends, fitted.y, fitted.version))  # a line from here on
    return math.exp(float(values.max())) * float(unit[0])


def _improvements(fitted: LocalModel, low: Array, high: Array, space: Space, rng: Generator) -> tuple[Array, Array]:
    """Where the best candidates of the box climb to, these candidates, and log EI at all of these."""
    X = candidates(fitted.center, low, high, space, rng)
    values = fitted.model.log_ei(fitted.z(features(X, space)), fitted.best)
    top = np.argsort(-values, kind="stable")[:TOPS]
    tops, better = _climb(fitted, X[top], low, high, space)
    return np.concatenate([tops, X[top]]), np.concatenate([better, values[top]])


def fit(data: Data, space: Space) -> LocalModel:
    """The model around the best observation; where it finds noise, a larger one around the best of its smoothed values.

    The search for the larger one's hyperparameters starts where that of the smaller one ended.
    """
    center, count, start = data.best, min(NEAREST, len(data)), gp.START
    while True:
        X, y = data.nearest(center, count, space)
        points, origin = features(X, space), features(center[None], space)[0]
        scale = math.sqrt(float(np.square(points - origin).sum(axis=1).mean())) or 1.0
        Z = (points - origin) / scale
        Y, jacobian = warped(y)
        model = gp.fit(Z, Y, jacobian, start=start)
        _, _, noise, _, _, version = model.hyperparameters
        noisy = noise >= NOISY
        smooth = model.fitted() if noisy else Y[version]
        chosen = int(np.argmax(smooth))
        if not noisy or count == min(SMOOTHED, len(data)):
            break
        center, count, start = X[chosen], min(SMOOTHED, len(data)), model.at
    silent = data.nearest_silent(center, NEAREST // 2, space)
    if len(silent):
        S = (features(silent, space) - origin) / scale
        Z, Y, jacobian = _with_silent(model, Z, Y, jacobian, version, S)
        model = gp.fit(Z, Y, jacobian, start=model.at)
    return LocalModel(model, origin, scale, X[chosen], float(smooth[chosen]) + MARGIN * noisy, noisy, X, y, version)


def resolved(data: Data, space: Space, center: Array) -> float:
    """Side of the region under noise: it reaches the RESOLVED-th nearest observation.

    A single failure says little there, but a region with too few observations cannot tell a slope from noise.
    """
    return min(LARGEST_SIDE, 2.0 * data.reach(center, RESOLVED, space))


def _with_silent(model: Any, Z: Array, Y: Array, jacobian: Array, version: int, S: Array) -> tuple[Array, Array, Array]:
    """Pending and failed points join as observations of what is expected there, at most the median.

    The model is then sure of them and looks elsewhere. Only the version in use is kept.
    """
    y = Y[version]
    expected = np.minimum(model.predict(np.ascontiguousarray(S))[0], float(np.median(y)))
    return np.vstack([Z, S]), np.append(y, expected)[None], jacobian[version : version + 1]


def warped(y: Array) -> tuple[Array, Array]:
    """Versions (w, n) of the values and their log Jacobians (w,).

    Above the median values are kept; below it they become logarithmic, which tames the slopes of steep functions.
    Each version is standardized, and its Jacobian makes the likelihoods comparable.
    """
    if NATIVE is None:
        return plain_warped(y)
    Y, jacobian = NATIVE.warped(np.ascontiguousarray(y / _factor(y)), LENGTHS)
    return Y, jacobian


def plain_warped(y: Array) -> tuple[Array, Array]:
    """The same, and its definition."""
    bent, slope, _ = _bent(y)
    middles, sd = _moments(bent)
    return (bent - middles) / sd, slope - len(y) * np.log(sd[:, 0])


def unwarped(values: Array, y: Array, version: int) -> Array:
    """What the model says about a version of y, in units of y: the inverse of ``warped``."""
    bent, _, (factor, middle, unit) = _bent(y)
    middles, sd = _moments(bent)
    r = values * sd[version, 0] + middles[version, 0]
    length = float(WARPS[version, 0])
    if math.isfinite(length):
        r = np.where(r < 0.0, -length * np.expm1(np.minimum(-r / length, 700.0)), r)
    return np.asarray((middle + unit * r) * factor)


def _bent(y: Array) -> tuple[Array, Array, tuple[float, float, float]]:
    """The versions before they are standardized, the logarithms of their slopes, and factor, middle and unit of y."""
    factor = _factor(y)
    y = y / factor
    ordered = np.sort(y)
    middle, high, top = (float(ordered[i]) for i in (len(y) // 2, min(int(0.9 * len(y)), len(y) - 1), -1))
    unit = max(high - middle, 1e-6 * (top - middle))
    unit = unit if unit > 0.0 else 1.0
    r = np.maximum(y - middle, -1e8 * unit) / unit
    below = np.maximum(-r, 0.0) / WARPS
    with np.errstate(over="ignore", invalid="ignore"):  # the last version is not bent: its length is infinite
        bent = np.where(below > 0.0, -WARPS * np.log1p(below), r)
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


def candidates(center: Array, low: Array, high: Array, space: Space, rng: Generator) -> Array:
    """Points of the region; half of them differ from the center in a few columns only."""
    n, d = CANDIDATES, space.dim
    X = low + (high - low) * sobol(n, d, rng)
    if space.categorical.any():
        move = rng.random((n, d)) < 1.0 / d
        X = np.where(space.categorical, np.where(move, rng.random((n, d)), center), X)
    few = rng.random((n // 2, d)) < min(1.0, max(2.0 / d, 0.25))
    few[np.arange(n // 2), rng.integers(d, size=n // 2)] = True
    X[: n // 2] = np.where(few, X[: n // 2], center)
    return space.snap(X)


def _climb(fitted: LocalModel, X: Array, low: Array, high: Array, space: Space) -> tuple[Array, Array]:
    """Climb from every row of X in the numeric columns, categories stay as they are: points and values."""
    if not space.categorical.any():
        tops, values = fitted.model.climb(fitted.z(X), fitted.best, fitted.z(low), fitted.z(high), EVALUATIONS)
        tops = np.minimum(np.maximum(fitted.origin + fitted.scale * tops, low), high)
        if space.continuous.all():
            return tops, values
    elif space.categorical.all():
        tops = X
    else:
        numeric, tops = ~space.categorical, X.copy()
        k = int(numeric.sum())
        for i, x in enumerate(X):
            z = fitted.z(features(x[None], space))
            bottom, ceiling = z[0].copy(), z[0].copy()
            bottom[:k] = (low[numeric] - fitted.origin[:k]) / fitted.scale
            ceiling[:k] = (high[numeric] - fitted.origin[:k]) / fitted.scale
            top, _ = fitted.model.climb(z, fitted.best, bottom, ceiling, EVALUATIONS)
            there = fitted.origin[:k] + fitted.scale * top[0, :k]
            tops[i, numeric] = np.minimum(np.maximum(there, low[numeric]), high[numeric])
    tops = space.snap(tops)
    return tops, fitted.model.log_ei(fitted.z(features(tops, space)), fitted.best)
