import math
from functools import cache

import numpy as np
import pytest
from oracles import CATEGORY_DISTANCE, COMPACT, NAMES, KernelSums, psi
from scipy.integrate import quad
from scipy.stats import gaussian_kde

from boke.bandwidth import (
    FillDistanceSchedule,
    Fixed,
    LeastSquaresCV,
    MaximumLikelihoodCV,
    Scott,
    Silverman,
    negative_log_likelihood,
    squared_error,
)
from boke.design import density_exploration, fill_distance, uniform
from boke.kernels import KERNELS

UNIFORM_STD = 1 / math.sqrt(12)


def apply(rule, X, y=None, kernel="gaussian", categorical=None):
    y = np.zeros(len(X)) if y is None else y
    categorical = np.zeros(X.shape[1], bool) if categorical is None else np.array(categorical)
    return rule(X, y, kernel=KERNELS[kernel], categorical=categorical)


def sample(seed, t, d=1):
    rng = np.random.default_rng(seed)
    X = rng.random((t, d))
    return X, np.sin(6 * X[:, 0]) + 0.2 * rng.normal(size=t)


# rules of thumb


def test_fixed_is_a_number_or_one_for_each_column():
    X, _ = sample(0, 5, 2)
    assert apply(Fixed(0.3), X) == 0.3
    assert apply(Fixed([0.3, 0.1]), X).tolist() == [0.3, 0.1]
    assert apply(Fixed(np.array([0.3, 0.1])), X).tolist() == [0.3, 0.1]
    assert hash(Fixed([0.3, 0.1])) == hash(Fixed((0.3, 0.1)))


@pytest.mark.parametrize(("t", "d"), [(1, 1), (10, 1), (10, 3), (1000, 7)])
def test_silverman_and_scott_by_hand(t, d):
    X, _ = sample(0, t, d)
    assert apply(Silverman(0.4), X) == pytest.approx(0.4 * UNIFORM_STD * (t * (d + 2) / 4) ** (-1 / (d + 4)))
    assert apply(Scott(0.4), X) == pytest.approx(0.4 * UNIFORM_STD * t ** (-1 / (d + 4)))


@pytest.mark.parametrize(("t", "d"), [(10, 1), (30, 2), (100, 5)])
def test_silverman_and_scott_have_scipys_factors(t, d):
    X, _ = sample(0, t, d)
    kde = gaussian_kde(X.T)
    assert apply(Silverman(), X) == pytest.approx(UNIFORM_STD * kde.silverman_factor())
    assert apply(Scott(), X) == pytest.approx(UNIFORM_STD * kde.scotts_factor())


@pytest.mark.parametrize("rule", [Silverman, Scott])
def test_per_dimension_follows_the_spread_of_the_design(rule):
    X, _ = sample(0, 50, 3)
    X *= [1.0, 0.1, 0.0]
    lengths = apply(rule(per_dimension=True), X)
    deviations = [math.sqrt(math.fsum((x - math.fsum(c) / 50) ** 2 for x in c) / 50) for c in X.T]
    factor = apply(rule(), X) / UNIFORM_STD
    assert lengths == pytest.approx([factor * deviations[0], factor * deviations[1], factor * 1e-3])


def test_per_dimension_of_a_category_counts_unequal_pairs():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [1.0]])
    unequal = sum(a != b for a in X[:, 0] for b in X[:, 0]) / 25
    deviation = math.sqrt(unequal * CATEGORY_DISTANCE**2 / 2)
    assert apply(Scott(per_dimension=True), X, categorical=[True]) == pytest.approx(deviation * 5 ** (-1 / 5))


@pytest.mark.parametrize(
    "rule", [Silverman(), Scott(), LeastSquaresCV(), MaximumLikelihoodCV(), FillDistanceSchedule()]
)
def test_rules_work_without_data(rule):
    for t in (0, 1, 2):
        assert 0 < apply(rule, np.full((t, 2), 0.5)) < math.inf


PER_DIMENSION = [r(per_dimension=True) for r in (Silverman, Scott, LeastSquaresCV, MaximumLikelihoodCV)]


@pytest.mark.parametrize(
    "rule", [Silverman(), LeastSquaresCV(), MaximumLikelihoodCV(), FillDistanceSchedule(), *PER_DIMENSION]
)
@pytest.mark.parametrize("kernel", NAMES)
def test_rules_depend_on_the_set_of_observations_only(rule, kernel):
    X, y = sample(1, 25, 2)
    order = np.random.default_rng(0).permutation(25)
    first, second = (np.asarray(apply(rule, A, b, kernel)) for A, b in ((X, y), (X[order], y[order])))
    np.testing.assert_allclose(first, second, rtol=5e-3)  # cross-validation searches to 1e-3 in the logarithm


# cross-validation


def loo_error(name, X, y, ell):
    slow = KernelSums(name, X, y, ell)
    return math.fsum((y[i] - slow.without(i).mean(x)) ** 2 for i, x in enumerate(X)) / len(X)


