import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from boke.compiled import NATIVE
from boke.elementary import exp, largest_differences, log, squared_distances


def test_they_are_those_of_the_c_library():
    """math has them from there, one number at a time, whatever the processor can do with several."""
    x = np.random.default_rng(0).normal(scale=50.0, size=(100, 7))
    x[0] = [0.0, -0.0, 1e-300, 700.0, -745.0, 1e-17, -1e-17]
    assert np.array_equal(exp(x), np.vectorize(math.exp)(x))
    assert np.array_equal(exp(x.T[::2]), np.vectorize(math.exp)(x).T[::2])  # whatever the layout
    assert np.array_equal(log(np.abs(x) + 5e-324), np.vectorize(math.log)(np.abs(x) + 5e-324))
    with np.errstate(all="raise"):
        assert exp([1e3, -1e3, np.inf, -np.inf]).tolist() == [math.inf, 0.0, math.inf, 0.0]
        assert log([0.0, math.inf]).tolist() == [-math.inf, math.inf]
    assert exp(1.0).shape == () and exp(1.0) == math.e and exp([]).shape == (0,)


@pytest.mark.parametrize("d", [1, 2, 9, 50])
@pytest.mark.parametrize(("n", "m"), [(21, 13), (8, 1), (1, 5), (0, 3), (3, 0)])
def test_distances_are_those_of_scipy(d, n, m):
    rng = np.random.default_rng(d)
    X, others = rng.normal(size=(n, d)), rng.normal(size=(2 * m, d))[::2]
    for ours, metric in ((squared_distances, "sqeuclidean"), (largest_differences, "chebyshev")):
        np.testing.assert_array_equal(ours(X, others), cdist(X, others, metric))
        for isa in NATIVE.instruction_sets() if NATIVE else ():
            there = NATIVE.distances(X, np.ascontiguousarray(others), metric == "chebyshev", isa)
            np.testing.assert_array_equal(there, ours(X, others))


def test_without_columns_all_are_in_one_place():
    np.testing.assert_array_equal(squared_distances(np.empty((2, 0)), np.empty((3, 0))), np.zeros((2, 3)))
