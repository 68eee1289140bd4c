"""Sobol points and Latin hypercubes: SciPy's own, without what it takes to import them."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from boke import quasirandom
from boke.compiled import NATIVE
from boke.design import latin_hypercube
from boke.quasirandom import sobol, sobol_integers


def test_sobol_is_shifted_freshly_and_fills_the_cube():
    rng = np.random.default_rng(0)
    A, B = sobol(256, 3, rng), sobol(256, 3, rng)
    assert not np.array_equal(A, B)
    for points in (A, B):
        assert points.min() > 0.0 and points.max() < 1.0
        counts = np.histogramdd(points, bins=(4, 4, 4), range=[(0, 1)] * 3)[0]
        assert counts.min() == counts.max() == 4  # 256 points of a digital net, 4 in each of 64 boxes


@pytest.mark.parametrize("d", [1, 2, 7, 200])
@pytest.mark.parametrize("n", [1, 2, 3, 100, 1024])
def test_sobol_points_are_those_of_scipy(n, d):
    np.testing.assert_array_equal(sobol_integers(n, d), quasirandom._imported(n, d))


@pytest.mark.skipif(NATIVE is None, reason="there is nothing compiled here")
def test_compiled_shift_is_the_same():
    shift = np.random.default_rng(0).integers(0, 2**32, size=5, dtype=np.uint32)
    points = sobol_integers(100, 5)
    np.testing.assert_array_equal(NATIVE.shifted(points, shift), quasirandom.plain_shifted(points, shift))


def test_a_scipy_without_the_table(monkeypatch):
    expected = sobol_integers(50, 6)

    def gone(d):
        raise FileNotFoundError

    monkeypatch.setattr(quasirandom, "_scrambled", gone)
    np.testing.assert_array_equal(sobol_integers.__wrapped__(50, 6), expected)


def test_more_dimensions_than_the_table_has():
    with pytest.raises(ValueError, match=r"up to 21201 dimensions\. Got 21202"):
        sobol(2, 21202, np.random.default_rng(0))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 3), (40, 20)])
def test_latin_hypercubes_are_those_of_scipy(n, d):
    theirs = qmc.LatinHypercube(d, rng=np.random.default_rng((3, n))).random(n)
    np.testing.assert_array_equal(latin_hypercube(n, d, rng=np.random.default_rng((3, n))), theirs)


HEAVY = [f"scipy.{part}" for part in ("stats", "optimize", "special", "spatial")]


def loaded(code):
    code += f"; import sys; print([m for m in {HEAVY} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_boke_leaves_the_heavy_parts_of_scipy_alone():
    assert loaded("import boke") == "[]"


@pytest.mark.skipif(NATIVE is None, reason="without compiled code SciPy's special functions stand in for it")
def test_so_does_a_suggestion():
    """Half a second that every command of a shell would pay for. Exploring needs the special functions."""
    ask = "import boke; o = boke.Optimizer([(0, 1)] * 3, rng=0); [o.tell(o.ask(), i) for i in range(8)]; o.ask()"
    assert loaded(ask) == "[]"
