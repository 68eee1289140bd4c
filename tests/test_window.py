"""Candidates that stay for a while."""

import numpy as np
import pytest

from boke.space import Float, Int, Space
from boke.window import Window


@pytest.mark.parametrize("stride", [1, 7, 100, 250])
def test_a_window_slides_along_one_sequence(stride):
    space = Space.of([(0.0, 1.0)] * 4)
    before, after = Window(3, 100, 1000, stride), Window(3, 100, 1001, stride)
    moved = before.places != after.places
    assert np.count_nonzero(moved) == min(stride, 100)
    assert len(np.unique(before.places)) == 100 and before.places.min() == 1000 * stride + 1
    X, Y = (window.points(window.places, space) for window in (before, after))
    assert ((X >= 0.0) & (X <= 1.0)).all() and len(np.unique(X)) == X.size
    np.testing.assert_array_equal(X[~moved], Y[~moved])  # each keeps its row
    assert (Window(4, 100, 1000, stride).points(before.places, space) != X).all()


def test_its_points_are_of_the_space():
    space = Space({"x": Float(0, 1), "n": Int(0, 3)})
    window = Window(0, 50, 9)
    X = window.points(window.places, space)
    np.testing.assert_array_equal(X, space.snap(X))
    assert len(np.unique(X[:, 1])) == 4
