"""Bandwidth rules: data -> ℓ. Each is a frozen dataclass that is called with the design and the values.

A rule returns one length for all columns or, with ``per_dimension``, one for each. Rules depend on the set of
observations only, not on the order in which they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from boke.elementary import log
from boke.engine import Observations
from boke.fill import fill_distance
from boke.kernels import Gaussian, Kernel
from boke.space import MISMATCH, Array, Mask
from boke.sums import scale

UNIFORM_STD = math.sqrt(1.0 / 12.0)  # standard deviation of a column that fills [0, 1] evenly
SMALLEST_STD = 1e-3  # a column in which all points agree must not make the kernel infinitely narrow
HOPELESS = 1e300  # score of a bandwidth that gives an observation the density 0


class Bandwidth(Protocol):
    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array: ...


@dataclass(frozen=True)
class Fixed:
    """ℓ_t = ℓ, a number or one number for each column."""

    value: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if isinstance(self.value, list | np.ndarray):
            object.__setattr__(self, "value", tuple(float(v) for v in self.value))
        if not np.all(np.isfinite(self.value)) or not np.all(np.asarray(self.value) > 0):
            raise ValueError(f"The 'value' parameter of Fixed must be positive and finite. Got {self.value}.")

    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array:
        return np.asarray(self.value) if isinstance(self.value, tuple) else self.value


@dataclass(frozen=True)
class Silverman:
    """ℓ_t = c · σ · (t (d + 2) / 4)^(-1 / (d + 4)), Silverman's rule of thumb (section 5 of the paper).

    σ is the standard deviation of the design, column by column, with ``per_dimension``, and that of the uniform
    density otherwise, so that ℓ depends on t alone.
    """

    c: float = 1.0
    per_dimension: bool = False

    def __post_init__(self) -> None:
        _check_positive(self, "c")

    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array:
        t, d = max(len(X), 1), X.shape[1]
        return self.c * _spread(X, categorical, self.per_dimension) * math.pow(t * (d + 2) / 4.0, -1.0 / (d + 4))


@dataclass(frozen=True)
class Scott:
    """ℓ_t = c · σ · t^(-1 / (d + 4)), Scott's rule; σ as in Silverman."""

    c: float = 1.0
    per_dimension: bool = False

    def __post_init__(self) -> None:
        _check_positive(self, "c")

    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array:
        t, d = max(len(X), 1), X.shape[1]
        return self.c * _spread(X, categorical, self.per_dimension) * math.pow(t, -1.0 / (d + 4))


def by_count(rule: Bandwidth, t: int, d: int) -> float | None:
    """ℓ of t observations by a rule for which their number is all that matters; None by any other."""
    if isinstance(rule, Fixed):
        return None if isinstance(rule.value, tuple) else float(rule.value)
    if isinstance(rule, Silverman | Scott) and not rule.per_dimension:
        nowhere = np.broadcast_to(0.0, (t, d))
        return float(rule(nowhere, nowhere[:, 0], kernel=Gaussian(), categorical=np.zeros(d, bool)))
    return None


@dataclass(frozen=True)
class LeastSquaresCV:
    """ℓ minimises the leave-one-out squared error of the regression, Σ (y_i - m_{-i}(x_i))² (section 3.1).

    With more than ``max_points`` observations the score is a mean over the first ``max_points`` of them (each still
    predicted from all); the optimizer hands observations over in a pseudo-random order, which makes that a sample.
    """

    per_dimension: bool = False
    max_points: int = 512

    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array:
        return _cross_validate(self, X, y, kernel, categorical, squared_error)


@dataclass(frozen=True)
class MaximumLikelihoodCV:
    """ℓ maximises the leave-one-out likelihood of the density, Σ ln p̂_{-i}(x_i) (section 3.2)."""

    per_dimension: bool = False
    max_points: int = 512

    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array:
        return _cross_validate(self, X, y, kernel, categorical, negative_log_likelihood)


@dataclass(frozen=True)
class FillDistanceSchedule:
    """The schedule of the consistency theorem (ii): keep ℓ'_n until the fill distance is below 2 R_Ψ ℓ'_n.

    ℓ'_n = c / n. The theorem goes through the stages n = 1, 2, ... and stays in each for one point at least. Since the
    fill distance h only falls as points arrive, it comes to rest at the first n with h ≥ 2 R_Ψ ℓ'_n, which is a
    function of the set of points; here it gets there at once. A gaussian is truncated, as the theorem asks, at the
    radius where one observation adds less than ρ = 1e-4 to the density.
    """

    c: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self, "c")

    def __call__(self, X: Array, y: Array, *, kernel: Kernel, categorical: Mask) -> float | Array:
        if len(X) == 0:
            return self.c
        radius = kernel.radius if math.isfinite(kernel.radius) else kernel.reach(1e-4)
        numeric = X[:, ~categorical]
        h = fill_distance(numeric) if numeric.shape[1] else 0.0  # categories alone leave no gap
        n = math.ceil(2.0 * radius * self.c / h) if h > 0.0 else len(X) + 1
        # n rises at most once for each point in the theorem, which keeps ℓ_t >= c / (t + 1) (assumption 'bandwidth')
        return self.c / min(max(1, n), len(X) + 1)


