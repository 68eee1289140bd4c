"""Kernel sums, the one hot loop: for queries z and data z_i with weights w_i

    W(z) = Σ w_i k(z, z_i)          density     (eq. KDE)
    S(z) = Σ w_i k(z, z_i) y_i
    m(z) = S / W                    mean        (eq. KR)

and their gradients in z. Coordinates are already divided by the bandwidth. Mixed columns multiply:
k = Ψ(numeric columns) · Π over categorical columns of (1 if equal, else Ψ(penalty)).

Exactness. Distances are sums of squared differences, never the expanded |a|² + |b|² - 2ab, and all reductions are
NumPy's own loops, never BLAS: the result does not depend on a thread count. For the gaussian the smallest exponent
of each row is taken out before the exponential, so m tends to the nearest-neighbour mean, ties averaged, where W
underflows (proposition 'degenerate KR'); copies of a point tie exactly, different points as far as the rounding of
x / ℓ allows. For a compact kernel, W = 0 gives the mean of y (section 4.1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from boke.kernels import Gaussian, Kernel
from boke.space import MISMATCH, Array, Mask

Rows = NDArray[np.int_]

CHUNK = 1 << 17  # pairs held in memory at once: 1 MiB, the size of a core's cache
LOWEST = -700.0  # exp of anything lower is denormal or 0: ten times slower and without effect on any sum
LARGEST = 1e290  # values, times their weights, beyond it are scaled down, so that sums of them do not overflow


class Points(NamedTuple):
    """Scaled coordinates (n, p) and category codes (n, c) of n points."""

    numeric: Array
    codes: Array

    def rows(self, which: slice) -> Points:
        return Points(self.numeric[which], self.codes[which])


class Sums(NamedTuple):
    """W, S, m and ln W at n queries; gradients (n, p) in the scaled numeric coordinates when asked for."""

    W: Array
    S: Array
    mean: Array
    log_W: Array
    dW: Array | None = None
    dmean: Array | None = None
    dlog_W: Array | None = None


def scale(X: Array, bandwidth: float | Array, categorical: Mask) -> tuple[Points, Array]:
    """Split points (n, d) into scaled numeric columns and codes; also return the categories' penalties (c,)."""
    if not np.count_nonzero(categorical):
        return Points(X / bandwidth, X[:, :0]), np.empty(0)
    ell = np.broadcast_to(np.asarray(bandwidth, dtype=float), X.shape[1:])
    numeric = np.ascontiguousarray(X[:, ~categorical]) / ell[~categorical]
    return Points(numeric, X[:, categorical]), np.square(MISMATCH / ell[categorical])


def squared_distances(Q: Points, Z: Points) -> Array:
    """Squared scaled distances (n, t) over the numeric columns."""
    if Z.numeric.shape[1] == 0:
        return np.zeros((len(Q.codes), len(Z.codes)))
    return np.asarray(scipy.spatial.distance.cdist(Q.numeric, Z.numeric, "sqeuclidean"))


