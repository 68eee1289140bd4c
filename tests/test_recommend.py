import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import COMPACT, NAMES, KernelSums, greedily_separated, grid

from boke.data import Data
from boke.design import fill_distance
from boke.model import KernelModel
from boke.recommend import EmpiricalBestArm, separated
from boke.space import Categorical, Float, Int, Space

SEEDS = st.integers(0, 2**32 - 1)


def observed(X, y):
    return Data(np.asarray(X, dtype=float), np.asarray(y, dtype=float), np.empty((0, np.shape(X)[1])))


def cube(d):
    return Space.of([(0, 1)] * d)


def sample(seed, t, d):
    rng = np.random.default_rng(seed)
    X = rng.random((t, d)) if seed % 2 else np.clip(0.4 + 0.1 * rng.normal(size=(t, d)), 0, 1)
    return observed(X, np.sin(7 * X).sum(axis=1) + 0.2 * rng.normal(size=t))


# the separated subset


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, t=st.integers(1, 60), d=st.integers(1, 4), h=st.sampled_from([1e-9, 0.01, 0.1, 0.25, 0.5, 2.0]))
def test_separated_is_the_greedy_subset(seed, t, d, h):
    rng = np.random.default_rng(seed)
    X = rng.random((t, d)) if seed % 2 else rng.integers(0, 5, (t, d)) / 4  # on a grid many distances equal h
    assert separated(X, h).tolist() == greedily_separated(X, h)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, t=st.integers(1, 60), h=st.floats(0.01, 1))
def test_separated_is_separated_and_maximal(seed, t, h):
    X = np.random.default_rng(seed).random((t, 2))
    kept = separated(X, h).tolist()
    assert all(math.dist(X[i], X[j]) > h for i in kept for j in kept if i != j)
    assert all(any(math.dist(X[i], X[j]) <= h for j in kept) for i in range(t))


def test_copies_are_not_separated():
    assert separated(np.full((50, 3), 0.3), 1e-12).tolist() == [0]


# the theorem's rule


def theorem(data, gamma, name, candidates):
    """argmax of m̂ on the h-separated subset with ℓ̂ = h^(1-γ), over a grid."""
    h = fill_distance(data.X)
    kept = greedily_separated(data.X, h)
    slow = KernelSums(name, data.X[kept], data.y[kept], h ** (1 - gamma))
    return h, slow, max(slow.mean(x) for x in candidates)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_fill_is_literally_the_theorems_rule(name, d, seed):
    gamma = [0.2, 0.5, 0.8, 0.9][seed]
    data = sample(seed, 40, d)
    got = EmpiricalBestArm(gamma, separation="fill", kernel=name, y_scale="none").recommend(data, cube(d))
    h, slow, highest = theorem(data, gamma, name, grid(301 if d == 1 else 26, d))
    assert got.separation == h
    assert got.bandwidth == pytest.approx(h ** (1 - gamma))
    assert slow.mean(got.x) >= highest - 5e-3 * np.ptp(data.y) * (name in COMPACT) - 1e-9
    assert got.value == pytest.approx(slow.mean(got.x))
    assert got.support == pytest.approx(slow.density(got.x))


@pytest.mark.parametrize("seed", [1, 3, 5, 7])
def test_the_maximizer_is_found_to_many_digits(seed):
    data = sample(seed, 30, 1)
    got = EmpiricalBestArm(0.2, separation="fill", y_scale="none").recommend(data, cube(1))
    kept = greedily_separated(data.X, got.separation)
    model = KernelModel(data.X[kept], data.y[kept], bandwidth=got.bandwidth)
    assert model.mean(got.x[None])[0] >= model.mean(grid(100_001, 1)).max() - 1e-8


def test_separation_may_be_a_number():
    data = sample(0, 30, 2)
    got = EmpiricalBestArm(0.5, separation=0.09, y_scale="none").recommend(data, cube(2))
    kept = greedily_separated(data.X, 0.09)
    assert got.separation == 0.09
    assert got.bandwidth == pytest.approx(0.3)
    assert set(np.flatnonzero(got.shares)) <= set(kept)
    assert got.value == pytest.approx(KernelSums("gaussian", data.X[kept], data.y[kept], 0.3).mean(got.x))


