"""Sobol points: a net, freshly shifted, and Ctrl-C is put off rather than lost while they are made."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from boke.quasirandom import _no_interrupts, sobol


def test_sobol_is_shifted_freshly_and_fills_the_cube():
    rng = np.random.default_rng(0)
    A, B = sobol(256, 3, rng), sobol(256, 3, rng)
    assert not np.array_equal(A, B)
    for points in (A, B):
        assert points.min() > 0.0 and points.max() < 1.0
        counts = np.histogramdd(points, bins=(4, 4, 4), range=[(0, 1)] * 3)[0]
        assert counts.min() == counts.max() == 4  # 256 points of a digital net, 4 in each of 64 boxes


def test_an_interrupt_is_put_off_not_lost():
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    reached = False
    try:
        with pytest.raises(KeyboardInterrupt), _no_interrupts():  # noqa: PT012
            signal.raise_signal(signal.SIGINT)
            reached = True
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, old)
    assert reached


def test_importing_boke_leaves_the_heavy_parts_of_scipy_alone():
    heavy = [f"scipy.{part}" for part in ("stats", "optimize", "special", "spatial")]
    code = f"import sys, boke; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
