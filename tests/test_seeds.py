"""Seeds against those of NumPy."""

import pickle

import numpy as np
import pytest

from boke.seeds import generator

NUMBERS = (0, 1, 1000, 2**32 - 1, 2**32, 2**64 + 5, 2**127 + 3, 10**60)


@pytest.mark.parametrize("seed", NUMBERS)
def test_generators_are_those_of_numpy(seed):
    for number in NUMBERS:
        assert generator(seed, number).bit_generator.state == np.random.default_rng((seed, number)).bit_generator.state


def test_a_generator_has_the_children_of_numpys_and_can_be_copied():
    ours, numpys = generator(3, 5), np.random.default_rng((3, 5))
    for _ in range(2):
        for child, expected in zip(ours.spawn(2), numpys.spawn(2), strict=True):
            assert child.bit_generator.state == expected.bit_generator.state
    assert pickle.loads(pickle.dumps(ours)).random() == numpys.random()