def test_loo_halves_the_separation_to_the_lowest_error_and_maximizes_with_caution():
    data = sample(1, 25, 1)
    got = EmpiricalBestArm(0.5, y_scale="none").recommend(data, cube(1))

    def error(h):
        kept = greedily_separated(data.X, h)
        slow = KernelSums("gaussian", data.X[kept], data.y[kept], h**0.5)
        missed = [
            y - (slow.without(kept.index(i)) if i in kept and len(kept) > 1 else slow).mean(x)
            for i, (x, y) in enumerate(zip(data.X, data.y, strict=True))
        ]
        return np.mean(np.square(missed))

    halves = fill_distance(data.X) * 0.5 ** np.arange(16)
    errors = [error(h) for h in halves]
    h, lowest = halves[np.argmin(errors)], min(errors)
    assert got.separation == h

    kept = greedily_separated(data.X, h)
    slow = KernelSums("gaussian", data.X[kept], data.y[kept], h**0.5)

    def cautious(x):
        return slow.mean(x) - math.sqrt(lowest / (slow.density(x) + 1e-4))

    assert cautious(got.x) >= max(cautious(x) for x in grid(301, 1)) - 1e-9


# the value


@pytest.mark.parametrize("scale", ["rank", "standardize", "none"])
@pytest.mark.parametrize("separation", ["loo", "fill"])
def test_the_value_is_the_weighted_mean_of_raw_values(scale, separation):
    data = sample(3, 40, 2)
    got = EmpiricalBestArm(separation=separation, y_scale=scale).recommend(data, cube(2))
    assert (got.shares >= 0).all()
    assert got.shares.sum() == pytest.approx(1)
    assert got.value == pytest.approx(math.fsum(got.shares * data.y))
    assert data.y.min() <= got.value <= data.y.max()


@pytest.mark.parametrize("scale", ["rank", "standardize", "none"])
@pytest.mark.parametrize("name", NAMES)
def test_values_near_the_largest_double_do_not_overflow(scale, name):
    data = sample(4, 30, 2)
    huge = observed(data.X, data.y / np.abs(data.y).max() * 1.7e308)
    got, small = (EmpiricalBestArm(y_scale=scale, kernel=name).recommend(d, cube(2)) for d in (huge, data))
    np.testing.assert_allclose(got.x, small.x, atol=1e-6)
    assert got.value / 1.7e308 == pytest.approx(small.value / np.abs(data.y).max(), rel=1e-6)


def test_under_noise_the_estimate_is_not_the_luckiest_value():
    rng = np.random.default_rng(0)
    X = rng.random((200, 1))
    data = observed(X, -4 * (X[:, 0] - 0.3) ** 2 + rng.normal(scale=0.5, size=200))
    got = EmpiricalBestArm().recommend(data, cube(1))
    assert abs(got.x[0] - 0.3) < 0.15
    assert abs(got.value) < 0.3 < data.y.max()
    assert got.support > 5


# small and odd data


@pytest.mark.parametrize("separation", ["loo", "fill", 0.1])
@pytest.mark.parametrize("name", NAMES)
def test_one_observation_recommends_its_value(separation, name):
    got = EmpiricalBestArm(separation=separation, kernel=name).recommend(observed([[0.2, 0.7]], [3.0]), cube(2))
    assert got.value == 3.0
    assert got.shares.tolist() == [1.0]


@pytest.mark.parametrize("separation", ["loo", "fill", 0.1])
@pytest.mark.parametrize("scale", ["rank", "standardize", "none"])
@pytest.mark.parametrize("t", [2, 3, 20])
def test_constant_values_are_recommended_as_they_are(separation, scale, t):
    data = observed(np.random.default_rng(0).random((t, 3)), np.full(t, -2.5))
    assert EmpiricalBestArm(separation=separation, y_scale=scale).recommend(data, cube(3)).value == -2.5


@pytest.mark.parametrize("t", range(1, 12))
def test_the_largest_double_is_recommended_as_it_is(t):
    data = observed(np.random.default_rng(t).random((t, 2)), np.full(t, 1.7976931348623157e308))
    assert EmpiricalBestArm().recommend(data, cube(2)).value == 1.7976931348623157e308


def test_copies_of_one_point_with_different_values():
    data = observed(np.full((50, 2), 0.4), np.arange(50.0))
    assert math.isfinite(EmpiricalBestArm().recommend(data, cube(2)).value)


@pytest.mark.parametrize("separation", ["loo", "fill"])
def test_high_dimensions(separation):
    data = sample(5, 60, 20)
    got = EmpiricalBestArm(separation=separation).recommend(data, cube(20))
    assert got.separation <= 1.0
    assert ((got.x >= 0) & (got.x <= 1)).all()


# other spaces


def test_arms_are_recommended_as_they_are():
    space = Space.from_arms([[0, 0], [1, 5], [2, 1], [3, 3]])
    data = observed(space.unit_arms[[0, 1, 2, 2, 3]], [1.0, 2.0, 5.0, 4.0, 0.0])
    for separation in ("loo", "fill", 1e-9):
        got = EmpiricalBestArm(separation=separation).recommend(data, space)
        assert got.x.tolist() == space.unit_arms[2].tolist()


