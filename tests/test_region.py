import numpy as np
import pytest

from boke.history import Data
from boke.region import LARGEST_SIDE, REPLAYED, SMALLEST_SIDE, TrustRegion, box, successes


def test_the_side_follows_success_and_failure():
    region = TrustRegion(start=0.4, grow=1.5, shrink=0.5, patience=2)
    assert region.side([]) == 0.4
    assert region.side([True]) == pytest.approx(0.6)
    assert region.side([True, True, True]) == LARGEST_SIDE
    assert region.side([False]) == 0.4
    assert region.side([False, False]) == pytest.approx(0.2)
    assert region.side([False, True, False]) == pytest.approx(0.6)  # a success starts the count anew


def test_a_collapsed_region_starts_anew():
    region = TrustRegion(shrink=0.1, patience=1)
    sides = [region.side([False] * n) for n in range(20)]
    assert min(sides) >= SMALLEST_SIDE and sides.count(0.4) >= 2


def test_success_is_judged_in_the_order_of_numbers():
    y, numbers = np.array([5.0, 1.0, 3.0, 4.0, 2.0]), np.array([4, 0, 2, 3, 1])
    local = np.array([True, False, True, False, True])  # trials 4, 2 and 1
    data = Data(np.zeros((5, 1)), y, np.zeros((0, 1)), numbers)
    assert successes(data, local) == [True, True, True]
    data = Data(np.zeros((5, 1)), -y, np.zeros((0, 1)), numbers)
    assert successes(data, local) == [False, False, False]


def test_old_outcomes_are_forgotten_and_data_without_numbers_have_none():
    n = REPLAYED + 50
    data = Data(np.zeros((n, 1)), np.arange(n, dtype=float), np.zeros((0, 1)), np.arange(n))
    assert len(successes(data, np.ones(n, bool))) == REPLAYED
    assert successes(Data(np.zeros((n, 1)), np.zeros(n), np.zeros((0, 1))), np.ones(n, bool)) == []


def test_the_box_stays_in_the_cube_and_reaches_the_next_cell():
    low, high = box(np.array([0.05, 0.5, 0.5]), 0.2, np.array([0.0, 0.0, 0.25]))
    np.testing.assert_allclose(low, [0.0, 0.4, 0.25])
    np.testing.assert_allclose(high, [0.15, 0.6, 0.75])