def squared_error(X: Array, y: Array, kernel: Kernel, ell: float | Array, categorical: Mask, rows: int) -> float:
    """Mean leave-one-out squared error of the kernel regression at the first ``rows`` observations."""
    Z, penalty = scale(X, ell, categorical)
    loo = Observations(kernel, Z, y, None, penalty)(Z.rows(slice(rows)), leave_one_out=True)
    return float(np.mean(np.square(y[:rows] - loo.mean)))


def negative_log_likelihood(
    X: Array, y: Array, kernel: Kernel, ell: float | Array, categorical: Mask, rows: int
) -> float:
    """Minus the mean leave-one-out log density at the observations, categories included in the normaliser."""
    Z, penalty = scale(X, ell, categorical)
    loo = Observations(kernel, Z, y, None, penalty)(Z.rows(slice(rows)), leave_one_out=True)
    lengths = np.broadcast_to(np.asarray(ell, dtype=float), X.shape[1:])[~categorical]
    normaliser = kernel.log_integral(len(lengths)) + float(log(lengths).sum()) if len(lengths) else 0.0
    for j, column in enumerate(Z.codes.T):
        normaliser += math.log1p((len(np.unique(column)) - 1) * float(kernel.value(penalty[j])))
    return normaliser + math.log(len(X) - 1) - float(np.mean(loo.log_W))


Score = Callable[[Array, Array, Kernel, "float | Array", Mask, int], float]


def _cross_validate(
    rule: LeastSquaresCV | MaximumLikelihoodCV, X: Array, y: Array, kernel: Kernel, categorical: Mask, score: Score
) -> float | Array:
    """Minimise a leave-one-out score over ℓ = σ e^u: a grid, then its deepest valleys.

    The score has several minima. That of a compact kernel also jumps wherever a point enters a neighbourhood, which
    asks for a finer grid.
    """
    from scipy.optimize import minimize_scalar

    sigma = _spread(X, categorical, rule.per_dimension)
    rows = min(len(X), rule.max_points)
    y = y / max(float(np.abs(y).max(initial=0.0)), 1e-300)  # the same minimizer, no overflow in the square

    def at(u: float) -> float:
        return min(score(X, y, kernel, sigma * math.exp(u), categorical, rows), HOPELESS)

    grid = np.linspace(math.log(0.01), math.log(10.0), 25 if math.isinf(kernel.radius) else 97)
    scores = np.array([at(u) for u in grid]) if len(X) >= 3 else np.full(len(grid), HOPELESS)
    if scores.min() == HOPELESS:
        return Silverman(per_dimension=rule.per_dimension)(X, y, kernel=kernel, categorical=categorical)
    walled = np.pad(scores, 1, constant_values=np.inf)
    valleys = np.flatnonzero((scores <= walled[:-2]) & (scores <= walled[2:]))
    found = [(scores[i], grid[i]) for i in valleys[np.argsort(scores[valleys], kind="stable")[:3]]]
    step = float(grid[1] - grid[0])
    for _, u in tuple(found):
        fine = minimize_scalar(at, bounds=(u - step, u + step), method="bounded", options={"xatol": 1e-3})
        found.append((fine.fun, fine.x))
    return sigma * math.exp(min(found)[1])


def _spread(X: Array, categorical: Mask, per_dimension: bool) -> float | Array:
    """σ: the uniform's standard deviation, or that of each column of the design, bounded below."""
    if not per_dimension or len(X) < 2:
        return UNIFORM_STD
    sigma = X.std(axis=0)
    for j in np.flatnonzero(categorical):
        # σ² = E (x - x')² / 2 also makes sense for a column that knows only equal and unequal
        share = np.unique(X[:, j], return_counts=True)[1] / len(X)
        sigma[j] = MISMATCH * math.sqrt(0.5 * (1.0 - float(np.square(share).sum())))
    return np.asarray(np.maximum(sigma, SMALLEST_STD))


def _check_positive(rule: Silverman | Scott | FillDistanceSchedule, name: str) -> None:
    value = getattr(rule, name)
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(f"The '{name}' parameter of {type(rule).__name__} must be positive. Got {value!r}.")
