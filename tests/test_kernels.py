import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import COMPACT, NAMES, psi
from scipy.integrate import quad

from boke.kernels import KERNELS, Gaussian, get_kernel

SPHERE = {1: 2.0, 2: 2 * math.pi, 3: 4 * math.pi}  # surface of the unit ball


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(r=st.floats(0, 60))
def test_value_is_the_papers_formula(name, r):
    assert KERNELS[name].value(np.array([r * r]))[0] == pytest.approx(psi(name, r), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_value_is_one_at_zero(name):
    assert KERNELS[name].value(np.zeros(1))[0] == 1.0


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(s=st.floats(0.01, 0.99) | st.floats(1.01, 50))
def test_slope_is_the_derivative_in_the_squared_distance(name, s):
    k, step = KERNELS[name], 1e-5 * s
    difference = (k.value(np.array([s + step])) - k.value(np.array([s - step])))[0] / (2 * step)
    assert k.slope(np.array([s]))[0] == pytest.approx(difference, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_slope_at_zero_is_finite(name):
    assert np.isfinite(KERNELS[name].slope(np.zeros(1))).all()


@pytest.mark.parametrize("name", NAMES)
def test_infinitely_far_points_have_no_weight_and_no_slope(name):
    far = np.array([np.inf])
    assert KERNELS[name].value(far)[0] == 0.0
    assert KERNELS[name].slope(far)[0] == 0.0


@pytest.mark.parametrize("name", COMPACT)
def test_compact_kernels_vanish_exactly_beyond_their_radius(name):
    k = KERNELS[name]
    assert k.value(np.array([k.radius**2, 1.0000001, 4.0, 1e300])).tolist() == [0.0] * 4
    assert k.value(np.array([k.radius**2 * 0.999999]))[0] > 0


def test_the_gaussian_has_no_radius():
    assert Gaussian().radius == math.inf


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(kappa=st.floats(1e-300, 1.0))
def test_reach_inverts_the_value(name, kappa):
    reach = KERNELS[name].reach(kappa)
    assert psi(name, reach) == pytest.approx(kappa, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_log_integral_against_quadrature(name, d):
    end = min(KERNELS[name].radius, 40.0)
    integral = quad(lambda r: psi(name, r) * SPHERE[d] * r ** (d - 1), 0, end, epsabs=0, epsrel=1e-12)[0]
    assert KERNELS[name].log_integral(d) == pytest.approx(math.log(integral), rel=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_get_kernel_by_name_and_by_object(name):
    assert get_kernel(name) is KERNELS[name]
    assert get_kernel(KERNELS[name]) is KERNELS[name]


def test_unknown_kernel_is_named_in_the_error():
    with pytest.raises(ValueError, match=r"The 'kernel' parameter must be one of .*'gaussian'.* Got 'cubic'\."):
        get_kernel("cubic")
