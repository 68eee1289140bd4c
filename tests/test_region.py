import numpy as np
import pytest

from boke.region import LARGEST_SIDE, SMALLEST_SIDE, TrustRegion, box


def test_the_side_follows_success_and_failure():
    region = TrustRegion(start=0.4, grow=1.5, shrink=0.5, patience=2)
    assert region.side([], 5) == 0.4
    assert region.side([True], 5) == pytest.approx(0.6)
    assert region.side([True, True, True], 5) == LARGEST_SIDE
    assert region.side([False], 5) == 0.4
    assert region.side([False, False], 5) == pytest.approx(0.2)
    assert region.side([False, True, False], 5) == pytest.approx(0.6)  # a success starts the count anew


@pytest.mark.parametrize(("dim", "patience"), [(1, 3), (3, 3), (4, 2), (200, 2)])
def test_in_few_dimensions_it_is_more_patient(dim, patience):
    sides = [TrustRegion().side([False] * n, dim) for n in range(5)]
    assert sides[patience - 1] == sides[0] > sides[patience]


def test_a_collapsed_region_starts_anew():
    region = TrustRegion(shrink=0.1, patience=1)
    sides = [region.side([False] * n, 5) for n in range(20)]
    assert min(sides) >= SMALLEST_SIDE and sides.count(0.4) >= 2


def test_the_box_stays_in_the_cube_and_reaches_the_next_cell():
    low, high = box(np.array([0.05, 0.5, 0.5]), 0.2, np.array([0.0, 0.0, 0.25]))
    np.testing.assert_allclose(low, [0.0, 0.4, 0.25])
    np.testing.assert_allclose(high, [0.15, 0.6, 0.75])
