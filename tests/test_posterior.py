"""The recommendation by a posterior mean: its formulas against naive refits, odd data, and the interval's coverage."""

import math

import numpy as np
import pytest

from boke import Categorical, Float, Int, Optimizer, gp
from boke.data import Data
from boke.posterior import KAPPA, NOISES, TAIL, LeaveOneOut, Neighbourhood, PosteriorMean, quantile, standardized
from boke.recommend import EmpiricalBestArm
from boke.space import Space

MIXED = Space({"a": Float(1e-4, 1.0, log=True), "n": Int(1, 9), "c": Categorical(["x", "y", "z"])})


def observed(X, y):
    X = np.asarray(X, dtype=float)
    return Data(X, np.asarray(y, dtype=float), X[:0])


def bowl(t, d, sigma, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((t, d))
    return observed(X, -np.square(X - 0.4).sum(axis=1) + sigma * rng.normal(size=t))


def cube(d):
    return Space.of([(0, 1)] * d)


# leave-one-out


def covariance(Z, length, trend):
    """k(z, z') = M(|z - z'| / l) + a (1 + z·z')², by a double loop."""
    K = np.empty((len(Z), len(Z)))
    for i, p in enumerate(Z):
        for j, q in enumerate(Z):
            r = math.sqrt(5) * math.dist(p, q) / length
            K[i, j] = (1 + r + r * r / 3) * math.exp(-r) + trend * (1 + p @ q) ** 2
    return K


@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("d", [1, 3])
def test_leave_one_out_is_a_refit_without_the_observation(sigma, d):
    data = bowl(25, d, sigma)
    around = Neighbourhood.of(4, data, cube(d), 25)
    fitted = around.fit(NOISES)
    length, trend, noise, signal, _, _ = fitted.hyperparameters
    got = LeaveOneOut.of(around, fitted)
    K = covariance(around.Z, length, trend)
    N = noise * (1 + trend) + 1e-10 * np.diag(K)
    y = around.values
    everything = K @ np.linalg.inv(K + np.diag(N))
    np.testing.assert_allclose(got.mean, everything @ y, atol=1e-5)
    np.testing.assert_allclose(got.weights, everything, atol=1e-4)
    np.testing.assert_allclose(got.noise, signal * N)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        solved = np.linalg.solve(K[np.ix_(others, others)] + np.diag(N[others]), K[others, i])
        assert got.predicted[i] == pytest.approx(solved @ y[others], abs=1e-4)
        assert got.residual[i] == pytest.approx(y[i] - solved @ y[others], abs=1e-4)
        variance = signal * (K[i, i] - solved @ K[others, i])
        assert got.variance[i] == pytest.approx(variance, rel=1e-3, abs=1e-6)
        assert got.deviation[i] == pytest.approx(math.sqrt(variance + signal * N[i]), rel=1e-3, abs=1e-6)


def test_the_mean_is_that_of_the_fitted_model():
    data = bowl(40, 2, 0.1)
    around = Neighbourhood.of(0, data, cube(2), 40)
    fitted = around.fit(NOISES)
    np.testing.assert_allclose(LeaveOneOut.of(around, fitted).mean, fitted.fitted(), atol=1e-9)


def test_a_matrix_that_cannot_be_factorised_gets_more_noise():
    Z = np.repeat(np.random.default_rng(0).random((3, 2)), 4, axis=0)
    A, own = gp.precision(Z, 5.0, 100.0, 0.0)
    assert np.isfinite(A).all() and (own > 0).all()


def test_optimism_is_the_mean_residual_of_the_better_half():
    predicted, residual = np.array([3.0, -1.0, 2.0, 0.0, 1.0]), np.array([-1.0, 5.0, -2.0, 7.0, 0.5])
    nothing = np.zeros(5)
    model = LeaveOneOut(nothing, nothing, predicted, nothing, nothing, residual, nothing)
    b, v = model.optimism()
    assert b == pytest.approx(np.mean([-1, -2, 0.5]))
    assert v == pytest.approx(np.var([-1, -2, 0.5]) / 3)


@pytest.mark.parametrize(("n", "level", "k"), [(9, 0.9, 9), (8, 0.9, None), (19, 0.95, 19), (99, 0.9, 90), (1, 0.5, 1)])
def test_the_conformal_quantile(n, level, k):
    scores = np.random.default_rng(n).random(n)
    assert quantile(scores, level) == (math.inf if k is None else sorted(scores)[k - 1])


def test_a_new_exchangeable_score_is_below_the_quantile_as_often_as_promised():
    scores = np.random.default_rng(0).random((4000, 20))
    below = np.mean([row[-1] <= quantile(row[:-1], 0.8) for row in scores])
    assert below == pytest.approx(0.8, abs=0.02)


# the estimate


def test_value_and_interval_are_put_together_from_their_parts():
    data = bowl(80, 2, 0.2)
    got = PosteriorMean(level=0.8).recommend(data, cube(2))
    row = int(np.flatnonzero((got.x == data.X).all(axis=1))[0])
    first = Neighbourhood.of(int(np.argmax(data.y)), data, cube(2), 200)
    around = Neighbourhood.of(int(first.rows[np.argmax(first.fit(NOISES).fitted())]), data, cube(2), 200)
    model = LeaveOneOut.of(around, around.fit(NOISES))
    i = int(np.argmax(model.mean))
    b, v = model.optimism()
    q = np.sort(np.abs(model.residual / model.deviation))[math.ceil(81 * 0.8) - 1]
    half = KAPPA * 0.8**TAIL * q * math.sqrt(model.variance[i] + v) * np.std(data.y)
    assert around.rows[i] == row
    assert got.value == pytest.approx(np.mean(data.y) + np.std(data.y) * (model.mean[i] + b))
    assert got.interval == (pytest.approx(got.value - half), pytest.approx(got.value + half))
    shares = np.abs(model.weights[i]) / np.abs(model.weights[i]).sum()
    np.testing.assert_allclose(got.shares[around.rows], shares)
    assert got.support == pytest.approx(1 / np.sum(shares**2))


def test_without_noise_it_is_the_best_observation():
    data = bowl(60, 3, 0.0)
    got = PosteriorMean().recommend(data, cube(3))
    assert got.x.tolist() == data.X[np.argmax(data.y)].tolist() and got.value == data.y.max()
    low, high = got.interval
    assert low <= got.value <= high and high - low < 1e-2 * np.ptp(data.y)


def test_under_noise_the_estimate_is_nearer_to_the_truth_than_the_luckiest_value():
    errors, lucky, inside = [], [], 0
    for seed in range(30):
        data = bowl(60, 2, 0.3, seed)
        got = PosteriorMean().recommend(data, cube(2))
        truth = -np.square(got.x - 0.4).sum()
        errors.append(abs(got.value - truth))
        lucky.append(data.y.max() - truth)
        inside += got.interval[0] <= truth <= got.interval[1]
    assert np.median(errors) < 0.5 * np.median(lucky)
    assert inside >= 24  # of 30; nominal is 27


def test_the_estimate_at_a_point_of_ones_choice():
    data = bowl(60, 2, 0.3)
    got = PosteriorMean().at(data, cube(2), 7)
    assert got.x.tolist() == data.X[7].tolist()
    assert got.interval[0] <= got.value <= got.interval[1]
    recommended = PosteriorMean().recommend(data, cube(2))
    row = int(np.flatnonzero((recommended.x == data.X).all(axis=1))[0])
    assert PosteriorMean().at(data, cube(2), row).value == pytest.approx(recommended.value)


def test_few_observations_that_could_hide_noise_are_not_taken_at_their_word():
    data = bowl(15, 5, 0.5, seed=3)
    around = Neighbourhood.of(int(np.argmax(data.y)), data, cube(5), 200)
    sure = around.fit((1e-8, 1e-6, 1e-4))
    assert around.doubted(sure).hyperparameters[2] >= 1e-2
    clear = bowl(60, 2, 0.0)
    around = Neighbourhood.of(int(np.argmax(clear.y)), clear, cube(2), 200)
    assert around.doubted(around.fit(NOISES)).hyperparameters[2] < 1e-2


# odd data


@pytest.mark.parametrize("t", range(1, 12))
def test_the_largest_double_and_constants_are_recommended_as_they_are(t):
    X = np.random.default_rng(t).random((t, 2))
    for value in (1.7976931348623157e308, -2.5, 0.0, 5e-324):
        assert PosteriorMean().recommend(observed(X, np.full(t, value)), cube(2)).value == value


def test_too_few_observations_have_no_interval():
    assert PosteriorMean().recommend(bowl(8, 2, 0.1), cube(2)).interval is None
    assert PosteriorMean(level=0.5).recommend(bowl(8, 2, 0.1), cube(2)).interval is not None


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e8, 1e300])
def test_values_of_any_size(scale):
    data = bowl(40, 2, 0.3)
    got, small = (PosteriorMean().recommend(observed(data.X, data.y * s), cube(2)) for s in (scale, 1.0))
    if scale == 1e-300:  # squares underflow: as good as constant
        assert math.isfinite(got.value)
    else:
        assert got.x.tolist() == small.x.tolist() and got.value / scale == pytest.approx(small.value, rel=1e-6)