def test_the_empirical_best_arm_has_the_best_mean_of_all_its_pulls():
    rng = np.random.default_rng(0)
    space = Space.from_arms(np.arange(5))
    arm = rng.integers(5, size=300)
    y = np.array([0.0, 0.3, 0.1, 0.9, 0.2])[arm] + rng.normal(scale=2.0, size=300)
    means = [y[arm == a].mean() for a in range(5)]
    got = EmpiricalBestArm(separation="fill", y_scale="none").recommend(observed(space.unit_arms[arm], y), space)
    assert got.separation == 1e-12  # every arm was pulled: the fill distance is 0
    assert got.x.tolist() == space.unit_arms[np.argmax(means)].tolist()
    assert got.value == pytest.approx(max(means))
    assert got.support == np.sum(arm == np.argmax(means))


def test_the_fill_distance_of_a_finite_set_is_taken_within_it():
    space = Space.from_arms([[0, 0], [4, 0], [4, 3], [8, 3]])
    got = EmpiricalBestArm(separation="fill").recommend(observed(space.unit_arms[[0, 3]], [1.0, 2.0]), space)
    assert got.separation == pytest.approx(0.5)  # of (4, 0) and of (4, 3), in the unit cube


@pytest.mark.parametrize("separation", ["loo", "fill"])
def test_categories_are_recommended_as_they_are(separation):
    space = Space({"c": Categorical(["a", "b", "c"])})
    X = space.encode(np.array([[0.0], [1], [2], [1], [0]]))
    got = EmpiricalBestArm(separation=separation).recommend(observed(X, [0.0, 5, 1, 6, 0.5]), space)
    assert space.to_params(space.decode(got.x[None])[0]) == {"c": "b"}


@pytest.mark.parametrize(("separation", "kept"), [(0.45, 2), (0.55, 1)])
def test_two_categories_are_half_a_unit_apart(separation, kept):
    space = Space({"f": Float(0, 1), "c": Categorical(["a", "b"])})
    data = observed([[0.5, 0.25], [0.5, 0.75]], [1.0, 2.0])
    got = EmpiricalBestArm(separation=separation).recommend(data, space)
    assert np.count_nonzero(got.shares) == kept


def test_a_finite_space_is_searched_whole():
    space = Space({"c": Categorical(["a", "b"]), "n": Int(0, 9)})
    X, y = space.enumerate(20)[::3], np.arange(7.0)
    got = EmpiricalBestArm(separation="fill", y_scale="none").recommend(observed(X, y), space)
    kept = greedily_separated(np.column_stack([X[:, 1], X[:, 0] > 0.5]), got.separation)  # half a unit apart, or more
    slow = KernelSums("gaussian", X[kept], y[kept], got.bandwidth, categorical=space.categorical)
    points = space.enumerate(20)
    assert got.x.tolist() == points[np.argmax([slow.mean(x) for x in points])].tolist()


def test_mixed_spaces_stay_on_their_grid():
    space = Space({"f": Float(0, 1), "n": Int(0, 200), "c": Categorical(list("abcdefgh")), "m": Int(1, 99, log=True)})
    X = space.snap(np.random.default_rng(0).random((60, 4)))
    data = observed(X, -np.square(X[:, 0] - 0.3) - np.square(X[:, 1] - 0.6) + (X[:, 2] < 0.5))
    got = EmpiricalBestArm().recommend(data, space)
    np.testing.assert_array_equal(space.snap(got.x[None])[0][1:], got.x[1:])


# errors


def test_nothing_to_recommend():
    with pytest.raises(ValueError, match="There is nothing to recommend yet: no trial has a value"):
        EmpiricalBestArm().recommend(observed(np.empty((0, 2)), []), cube(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.0}, r"'gamma' parameter of EmpiricalBestArm must be in \(0, 1\). Got 0.0"),
        ({"gamma": 1.0}, r"'gamma' parameter of EmpiricalBestArm must be in \(0, 1\). Got 1.0"),
        ({"separation": "h"}, r"'separation' parameter .* must be 'fill', 'loo' or a positive number. Got 'h'"),
        ({"separation": 0.0}, r"'separation' parameter .* Got 0.0"),
        ({"separation": math.nan}, r"'separation' parameter .* Got nan"),
        ({"separation": math.inf}, r"'separation' parameter .* Got inf"),
        ({"kernel": "cubic"}, r"'kernel' parameter must be one of .* Got 'cubic'"),
        ({"y_scale": "log"}, r"'y_scale' parameter of EmpiricalBestArm must be one of .* Got 'log'"),
    ],
)
def test_bad_rules(change, message):
    with pytest.raises(ValueError, match=message):
        EmpiricalBestArm(**change)
