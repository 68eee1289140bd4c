"""Space-filling designs in the unit cube and their fill distance (section 3.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boke.acquisition import Sparsity
from boke.argmax import argmax
from boke.fill import fill_distance
from boke.kernels import Kernel, get_kernel
from boke.keys import TakenPoints
from boke.model import KernelModel
from boke.quasirandom import sobol as sobol_points
from boke.space import Array, Float, Space
from boke.sums import scale, squared_distances

__all__ = [
    "DESIGNS",
    "density_exploration",
    "fill_distance",
    "latin_hypercube",
    "middle",
    "p_greedy",
    "sobol",
    "uniform",
]

Seed = int | np.random.Generator | None


def uniform(n: int, d: int, *, rng: Seed = None) -> Array:
    """n independent uniform points (n, d)."""
    _check(n, d)
    return np.random.default_rng(rng).random((n, d))


def latin_hypercube(n: int, d: int, *, rng: Seed = None) -> Array:
    """A Latin hypercube (n, d): every column has one point in each of n equal intervals."""
    _check(n, d)
    generator = np.random.default_rng(rng).spawn(1)[0]
    within = generator.random((n, d))
    places = np.tile(np.arange(1, n + 1), (d, 1))
    for column in places:
        generator.shuffle(column)
    return np.asarray((places.T - within) / max(n, 1))


def sobol(n: int, d: int, *, rng: Seed = None) -> Array:
    """The first n points (n, d) of a scrambled Sobol sequence."""
    _check(n, d)
    return sobol_points(n, d, np.random.default_rng(rng))


def middle(n: int, d: int, *, rng: Seed = None) -> Array:
    """The middle of the cube, and a Latin hypercube of n - 1 points.

    As long as nobody knows where the optimum is, the middle is nearer to it than a random point: by a factor of √2, in
    the root mean square, if it is anywhere in the cube.
    """
    _check(n, d)
    return np.vstack([np.full((min(n, 1), d), 0.5), latin_hypercube(max(n - 1, 0), d, rng=rng)])


def density_exploration(
    n: int,
    d: int,
    *,
    rng: Seed = None,
    bandwidth: float = 0.1,
    kernel: str | Kernel = "gaussian",
    n_acq: int = 1024,
) -> Array:
    """DE: start anywhere, then go where the kernel density is lowest, x_{t+1} ∈ argmin W_t (eq. min KDE)."""
    _check(n, d)
    generator = np.random.default_rng(rng)
    space = Space({f"x{j}": Float(0.0, 1.0) for j in range(d)}, named=False)
    X = np.empty((n, d))
    X[:1] = generator.random((min(n, 1), d))
    for t in range(1, n):
        model = KernelModel(X[:t], np.zeros(t), kernel=kernel, bandwidth=bandwidth)
        taken = TakenPoints(X[:t])
        X[t] = argmax(Sparsity(model), space, n_acq, generator, bandwidth=model.bandwidth, centers=X[:0], taken=taken)
    return X


def p_greedy(
    n: int,
    d: int,
    *,
    rng: Seed = None,
    bandwidth: float = 0.1,
    kernel: str | Kernel = "gaussian",
    n_acq: int = 1024,
) -> Array:
    """P-greedy: go where the Gaussian-process variance P² = 1 - Σ v_j² is largest (De Marchi et al. 2005).

    v_j is the Newton basis of the points so far. For d >= 10 the power P² is 1 to the last bit almost everywhere
    and its argmax is arbitrary; minimising Σ v_j² is the same thing without the cancellation, and where that too is 0
    the point farthest from the design is taken. Where the design has become so dense that a new basis function would
    have no length left, it gets a floor instead.
    """
    from scipy.linalg import solve_triangular

    _check(n, d)
    generator, profile = np.random.default_rng(rng), get_kernel(kernel)
    none = np.zeros(d, bool)
    X = np.empty((n, d))
    X[:1] = generator.random((min(n, 1), d))
    L = np.zeros((n, n))  # Cholesky factor of the kernel matrix; row i holds v_j(x_i)
    if n:
        L[0, 0] = 1.0
    for t in range(1, n):
        C = sobol_points(n_acq, d, generator)
        s = squared_distances(scale(X[:t], bandwidth, none)[0], scale(C, bandwidth, none)[0])
        V = solve_triangular(L[:t, :t], profile.value(s), lower=True)  # (t, n_acq)
        explained = np.einsum("tn,tn->n", V, V)
        best = int(np.lexsort((-s.min(axis=0), explained))[0])
        X[t], L[t, :t] = C[best], V[:, best]
        L[t, t] = np.sqrt(max(1.0 - explained[best], 1e-10))
    return X


DESIGNS: dict[str, Callable[..., Array]] = {
    "middle": middle,
    "lhs": latin_hypercube,
    "sobol": sobol,
    "uniform": uniform,
}


def _check(n: int, d: int) -> None:
    for name, value, least in (("n", n, 0), ("d", d, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"The '{name}' parameter must be an integer. Got {value!r}.")
        if value < least:
            raise ValueError(f"The '{name}' parameter must be at least {least}. Got {value}.")