def test_standardized_values_come_back():
    for y in ([1.0, 2.0, 4.0], [1e306, -1e308, 3e307], [7.0, 7.0]):
        values, origin, unit = standardized(np.array(y))
        np.testing.assert_allclose(origin + unit * values, y, rtol=1e-10)


def test_copies_of_one_point_with_different_values():
    data = observed(np.full((50, 2), 0.4), np.arange(50.0))
    assert math.isfinite(PosteriorMean().recommend(data, cube(2)).value)


def test_mixed_spaces_stay_on_their_grid_and_more_observations_than_the_model_takes():
    rng = np.random.default_rng(0)
    X = MIXED.snap(rng.random((300, 3)))
    data = observed(X, -np.square(X[:, 0] - 0.3) - np.square(X[:, 1] - 0.6) + 0.1 * rng.normal(size=300))
    got = PosteriorMean(nearest=100).recommend(data, MIXED)
    assert (got.x == data.X).all(axis=1).any() and np.count_nonzero(got.shares) <= 100


def test_the_optimizer_turns_the_interval_around_and_leaves_arms_to_the_theorem():
    low, high = (Optimizer([(0, 1)] * 2, direction=way, rng=0) for way in ("minimize", "maximize"))
    data = bowl(40, 2, 0.2)
    low.tell_many(data.X, -data.y)
    high.tell_many(data.X, data.y)
    a, b = low.recommend(), high.recommend()
    assert a.interval == (-b.interval[1], -b.interval[0]) and a.interval[0] < a.value < a.interval[1]
    assert a.params == b.params and a.trials == b.trials
    arms = Optimizer(Space.from_arms([[0], [1], [2]]), rng=0)
    arms.tell_many(np.array([[0.0], [1], [1], [2]]), [1.0, 0.0, 0.5, 2.0])
    theorem = arms.recommend(EmpiricalBestArm())
    assert arms.recommend().params == theorem.params and theorem.interval is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nearest": 0}, "'nearest' parameter of PosteriorMean must be a positive integer. Got 0"),
        ({"nearest": True}, "Got True"),
        ({"nearest": 2.5}, "Got 2.5"),
        ({"level": 0.0}, r"'level' parameter of PosteriorMean must be in \(0, 1\). Got 0.0"),
        ({"level": 1.0}, "Got 1.0"),
        ({"level": math.nan}, "Got nan"),
        ({"level": "high"}, "Got 'high'"),
    ],
)
def test_bad_rules(change, message):
    with pytest.raises(ValueError, match=message):
        PosteriorMean(**change)


def test_nothing_to_recommend():
    with pytest.raises(ValueError, match="There is nothing to recommend yet: no trial has a value"):
        PosteriorMean().recommend(observed(np.empty((0, 2)), []), cube(2))
