import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import fill_bounds, grid

from boke.fill import cells, fill_distance, plain_cells

COORDINATES = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.25, 0.5, 1e-300, 1e-12, 1e-9, 1 - 1e-12])


def designs(d, most=12):
    return st.lists(st.tuples(*[COORDINATES] * d), min_size=1, max_size=most).map(np.array)


def exactly(X):
    lower, upper = fill_bounds(np.unique(X, axis=0))
    return pytest.approx((lower + upper) / 2, abs=(upper - lower) / 2 + 1e-12)


@settings(deadline=None, max_examples=150)
@given(X=designs(1))
def test_one_dimension_is_exact(X):
    assert fill_distance(X) == exactly(X)


@settings(deadline=None, max_examples=200)
@given(X=designs(2))
def test_two_dimensions_are_exact(X):
    assert fill_distance(X) == exactly(X)


@settings(deadline=None, max_examples=200)
@given(X=designs(2))
def test_corners_of_cells_are_nearest_to_their_sites_and_none_is_missing(X):
    corners, site = cells(X)
    assert corners.min() >= 0.0 and corners.max() <= 1.0
    away = np.linalg.norm(corners[:, None] - X[None], axis=2)
    own = away[np.arange(len(site)), site]
    np.testing.assert_allclose(own, away.min(axis=1), atol=1e-9)
    assert set(site) == set(range(len(X)))
    assert own.max() == pytest.approx(fill_distance(X), abs=1e-9)


@pytest.mark.parametrize("high", [(1.0, 1.0), (30.0, 0.2)])
def test_cells_by_qhull_are_the_same(high):
    X = np.random.default_rng(0).random((60, 2)) * high
    both = cells(X, high), plain_cells(X, high)
    pairs = [np.column_stack([corners / high, site]) for corners, site in both]
    gaps = np.abs(pairs[0][:, None] - pairs[1][None]).max(axis=2)
    assert gaps.min(axis=0).max() < 1e-9 and gaps.min(axis=1).max() < 1e-9
    assert set(both[0][1]) == set(range(60))


@pytest.mark.parametrize(
    ("X", "h"),
    [
        ([[0.5]], 0.5),
        ([[0.0]], 1.0),
        ([[0.25], [0.75]], 0.25),
        ([[0.1], [0.9]], 0.4),
        ([[0.9], [0.1], [0.9]], 0.4),
        ([[0.5, 0.5]], math.sqrt(0.5)),
        ([[0.0, 0.0]], math.sqrt(2)),
        ([[0, 0], [0, 1], [1, 0], [1, 1]], math.sqrt(0.5)),
        ([[0.5, 0.5]] * 3, math.sqrt(0.5)),
        ([[0, 0.5], [1, 0.5]], math.sqrt(0.5)),
        ([[0, 0], [0, 0.5], [0, 1]], math.hypot(1, 0.25)),
        ([[0, 0], [0.5, 0.5], [1, 1]], 1 / math.sqrt(2) + 1 / math.sqrt(2) - math.sqrt(0.5)),
        ([[0.2, 0.5], [0.4, 0.5], [0.6, 0.5], [0.8, 0.5]], math.hypot(0.2, 0.5)),
    ],
)
def test_hand_cases(X, h):
    assert fill_distance(X) == pytest.approx(h, rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(4, 1), (2, 2), (5, 2)])
def test_factorial_grids_in_low_dimensions(n, d):
    assert fill_distance(grid(n, d)) == pytest.approx(math.sqrt(d) / (2 * (n - 1)), rel=1e-12)


FACTORIAL = [(2, 3), (3, 3), (4, 3), (5, 3), (8, 3), (2, 4), (3, 4), (4, 4), (5, 4), (2, 5), (3, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize(("n", "d"), FACTORIAL)
def test_factorial_grids_are_within_two_percent_of_the_truth(n, d):
    h = math.sqrt(d) / (2 * (n - 1))
    assert 0.98 * h <= fill_distance(grid(n, d)) <= h * (1 + 1e-12)


@pytest.mark.parametrize(("n", "d"), [(2, 3), (4, 3), (3, 4), (3, 5)])
def test_grids_of_cell_middles_have_their_hole_in_the_corner(n, d):
    X = (grid(n, d) * (n - 1) + 0.5) / n
    assert fill_distance(X) == pytest.approx(math.sqrt(d) / (2 * n), rel=1e-12)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), t=st.integers(1, 40))
def test_three_dimensions_are_a_close_lower_bound(seed, t):
    X = np.random.default_rng(seed).random((t, 3))
    lower, upper = fill_bounds(X, gap=2e-3)
    assert 0.98 * lower <= fill_distance(X) <= upper


def test_the_middle_of_the_cube_leaves_the_corners():
    assert fill_distance(np.full((1, 7), 0.5)) == pytest.approx(math.sqrt(7) / 2)


def test_high_dimensions_are_a_lower_bound_between_probes_and_diameter():
    X = np.random.default_rng(0).random((50, 20))
    assert 1.0 < fill_distance(X) <= math.sqrt(20)


def test_the_value_is_a_function_of_the_set():
    X = np.random.default_rng(0).random((30, 4))
    assert fill_distance(X) == fill_distance(X)
    assert fill_distance(X[::-1]) == pytest.approx(fill_distance(X), rel=1e-14)


def test_more_points_fill_more():
    X = np.random.default_rng(0).random((60, 2))
    h = [fill_distance(X[:t]) for t in range(1, 61)]
    assert (np.diff(h) <= 1e-12).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 2)), r"'X' parameter of fill_distance must be a non-empty \(t, d\) array. Got shape \(0, 2\)"),
        (np.ones(3), r"non-empty \(t, d\) array. Got shape \(3,\)"),
        ([[0.5, 1.1]], "must lie in the unit cube"),
        ([[-0.1]], "must lie in the unit cube"),
        ([[np.nan, 0.5]], "must lie in the unit cube"),
    ],
)
def test_bad_designs(X, message):
    with pytest.raises(ValueError, match=message):
        fill_distance(X)
