import numpy as np
import pytest

from boke.region import LARGEST_SIDE, REPLAYED, SMALLEST_SIDE, Search, TrustRegion, box, replayed_from


def replay(region, successes, aside=None, values=None, dim=5):
    n = len(successes)
    values = np.zeros(n) if values is None else np.array(values, float)
    return region.replay(
        np.array(successes, bool), values, np.array([False] * n if aside is None else aside, bool), dim
    )


def side(region, successes, dim):
    return replay(region, successes, dim=dim).side


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
        return replay(region, successes, aside).side

    assert side([0, 0], [1, 1]) == 0.1  # not settled yet: outcomes like any others
    assert side([0, 0, 0, 0], [0, 0, 1, 1]) == 0.1
    assert side([0, 0, 0, 0], [0, 0, 1, 0]) == 0.05
    assert side([0, 0, 1], [0, 0, 1]) == 0.4  # the region moves to another peak
    assert side([0, 0, 1], [0, 0, 0]) == pytest.approx(0.16)


def test_a_settled_region_starts_a_second_search_and_ends_it_when_that_has_settled():
    region = TrustRegion(start=0.4, grow=1.5, shrink=0.1, patience=1, settled=0.01)
    down = [False] * 2  # 0.4 -> 0.004: settled

    def after(*values):
        n = len(values)
        return replay(region, down + [False] * n, [False] * 2 + [True] * n, [0.0] * 2 + list(values))

    assert after() == Search(pytest.approx(0.004), -1, 0.0)
    assert after(-5.0)[1:] == (2, 0.4)  # its first point, whatever the value
    assert after(-5.0, -4.0)[1:] == (3, pytest.approx(0.6))
    assert after(-5.0, -6.0)[1:] == (2, pytest.approx(0.04))
    assert after(-5.0, -6.0, -7.0)[1] == -1  # it has settled: the next one begins anew
    assert after(-5.0, -6.0, -7.0, -8.0)[1:] == (5, 0.4)
    assert after(-5.0, -6.0, -4.0)[1:] == (4, pytest.approx(0.06))
    assert len({after(*values).side for values in ([], [-5.0], [-5.0, -4.0])}) == 1  # the first region waits


def test_a_second_search_that_finds_the_best_becomes_the_first():
    region = TrustRegion(shrink=0.1, patience=1)
    found = replay(region, [False] * 2 + [False, True], [False] * 2 + [True, True], [0.0] * 3 + [1.0])
    assert found[:2] == (region.start, -1)


def test_before_the_region_settles_there_is_no_second_search():
    region = TrustRegion(shrink=0.1, patience=1)
    assert replay(region, [False], [True]) == Search(pytest.approx(0.04), -1, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_replay_is_the_plain_one(seed):
    rng = np.random.default_rng(seed)
    region = TrustRegion(shrink=rng.uniform(0.1, 0.9), patience=int(rng.integers(1, 4)), settled=0.1)
    successes, aside = rng.random(1000) < rng.choice([0.0, 0.01, 0.1, 0.4]), rng.random(1000) < 0.5
    values = rng.normal(size=1000)
    for n in (0, 1, 10, *range(100, 1001, 50)):
        outcomes = successes[:n], values[:n], aside[:n]
        assert region.replay(*outcomes, 4) == region.plain_replay(*outcomes, region.patience)


def test_what_is_replayed_begins_at_a_trial_that_stays_for_long():
    begins = [replayed_from(n) for n in range(5 * REPLAYED)]
    assert set(begins) == {0, REPLAYED, 2 * REPLAYED, 3 * REPLAYED}
    assert all(n < 2 * REPLAYED or REPLAYED <= n - begin < 2 * REPLAYED for n, begin in enumerate(begins))


def test_the_box_stays_in_the_cube_and_reaches_the_next_cell():
    low, high = box(np.array([0.05, 0.5, 0.5]), 0.2, np.array([0.0, 0.0, 0.25]))
    np.testing.assert_allclose(low, [0.0, 0.4, 0.25])
    np.testing.assert_allclose(high, [0.15, 0.6, 0.75])
