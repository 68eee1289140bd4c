"""Transformations of the values: order, moments, inverse, and the compiled twin."""

import numpy as np
import pytest

from boke.warp import _bent, plain_warped, unwarped, warped


@pytest.mark.parametrize(
    "y", [np.zeros(20), np.r_[np.zeros(19), 1e308], np.r_[-1e308, np.arange(19.0)], -(10.0 ** np.arange(-300, 300, 30))]
)
def test_warped_values_are_finite_ordered_and_standard(y):
    Y, jacobian = warped(y)
    assert np.isfinite(Y).all() and np.isfinite(jacobian).all()
    for version in Y:
        assert (np.diff(version[np.argsort(y, kind="stable")]) >= 0).all()
        assert version.std() == pytest.approx(1.0) or np.ptp(y) == 0 or np.ptp(version) == 0


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e100])
@pytest.mark.parametrize("n", [1, 2, 60, 200])
def test_compiled_warps_are_the_plain_ones(n, scale):
    rng = np.random.default_rng(n)
    for y in (
        rng.normal(size=n),
        np.zeros(n),
        -np.exp(9.0 * rng.normal(size=n)),
        rng.integers(3, size=n).astype(float),
    ):
        for got, expected in zip(warped(scale * y), plain_warped(scale * y), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


def test_unwarped_undoes_warped():
    rng = np.random.default_rng(0)
    for y in (rng.normal(size=30), -np.exp(5 * rng.normal(size=30)), 1e200 * rng.normal(size=9), np.ones(4)):
        Y, _ = warped(y)
        for version in range(len(Y)):
            np.testing.assert_allclose(unwarped(Y[version], y, version), y, rtol=1e-7, atol=1e-9 * np.abs(y).max())


def test_a_bent_version_must_earn_its_place():
    y = np.random.default_rng(0).normal(size=30)
    bent, slopes, _ = _bent(y)
    _, jacobian = warped(y)
    plain = slopes - 30 * np.log(bent.std(axis=1))
    np.testing.assert_allclose(plain - jacobian, [5.0, 5.0, 5.0, 0.0], rtol=1e-9, atol=1e-9)
