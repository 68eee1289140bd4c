import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import COMPACT, NAMES, KernelSums, numeric_gradient

from boke import sums
from boke.kernels import KERNELS
from boke.sums import kernel_sums, scale

SEEDS = st.integers(0, 2**32 - 1)


class Problem:
    """Random data, some columns categorical, in a cube where every kernel sees some but not all of them."""

    def __init__(self, seed: int, d: int = 2, *, categories: int = 0, weighted: bool = False, t: int = 30, n: int = 4):
        rng = np.random.default_rng(seed)
        self.categorical = rng.permutation(np.arange(d) < categories)
        self.ell = rng.uniform(0.4, 0.8, d) * np.sqrt(d)
        self.X, self.Q = self.points(rng, t), self.points(rng, n)
        self.y = rng.normal(size=t)
        self.w = rng.uniform(0.1, 3.0, t) if weighted else None

    def points(self, rng, n):
        X = rng.random((n, len(self.categorical)))
        return np.where(self.categorical, np.floor(3 * X), X)

    def sums(self, name, Q=None, **options):
        Z, penalty = scale(self.X, self.ell, self.categorical)
        queries = scale(self.Q if Q is None else Q, self.ell, self.categorical)[0]
        return kernel_sums(KERNELS[name], queries, Z, self.y, self.w, penalty, **options)

    def oracle(self, name):
        return KernelSums(name, self.X, self.y, self.ell, self.w, self.categorical)


