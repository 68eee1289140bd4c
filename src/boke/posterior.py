"""The best estimated point by a Gaussian process on the observations around the best one, with an interval.

The point is recommended whose posterior mean m is highest, among those that were observed; where the model finds no
noise, that is the best observation. A maximizer is optimistic: it was chosen because its estimate is high. How
optimistic high estimates are, the observations tell: b is the mean leave-one-out residual of the half of them that is
predicted best, each without its own value.

    value     m + b
    interval  m + b ± κ q √(s² + v)

s is the standard deviation of the mean at the point without its own observation and v the variance of b. q is the
conformal quantile: of n standardized leave-one-out residuals the ⌈(n + 1) level⌉-th smallest. κ = 1.2 level^(1/4) is
what the choice of a maximizer needs after all that, most in the tails: it was measured (results/recommend.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boke import gp
from boke.data import Data, features
from boke.local import FAINT
from boke.recommend import Estimate
from boke.space import Array, Space

LENGTHS = (0.1, 0.2, 0.3, 0.6, 1.2, 2.5, 5.0)
NOISES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # a neighbourhood may be mostly noise
KAPPA, TAIL = 1.2, 0.25  # κ = KAPPA · level^TAIL
DOUBT = 2.0  # of log likelihood: a model that is no further behind cannot be excluded


@dataclass(frozen=True)
class PosteriorMean:
    """argmax of the posterior mean over the observed points.

    Args:
        nearest: Observations of the model, those nearest to the best.
        level: How often the interval shall contain the true mean.
    """

    nearest: int = 200
    level: float = 0.9

    def __post_init__(self) -> None:
        if isinstance(self.nearest, bool) or not isinstance(self.nearest, int) or self.nearest < 1:
            raise ValueError(
                f"The 'nearest' parameter of PosteriorMean must be a positive integer. Got {self.nearest!r}."
            )
        if not (isinstance(self.level, float) and 0.0 < self.level < 1.0):
            raise ValueError(f"The 'level' parameter of PosteriorMean must be in (0, 1). Got {self.level!r}.")

    def recommend(self, data: Data, space: Space) -> Estimate:
        if len(data.y) == 0:
            raise ValueError("There is nothing to recommend yet: no trial has a value.")
        best = int(np.argmax(data.y))
        around = Neighbourhood.of(best, data, space, self.nearest)
        fitted = around.fit(NOISES)
        if not _noisy(fitted):
            return self._estimate(around, around.doubted(fitted), best, data)
        best = int(around.rows[np.argmax(fitted.fitted())])
        around = Neighbourhood.of(best, data, space, self.nearest)
        fitted = around.fit(NOISES)
        return self._estimate(around, fitted, int(around.rows[np.argmax(fitted.fitted())]), data)

    def at(self, data: Data, space: Space, row: int) -> Estimate:
        """The estimate at an observation of your choice, a row of the data."""
        around = Neighbourhood.of(row, data, space, self.nearest)
        return self._estimate(around, around.doubted(around.fit(NOISES)), row, data)

    def _estimate(self, around: Neighbourhood, fitted: Any, row: int, data: Data) -> Estimate:
        model, i = LeaveOneOut.of(around, fitted), int(np.flatnonzero(around.rows == row)[0])
        if _noisy(fitted):
            b, v = model.optimism()
            value, variance = around.origin + around.unit * (float(model.mean[i]) + b), model.variance[i] + v
        else:
            value, variance = float(data.y[row]), model.noise[i]
        shares = np.zeros(len(data.y))
        shares[around.rows] = np.abs(model.weights[i]) / np.abs(model.weights[i]).sum()
        q = quantile(np.abs(model.residual) / model.deviation, self.level)
        half = KAPPA * self.level**TAIL * q * around.unit * math.sqrt(variance)
        interval = (value - half, value + half) if math.isfinite(2.0 * half) else None
        return Estimate(np.array(data.X[row]), value, 1.0 / float(np.square(shares).sum()), shares, interval)


@dataclass(frozen=True)
class Neighbourhood:
    """The observations nearest to one of them: rows of the data, scaled points (n, d), y = origin + unit · values."""

    rows: NDArray[np.intp]
    Z: Array
    values: Array
    origin: float
    unit: float

    @classmethod
    def of(cls, center: int, data: Data, space: Space, nearest: int) -> Neighbourhood:
        points = features(data.X, space)
        away = np.square(points - points[center]).sum(axis=1)
        rows = np.argsort(away, kind="stable")[:nearest]
        Z = (points[rows] - points[center]) / (math.sqrt(float(away[rows].mean())) or 1.0)
        return cls(rows, Z, *standardized(data.y[rows]))

    def fit(self, noises: tuple[float, ...]) -> Any:
        return gp.fit(self.Z, self.values[None], np.zeros(1), LENGTHS, gp.TRENDS, noises, (3, 2, len(noises) // 2))

    def doubted(self, fitted: Any) -> Any:
        """A model that found no noise stays only if no noisy one is as good: few observations can hide noise."""
        if _noisy(fitted) or self.unit == 0.0:
            return fitted
        noisy = self.fit(tuple(noise for noise in NOISES if noise >= FAINT.share))
        return noisy if noisy.hyperparameters[4] > fitted.hyperparameters[4] - DOUBT else fitted


@dataclass(frozen=True)
class LeaveOneOut:
    """What a model says about each of its n observations, with and without the value of that observation.

    Attributes:
        mean: The posterior mean (n,) of all observations.
        weights: Weight (n, n) of every observation in every mean.
        predicted: The mean (n,) at each observation without its value.
        variance: Its variance.
        noise: Variance of the noise.
        residual: Values minus predictions.
        deviation: The standard deviation (n,) that the model expects of a residual.
    """

    mean: Array
    weights: Array
    predicted: Array
    variance: Array
    noise: Array
    residual: Array
    deviation: Array

    @classmethod
    def of(cls, around: Neighbourhood, fitted: Any) -> LeaveOneOut:
        length, trend, noise, signal, _, _ = fitted.hyperparameters
        A, own = gp.precision(around.Z, length, trend, noise)
        alpha, precision = np.einsum("ij,j->i", A, around.values), np.diag(A)
        return cls(
            mean=around.values - own * alpha,
            weights=np.eye(len(A)) - own[:, None] * A,
            predicted=around.values - alpha / precision,
            variance=signal * np.maximum(1.0 / precision - own, 0.0),
            noise=signal * own,
            residual=alpha / precision,
            deviation=np.sqrt(signal / precision),
        )

    def optimism(self) -> tuple[float, float]:
        """b, the mean residual of the half that is predicted best, and its variance."""
        half = self.residual[np.argsort(-self.predicted, kind="stable")[: (len(self.residual) + 1) // 2]]
        b = float(half.mean())
        return b, float(np.square(half - b).mean()) / len(half)


def _noisy(fitted: Any) -> bool:
    return bool(fitted.hyperparameters[2] >= FAINT.share)


def quantile(scores: Array, level: float) -> float:
    """The ⌈(n + 1) level⌉-th smallest of n scores, infinite where there are not as many."""
    k = math.ceil((len(scores) + 1) * level)
    return float(np.sort(scores)[k - 1]) if k <= len(scores) else math.inf


def standardized(y: Array) -> tuple[Array, float, float]:
    """(y - origin) / unit with mean 0 and variance 1, origin and unit; constants become 0, with unit 0."""
    factor = max(float(np.abs(y).max()), 1.0) if np.abs(y).max() > 1e150 else 1.0  # squares must not overflow
    y = y / factor
    origin = float(y.mean())
    sd = math.sqrt(float(np.square(y - origin).mean()))
    if not sd > 1e-14 * abs(origin):
        return np.zeros_like(y), origin * factor, 0.0
    return (y - origin) / sd, origin * factor, sd * factor
