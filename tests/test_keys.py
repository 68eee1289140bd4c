"""Row keys and hashed numbers: the compiled twin agrees with the definition to the last bit."""

import numpy as np
import pytest

from boke.keys import Lot, TakenPoints, plain_row_keys, plain_uniform, row_keys, uniform


@pytest.mark.parametrize("d", [1, 2, 7, 200])
@pytest.mark.parametrize("n", [0, 1, 100])
def test_compiled_keys_are_the_plain_ones(n, d):
    X = np.random.default_rng(d).normal(size=(n, d)) * 1e300
    X[:1, 0] = -0.0
    np.testing.assert_array_equal(row_keys(X), plain_row_keys(X))
    np.testing.assert_array_equal(row_keys(X[:, ::2]), plain_row_keys(X[:, ::2]))


def test_signs_of_zero_do_not_matter_and_everything_else_does():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nextafter(0.0, 1.0), 1.0]])
    keys = row_keys(X)
    assert keys[0] == keys[1] and len(set(keys.tolist())) == 3


def test_taken_points_are_known_again():
    X = np.random.default_rng(0).random((50, 3))
    asked = np.vstack([X[7], X[7] + 1e-16 * (X[7] == 0), np.nextafter(X[9], 2.0)])
    assert TakenPoints(X)(asked).tolist() == [True, True, False]
    assert not TakenPoints(X[:0])(asked).any()


@pytest.mark.parametrize("seed", range(20))
def test_taken_points_are_known_again_by_all_ways(seed):
    rng = np.random.default_rng(seed)
    d, grid = rng.integers(1, 6), np.array([-0.0, 0.0, 0.5, 1.0])
    X, S, rows = (rng.choice(grid, size=(n, d)) for n in (rng.integers(0, 12), rng.integers(0, 4), 7))
    taken = TakenPoints(X, S)
    expected = [any((row == x).all() for x in [*X, *S]) for row in rows]
    assert len(taken) == len(X) + len(S)
    for known in (
        taken(rows),
        taken.plain(rows),
        taken(np.repeat(rows, 2, axis=0))[::2],
        np.concatenate([taken(rows[:4]), taken(rows[4:])]),
        taken(np.asfortranarray(rows)),
    ):
        assert known.tolist() == expected


@pytest.mark.parametrize("first", [0, 3, 100])
@pytest.mark.parametrize("least", [0.0, 0.05, 0.525, 1.0])
def test_a_lot_is_known_by_its_numbers(first, least):
    numbers, salt = np.random.default_rng(0).permutation(2000), 2**64 - 5
    lot = Lot(first, salt, least)
    np.testing.assert_array_equal(lot(numbers), (numbers >= first) & (uniform(numbers, salt) >= least))
    np.testing.assert_array_equal(lot(numbers), lot.plain(numbers))
    np.testing.assert_array_equal(lot(numbers[::3]), lot.plain(numbers[::3]))
    assert lot(numbers).tolist() == [lot.has(n) for n in numbers.tolist()]
    assert abs(lot(numbers).sum() / (2000 - first) - (1.0 - least)) < 0.03


def test_hashed_numbers_are_uniform_and_depend_on_the_salt():
    u = uniform(np.arange(20_000), 5)
    assert u.min() >= 0.0 and u.max() < 1.0
    assert np.abs(np.histogram(u, 20)[0] / 1000 - 1.0).max() < 0.15
    assert not (u == uniform(np.arange(20_000), 6)).any()
    np.testing.assert_array_equal(u, plain_uniform(np.arange(20_000), 5))
    np.testing.assert_array_equal(uniform(np.arange(9), 2**64 - 1), plain_uniform(np.arange(9), 2**64 - 1))
