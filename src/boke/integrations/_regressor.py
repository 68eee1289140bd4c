"""KernelRegressor: boke's surrogate as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from boke.bandwidth import Bandwidth, LeastSquaresCV, Scott, Silverman
from boke.kernels import KERNELS, Gaussian, Kernel, get_kernel
from boke.model import KernelModel
from boke.space import Array

RULES: dict[str, Bandwidth] = {"cv": LeastSquaresCV(), "silverman": Silverman(), "scott": Scott()}
RIDGE = 1e-6  # on the slopes of a local line: where the neighbours lie in a plane, it is level across it
CHUNK = 1 << 18  # numbers of the local design matrices held in memory at once
GRID = np.geomspace(0.02, 4.0, 24).tolist()  # bandwidths that cross-validation of local lines chooses from,
CV_POINTS = 512  # at so many observations


class KernelRegressor(RegressorMixin, BaseEstimator):
    """Nadaraya-Watson (degree 0) and local-linear (degree 1) regression.

        m(x) = Σ k(x, x_i) y_i / Σ k(x, x_i)                                   degree 0
        m(x) = a of the line a + b (x_i - x) with least Σ k(x, x_i) (y_i - line)²   degree 1

    Columns are scaled to [0, 1] by their range in the training data, so bandwidths count in ranges.

    Args:
        degree: 0 or 1. Local lines are less biased at the borders and where the data are uneven.
        kernel: "gaussian", "triangular", "epanechnikov", "quartic" or a Kernel.
        bandwidth: "cv" (least leave-one-out error), "silverman", "scott", a number, one number for each
            column, or a rule of ``boke.bandwidth``.

    Attributes:
        bandwidth_: The bandwidth of each column, in units of its range.
        X_fit_: The training points, scaled.
        y_fit_: Their values.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "degree": [Interval(Integral, 0, 1, closed="both")],
        "kernel": [StrOptions(set(KERNELS)), HasMethods(["value", "slope"])],
        "bandwidth": [StrOptions(set(RULES)), Interval(Real, 0, None, closed="neither"), "array-like", callable],
    }

    def __init__(self, *, degree: int = 0, kernel: str | Kernel = "gaussian", bandwidth: Any = "cv") -> None:
        self.degree = degree
        self.kernel = kernel
        self.bandwidth = bandwidth

    def fit(self, X: Any, y: Any) -> KernelRegressor:
        """Keep the data, and choose the bandwidth."""
        self._validate_params()
        X, y = validate_data(self, X, y, y_numeric=True, dtype=float)
        self._low = X.min(axis=0)
        spread = 0.5 * X.max(axis=0) - 0.5 * self._low  # halves: the range of doubles is wider than a double
        self._half = np.where(spread > 0, spread, 0.5)
        self.X_fit_ = self._scaled(X)
        self.y_fit_ = np.array(y, dtype=float)
        if self.degree == 1 and self.bandwidth == "cv":
            self.bandwidth_ = np.full(X.shape[1], min(GRID, key=self._loo_error))
        else:
            rule = RULES[self.bandwidth] if isinstance(self.bandwidth, str) else self.bandwidth
            self.bandwidth_ = np.array(self._model(rule).bandwidth)
        return self

    def predict(self, X: Any) -> Array:
        """The estimate m(x) at each row of X."""
        check_is_fitted(self)
        Q = self._scaled(validate_data(self, X, reset=False, dtype=float))
        if self.degree == 0:
            return self._model(self.bandwidth_).mean(Q)
        return self._lines(Q, self.bandwidth_)

    def _scaled(self, X: Array) -> Array:
        return np.asarray((0.5 * X - 0.5 * self._low) / self._half)

    def _model(self, bandwidth: Any) -> KernelModel:
        return KernelModel(self.X_fit_, self.y_fit_, kernel=self.kernel, bandwidth=bandwidth)

    def _loo_error(self, ell: float) -> float:
        """Mean squared error of local lines at the observations, each predicted without itself."""
        Q, y = self.X_fit_[:CV_POINTS], self.y_fit_[:CV_POINTS]
        left_out = self._lines(Q, np.full(Q.shape[1], ell), leave_one_out=True)
        return float(np.mean(np.square(y - left_out)))

    def _lines(self, Q: Array, ell: Array, leave_one_out: bool = False) -> Array:
        t, d = self.X_fit_.shape
        step = max(1, CHUNK // (t * d))
        starts = range(0, len(Q), step)
        return np.concatenate([self._local(Q[i : i + step], ell, i if leave_one_out else None) for i in starts])

    def _local(self, Q: Array, ell: Array, skip: int | None) -> Array:
        """Values (n,) of the lines around n queries at these; query i doesn't see observation ``skip`` + i.

        A line goes through the weighted means of points and values, so it is a kernel mean that is corrected by its
        slope times the way from the mean point to the query.
        """
        Z, Q = self.X_fit_ / ell, Q / ell
        kernel, s = get_kernel(self.kernel), cdist(Q, Z, "sqeuclidean")
        if skip is not None and s.shape[1] > 1:
            s[np.arange(len(Q)), np.arange(skip, skip + len(Q))] = np.inf
        if isinstance(kernel, Gaussian):
            s = s - s.min(axis=1, keepdims=True)  # far from all data the nearest one decides, instead of 0 / 0
        K = kernel.value(s)  # (n, t)
        K[K.sum(axis=1) == 0] = 1.0  # an empty neighbourhood: all observations alike, as in kernel regression
        share = K / K.sum(axis=1, keepdims=True)
        middle = np.einsum("nt,td->nd", share, Z)
        D = Z[None] - middle[:, None]  # (n, t, d)
        C = np.einsum("nt,nti,ntj->nij", share, D, D, optimize=True) + RIDGE * np.eye(D.shape[2])
        means = np.einsum("nt,t->n", share, self.y_fit_)
        slopes = np.linalg.solve(C, np.einsum("nt,ntd,t->nd", share, D, self.y_fit_, optimize=True)[..., None])
        return np.asarray(means + np.einsum("nd,nd->n", slopes[..., 0], Q - middle))