def problems(**fixed):
    return st.builds(
        lambda seed, d, share, weighted: Problem(seed, d, categories=round(share * d), weighted=weighted, **fixed),
        SEEDS,
        st.integers(1, 30),
        st.sampled_from([0, 0, 0.3, 1]),
        st.booleans(),
    )


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=40)
@given(problem=problems())
def test_sums_equal_brute_force(name, problem):
    got, slow = problem.sums(name), problem.oracle(name)
    for i, q in enumerate(problem.Q):
        assert got.W[i] == pytest.approx(slow.density(q), rel=1e-12, abs=1e-14)
        assert got.S[i] == pytest.approx(slow.weighted_sum(q), rel=1e-12, abs=1e-13)
        assert got.mean[i] == pytest.approx(slow.mean(q), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_log_density_is_the_logarithm_of_the_density(name):
    got = Problem(0, 3).sums(name)
    np.testing.assert_allclose(got.log_W, np.log(got.W), rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [1, 50, 64, 1000])
def test_chunks_do_not_change_a_bit(monkeypatch, name, chunk):
    problem = Problem(1, 3, categories=1, weighted=True, t=50, n=40)
    whole = problem.sums(name, gradient=True)
    monkeypatch.setattr(sums, "CHUNK", chunk)
    for a, b in zip(tuple(whole), tuple(problem.sums(name, gradient=True)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_chunks_do_not_change_leave_one_out(monkeypatch, name):
    problem = Problem(1, 3, t=50)
    whole = problem.sums(name, problem.X, leave_one_out=True)
    monkeypatch.setattr(sums, "CHUNK", 150)
    np.testing.assert_array_equal(whole.mean, problem.sums(name, problem.X, leave_one_out=True).mean)


@pytest.mark.parametrize("name", ["gaussian", "quartic"])
def test_memory_does_not_grow_with_the_number_of_pairs(name):
    problem = Problem(2, 2, t=20_000, n=2_000)  # the matrix of all pairs has 320 MB
    tracemalloc.start()
    try:
        problem.sums(name, gradient=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, d=st.integers(1, 5), ell=st.sampled_from([1e-10, 1e-30, 1e-100, 1e-140]))
def test_vanishing_gaussian_bandwidth_gives_the_nearest_neighbour(seed, d, ell):
    problem = Problem(seed, d)
    problem.ell = ell
    nearest = np.square(problem.Q[:, None] - problem.X).sum(axis=2).argmin(axis=1)
    got = problem.sums("gaussian")
    np.testing.assert_allclose(got.mean, problem.y[nearest], rtol=1e-9)
    assert np.isfinite(got.log_W).all()


def one_column(x, ell):
    return scale(np.array(x, dtype=float)[:, None], ell, np.zeros(1, bool))[0]


@pytest.mark.parametrize("ell", [2.0**-20, 2.0**-100, 2.0**-400])
@pytest.mark.parametrize(("w", "mean"), [(None, 4.0), ([1.0, 2.0, 3.0, 50.0], (1 * 1 + 2 * 3 + 3 * 8) / 6)])
def test_vanishing_bandwidth_averages_ties_by_weight(ell, w, mean):
    w = None if w is None else np.array(w)
    points = one_column([0.5], ell), one_column([0.25, 0.75, 0.25, 1.0], ell)
    got = kernel_sums(KERNELS["gaussian"], *points, np.array([1.0, 3.0, 8.0, 100.0]), w)
    assert got.W[0] == 0.0
    assert got.mean[0] == mean


@pytest.mark.parametrize("ell", [1e-3, 1e-10, 1e-50, 1e-140])
def test_vanishing_bandwidth_averages_copies_of_a_point(ell):
    points = one_column([0.37], ell), one_column([0.3, 0.3, 0.3, 0.91], ell)
    got = kernel_sums(KERNELS["gaussian"], *points, np.array([1.0, 3.0, 8.0, 100.0]))
    assert got.mean[0] == pytest.approx(4.0, rel=1e-14)


def test_vanishing_bandwidth_prefers_the_nearest_point_of_the_same_category():
    X = np.array([[0.5, 0.0], [0.6, 1.0]])
    points = [scale(A, 1e-4, np.array([False, True])) for A in (np.array([[0.5, 1.0]]), X)]
    got = kernel_sums(KERNELS["gaussian"], points[0][0], points[1][0], np.array([1.0, 2.0]), penalty=points[1][1])
    assert got.mean[0] == 2.0


@pytest.mark.parametrize("name", COMPACT)
@pytest.mark.parametrize("weighted", [False, True])
def test_empty_neighbourhood_of_a_compact_kernel_gives_the_mean(name, weighted):
    problem = Problem(3, 2, weighted=weighted)
    problem.ell = 1e-4
    got = problem.sums(name, gradient=True)
    assert got.W.tolist() == got.S.tolist() == [0.0] * 4
    assert got.log_W.tolist() == [-np.inf] * 4
    assert got.mean == pytest.approx(np.average(problem.y, weights=problem.w), rel=1e-13)
    for slope in (got.dW, got.dmean, got.dlog_W):
        np.testing.assert_array_equal(slope, 0.0)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20)
@given(problem=problems(t=15))
def test_leave_one_out_equals_refitting(name, problem):
    got, slow = problem.sums(name, problem.X, leave_one_out=True), problem.oracle(name)
    for i, x in enumerate(problem.X):
        assert got.W[i] == pytest.approx(slow.without(i).density(x), rel=1e-12, abs=1e-14)
        assert got.mean[i] == pytest.approx(slow.without(i).mean(x), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_left_out_point_leaves_no_trace_however_large(name):
    Z, y, w = one_column([0.1, 0.2, 0.9], 1e-3), np.array([1.0, 2.0, 1e289]), np.array([1.0, 1.0, 1e30])
    got = kernel_sums(KERNELS[name], Z, Z, y, w, leave_one_out=True)
    assert got.mean[2] == pytest.approx(2.0 if name == "gaussian" else 1.5)


@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_at_the_first_rows_only(name):
    problem = Problem(4, 2)
    few = problem.sums(name, problem.X[:7], leave_one_out=True)
    np.testing.assert_array_equal(few.mean, problem.sums(name, problem.X, leave_one_out=True).mean[:7])


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=25)
@given(seed=SEEDS, d=st.integers(2, 6), categories=st.integers(0, 1), weighted=st.booleans())
def test_gradients_are_the_finite_differences(name, seed, d, categories, weighted):
    problem = Problem(seed, d, categories=categories, weighted=weighted, n=1)
    (q,) = problem.Q
    numeric, slow = ~problem.categorical, problem.oracle(name)
    r = np.sqrt(np.square(((q - problem.X) / problem.ell)[:, numeric]).sum(axis=1))
    assume(
        r.min() > 1e-2 and np.abs(r - 1).min() > 1e-3 and slow.density(q) > 1e-2
    )  # no kink in the way of a difference
    got = problem.sums(name, gradient=True)

    def along(f):
        def moved(z):
            x = q.copy()
            x[numeric] = z * problem.ell[numeric]
            return f(x)

        return numeric_gradient(moved, q[numeric] / problem.ell[numeric])

    np.testing.assert_allclose(got.dW[0], along(slow.density), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(got.dmean[0], along(slow.mean), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.dlog_W[0], along(lambda x: np.log(slow.density(x))), rtol=1e-6, atol=1e-6)


def test_gradient_of_the_log_density_survives_underflow():
    got = kernel_sums(KERNELS["gaussian"], one_column([0.9], 1e-3), one_column([0], 1e-3), np.ones(1), gradient=True)
    assert got.W[0] == 0.0
    assert got.log_W[0] == pytest.approx(-(900.0**2) / 2)
    assert got.dlog_W[0, 0] == pytest.approx(-900.0)


@pytest.mark.parametrize("name", NAMES)
def test_values_near_the_largest_double_do_not_overflow(name):
    problem = Problem(5, 2)
    small = problem.sums(name, gradient=True)
    problem.y = problem.y / np.abs(problem.y).max() * 1.7e308
    huge, unit = problem.sums(name, gradient=True), np.abs(problem.y).max() / np.abs(Problem(5, 2).y).max()
    np.testing.assert_allclose(huge.mean, small.mean * unit, rtol=1e-12)
    assert not np.isnan(huge.S).any()
    assert not np.isnan(huge.dmean).any()


@pytest.mark.parametrize("gradient", [False, True])
def test_no_queries_and_no_data(gradient):
    some, none = np.full((3, 2), 0.5), np.empty((0, 2))
    for Q, X in ((none, some), (some, none), (none, none)):
        points = [scale(A, 0.1, np.zeros(2, bool))[0] for A in (Q, X)]
        got = kernel_sums(KERNELS["gaussian"], *points, np.ones(len(X)), gradient=gradient)
        assert got.W.tolist() == got.mean.tolist() == [0.0] * len(Q)
        assert got.log_W.tolist() == [-np.inf] * len(Q)
        assert (got.dmean is not None) == gradient


def test_one_observation_has_nobody_to_be_left_to():
    Z = one_column([0.5], 0.1)
    got = kernel_sums(KERNELS["gaussian"], Z, Z, np.ones(1), leave_one_out=True)
    assert got.W.tolist() == got.mean.tolist() == [0.0]
