"""A small Gaussian process for the neighbourhood of an incumbent, on at most about a hundred observations.

    k(z, z') = M(|z - z'| / l) + a (1 + z·z')² + noise         M: Matérn-5/2

The second term is a quadratic with a prior on its coefficients: on smooth ground the model extrapolates like a local
quadratic, on rugged ground the first term takes over. l, a and the noise are points of a small grid, found by climbing
the marginal likelihood along its axes; the signal's variance is its maximizer in closed form. The values come in
several versions, different monotone transformations of the same observations, and the likelihood, with its Jacobian,
chooses among those as well. Where not all columns matter alike, factors of the columns are found by climbing the
likelihood along its gradient, and where it is not the columns that matter, axes of their own.

This is the definition; ``boke._native.LocalGP`` is its compiled twin. No BLAS, for the reason given in ``boke.sums``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from boke.ascent import ascend
from boke.compiled import NATIVE
from boke.elementary import exp
from boke.rotations import eigenvectors, turned
from boke.space import Array

LENGTHS = (0.3, 0.6, 1.2, 2.5, 5.0)  # in units of the median distance between observations
TRENDS = (0.0, 0.1, 1.0, 10.0, 100.0)
NOISES: tuple[float, ...] = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)
START = (2, 2, 1)
SMALLEST = 1e-20  # of the posterior's variance, relative to the signal's
JITTER = 1e-8  # of a drawn function, relative to its variance a priori: with less its covariance may not factorize
ENOUGH = 1e-6  # of log EI: a climb ends when a step straight up gains less
SPREAD, MOST = 1.0, 3.0  # of the logarithms of columns' factors: standard deviation a priori, and bound
STRETCHES = 6  # evaluations of the likelihood in search of these,
SLIGHT = 0.1  # which ends when a step gains less
WORTH = 0.5  # of log likelihood that each of them has to gain, and two more; with less they are a guess
TURN_WORTH = 1.0  # of log likelihood that axes of their own must gain beyond that, for each column
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def fit(
    Z: Array,
    Y: Array,
    jacobian: Array,
    lengths: tuple[float, ...] = LENGTHS,
    trends: tuple[float, ...] = TRENDS,
    noises: tuple[float, ...] = NOISES,
    start: tuple[int, int, int] = START,
) -> Any:
    """A LocalGP of observations Z (n, d), values Y (versions, n) and log Jacobians (versions,).

    The last few are kept: the suggestions of a batch begin with the same one.
    """
    return _made(Z.tobytes(), Y.tobytes(), jacobian.tobytes(), Z.shape, lengths, trends, noises, tuple(start))


@lru_cache(maxsize=8)
def _made(Z: bytes, Y: bytes, jacobian: bytes, shape: tuple[int, int], *grid: Any) -> Any:
    z, y, j = (np.frombuffer(a) for a in (Z, Y, jacobian))
    return (LocalGP if NATIVE is None else NATIVE.LocalGP)(z.reshape(shape), y.reshape(-1, shape[0]), j, *grid)


def stretch(model: Any, d: int) -> Array | None:
    """Factors of the d columns of a model's observations under which it is more likely; None if not by enough.

    Columns without effect shrink, so that what was learned at one of their values holds at all.
    """
    if d == 1:
        return None
    by, gain = _factors(model, d)
    return exp(by) if gain > WORTH * (d + 2) else None


@lru_cache(maxsize=8)
def _factors(model: Any, d: int) -> tuple[Array, float]:
    by, gain = model.stretch(SPREAD, MOST, STRETCHES, SLIGHT, 0.5 * WORTH * (d + 2))
    return by, float(gain)


def turn(model: Any, d: int) -> Array | None:
    """A matrix (d, d) to multiply a model's observations with, where that makes it more likely by so much more than
    factors of the columns that it is worth it; None elsewhere.

    Its columns are the directions in which the likelihood's slope in the metric is largest and smallest, each with a
    factor. They are made once for all suggestions of a batch.
    """
    enough = max(_factors(model, d)[1] + TURN_WORTH * d, WORTH * (d + 2))
    axes, by, gain = _axes(model, d)
    return axes * exp(by) if gain > enough else None


@lru_cache(maxsize=8)
def _axes(model: Any, d: int) -> tuple[Array, Array, float]:
    axes, by, gain = model.axes(SPREAD, MOST, STRETCHES, SLIGHT, 0.5 * WORTH * (d + 2))
    return axes, by, float(gain)


class LocalGP:
    """The model, fitted when it is made."""

    def __init__(
        self,
        Z: Array,
        Y: Array,
        jacobian: Array,
        lengths: tuple[float, ...] = LENGTHS,
        trends: tuple[float, ...] = TRENDS,
        noises: tuple[float, ...] = NOISES,
        start: tuple[int, int, int] = START,
    ) -> None:
        self.Z, self.Y, self.jacobian, self._lengths = Z, Y, jacobian, lengths
        self._squared = np.square(Z[:, None] - Z[None]).sum(axis=2)
        self._gram = np.einsum("id,jd->ij", Z, Z)
        away = np.sqrt(self._squared[np.triu_indices(len(Z), 1)])
        median = float(np.sort(away)[len(away) // 2]) if len(away) else 1.0
        unit = median if median > 1e-12 else 1.0
        self._grid = [[unit * c for c in lengths], list(trends), list(noises)]
        self._known: dict[tuple[int, ...], float] = {}
        self._at = self._search(tuple(start))
        self._likelihood(self._at)
        self._finish()

    @property
    def y(self) -> Array:
        """The version of the values that it is of (n,)."""
        return np.asarray(self.Y[self._version])

    @property
    def hyperparameters(self) -> tuple[float, float, float, float, float, int]:
        """Length, trend, noise, variance of the signal, log marginal likelihood, version of the values."""
        return self._length, self._a, self._noise, self._variance, self._known[self._at], self._version

    @property
    def at(self) -> tuple[int, ...]:
        """Where on the grid the search ended."""
        return self._at

    def predict(self, Q: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at Q (m, d)."""
        k = self._cross(Q)[0]
        explained = np.square(np.einsum("ij,mj->mi", self._inverse, k)).sum(axis=1)
        share = self._prior(Q) - explained
        return np.einsum("mj,j->m", k, self._alpha), np.sqrt(self._variance * np.maximum(share, SMALLEST))

    def log_ei(self, Q: Array, best: float) -> Array:
        """Logarithm of the expected improvement over ``best`` at Q (m, d)."""
        mean, sd = self.predict(Q)
        return np.log(sd) + log_improvement((mean - best) / sd)

    def log_ei_gradient(self, Q: Array, best: float) -> tuple[Array, Array]:
        """The same, with slopes (m, d)."""
        k, r, product = self._cross(Q)
        v = np.einsum("ij,mj->mi", self._inverse, k)
        w = np.einsum("ij,mi->mj", self._inverse, v)
        share = self._prior(Q) - np.square(v).sum(axis=1)
        mean, sd = np.einsum("mj,j->m", k, self._alpha), np.sqrt(self._variance * np.maximum(share, SMALLEST))
        u = (mean - best) / sd
        log_h = log_improvement(u)
        radial = -5.0 / (3.0 * self._length**2) * (1.0 + r) * np.exp(-r)
        dk = radial[:, :, None] * (Q[:, None] - self.Z[None]) + (2.0 * self._a * (1.0 + product))[:, :, None] * self.Z
        dmean = np.einsum("mjd,j->md", dk, self._alpha)
        square = np.square(Q).sum(axis=1)
        dprior = 4.0 * self._a * (1.0 + square)[:, None] * Q
        dvariance = self._variance * (dprior - 2.0 * np.einsum("mjd,mj->md", dk, w)) * (share > SMALLEST)[:, None]
        dsd = 0.5 * dvariance / sd[:, None]
        gain = improvement_slope(u)
        return np.log(sd) + log_h, dsd / sd[:, None] + gain[:, None] * (dmean - u[:, None] * dsd) / sd[:, None]

    def climb(
        self, Q: Array, best: float, low: Array, high: Array, evaluations: int, turn: Array | None = None
    ) -> tuple[Array, Array]:
        """Local maxima of log EI in the box [low, high] from every row of Q, and their values.

        With ``turn`` (d, d) the model is of Q times it.
        """

        def value(x: Array) -> tuple[float, Array]:
            (f,), (slope,) = self.log_ei_gradient(x[None] if turn is None else turned(x[None], turn), best)
            return f, slope if turn is None else np.einsum("jk,k->j", turn, slope)

        tops = [ascend(value, q, low, high, evaluations, ENOUGH) for q in Q]
        return np.array([x for x, _ in tops]).reshape(Q.shape), np.array([f for _, f in tops])

    def improvements(
        self,
        X: Array,
        best: float,
        origin: Array,
        scale: Array,
        turn: Array | None,
        low: Array,
        high: Array,
        count: int,
        evaluations: int,
    ) -> tuple[Array, Array]:
        """Where the best ``count`` of X (m, d) climb to in the box [low, high], these, and log EI at all of them.

        The model is of (X - origin) / scale, times ``turn`` if there is one.
        """
        start, bottom, top = ((x - origin) / scale for x in (X, low, high))
        values = self.log_ei(start if turn is None else turned(start, turn), best)
        chosen = np.argsort(-values, kind="stable")[:count]
        tops, better = self.climb(start[chosen], best, bottom, top, evaluations, turn)
        tops = np.minimum(np.maximum(origin + scale * tops, low), high)
        return np.concatenate([tops, X[chosen]]), np.concatenate([better, values[chosen]])

    def stretch(self, spread: float, most: float, evaluations: int, enough: float, least: float) -> tuple[Array, float]:
        """Logarithms (d,) of factors of the columns that the likelihood prefers, and what it gains by them.

        A priori they are normal with the standard deviation ``spread``; ``most`` bounds them. Length, trend, noise and
        version stay as they are. For ``enough`` and ``least`` see ``ascend``.
        """

        def value(by: Array) -> tuple[float, Array]:
            f, slope = self.stretched(by)
            return f - 0.5 * float((by * by).sum()) / spread**2, slope - by / spread**2

        end = np.full(self.Z.shape[1], most)
        by, f = ascend(value, np.zeros_like(end), -end, end, evaluations, enough, least)
        return by, f - (self._known[self._at] - float(self.jacobian[self._version]))

    def axes(
        self, spread: float, most: float, evaluations: int, enough: float, least: float
    ) -> tuple[Array, Array, float]:
        """The same for axes (d, d) of their own, the eigenvectors of ``metric_slopes`` as columns: these first."""
        axes = eigenvectors(self.metric_slopes())
        # distances are the same, so this is the same model: nothing is searched for
        grid = (self._lengths[self._at[0]],), (self._a,), (self._noise,), (0, 0, 0)
        same = LocalGP(turned(self.Z, axes), self.Y, self.jacobian, *grid)
        return axes, *same.stretch(spread, most, evaluations, enough, least)

    def stretched(self, by: Array) -> tuple[float, Array]:
        """The log likelihood, less its Jacobian, if column k is stretched by exp(by[k]); its slopes in ``by`` (d,)."""
        value, slopes = self._changed(self.Z * np.exp(by))
        return value, np.diag(slopes).copy()

    def metric_slopes(self) -> Array:
        """The slopes (d, d) of the log likelihood in the entries of a matrix that Z is multiplied with, at unity."""
        return self._changed(self.Z)[1]

    def _changed(self, Z: Array) -> tuple[float, Array]:
        """The log likelihood, less its Jacobian, of other columns Z (n, d), and its slopes in a matrix (d, d) behind Z.

        With α = K⁻¹ y and P = (n α α' / y'α - K⁻¹) / 2 they are Σ P ∘ dK: that of the Matérn part is
        ρ (z_i - z_j) (z_i - z_j)', with ρ as in the slope of log EI, that of the trend
        2 a (1 + z_i·z_j) (z_i z_j' + z_j z_i').
        """
        n, d = Z.shape
        squared, gram = np.square(Z[:, None] - Z[None]).sum(axis=2), np.einsum("id,jd->ij", Z, Z)
        K, own = _covariance(squared, gram, self._length, self._a, self._noise)
        L = cholesky(K + np.diag(own))
        if L is None:
            return -math.inf, np.zeros((d, d))
        inverse, forward = solve_lower(L, np.eye(n)), solve_lower(L, self.Y[self._version])
        total = max(float(np.einsum("i,i->", forward, forward)), 1e-30 * n)
        alpha = np.einsum("ij,i->j", inverse, forward)
        P = 0.5 * (n / total * np.outer(alpha, alpha) - np.einsum("ki,kj->ij", inverse, inverse))
        r = np.sqrt(squared) * math.sqrt(5.0) / self._length
        radial = -5.0 / (3.0 * self._length**2) * (1.0 + r) * np.exp(-r)
        away = Z[:, None] - Z[None]
        slopes = np.einsum("ij,ijk,ijl->kl", P * radial, away, away)
        slopes += np.einsum("ij,ik,jl->kl", P * 4.0 * self._a * (1.0 + gram), Z, Z)
        return -float(np.log(np.diag(L)).sum()) - 0.5 * n * math.log(total / n), slopes

    def draw(self, Q: Array, normal: Array) -> Array:
        """A function drawn from the posterior, at Q (m, d), from standard normal numbers (m,)."""
        k = self._cross(Q)[0]
        v = np.einsum("ij,mj->mi", self._inverse, k)
        prior, _ = _covariance(
            np.square(Q[:, None] - Q[None]).sum(axis=2), np.einsum("id,jd->ij", Q, Q), self._length, self._a, 0.0
        )
        mean, extra = np.einsum("mj,j->m", k, self._alpha), JITTER
        C = prior - np.einsum("mi,ni->mn", v, v)
        while extra < 1.0:
            if (L := cholesky(C + np.diag(extra * np.diag(prior)))) is not None:
                return np.asarray(mean + math.sqrt(self._variance) * np.einsum("ij,j->i", L, normal))
            extra *= 100.0
        return np.asarray(mean)

    def fitted(self) -> Array:
        """The posterior mean at the observations."""
        return np.asarray(self.Y[self._version] - self._own * self._alpha)

    def _search(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """From the start, along one axis of the grid after the other, as long as the likelihood grows."""
        best, moved = self._likelihood(at), True
        while moved:
            moved = False
            for axis in range(3):
                for step in (-1, 1):
                    while 0 <= at[axis] + step < len(self._grid[axis]):
                        new = (*at[:axis], at[axis] + step, *at[axis + 1 :])
                        if not self._likelihood(new) > best + 1e-9:
                            break
                        at, best, moved = new, self._likelihood(new), True
        while math.isinf(best) and at[2] + 1 < len(self._grid[2]):
            at = (at[0], at[1], at[2] + 1)
            best = self._likelihood(at)
        if math.isinf(best):
            raise RuntimeError("No matrix of the grid is positive definite.")
        return at

    def _likelihood(self, at: tuple[int, ...]) -> float:
        length, a, noise = (axis[i] for axis, i in zip(self._grid, at, strict=True))
        K, self._own = _covariance(self._squared, self._gram, length, a, noise)
        L = cholesky(K + np.diag(self._own))
        if L is None:
            return self._known.setdefault(at, -math.inf)
        n = len(self.Z)
        forward = [solve_lower(L, y) for y in self.Y]
        variances = [max(float(np.einsum("i,i->", v, v)) / n, 1e-30) for v in forward]
        half = float(np.log(np.diag(L)).sum())
        values = [j - half - 0.5 * n * math.log(s) for j, s in zip(self.jacobian, variances, strict=True)]
        self._version = int(np.argmax(values))
        self._length, self._a, self._noise, self._variance, self._L = length, a, noise, variances[self._version], L
        return self._known.setdefault(at, float(values[self._version]))

    def _finish(self) -> None:
        self._inverse = solve_lower(self._L, np.eye(len(self.Z)))
        forward = solve_lower(self._L, self.Y[self._version])
        self._alpha = np.einsum("ij,i->j", self._inverse, forward)

    def _cross(self, Q: Array) -> tuple[Array, Array, Array]:
        r = np.sqrt(np.square(Q[:, None] - self.Z[None]).sum(axis=2)) * math.sqrt(5.0) / self._length
        product = np.einsum("md,jd->mj", Q, self.Z)
        return matern(r) + self._a * np.square(1.0 + product), r, product

    def _prior(self, Q: Array) -> Array:
        return np.asarray(1.0 + self._a * np.square(1.0 + np.square(Q).sum(axis=1)))


def precision(Z: Array, length: float, trend: float, noise: float) -> tuple[Array, Array]:
    """A = (K + N)⁻¹ (n, n) and the diagonal of N (n,), the noise, both in units of the signal's variance.

    All about the observations follows from it: of values y the means are y - N A y, and the mean at an observation
    without its own value is y_i - (A y)_i / A_ii, with the variance 1 / A_ii - N_i.
    """
    K, own = _covariance(
        np.square(Z[:, None] - Z[None]).sum(axis=2), np.einsum("id,jd->ij", Z, Z), length, trend, noise
    )
    L = cholesky(K + np.diag(own))
    assert L is not None  # the fit has factorised it
    inverse = solve_lower(L, np.eye(len(Z)))
    return np.einsum("ki,kj->ij", inverse, inverse), own


def _covariance(squared: Array, gram: Array, length: float, a: float, noise: float) -> tuple[Array, Array]:
    K = matern(np.sqrt(squared) * math.sqrt(5.0) / length) + a * np.square(1.0 + gram)
    return K, noise * (1.0 + a) + 1e-10 * np.diag(K)


def matern(r: Array) -> Array:
    """Matérn-5/2 of r = √5 · distance / length."""
    return np.asarray((1.0 + r + np.square(r) / 3.0) * np.exp(-r))


def cholesky(K: Array) -> Array | None:
    """Lower triangular L with K = L L', or None; column by column."""
    L = np.zeros_like(K)
    for j in range(len(K)):
        column = K[j:, j] - np.einsum("ik,k->i", L[j:, :j], L[j, :j])
        if not column[0] > 0.0:
            return None
        L[j:, j] = column / math.sqrt(column[0])
    return L


def solve_lower(L: Array, b: Array) -> Array:
    """L⁻¹ b by forward substitution, for a vector or the columns of a matrix."""
    x = np.array(b, dtype=float)
    for i in range(len(L)):
        x[i] = (x[i] - np.einsum("k,k...->...", L[i, :i], x[:i])) / L[i, i]
    return x


def log_improvement(u: Array) -> Array:
    """ln h(u), h = u Φ(u) + φ(u), without underflow."""
    u = np.asarray(u, dtype=float)
    near = np.maximum(u, -1.0)
    direct = np.log(near * scipy.special.ndtr(near) + np.exp(-0.5 * np.square(near) - LOG_SQRT_2PI))
    far = np.minimum(u, -1.0)
    return np.where(u > -1.0, direct, -0.5 * np.square(far) - LOG_SQRT_2PI + np.log(_shape(far)))


def improvement_slope(u: Array) -> Array:
    """Φ(u) / h(u), the derivative of ln h."""
    u = np.asarray(u, dtype=float)
    near, far = np.maximum(u, -1.0), np.minimum(u, -1.0)
    mills = math.sqrt(math.pi / 2.0) * scipy.special.erfcx(-far / math.sqrt(2.0))
    return np.asarray(np.where(u > -1.0, scipy.special.ndtr(near) / np.exp(log_improvement(near)), mills / _shape(far)))


def _shape(u: Array) -> Array:
    """1 + u Φ(u) / φ(u) for u <= -1: where that cancels, the continued fraction of Mills' ratio."""
    fraction = np.zeros_like(u)
    for k in range(24, 0, -1):
        fraction = k / (-u + fraction)
    return np.where(
        u > -5.0,
        1.0 + u * math.sqrt(math.pi / 2.0) * scipy.special.erfcx(-u / math.sqrt(2.0)),
        fraction / (-u + fraction),
    )
