"""What a policy may ask of its data, by definition."""

import math

import numpy as np
import pytest

from boke.data import Data, _increasing, features, nearest_rows, plain_nearest
from boke.keys import Lot
from boke.space import Categorical, Float, Space

MIXED = Space({"a": Float(0, 1), "c": Categorical(["x", "y", "z"])})


def test_success_is_judged_in_the_order_of_numbers():
    y, numbers = np.array([5.0, 1.0, 3.0, 4.0, 2.0]), np.array([4, 0, 2, 3, 1])

    def local(which):
        return np.isin(which, [4, 2, 1])

    def outcomes(since=0, sign=1.0, asked=None):
        data = Data(np.zeros((5, 1)), sign * y, np.zeros((0, 1)), numbers, asked)
        which, successes, values = data.outcomes(local, since)
        assert values.tolist() == [sign * y[numbers == n][0] for n in which]
        return list(zip(which.tolist(), successes.tolist(), strict=True))

    assert outcomes() == [(1, True), (2, True), (4, True)]
    assert outcomes(since=2) == [(2, True), (4, True)]
    assert outcomes(sign=-1.0) == [(1, False), (2, False), (4, False)]
    assert outcomes(asked=numbers > 1) == [(2, True), (4, True)]  # trial 1 was not asked for


@pytest.mark.parametrize("numbers", [[], [0], [7], [2, 0, 1], [5, 3, 9, 0], [1000, 2, 30]])
def test_trial_numbers_in_order(numbers):
    numbers = np.array(numbers, dtype=np.int64)
    np.testing.assert_array_equal(_increasing(numbers), np.argsort(numbers))


@pytest.mark.parametrize("seed", range(30))
def test_outcomes_of_a_lot_are_those_of_its_numbers(seed):
    rng = np.random.default_rng(seed)
    t = [0, 1, 2, 30, 300][seed % 5]
    numbers = rng.permutation([t, 3 * t, 50 * t][seed % 3])[:t]
    asked = None if seed % 2 else rng.random(t) < 0.7
    data = Data(
        np.zeros((t, 1)), rng.choice([-0.0, 0.0, 1.0, *rng.normal(size=50)], size=t), np.zeros((0, 1)), numbers, asked
    )
    lot, since = Lot(int(rng.integers(20)), 7, 0.4), int(rng.integers(40))
    for compiled, plain in zip(data.outcomes(lot, since), data.plain_outcomes(lot, since), strict=True):
        assert compiled.dtype == plain.dtype and compiled.tobytes() == plain.tobytes()


@pytest.mark.parametrize("space", [Space.of([(0, 1)]), Space.of([(0, 1)] * 3), MIXED], ids=["1", "3", "mixed"])
@pytest.mark.parametrize("n", [0, 1, 5, 60, 500])
def test_nearest_rows_are_the_plain_ones(n, space):
    rng = np.random.default_rng(n)
    fine = rng.random((n, space.dim))
    for X in (
        space.snap(fine),
        space.snap(np.round(2.0 * fine) / 2.0),
        np.asfortranarray(space.snap(fine)),
    ):  # with ties
        for k in (1, 4, 50, 1000):
            x = X[n // 2] if n else np.zeros(space.dim)
            plain = plain_nearest(X, x, k, space) if n else np.empty(0, np.int64)
            np.testing.assert_array_equal(nearest_rows(X, x, k, space), plain)
            y = fine[:, 0]
            points, values = Data(X, y, X[:0]).nearest(x, k, space)
            np.testing.assert_array_equal(points, X[plain])
            np.testing.assert_array_equal(values, y[plain])


def test_data_without_numbers_have_no_outcomes():
    data = Data(np.zeros((9, 1)), np.zeros(9), np.zeros((0, 1)))
    assert [len(column) for column in data.outcomes(lambda n: n >= 0, 0)] == [0, 0, 0]


def test_nearest_and_reach_by_a_double_loop():
    rng = np.random.default_rng(0)
    X = MIXED.snap(rng.random((40, 2)))
    data = Data(X, rng.normal(size=40), X[:15] * [0.5, 1.0])
    x = X[3]

    def away(p):
        return math.sqrt((p[0] - x[0]) ** 2 + (0.5**2 if p[1] != x[1] else 0.0))

    near, y = data.nearest(x, 7, MIXED)
    rows = sorted(range(40), key=lambda i: away(X[i]))[:7]
    np.testing.assert_array_equal(near, X[rows])
    np.testing.assert_array_equal(y, data.y[rows])
    silent = sorted(data.silent.tolist(), key=away)[:4]
    np.testing.assert_array_equal(data.nearest_silent(x, 4, MIXED), silent)
    assert data.reach(x, 5, MIXED) == sorted(abs(p[0] - x[0]) for p in X)[4]
    assert data.reach(x, 500, MIXED) == max(abs(p[0] - x[0]) for p in X)
    np.testing.assert_array_equal(data.best, X[np.argmax(data.y)])


def test_features_of_numeric_columns_are_the_columns():
    X = np.random.default_rng(0).random((4, 2))
    assert features(X, Space.of([(0, 1)] * 2)) is X


def test_a_sample_is_random_does_not_depend_on_order_and_knows_the_best():
    rng, space = np.random.default_rng(0), Space.of([(0, 1)] * 2)
    X, y = rng.random((500, 2)), rng.normal(size=500)
    data = Data(X, y, X[:3] * 0.5, np.arange(500))
    order = rng.permutation(500)
    other = Data(X[order], y[order], data.silent, order)
    counts = np.zeros(500)
    for _ in range(400):
        start = int(rng.integers(2**64, dtype=np.uint64))
        sample = data.sample(50, start, 5, space)
        assert 50 <= len(sample) <= 55 and (data.best == sample.X).all(axis=1).any()
        np.testing.assert_array_equal(sample.X, X[sample.numbers])
        np.testing.assert_array_equal(sample.y, y[sample.numbers])
        np.testing.assert_array_equal(sample.silent, data.silent)
        assert set(other.sample(50, start, 5, space).numbers) == set(sample.numbers)
        counts[sample.numbers] += 1
    assert np.count_nonzero(counts) == 500  # everybody's turn comes
