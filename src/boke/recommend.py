"""The best estimated point: the empirical-best-arm rule of the regret analysis (section 4.3).

Observations bunch up where a search was successful. The rule thins the points to a maximal h-separated subset, chosen
without looking at the values, fits m̂ on it with bandwidth ℓ̂ = h^(1-γ) and recommends argmax m̂. A point that was
evaluated several times counts with all of its values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from boke.acquisition import UpperConfidenceBound
from boke.argmax import STARTS, polish
from boke.data import Data
from boke.fill import fill_distance
from boke.kernels import Kernel, get_kernel
from boke.keys import row_keys
from boke.model import KernelModel
from boke.quasirandom import sobol
from boke.scores import SCALES, scaled
from boke.space import MISMATCH, Array, Space

Rows = NDArray[np.int64]

RHO = 1e-4  # of σ̂, as in the paper
SCREENED = 1024  # observations, and as many points of the cube, among which the maximizer is first looked for


@dataclass(frozen=True)
class Estimate:
    """A point of the unit cube, the estimated value there and what stands behind it.

    Attributes:
        x: The point (d,).
        value: The estimated mean, larger is better.
        support: How many observations speak for the estimate.
        shares: Share of every observation (t,) in the estimate.
        interval: Where the true mean is, with the rule's confidence; None where that cannot be said.
    """

    x: Array
    value: float
    support: float
    shares: Array
    interval: tuple[float, float] | None = None


class Rule(Protocol):
    def recommend(self, data: Data, space: Space) -> Estimate: ...


@dataclass(frozen=True)
class SmoothedEstimate(Estimate):
    """The kernel-weighted mean of the observed values; its support is W at x.

    Attributes:
        separation: h.
        bandwidth: ℓ̂.
    """

    separation: float = math.nan
    bandwidth: float = math.nan


@dataclass(frozen=True)
class EmpiricalBestArm:
    """argmax of m̂ fitted on an h-separated subset with ℓ̂ = h^(1-γ) (theorem 'simple regret').

    Args:
        gamma: γ in (0, 1).
        separation: h. "fill" is the theorem's choice, the fill distance of the design, which is small only after
            very many evaluations (and 0 when a finite decision set was tried whole). "loo" halves it as long as that
            lowers the leave-one-out error e, and maximizes the cautious m̂ - e σ̂ instead of m̂: a few observations far
            from all others must not win by luck, nor a place where there are none. Or a number.
        kernel: Kernel of m̂.
        y_scale: Scale on which m̂ is maximized, as for the policies. The reported value is in units of y.
    """

    gamma: float = 0.5
    separation: float | str = "loo"
    kernel: str | Kernel = "gaussian"
    y_scale: str = "rank"

    def __post_init__(self) -> None:
        get_kernel(self.kernel)
        if self.y_scale not in SCALES:
            raise ValueError(
                f"The 'y_scale' parameter of EmpiricalBestArm must be one of {list(SCALES)}. Got {self.y_scale!r}."
            )
        if not 0.0 < self.gamma < 1.0:
            raise ValueError(f"The 'gamma' parameter of EmpiricalBestArm must be in (0, 1). Got {self.gamma}.")
        number = isinstance(self.separation, int | float) and 0.0 < self.separation < math.inf
        if not number and self.separation not in ("fill", "loo"):
            raise ValueError(
                "The 'separation' parameter of EmpiricalBestArm must be 'fill', 'loo' or a positive number. "
                f"Got {self.separation!r}."
            )

    def recommend(self, data: Data, space: Space) -> SmoothedEstimate:
        if len(data.y) == 0:
            raise ValueError("There is nothing to recommend yet: no trial has a value.")
        scores = scaled(data.y, self.y_scale)
        scores = scores / max(float(np.abs(scores).max()), 1e-300)  # the same maximizer, no overflow in the errors
        h, error = self._separation(data, scores, space)
        model, rows = self._fit(data, scores, space, h)
        x = _argmax(UpperConfidenceBound(model, -error, RHO), space)
        shares = np.zeros(len(data.y))
        shares[rows] = model.shares(x)
        value = _weighted_mean(shares, data.y)
        support, ell = float(model.density(x[None])[0]), float(model.bandwidth[0])
        return SmoothedEstimate(x, value, support, shares, separation=h, bandwidth=ell)

    def _fit(self, data: Data, scores: Array, space: Space, h: float) -> tuple[KernelModel, Rows]:
        keys = row_keys(data.X)
        rows = np.flatnonzero(np.isin(keys, keys[separated(_embed(data.X, space), h)]))  # with all copies of a point
        ell = h ** (1.0 - self.gamma)
        model = KernelModel(
            data.X[rows], scores[rows], kernel=self.kernel, bandwidth=ell, categorical=space.categorical
        )
        return model, rows

    def _separation(self, data: Data, scores: Array, space: Space) -> tuple[float, float]:
        """h and the leave-one-out error that goes with it, 0 where nobody asked for caution."""
        if not isinstance(self.separation, str):
            return float(self.separation), 0.0
        finite = space.enumerate(SCREENED) if self.separation == "fill" else None
        h = _cube_fill(data.X, space) if finite is None else _finite_fill(data.X, finite, space)
        h = min(max(h, 1e-12), 1.0)  # beyond 1 a larger separation would mean a smaller bandwidth exponent
        if self.separation == "fill" or len(data.y) < 3:
            return h, 0.0
        errors = {}
        for k in range(16):
            model, rows = self._fit(data, scores, space, h * 0.5**k)
            errors[h * 0.5**k] = _prediction_error(model, rows, data.X, scores)
        h = min(errors, key=lambda key: (errors[key], -key))
        return h, math.sqrt(errors[h])


def _argmax(f: UpperConfidenceBound, space: Space) -> Array:
    finite = space.enumerate(SCREENED)
    if finite is not None:
        return np.array(finite[np.argmax(f(finite))])
    best = np.argsort(-f.model.y, kind="stable")[:SCREENED]
    X = np.vstack([f.model.X[best], space.snap(sobol(SCREENED, space.dim, np.random.default_rng(0)))])
    X = X[np.argsort(-f(X), kind="stable")[:STARTS]]
    for unit in (1.0, 0.1, 0.01):  # polishing ends at steps of a twentieth of its unit of length
        X, values = polish(f, X, unit * f.model.bandwidth * space.continuous, 32)
    return np.array(X[np.argmax(values)])


def separated(X: Array, h: float) -> Rows:
    """Row numbers of a maximal subset of X (t, d) whose points are more than h apart, built greedily in order."""
    tree, alive, kept = scipy.spatial.KDTree(X), np.ones(len(X), bool), []
    for i in range(len(X)):
        if alive[i]:
            kept.append(i)
            alive[tree.query_ball_point(X[i], h)] = False
    return np.array(kept, dtype=np.int64)


def _prediction_error(model: KernelModel, rows: Rows, X: Array, scores: Array, most: int = 512) -> float:
    """Mean squared error at the observations, each predicted without itself."""
    outside = np.setdiff1d(np.arange(len(X)), rows)[:most]
    inside = rows[:most]
    left_out = scores[inside] - (model.leave_one_out(most) if len(rows) > 1 else scores.mean())
    predicted = scores[outside] - model.mean(X[outside]) if len(outside) else np.empty(0)
    return float(np.mean(np.square(np.concatenate([left_out, predicted]))))


def _cube_fill(X: Array, space: Space) -> float:
    """Fill distance of the numeric columns."""
    return MISMATCH if space.categorical.all() else fill_distance(X[:, ~space.categorical])


def _finite_fill(X: Array, points: Array, space: Space) -> float:
    """Fill distance of X in a finite decision set: 0 once every point of it was tried."""
    both = _embed(np.vstack([X, points]), space)
    return float(scipy.spatial.KDTree(both[: len(X)]).query(both[len(X) :])[0].max())


def _embed(X: Array, space: Space) -> Array:
    """Coordinates in which two categories are MISMATCH apart, like in the kernel."""
    columns = [X[:, ~space.categorical]]
    for j in np.flatnonzero(space.categorical):
        columns.append((X[:, j, None] == np.unique(X[:, j])) * (MISMATCH / math.sqrt(2.0)))
    return np.column_stack(columns)


def _weighted_mean(shares: Array, y: Array) -> float:
    """Σ share · y without overflow for values near the largest double, nor rounding out of their range."""
    unit = max(float(np.abs(y).max()), 1e-300)
    mean = float((shares * (y / unit)).sum()) * unit
    return min(max(mean, float(y.min())), float(y.max()))