def loo_likelihood(name, X, ell):
    """Mean leave-one-out log density, normalised by quadrature; d = 1."""
    mass = 2 * quad(lambda r: psi(name, r), 0, min(KERNELS[name].radius, 40))[0] * ell
    slow = KernelSums(name, X, np.zeros(len(X)), ell)
    densities = [slow.without(i).density(x) / (mass * (len(X) - 1)) for i, x in enumerate(X)]
    return sum(math.log(p) if p > 0 else -math.inf for p in densities) / len(X)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ell", [0.05, 0.2, 1.0])
def test_squared_error_is_the_leave_one_out_error(name, ell):
    X, y = sample(2, 20)
    got = squared_error(X, y, KERNELS[name], ell, np.zeros(1, bool), 20)
    assert got == pytest.approx(loo_error(name, X, y, ell), rel=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ell", [0.01, 0.2, 1.0])
def test_log_likelihood_is_normalised(name, ell):
    X, y = sample(2, 20)
    got = negative_log_likelihood(X, y, KERNELS[name], ell, np.zeros(1, bool), 20)
    assert got == pytest.approx(-loo_likelihood(name, X, ell), rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_log_likelihood_of_mixed_columns_is_normalised(name):
    X = np.array([[0.1, 0.0], [0.3, 1.0], [0.35, 0.0], [0.6, 2.0], [0.5, 1.0]])
    ell, categorical = np.array([0.4, 0.7]), np.array([False, True])
    slow = KernelSums(name, X, np.zeros(5), ell, categorical=categorical)
    middles = np.linspace(-3, 4, 4001)[:-1] + 7 / 8000
    mass = math.fsum(slow.density([x, c]) for x in middles for c in (0.0, 1.0, 2.0)) * 7 / 4000
    expected = sum(math.log(slow.without(i).density(x) * 5 / 4 / mass) for i, x in enumerate(X)) / 5
    got = negative_log_likelihood(X, np.zeros(5), KERNELS[name], ell, categorical, 5)
    assert got == pytest.approx(-expected, rel=1e-5)


LENGTHS = UNIFORM_STD * np.geomspace(0.01, 10, 150)


@pytest.mark.parametrize("seed", range(4))
def test_least_squares_cv_minimises_the_leave_one_out_error(seed):
    X, y = sample(seed, 14)
    lowest = min(loo_error("gaussian", X, y, ell) for ell in LENGTHS)
    assert loo_error("gaussian", X, y, apply(LeastSquaresCV(), X, y)) <= lowest * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_maximum_likelihood_cv_maximises_the_leave_one_out_likelihood(seed):
    X, y = sample(seed, 14)
    highest = max(loo_likelihood("gaussian", X, ell) for ell in LENGTHS)
    assert loo_likelihood("gaussian", X, apply(MaximumLikelihoodCV(), X, y)) >= highest - 1e-5


@pytest.mark.parametrize("name", COMPACT)
@pytest.mark.parametrize(
    ("rule", "score"), [(LeastSquaresCV(), squared_error), (MaximumLikelihoodCV(), negative_log_likelihood)]
)
@pytest.mark.parametrize("seed", range(3))
def test_cross_validation_of_compact_kernels_gets_within_two_percent(name, rule, score, seed):
    """Their scores jump as points enter neighbourhoods, so no search over a grid is sure to be exact."""
    X, y = sample(seed, 40, 2)
    none = np.zeros(2, bool)
    scores = [score(X, y, KERNELS[name], ell, none, 40) for ell in LENGTHS]
    got = score(X, y, KERNELS[name], apply(rule, X, y, name), none, 40)
    assert got <= min(scores) + 0.02 * abs(min(scores))


def test_least_squares_cv_smooths_noise_and_follows_signal():
    X = np.linspace(0, 1, 60)[:, None]
    noise = np.random.default_rng(0).normal(size=60)
    assert apply(LeastSquaresCV(), X, noise) > 5 * apply(LeastSquaresCV(), X, np.sin(20 * X[:, 0]))


def test_cross_validation_scales_each_column():
    X, y = sample(3, 40, 2)
    X[:, 1] *= 0.2
    for rule in (LeastSquaresCV(per_dimension=True), MaximumLikelihoodCV(per_dimension=True)):
        first, second = apply(rule, X, y)
        assert second / first == pytest.approx(X[:, 1].std() / X[:, 0].std())


def test_cross_validation_of_many_points_looks_at_the_first_ones():
    X, y = sample(4, 300)
    few, all_of_them = (apply(LeastSquaresCV(max_points=m), X, y) for m in (100, 300))
    error = [squared_error(X, y, KERNELS["gaussian"], ell, np.zeros(1, bool), 100) for ell in (few, all_of_them)]
    assert error[0] <= error[1]


@pytest.mark.parametrize("rule", [LeastSquaresCV(), MaximumLikelihoodCV()])
@pytest.mark.parametrize("name", NAMES)
def test_cross_validation_survives_odd_data(rule, name):
    X, y = sample(5, 12, 2)
    for A, b in (
        (X, np.zeros(12)),
        (X, 1e308 * np.sign(y)),
        (np.repeat(X[:1], 12, axis=0), y),
        (np.repeat(X, 2, axis=0)[:12], y),
    ):
        assert 0 < apply(rule, A, b, name) < math.inf


@pytest.mark.parametrize("name", COMPACT)
def test_likelihood_falls_back_where_every_point_is_alone(name):
    X, y = sample(7, 5, 200)  # no two of them within ten standard deviations
    assert apply(MaximumLikelihoodCV(), X, y, name) == apply(Silverman(), X)


def test_cross_validation_does_not_see_the_unit_of_y():
    X, y = sample(6, 20)
    assert apply(LeastSquaresCV(), X, 1e-200 * y) == pytest.approx(apply(LeastSquaresCV(), X, 1e200 * y), rel=1e-6)


# the schedule of the consistency theorem


def radius(name):
    return 1.0 if name != "gaussian" else math.sqrt(-2 * math.log(1e-4))


def stages(h, R, c, *, at_once):
    """Stage n of ℓ'_n = c / n after each point, by the stopping times τ_n = inf{t > τ_(n-1): h_t < 2 R ℓ'_n}.

    With ``at_once`` several stopping times may coincide, though there are never more of them than points.
    """
    n, out = 1, []
    for t, h_t in enumerate(h, start=1):
        while h_t < 2 * R * c / n and n < t + 1:
            n += 1
            if not at_once:
                break
        out.append(n)
    return np.array(out)


@cache
def growing(design, d):
    """A design and the fill distances of its beginnings."""
    X = uniform(60, d, rng=0) if design == "uniform" else density_exploration(60, d, rng=0, n_acq=64)
    return X, np.array([fill_distance(X[:t]) for t in range(1, 61)])


def schedule(name, X, c):
    return np.array([apply(FillDistanceSchedule(c), X[:t], kernel=name) for t in range(1, len(X) + 1)])


@pytest.mark.parametrize("name", ["gaussian", "quartic"])
@pytest.mark.parametrize("design", [("uniform", 1), ("uniform", 2), ("explored", 1)])
@pytest.mark.parametrize("c", [0.2, 1.0])
def test_schedule_follows_the_stopping_times(name, design, c):
    X, h = growing(*design)
    at_once, strict = (stages(h, radius(name), c, at_once=flag) for flag in (True, False))
    np.testing.assert_allclose(schedule(name, X, c), c / at_once, rtol=1e-12)
    # the theorem's own recursion may lag behind, and comes to rest at the same stage
    assert (strict <= at_once).all()
    at_rest = h >= 2 * radius(name) * c / strict
    np.testing.assert_array_equal(strict[at_rest], at_once[at_rest])


@pytest.mark.parametrize("name", NAMES)
def test_schedule_is_the_theorems_own_where_the_fill_distance_falls_slowly(name):
    X, h = growing("explored", 1)
    same = np.isclose(schedule(name, X, 1.0), 1 / stages(h, radius(name), 1.0, at_once=False), rtol=1e-12)
    assert same.mean() > 0.95


def test_schedule_falls_to_zero_as_designs_get_dense():
    lengths = [
        apply(FillDistanceSchedule(), np.linspace(0, 1, t)[:, None], kernel="quartic") for t in (2, 10, 100, 10_000)
    ]
    assert (np.diff(lengths) < 0).all()
    assert lengths[-1] < 1e-3


def test_schedule_ignores_categories():
    X = np.column_stack([np.linspace(0, 1, 9), np.arange(9) % 3])
    assert apply(FillDistanceSchedule(), X, categorical=[False, True]) == apply(FillDistanceSchedule(), X[:, :1])
    assert apply(FillDistanceSchedule(), X[:, 1:], categorical=[True]) == pytest.approx(1 / 10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(0.0), r"The 'value' parameter of Fixed must be positive and finite. Got 0.0"),
        (lambda: Fixed((0.1, -1.0)), r"The 'value' parameter of Fixed must be positive and finite. Got \(0.1, -1.0\)"),
        (lambda: Fixed(math.nan), r"The 'value' parameter of Fixed must be positive and finite. Got nan"),
        (lambda: Silverman(0), r"The 'c' parameter of Silverman must be positive. Got 0"),
        (lambda: Scott(-1.0), r"The 'c' parameter of Scott must be positive. Got -1.0"),
        (lambda: Scott("1"), r"The 'c' parameter of Scott must be positive. Got '1'"),
        (
            lambda: FillDistanceSchedule(math.inf),
            r"The 'c' parameter of FillDistanceSchedule must be positive. Got inf",
        ),
    ],
)
def test_bad_rules(make, message):
    with pytest.raises(ValueError, match=message):
        make()
