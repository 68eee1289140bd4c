import math

import numpy as np

from boke.elementary import exp, log


def test_they_are_those_of_the_c_library():
    """math has them from there, one number at a time, whatever the processor can do with several."""
    x = np.random.default_rng(0).normal(scale=50.0, size=(100, 7))
    x[0] = [0.0, -0.0, 1e-300, 700.0, -745.0, 1e-17, -1e-17]
    assert np.array_equal(exp(x), np.vectorize(math.exp)(x))
    assert np.array_equal(log(np.abs(x) + 5e-324), np.vectorize(math.log)(np.abs(x) + 5e-324))
    with np.errstate(all="raise"):
        assert exp([1e3, -1e3, np.inf, -np.inf]).tolist() == [math.inf, 0.0, math.inf, 0.0]
        assert log([0.0, math.inf]).tolist() == [-math.inf, math.inf]
