"""Fill distance of space-filling designs while they grow (figure 'fill distance')."""

from __future__ import annotations

from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from boke import design
from boke_bench.experiment import Spec, key
from boke_bench.protocol import Array

if TYPE_CHECKING:
    from boke_bench.trial import Trace

NAMES = ("de", "de-sobol", "p-greedy", "p-greedy-naive", "lhs", "uniform")


def sizes(budget: int, count: int = 16) -> list[int]:
    """Numbers of points (at most ``count``) at which the fill distance is measured, evenly spread on a log axis."""
    return sorted({round(n) for n in np.geomspace(2, max(budget, 2), count)})


def grow(spec: Spec, trace: Trace) -> None:
    """Measure one design at all its sizes; values are fill distances, seconds those of making the points."""
    d, bandwidth = spec["problem"]["dim"], spec["problem"]["bandwidth"]
    trace.name = f"cube, d = {d}"
    rng = np.random.default_rng(key("design", spec["problem"], spec["seed"]))
    X, seconds = np.empty((0, d)), 0.0
    for n in sizes(spec["budget"]):
        clock = process_time()
        if spec["optimizer"] == "lhs":  # not nested: another one for each size
            X = design.latin_hypercube(n, d, rng=rng)
        elif len(X) == 0:
            X = _sequence(spec["optimizer"], spec["budget"], d, bandwidth, rng)
        seconds, clock = process_time() - clock, perf_counter()
        h = design.fill_distance(X[:n])
        trace.add(h, h, seconds, perf_counter() - clock)


def _sequence(name: str, n: int, d: int, bandwidth: float, rng: np.random.Generator) -> Array:
    """n points (n, d) of which the first are a design, too."""
    if name == "uniform":
        return design.uniform(n, d, rng=rng)
    if name == "de":
        return design.density_exploration(n, d, rng=rng, bandwidth=bandwidth)
    if name == "de-sobol":
        return sobol_exploration(n, d, rng, bandwidth)
    if name == "p-greedy":
        return p_greedy(n, d, rng, bandwidth)
    if name == "p-greedy-naive":
        return naive_p_greedy(n, d, rng, bandwidth)
    raise ValueError(f"There is no design {name!r}. There are: {', '.join(NAMES)}.")


def sobol_exploration(n: int, d: int, rng: np.random.Generator, bandwidth: float, n_acq: int = 1024) -> Array:
    """DE by the best of ``n_acq`` Sobol points, Gaussian kernel: the candidates of P-greedy and nothing finer.

    ``boke.design.density_exploration`` polishes the best candidates. The density has its minima in the corners of the
    cube, and for d >= 10 there are more corners than points.
    """
    X = np.empty((n, d))
    X[0] = rng.random(d)
    for t in range(1, n):
        C = design.sobol(n_acq, d, rng=rng)
        logs = -cdist(X[:t], C, "sqeuclidean") / (2 * bandwidth**2)  # far away the kernel itself is 0
        largest = logs.max(axis=0)
        kept = np.flatnonzero(largest <= largest.min() + np.log(t))  # W is between its largest term and t times that
        rest = np.exp(logs[:, kept] - largest[kept]).sum(axis=0)  # SciPy's logsumexp takes three times as long
        X[t] = C[kept[np.argmin(largest[kept] + np.log(rest))]]
    return X


def p_greedy(n: int, d: int, rng: np.random.Generator, bandwidth: float, n_acq: int = 1024) -> Array:
    """The points of ``boke.design.p_greedy`` with the Gaussian kernel, in a fraction of the time.

    What the design explains at a candidate, Σ v_j², is at least what its nearest point explains alone, k². Candidates
    whose k² is above the least Σ v_j² of the farthest ones need not be looked at.
    """
    X = np.empty((n, d))
    X[0] = rng.random(d)
    L = np.zeros((n, n))
    L[0, 0] = 1.0
    for t in range(1, n):
        C = design.sobol(n_acq, d, rng=rng)
        s = cdist(X[:t], C, "sqeuclidean") / bandwidth**2
        nearest = s.min(axis=0)
        far = np.argpartition(-nearest, min(16, n_acq - 1))[:16]
        least = _explained(L[:t, :t], s[:, far])[1].min()
        kept = np.flatnonzero(np.exp(-nearest) <= 1.000001 * least + 1e-300)  # the margin is for rounding
        V, explained = _explained(L[:t, :t], s[:, kept])
        best = int(np.lexsort((-nearest[kept], explained))[0])
        X[t], L[t, :t] = C[kept[best]], V[:, best]
        L[t, t] = np.sqrt(max(1.0 - explained[best], 1e-10))
    return X


def naive_p_greedy(n: int, d: int, rng: np.random.Generator, bandwidth: float, n_acq: int = 1024) -> Array:
    """P-greedy by the textbook formula argmax 1 - k' K^-1 k, Gaussian kernel.

    For d >= 10 most candidates have power 1 to the last bit; argmax then takes the first of them, which is as good as a
    random one. ``boke.design.p_greedy`` has no such ties. The paper does not say which of the two it draws.
    """
    X = np.empty((n, d))
    X[0] = rng.random(d)
    L = np.zeros((n, n))
    L[0, 0] = 1.0
    for t in range(1, n):
        C = design.sobol(n_acq, d, rng=rng)
        V, explained = _explained(L[:t, :t], cdist(X[:t], C, "sqeuclidean") / bandwidth**2)
        power = 1.0 - explained
        best = int(np.argmax(power))
        X[t], L[t, :t], L[t, t] = C[best], V[:, best], np.sqrt(max(power[best], 1e-10))
    return X


def _explained(L: Array, s: Array) -> tuple[Array, Array]:
    """The Newton basis (t, n) at points whose squared distances, in bandwidths, are s (t, n), and its Σ v_j² (n,)."""
    V = solve_triangular(L, np.exp(-0.5 * s), lower=True, check_finite=False)
    return V, np.einsum("tn,tn->n", V, V)
