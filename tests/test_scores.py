import math
import subprocess
import sys

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from boke.compiled import NATIVE
from boke.scores import SCALES, normal_scores, plain_levels, scaled

VALUES = st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0]), min_size=1)


@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_normal_scores_are_quantiles_of_average_ranks(values):
    y = np.array(values)
    np.testing.assert_allclose(normal_scores(y), norm.ppf((rankdata(y) - 0.5) / len(y)), rtol=1e-12, atol=1e-15)


@pytest.mark.skipif(NATIVE is None, reason="not compiled")
@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_levels_are_the_same_compiled(values):
    y = np.array(values)
    order = np.argsort(y)
    np.testing.assert_array_equal(NATIVE.levels(y, order), plain_levels(y, order))


def test_normal_scores_do_not_change_under_increasing_transformations():
    y = np.random.default_rng(0).normal(size=50)
    for z in (np.exp(100 * y), y**3, np.arctan(y), 1e300 * y):
        np.testing.assert_array_equal(normal_scores(z), normal_scores(y))


def test_normal_scores_follow_the_order_and_the_sign():
    y = np.random.default_rng(0).permutation(20.0 ** np.arange(-10, 10))
    assert np.argsort(normal_scores(y)).tolist() == np.argsort(y).tolist()
    np.testing.assert_allclose(normal_scores(-y), -normal_scores(y), atol=1e-15)


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_every_scale_of_finite_values_is_finite(values):
    y = np.array(values)
    for how in SCALES:
        assert np.isfinite(scaled(y, how)).all()


@pytest.mark.parametrize("unit", [1.0, 1e-300, 1e307, -1e307])
def test_standardized_values_have_mean_0_and_deviation_1(unit):
    y = unit * np.random.default_rng(0).normal(size=100)
    z = scaled(y, "standardize")
    assert z.mean() == pytest.approx(0, abs=1e-12)
    assert z.std() == pytest.approx(1)
    np.testing.assert_allclose(np.corrcoef(z, y / unit)[0, 1], np.sign(unit), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 1e308, -1e308, 5e-324])
@pytest.mark.parametrize("how", ["rank", "standardize"])
def test_equal_values_become_zero(value, how):
    np.testing.assert_allclose(scaled(np.full(7, value), how), 0.0, atol=1e-15)


def test_a_signal_on_a_large_constant_survives():
    signal = np.arange(10.0)
    np.testing.assert_allclose(scaled(1e15 + signal, "standardize"), scaled(signal, "standardize"), rtol=1e-9)


def test_none_keeps_the_values():
    y = np.array([3.0, 1.0])
    assert scaled(y, "none") is y


@pytest.mark.parametrize("how", SCALES)
def test_no_values(how):
    assert scaled(np.empty(0), how).shape == (0,)


@pytest.mark.skipif(NATIVE is None, reason="they are compiled or SciPy's")
def test_compiled_quantiles_are_those_of_scipy():
    rng = np.random.default_rng(0)
    levels = np.concatenate(
        [rng.random(10_000), 10.0 ** rng.uniform(-300, 0, 3000), 1.0 - 10.0 ** rng.uniform(-16, 0, 3000)]
    )
    ends = np.array([0.0, 1.0, 0.5, math.exp(-2.0), 1.0 - math.exp(-2.0), math.exp(-32.0), math.nan, -1.0, 2.0])
    for some in (levels, ends):
        np.testing.assert_allclose(NATIVE.normal_quantiles(some), scipy.special.ndtri(some), rtol=1e-15)


@pytest.mark.skipif(NATIVE is None, reason="what is compiled needs no SciPy")
def test_a_run_of_the_default_does_without_the_slow_modules():
    """Importing one of these takes as long as hundreds of suggestions."""
    code = """if True:
        import boke, sys
        optimizer = boke.Optimizer([(0, 1)] * 3, rng=0)
        for _ in range(120):
            trial = optimizer.ask()
            optimizer.tell(trial, float(((trial.x - 0.3) ** 2).sum()))
        slow = ("scipy.special", "scipy.spatial", "scipy.stats", "scipy.linalg")
        print([name for name in slow if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
