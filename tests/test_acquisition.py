import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import NAMES, KernelSums, numeric_gradient

from boke.acquisition import INSIDE, Mean, PaperBeta, Sparsity, UCB1Beta, UpperConfidenceBound, kr_ucb
from boke.fill import cells
from boke.model import KernelModel

CATEGORICAL = np.array([False, False, True])
ELL = np.array([0.5, 0.6, 0.8])


def points(seed, n):
    X = np.random.default_rng(seed).random((n, 3))
    X[:, 2] = np.floor(3 * X[:, 2])
    return X


X, SILENT, Q = points(0, 25), points(1, 10), points(2, 12)
Y = np.random.default_rng(3).normal(size=25)


def fitted(name, silent=SILENT):
    return KernelModel(X, Y, kernel=name, bandwidth=ELL, silent=silent, categorical=CATEGORICAL)


def slow(name):
    """The mean of the observations, and the density of observations and silent points."""
    told = KernelSums(name, X, Y, ELL, categorical=CATEGORICAL)
    tried = KernelSums(name, np.vstack([X, SILENT]), np.zeros(35), ELL, categorical=CATEGORICAL)
    return told.mean, tried.density


@pytest.mark.parametrize("name", NAMES)
def test_upper_confidence_bound_by_hand(name):
    mean, density = slow(name)
    expected = [mean(q) + 0.7 / math.sqrt(density(q) + 0.01) for q in Q]
    np.testing.assert_allclose(UpperConfidenceBound(fitted(name), 0.7, 0.01)(Q), expected, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_mean_by_hand(name):
    np.testing.assert_allclose(Mean(fitted(name))(Q), [slow(name)[0](q) for q in Q], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_sparsity_by_hand(name):
    np.testing.assert_allclose(Sparsity(fitted(name))(Q), [-math.log(slow(name)[1](q)) for q in Q], rtol=1e-11)


ACQUISITIONS = [lambda m: UpperConfidenceBound(m, 0.7, 0.01), Mean, Sparsity]


@pytest.mark.parametrize("make", ACQUISITIONS)
@pytest.mark.parametrize("name", ["gaussian", "quartic"])  # the others have kinks
@pytest.mark.parametrize("silent", [None, SILENT])
def test_gradients_are_finite_differences(make, name, silent):
    f = make(fitted(name, silent))
    values, slopes = f.gradient(Q)
    np.testing.assert_allclose(values, f(Q), rtol=1e-13)
    assert not slopes[:, CATEGORICAL].any()
    for q, slope in zip(Q, slopes, strict=True):
        expected = np.where(CATEGORICAL, 0.0, numeric_gradient(lambda x: f(x[None])[0], q))
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", ACQUISITIONS)
@pytest.mark.parametrize("name", ["triangular", "epanechnikov"])
def test_gradients_of_kinked_kernels_between_their_kinks(make, name):
    f, smooth = make(fitted(name)), 0
    for q in Q:
        distances = np.sqrt(np.square((q - np.vstack([X, SILENT]))[:, :2] / ELL[:2]).sum(axis=1))
        if np.abs(distances - 1).min() > 1e-3 and distances.min() > 1e-2:
            smooth += 1
            expected = np.where(CATEGORICAL, 0.0, numeric_gradient(lambda x: f(x[None])[0], q))
            np.testing.assert_allclose(f.gradient(q[None])[1][0], expected, rtol=1e-5, atol=1e-6)
    assert smooth > 5


def test_sparsity_tells_far_points_apart_where_the_density_is_zero():
    f = Sparsity(KernelModel([[0.0]], [0.0], bandwidth=1e-3))
    line = np.linspace(0.1, 1.0, 10)[:, None]
    assert (np.diff(f(line)) > 0).all()
    np.testing.assert_allclose(f(line), 0.5 * np.square(line[:, 0] / 1e-3), rtol=1e-12)
    np.testing.assert_allclose(f.gradient(line)[1], line / 1e-6, rtol=1e-9)


@pytest.mark.parametrize("make", ACQUISITIONS)
def test_near_gives_the_same_around_a_center(make, monkeypatch):
    monkeypatch.setattr("boke.acquisition.NEAR_PAYS", 0)
    f, center = make(fitted("gaussian")), Q[:1]
    around = center + 0.1 * ~CATEGORICAL * np.random.default_rng(0).normal(size=(9, 3))
    np.testing.assert_allclose(f.near(center, 3.0)(around), f(around), rtol=1e-12)


def test_silent_points_lower_the_bonus_and_leave_the_mean():
    with_them, without = fitted("gaussian"), fitted("gaussian", None)
    np.testing.assert_array_equal(Mean(with_them)(Q), Mean(without)(Q))
    assert (UpperConfidenceBound(with_them, 1.0, 1e-4)(Q) < UpperConfidenceBound(without, 1.0, 1e-4)(Q)).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("C", [0.0, 0.1, 2.0])
def test_kr_ucb_against_a_loop(name, C):
    mean, density = slow(name)
    total = math.fsum(density(x) for x in X)
    expected = [mean(x) + C * math.sqrt(math.log(total) / density(x)) for x in X]
    np.testing.assert_allclose(kr_ucb(fitted(name), C), expected, rtol=1e-11)


def test_kr_ucb_of_one_observation_is_its_value():
    assert kr_ucb(KernelModel([[0.5]], [2.0], bandwidth=0.1), 3.0).tolist() == [2.0]


def test_kr_ucb_of_separate_arms_is_ucb1():
    arms = np.repeat([[0.1], [0.5], [0.9]], [1, 4, 2], axis=0)
    y = np.arange(7.0)
    expected = [
        np.mean(y[arms[:, 0] == a]) + math.sqrt(2 * math.log(1 + 16 + 4) / np.sum(arms[:, 0] == a)) for a in arms[:, 0]
    ]
    np.testing.assert_allclose(kr_ucb(KernelModel(arms, y, bandwidth=1e-9), math.sqrt(2)), expected, rtol=1e-12)


@pytest.mark.parametrize(("t", "d"), [(0, 1), (1, 1), (10, 3), (10**6, 20)])
def test_paper_beta(t, d):
    assert PaperBeta(0.3)(t, d) == pytest.approx(0.3 * (1 + math.sqrt(d * math.log(t + 1))))


@pytest.mark.parametrize("t", [1, 2, 10, 10**6])
def test_ucb1_beta(t):
    assert UCB1Beta()(t, 5) == pytest.approx(math.sqrt(2 * math.log(t)))
    assert UCB1Beta()(0, 5) == 0.0


def test_ucb1_beta_makes_ikr_ucb_over_arms_ucb1():
    arms, y = np.repeat([[0.0], [0.5], [1.0]], [3, 1, 2], axis=0), np.array([1.0, 2, 3, 9, 4, 6])
    a = UpperConfidenceBound(KernelModel(arms, y, bandwidth=1e-9), UCB1Beta()(6, 1), 1e-15)
    means, pulls = np.array([2.0, 9, 5]), np.array([3, 1, 2])
    np.testing.assert_allclose(a(np.array([[0.0], [0.5], [1.0]])), means + np.sqrt(2 * math.log(6) / pulls), rtol=1e-12)


@pytest.mark.parametrize("c", [-1.0, math.nan, math.inf])
def test_bad_beta(c):
    with pytest.raises(ValueError, match=r"The 'c' parameter of PaperBeta must be at least 0. Got"):
        PaperBeta(c)


@settings(deadline=None, max_examples=200)
@given(
    t=st.integers(1, 80), levels=st.sampled_from([1, 3, 1000]), beta=st.sampled_from([0.0, 0.003, 0.1]),
    bandwidth=st.sampled_from([0.001, 0.02, [0.02, 0.3], 5.0]), n=st.integers(1, 70), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_corners_are_the_same_compiled(t, levels, beta, bandwidth, n, seed):
    rng = np.random.default_rng(seed)
    y = np.floor(levels * rng.random(t)) / levels  # few levels: many corners are equally promising
    f = UpperConfidenceBound(KernelModel(rng.random((t, 2)), y, bandwidth=bandwidth), beta, 1e-4)
    np.testing.assert_array_equal(f.corners(n), f.plain_corners(n))


@pytest.mark.parametrize("beta", [0.0, 0.003, 0.1])
@pytest.mark.parametrize("t", [1, 20, 200])
def test_corners_are_those_of_the_most_promising_cells_of_all(beta, t):
    rng = np.random.default_rng(t)
    model = KernelModel(rng.random((t, 2)), rng.normal(size=t), bandwidth=[0.02, 0.05])
    Z = model.X / model.bandwidth
    corner, site = cells(Z, 1.0 / model.bandwidth)
    away = np.linalg.norm(corner - Z[site], axis=1)
    hoped = model.y[site] + beta / np.sqrt(np.exp(-0.5 * away**2) + 1e-4)
    expected = []
    for i in np.argsort(-hoped)[:64]:
        for part in INSIDE:
            if away[i] > part:
                expected.append((corner[i] + part / away[i] * (Z[site[i]] - corner[i])) * model.bandwidth)
    got = UpperConfidenceBound(model, beta, 1e-4).corners(64)
    if beta:  # else the corners of a cell tie
        assert len(got) == len(expected)
        assert np.abs(got[:, None] - np.array(expected)).max(axis=2).min(axis=1).max() < 1e-9
    assert got.min() >= 0.0 and got.max() <= 1.0
