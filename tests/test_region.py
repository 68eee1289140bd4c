import numpy as np
import pytest

from boke.region import LARGEST_SIDE, SMALLEST_SIDE, TrustRegion, box


def side(region, successes, dim):
    return region.side(np.array(successes, bool), np.zeros(len(successes), bool), dim)


def test_the_side_follows_success_and_failure():
    region = TrustRegion(start=0.4, grow=1.5, shrink=0.5, patience=2)
    assert side(region, [], 5) == 0.4
    assert side(region, [True], 5) == pytest.approx(0.6)
    assert side(region, [True, True, True], 5) == LARGEST_SIDE
    assert side(region, [False], 5) == 0.4
    assert side(region, [False, False], 5) == pytest.approx(0.2)
    assert side(region, [False, True, False], 5) == pytest.approx(0.6)  # a success starts the count anew


@pytest.mark.parametrize(("dim", "patience"), [(1, 3), (3, 3), (4, 2), (200, 2)])
def test_in_few_dimensions_it_is_more_patient(dim, patience):
    sides = [side(TrustRegion(), [False] * n, dim) for n in range(5)]
    assert sides[patience - 1] == sides[0] > sides[patience]


def test_a_collapsed_region_starts_anew():
    region = TrustRegion(shrink=0.1, patience=1)
    sides = [side(region, [False] * n, 5) for n in range(20)]
    assert min(sides) >= SMALLEST_SIDE and sides.count(0.4) >= 2


def test_below_settled_only_successes_of_trials_that_looked_elsewhere_count():
    region = TrustRegion(start=0.4, shrink=0.5, patience=1, settled=0.15)

    def side(successes, aside):
        return region.side(np.array(successes, bool), np.array(aside, bool), 5)

    assert side([0, 0], [1, 1]) == 0.1  # not settled yet: outcomes like any others
    assert side([0, 0, 0, 0], [0, 0, 1, 1]) == 0.1
    assert side([0, 0, 0, 0], [0, 0, 1, 0]) == 0.05
    assert side([0, 0, 1], [0, 0, 1]) == 0.4  # the region moves to another peak
    assert side([0, 0, 1], [0, 0, 0]) == pytest.approx(0.16)


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_side_is_the_plain_one(seed):
    rng = np.random.default_rng(seed)
    region = TrustRegion(shrink=rng.uniform(0.1, 0.9), patience=int(rng.integers(1, 4)), settled=0.1)
    successes, aside = rng.random(1000) < rng.uniform(0.0, 0.4), rng.random(1000) < 0.5
    for n in (0, 1, 10, 1000):
        assert region.side(successes[:n], aside[:n], 4) == region.plain_side(successes[:n], aside[:n], region.patience)


def test_the_box_stays_in_the_cube_and_reaches_the_next_cell():
    low, high = box(np.array([0.05, 0.5, 0.5]), 0.2, np.array([0.0, 0.0, 0.25]))
    np.testing.assert_allclose(low, [0.0, 0.4, 0.25])
    np.testing.assert_allclose(high, [0.15, 0.6, 0.75])
