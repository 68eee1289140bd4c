"""KernelModel: data, a kernel and a bandwidth, and everything that follows from them without any training."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from boke.bandwidth import Bandwidth
from boke.elementary import exp, squared_distances
from boke.engine import Draw, Observations
from boke.kernels import Kernel, get_kernel
from boke.pool import Pool
from boke.space import Array, Mask
from boke.sums import LARGEST, Points, Rows, kernel_values, scale

FINE = 1e-3  # in narrower bandwidths the unit cube is too large for single precision
NARROWEST = 1e-140  # squares of distances in narrower bandwidths would overflow; this one is at its limit already


class Prediction(NamedTuple):
    """Mean and density at n points, with gradients (n, d) when asked for."""

    mean: Array
    density: Array
    log_density: Array
    dmean: Array | None = None
    ddensity: Array | None = None
    dlog_density: Array | None = None


class KernelModel:
    """Kernel regression and kernel density over the unit cube.

        m(x) = Σ w_i k(x, x_i) y_i / Σ w_i k(x, x_i)      eq. KR
        W(x) = Σ w_i k(x, x_i)                            eq. KDE
        σ̂(x) = (W(x) + ρ)^(-1/2)                          eq. DE

    Args:
        X: Points (t, d).
        y: Their values (t,), larger is better inside the library.
        kernel: "gaussian", "triangular", "epanechnikov", "quartic" or a Kernel.
        bandwidth: ℓ, one for each column, or a rule of ``boke.bandwidth``.
        weights: w_i (t,), zero or more; an observation of weight 0 is as good as removed.
        silent: Points (s, d) that count in the density and have no value: pending and failed trials.
        categorical: Which columns (d,) hold categories, compared for equality only.
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | ArrayLike | Bandwidth,
        weights: ArrayLike | None = None,
        silent: ArrayLike | None = None,
        categorical: ArrayLike | None = None,
    ) -> None:
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        w = None if weights is None else np.asarray(weights, dtype=float)
        if X.ndim != 2:
            raise ValueError(f"The 'X' parameter of KernelModel must be a (t, d) array. Got shape {X.shape}.")
        if y.shape != (len(X),):
            raise ValueError(f"The 'y' parameter of KernelModel must have shape ({len(X)},). Got {y.shape}.")
        if not (np.isfinite(X).all() and np.isfinite(y).all()):
            raise ValueError("The 'X' and 'y' parameters of KernelModel must be finite. Got nan or inf.")
        d = X.shape[1]
        S = np.empty((0, d)) if silent is None or np.size(silent) == 0 else np.asarray(silent, dtype=float)
        if S.shape[1:] != (d,) or not np.isfinite(S).all():
            raise ValueError(
                f"The 'silent' parameter of KernelModel must be a finite (s, {d}) array. Got shape {S.shape}."
            )
        mask: Mask = np.zeros(d, bool) if categorical is None else np.asarray(categorical, dtype=bool)
        if mask.shape != (d,):
            raise ValueError(f"The 'categorical' parameter of KernelModel must have shape ({d},). Got {mask.shape}.")
        if w is not None and not (w.shape == y.shape and np.isfinite(w).all() and (w >= 0).all()):
            raise ValueError(f"The 'weights' parameter of KernelModel must be {len(y)} finite numbers >= 0.")
        self._set(X, y, get_kernel(kernel), bandwidth, w, S, mask)

    @classmethod
    def of(
        cls, X: Array, y: Array, *, kernel: str | Kernel, bandwidth: Bandwidth, silent: Array, categorical: Mask
    ) -> KernelModel:
        """The same of arrays that the library itself has made and need not be checked."""
        model = cls.__new__(cls)
        model._set(X, y, get_kernel(kernel), bandwidth, None, silent, categorical)
        return model

    def _set(
        self,
        X: Array,
        y: Array,
        kernel: Kernel,
        bandwidth: float | ArrayLike | Bandwidth,
        weights: Array | None,
        silent: Array,
        categorical: Mask,
    ) -> None:
        self.X, self.y, self.weights, self.silent, self.categorical = X, y, weights, silent, categorical
        self._mixed = np.count_nonzero(categorical) > 0
        self.kernel = kernel
        if callable(bandwidth):
            bandwidth = bandwidth(X, y, kernel=kernel, categorical=categorical)
        self.bandwidth = _lengths(bandwidth, X.shape[1])
        self._used = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
        self._y, self._w = y, weights
        kept = X
        if len(self._used) < len(y):
            kept, self._y, self._w = X[self._used], y[self._used], _rows(weights, self._used)
        self._data, self._penalty = scale(kept, self.bandwidth, categorical)
        self._sums = Observations(kernel, self._data, self._y, self._w, self._penalty)
        self._silent, self._hush = self._data.rows(slice(0)), None
        if len(silent):
            self._silent, _ = scale(silent, self.bandwidth, categorical)
            self._hush = Observations(kernel, self._silent, np.zeros(len(silent)), None, self._penalty)

    def mean(self, Xq: ArrayLike) -> Array:
        """m(x), the kernel-weighted mean (eq. KR)."""
        return self._sums(self._points(Xq)).mean

    def density(self, Xq: ArrayLike) -> Array:
        """W(x), the unnormalised kernel density (eq. KDE), silent points included."""
        return self.predict(Xq).density

    def uncertainty(self, Xq: ArrayLike, rho: float = 1e-4) -> Array:
        """σ̂(x) = (W(x) + ρ)^(-1/2) (eq. DE)."""
        return np.asarray(1.0 / np.sqrt(self.density(Xq) + rho))

    def predict(self, Xq: ArrayLike, *, gradient: bool = False) -> Prediction:
        """Mean and density in one pass."""
        Q = self._points(Xq)
        seen = self._sums(Q, gradient=gradient)
        W, log_W, dW, dlog_W = seen.W, seen.log_W, seen.dW, seen.dlog_W
        if self._hush is not None:
            extra = self._hush(Q, gradient=gradient)
            W = W + extra.W
            log_W = np.logaddexp(log_W, extra.log_W)
            if gradient:
                assert dW is not None and extra.dW is not None and dlog_W is not None and extra.dlog_W is not None
                dW = dW + extra.dW
                share = exp(seen.log_W - np.where(np.isfinite(log_W), log_W, 0.0))[:, None]
                dlog_W = share * dlog_W + (1.0 - share) * extra.dlog_W
        if not gradient:
            return Prediction(seen.mean, W, log_W)
        return Prediction(seen.mean, W, log_W, self._unscale(seen.dmean), self._unscale(dW), self._unscale(dlog_W))

    def over(self, X: Array, pool: Pool) -> tuple[Array, Array] | None:
        """Mean and density at candidates (n, d) with what a pool knows; None where they are better made afresh."""
        plain = self.kernel.name == "gaussian" and not self._mixed and len(self._y) > 0
        if not plain or (self.bandwidth != self.bandwidth[0]).any():
            return None
        total = len(self._y) if self._w is None else max(1.0, float(self._w.sum()))
        if total * float(np.abs(self._y).max()) > LARGEST:
            return None
        seen = self.X if len(self._used) == len(self.y) else self.X[self._used]
        return pool.sums(X, seen, self._y, self._w, self.silent, float(self.bandwidth[0]))

    def screen(self, draw: Draw, beta: float, rho: float, most: int) -> Array | None:
        """The best candidates for a maximum of m + β (W + ρ)^(-1/2), where that is compiled; None otherwise."""
        if min(self.bandwidth.tolist()) < FINE:
            return None
        return self._sums.screen(self._hush, draw, self.bandwidth, beta, rho, most)

    def polish(
        self, X: Array, scale: Array, beta: float, rho: float, steps: int, leash: float
    ) -> tuple[Array, Array] | None:
        """``argmax.polish`` of m + β (W + ρ)^(-1/2) where it is compiled, None otherwise."""
        return self._sums.polish(self._hush, X, self.bandwidth, scale, beta, rho, steps, leash)

    def shares(self, x: ArrayLike) -> Array:
        """The weights (t,) with which the observations make up m(x); they sum to one."""
        Q = self._points(np.atleast_2d(np.asarray(x, dtype=float)))
        shares = np.zeros(len(self.y))
        if len(self._used):
            K, _, _ = kernel_values(self.kernel, Q, self._data, self._w, self._penalty)
            parts = K[0] if K[0].sum() > 0 else (np.ones(len(self._used)) if self._w is None else self._w)
            shares[self._used] = parts / parts.sum()
        return shares

    def leave_one_out(self, most: int | None = None) -> Array:
        """m_{-i}(x_i) for (the first ``most``) observations of positive weight: what the others say about them."""
        return self._sums(self._data.rows(slice(most)), leave_one_out=True).mean

    def reweight(self, weights: ArrayLike | None) -> KernelModel:
        """The same model with other weights; weight 0 removes an observation exactly."""
        return self._like(self.X, self.y, weights)

    def remove(self, rows: ArrayLike) -> KernelModel:
        """The same model without some observations."""
        kept = np.delete(np.arange(len(self.y)), rows)  # type: ignore[arg-type]
        return self._like(self.X[kept], self.y[kept], _rows(self.weights, kept))

    def near(self, centers: Array, radius: float) -> KernelModel:
        """A smaller model that gives the same, up to rounding, for queries within ``radius`` of ``centers`` (m, d).

        ``radius`` counts in bandwidths. The nearest observation of such a query is at most ``radius`` plus that of
        its center away; observations so much farther that all of them together weigh less than 1e-20 of the nearest
        one change neither the mean nor, for a density above 1e-300, the density in double precision.
        """
        if self.kernel.name != "gaussian" or len(self._y) == 0:
            return self
        C = self._points(centers)
        s = squared_distances(C.numeric, self._data.numeric)
        nearest = np.square(np.sqrt(s.min(axis=1)) + radius) + self._penalty.sum()
        many = math.log(len(self._y) + len(self.silent))
        if self._w is not None:
            many += math.log(max(1.0, self._w.max())) - math.log(min(1.0, self._w.min()))
        farthest = np.square(np.sqrt(nearest + 92.0 + 2.0 * many) + radius)[:, None]
        kept = self._used[(s <= farthest).any(axis=0)]
        heard = (squared_distances(C.numeric, self._silent.numeric) <= farthest).any(axis=0)
        return self._like(self.X[kept], self.y[kept], _rows(self.weights, kept), self.silent[heard])

    def _like(self, X: Array, y: Array, weights: ArrayLike | None, silent: Array | None = None) -> KernelModel:
        return KernelModel(
            X,
            y,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            weights=weights,
            silent=self.silent if silent is None else silent,
            categorical=self.categorical,
        )

    def _points(self, Xq: ArrayLike) -> Points:
        Xq = np.asarray(Xq, dtype=float)
        if Xq.ndim != 2 or Xq.shape[1] != self.X.shape[1]:
            raise ValueError(f"The 'Xq' parameter must be an (n, {self.X.shape[1]}) array. Got shape {Xq.shape}.")
        return scale(Xq, self.bandwidth, self.categorical)[0]

    def _unscale(self, slope: Array | None) -> Array:
        """Gradients in x from those in the scaled numeric coordinates; categories have none."""
        assert slope is not None
        if not self._mixed:
            return np.asarray(slope / self.bandwidth)
        full = np.zeros((len(slope), self.X.shape[1]))
        full[:, ~self.categorical] = slope / self.bandwidth[~self.categorical]
        return full


def _lengths(bandwidth: float | ArrayLike, d: int) -> Array:
    """One bandwidth for each column (d,), checked."""
    ell = np.asarray(bandwidth, dtype=float)
    if ell.shape not in ((), (1,), (d,)) or not all(0.0 < length < math.inf for length in ell.ravel().tolist()):
        raise ValueError(
            f"The 'bandwidth' parameter of KernelModel must be a positive number or {d} of them. Got {bandwidth!r}."
        )
    lengths = np.empty(d)
    lengths[:] = np.maximum(ell, NARROWEST)
    lengths.flags.writeable = False
    return lengths


def _rows(weights: Array | None, rows: Rows) -> Array | None:
    return None if weights is None else weights[rows]