def kernel_sums(
    kernel: Kernel,
    Q: Points,  # (n, p), (n, c)
    Z: Points,  # (t, p), (t, c)
    y: Array,  # (t,)
    w: Array | None = None,  # (t,), positive
    penalty: Array | None = None,  # (c,)
    *,
    gradient: bool = False,
    leave_one_out: bool = False,
) -> Sums:
    """Evaluate the sums at every query, in chunks of bounded memory.

    With ``leave_one_out`` query i is observation i (the first n of t) and skips itself.
    """
    n, t = len(Q.numeric), len(Z.numeric)
    if n == 0 or t - leave_one_out <= 0:
        return _no_data(n, Q.numeric.shape[1], gradient)
    largest = float(np.abs(y).max())
    if largest * max(1.0, 1.0 if w is None else float(w.sum())) > LARGEST:
        small = kernel_sums(kernel, Q, Z, y / largest, w, penalty, gradient=gradient, leave_one_out=leave_one_out)
        return times(small, largest)
    rows = max(1, CHUNK // t)
    parts = []
    with np.errstate(under="ignore"):
        for first in range(0, n, rows):
            q = Q.rows(slice(first, first + rows))
            own = np.arange(first, first + len(q.numeric)) if leave_one_out else None
            parts.append(_sums(kernel, q, Z, y, w, penalty, gradient, own))
    return parts[0] if len(parts) == 1 else _stack(parts)


def kernel_values(
    kernel: Kernel, Q: Points, Z: Points, w: Array | None, penalty: Array | None, own: Rows | None = None
) -> tuple[Array, Array, Array | None]:
    """Weighted kernel values K (n, t) up to a factor for each row: k = K · exp(-shift / 2).

    Also returns G with dk/dz = G (z - z_i) · exp(-shift / 2), or None where it is -K.
    """
    s = squared_distances(Q, Z)
    if own is not None:
        s[np.arange(len(own)), own] = np.inf
    unlike = [(Q.codes[:, j, None] != Z.codes[None, :, j], v) for j, v in enumerate(() if penalty is None else penalty)]
    if isinstance(kernel, Gaussian):
        for mask, v in unlike:
            s += v * mask
        shift = s.min(axis=1)
        s -= shift[:, None]
        s *= -0.5
        np.clip(s, LOWEST, 0.0, out=s)
        K = np.exp(s, out=s)
        if own is not None:
            K[np.arange(len(own)), own] = 0.0
        if w is not None:
            K *= w
        return K, shift, None
    factor = np.ones(1) if w is None else w
    for mask, v in unlike:
        factor = factor * np.where(mask, kernel.value(v), 1.0)
    return kernel.value(s) * factor, np.zeros(len(s)), 2.0 * kernel.slope(s) * factor


def _sums(
    kernel: Kernel,
    Q: Points,
    Z: Points,
    y: Array,
    w: Array | None,
    penalty: Array | None,
    gradient: bool,
    own: Rows | None,
) -> Sums:
    K, shift, G = kernel_values(kernel, Q, Z, w, penalty, own)
    W = K.sum(axis=1)
    S = np.einsum("nt,t->n", K, y)
    empty = W <= 0.0 if W.min() <= 0.0 else None  # compact kernels only: the nearest point of a gaussian row has K = w
    some = W if empty is None else np.where(empty, 1.0, W)
    mean = S / some
    log_W = np.log(some) - 0.5 * shift
    if empty is not None:
        mean[empty] = plain_mean(y, w, own)[empty] if own is not None else plain_mean(y, w, None)
        log_W[empty] = -np.inf
    shrink = np.exp(-0.5 * shift)
    if not gradient:
        return Sums(W * shrink, S * shrink, mean, log_W)
    G = -K if G is None else G
    dW = _moments(G, Q.numeric, Z.numeric)
    dmean = _moments(G * (y - mean[:, None]), Q.numeric, Z.numeric) / some[:, None]  # ∇m = Σ (dk/dz) (y_i - m) / W
    return Sums(W * shrink, S * shrink, mean, log_W, dW * shrink[:, None], dmean, dW / some[:, None])


def _moments(G: Array, Q: Array, Z: Array) -> Array:
    """Σ G_i (q - z_i) for every row of Q (n, p), of differences: of points that are close G may be large."""
    columns = [np.einsum("nt,nt->n", G, Q[:, j, None] - Z[None, :, j]) for j in range(Q.shape[1])]
    return np.stack(columns, axis=1) if columns else np.zeros(Q.shape)


def plain_mean(y: Array, w: Array | None, own: Rows | None) -> Array:
    """Mean of y, or of all others for each row of ``own``."""
    w = np.ones_like(y) if w is None else w
    if own is None:
        return np.asarray((w * y).sum() / w.sum())
    return np.asarray((_others(w * y) / _others(w))[own])


def _others(v: Array) -> Array:
    """For each entry the sum of all others, without subtracting."""
    before, after = np.cumsum(v[:-1]), np.cumsum(v[:0:-1])[::-1]
    return np.asarray(np.append(0.0, before) + np.append(after, 0.0))


def _no_data(n: int, p: int, gradient: bool) -> Sums:
    zero, slope = np.zeros(n), np.zeros((n, p)) if gradient else None
    return Sums(zero, zero, zero, np.full(n, -np.inf), slope, slope, slope)


def times(sums: Sums, factor: float) -> Sums:
    """The sums for values that are ``factor`` times as large."""
    with np.errstate(over="ignore"):  # S, unlike the mean, may be beyond the largest double
        slope = None if sums.dmean is None else factor * sums.dmean
        return sums._replace(S=factor * sums.S, mean=factor * sums.mean, dmean=slope)


def _stack(parts: list[Sums]) -> Sums:
    columns: list[Any] = [None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)]
    return Sums(*columns)
