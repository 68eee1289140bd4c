"""The numbers: every function against a computation by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wilcoxon

from boke_bench import analysis

nan = np.nan


def test_best_so_far_and_simple_regret():
    true = np.array([[nan, -3.0, -5.0, nan, -1.0], [-2.0, -4.0, -1.0, -9.0, 0.5]])
    np.testing.assert_array_equal(analysis.best_so_far(true), [[nan, -3, -3, -3, -1], [-2, -2, -1, -1, 0.5]])
    regret = analysis.simple_regret(true, [0.0, 0.0])
    np.testing.assert_array_equal(regret, [[nan, 3, 3, 3, 1], [2, 2, 1, 1, 0]])


def test_cumulative_regret_counts_failures_as_the_worst():
    true = np.array([[-1.0, nan, -4.0, -2.0]])
    np.testing.assert_array_equal(analysis.cumulative_regret(true, [0.0]), [[1, 5, 9, 11]])


def test_quartiles_by_hand():
    curves = np.array([[1.0, nan], [2.0, nan], [3.0, nan], [4.0, nan], [nan, nan]])
    low, middle, high = analysis.quartiles(curves)
    assert (low[0], middle[0], high[0]) == (1.75, 2.5, 3.25)
    assert np.isnan([low[1], middle[1], high[1]]).all()


def test_curves_against_time():
    curves = np.array([[9.0, 5.0, 1.0], [8.0, 4.0, 2.0]])
    seconds = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    at = analysis.against_time(curves, seconds, [0.5, 1.0, 2.0, 3.9, 4.0, 100.0])
    np.testing.assert_array_equal(at, [[nan, 9, 5, 1, 1, 1], [nan, nan, 8, 8, 4, 2]])
    grid = analysis.time_grid(seconds, 5)
    assert (grid[0], grid[-1]) == (2.0, pytest.approx(4.5))


def test_score_knows_no_difference_among_the_solved():
    np.testing.assert_array_equal(analysis.score([1.0, 1e-3, 1e-8, 1e-12, 0.0]), [0, -3, -8, -8, -8])


def test_ranks_share_ties():
    scores = np.array([[1.0, 5.0], [2.0, 5.0], [0.0, 9.0]])
    np.testing.assert_array_equal(analysis.ranks(scores), [[2, 1.5], [3, 1.5], [1, 3]])


def test_mean_ranks_and_their_interval():
    rng = np.random.default_rng(1)
    scores = np.vstack([np.zeros(40), rng.choice([-1.0, 1.0], 40)])
    mean, low, high = analysis.mean_ranks(scores, np.zeros(40))
    share = (scores[1] > 0).mean()
    assert mean[0] == pytest.approx(2.0 - share)
    # the mean of 40 coins: twice 1.96 standard errors wide
    width = 2 * 1.96 * np.sqrt(share * (1 - share) / 40)
    assert high[0] - low[0] == pytest.approx(width, rel=0.12)
    assert low[0] < mean[0] < high[0]


def test_bootstrap_stays_within_problems():
    scores = np.array([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    within = analysis.mean_ranks(scores, np.array([0, 0, 1, 1]))
    assert (within.low[0], within.high[0]) == (1.5, 1.5)
    pooled = analysis.mean_ranks(scores, np.array([0, 1, 2, 3]))
    assert pooled.low[0] < 1.5 < pooled.high[0]


def test_win_rates_by_hand():
    scores = np.array([[0.0, 1.0, 2.0, np.inf], [1.0, 1.0, 1.0, 1.0]])
    wins = analysis.win_rates(scores, np.zeros(4))
    np.testing.assert_array_equal(wins.value, [[0.5, 0.375], [0.625, 0.5]])
    np.testing.assert_allclose(wins.low + wins.high.T, 1.0)
    assert (wins.low <= wins.value).all()
    assert (wins.value <= wins.high).all()


def test_holm_by_hand():
    # sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, made monotone
    np.testing.assert_allclose(analysis.holm([0.04, 0.01, 0.03, 0.02]), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(analysis.holm([0.9, 0.6]), [1.0, 1.0])


def test_paired_tests_are_wilcoxons_corrected():
    rng = np.random.default_rng(0)
    a = rng.normal(size=30)
    scores = np.vstack([a, a + 0.3 + 0.1 * rng.normal(size=30), a[::-1]])
    p = analysis.paired_tests(scores)
    raw = [wilcoxon(scores[i] - scores[j]).pvalue for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose([p[0, 1], p[0, 2], p[1, 2]], analysis.holm(raw))
    np.testing.assert_array_equal(p, p.T)
    np.testing.assert_array_equal(np.diag(p), 1.0)
    assert p[0, 1] < 1e-4


def test_paired_test_by_counting_signs():
    # six pairs, all of one sign: two of the 2^6 assignments of signs are as extreme
    scores = np.vstack([np.zeros(6), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    assert analysis.paired_tests(scores)[0, 1] == pytest.approx(2 / 64)


def test_paired_tests_survive_failures_and_equal_rows():
    scores = np.array([[1.0, 2.0, np.inf, 3.0], [1.0, 2.0, np.inf, 3.0], [0.0, 0.0, 0.0, 0.0]])
    p = analysis.paired_tests(scores)
    assert p[0, 1] == 1.0
    assert np.isfinite(p).all()


def test_data_profile_by_hand():
    regret = np.array([[8.0, 3.0, 0.5], [20.0, 9.0, 9.0]])
    np.testing.assert_array_equal(analysis.data_profile(regret, [10.0, 1.0]), [0.25, 0.5, 0.75])
    own = np.array([[8.0, 4.0], [10.0, 5.0]])
    np.testing.assert_array_equal(analysis.data_profile(regret, own), [0.25, 0.75, 0.75])


def test_targets():
    targets = analysis.coco_targets()
    assert (len(targets), targets[0], targets[-1]) == (51, pytest.approx(100.0), pytest.approx(1e-8))
    np.testing.assert_allclose(analysis.relative_targets([2.0, 0.0], 3, 4.0), [[2, 0.02, 2e-4], [1e-8, 1e-10, 1e-12]])


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_growth_finds_the_exponent(exponent):
    rng = np.random.default_rng(0)
    t = np.arange(1, 1001)
    times = 1e-4 * t**exponent * np.exp(0.2 * rng.normal(size=(5, 1000)))
    times[:, rng.integers(1000, size=30)] *= 50.0  # somebody else used the machine
    fit = analysis.growth(times, 100)
    assert fit.exponent == pytest.approx(exponent, abs=0.05)
    assert fit.low <= fit.exponent <= fit.high
    assert fit.milliseconds == pytest.approx(0.1 * 1000**exponent, rel=0.1)
    assert np.isnan(analysis.growth(times[:1], 100).low)
