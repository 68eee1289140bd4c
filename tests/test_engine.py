"""The compiled sums against their NumPy oracle; without the compiled module these tests are skipped and say so."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import NAMES

import boke
from boke import engine
from boke.engine import Observations
from boke.kernels import KERNELS
from boke.sums import Points, kernel_sums

native = pytest.mark.skipif(engine.NATIVE is None, reason="the sums are not compiled here")
FIELDS = ("W", "S", "mean", "log_W", "dW", "dmean", "dlog_W")


def problem(seed, t, p, c, weighted, n=20):
    rng = np.random.default_rng(seed)
    width = 2.0 / np.sqrt(max(p, 1))
    Z = Points(width * rng.random((t, p)), rng.integers(3, size=(t, c)).astype(float))
    Q = Points(width * rng.random((n, p)), rng.integers(3, size=(n, c)).astype(float))
    w = rng.uniform(0.1, 3.0, t) if weighted else None
    return Z, Q, rng.normal(size=t), w, np.full(c, 0.3)


def assert_same(got, want, y):
    for name in FIELDS:
        a, b = getattr(got, name), getattr(want, name)
        if b is None:
            assert a is None
            continue
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isfinite(a), finite)
        size = np.abs(b[finite]).max(initial=0.0) if name[0] == "d" else np.abs(b[finite])
        spread = np.abs(y).max() if name in ("S", "mean", "dmean") else 1.0
        assert (np.abs(a[finite] - b[finite]) <= 1e-12 * size + 1e-13 * spread).all(), name


@native
@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    t=st.sampled_from([1, 2, 7, 8, 9, 100, 511, 512, 513, 1500]),
    p=st.sampled_from([0, 1, 2, 5, 8, 9, 17, 40]),
    c=st.integers(0, 2),
    weighted=st.booleans(),
    leave_one_out=st.booleans(),
)
@example(seed=109821, t=1500, p=1, c=0, weighted=True, leave_one_out=False)  # points that are very close:
@example(
    seed=729, t=1500, p=1, c=1, weighted=False, leave_one_out=True
)  # the triangular kernel's slope is 1 / distance
def test_compiled_sums_equal_the_oracle(name, seed, t, p, c, weighted, leave_one_out):
    Z, Q, y, w, penalty = problem(seed, t, p, c, weighted)
    if leave_one_out:
        Q = Z.rows(slice(20))
    options = {"gradient": True, "leave_one_out": leave_one_out}
    got = Observations(KERNELS[name], Z, y, w, penalty)(Q, **options)
    assert_same(got, kernel_sums(KERNELS[name], Q, Z, y, w, penalty, **options), y)


@native
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("t", "p", "leave_one_out"), [(1003, 13, False), (1003, 13, True), (43, 1, True), (333, 50, False)]
)
def test_instruction_sets_and_threads_agree_to_the_last_bit(name, t, p, leave_one_out):
    Z, Q, y, w, penalty = problem(0, t, p, 1, True, n=77)
    Q = Z.rows(slice(37)) if leave_one_out else Q
    arguments = (engine.NAMES.index(name), Z.numeric, Z.codes, y, w, penalty)
    results = [
        engine.NATIVE.Sums(*arguments, isa)(Q.numeric, Q.codes, True, leave_one_out, threads)
        for isa in engine.NATIVE.instruction_sets()
        for threads in (1, 3)
    ]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@native
def test_the_exponential_of_the_sums_has_thirteen_digits():
    origin, no = np.zeros((1, 1)), np.empty((2, 0))
    for isa in engine.NATIVE.instruction_sets():
        for away in np.linspace(0.0, 10.19, 1001):  # the nearer of two observations has the value 0
            S = engine.NATIVE.Sums(0, np.array([[0.0], [away]]), no, np.array([0.0, 1.0]), None, no[0], isa)(
                origin, no[:1]
            )[1]
            np.testing.assert_allclose(S[0], np.exp(-0.5 * away**2), rtol=1e-13)
        twice = engine.NATIVE.Sums(0, np.zeros((2, 1)), no, np.ones(2), None, no[0], isa)(origin, no[:1])
        assert twice[0][0] == 2.0 and twice[3][0] == np.log(2.0)


@native
@pytest.mark.parametrize("ell", [1e-300, 1e-160, 1e-9, 1e-3])
def test_vanishing_bandwidths_give_the_nearest_neighbour(ell):
    X = np.random.default_rng(0).random((60, 3))
    model = boke.model.KernelModel(X, np.arange(60.0), bandwidth=ell)
    np.testing.assert_array_equal(model.mean(X + 1e-7), np.arange(60.0))


@native
def test_far_queries_neither_overflow_nor_warn():
    Z = Points(np.zeros((3, 2)), np.empty((3, 0)))
    got = Observations(KERNELS["gaussian"], Z, np.array([1.0, 2.0, 3.0]))(
        Points(np.full((1, 2), 1e150), np.empty((1, 0)))
    )
    assert got.mean[0] == 2.0 and got.W[0] == 0.0 and got.log_W[0] < -1e299


@native
@pytest.mark.parametrize("size", [1e-308, 1e300, 1.7e308])
def test_extreme_values(size):
    Z, Q, y, w, penalty = problem(1, 50, 2, 0, True)
    got = Observations(KERNELS["gaussian"], Z, size * (y / np.abs(y).max()), w, penalty)(Q)
    want = kernel_sums(KERNELS["gaussian"], Q, Z, y / np.abs(y).max(), w, penalty)
    np.testing.assert_allclose(got.mean / size, want.mean, rtol=1e-9)


@native
def test_wrong_shapes_are_refused():
    Z, Q, y, _, penalty = problem(2, 10, 3, 0, False)
    with pytest.raises(ValueError, match="do not agree"):
        engine.NATIVE.Sums(0, Z.numeric, Z.codes, y[:5], np.ones(10), penalty)
    with pytest.raises(ValueError, match="do not agree"):
        engine.NATIVE.Sums(0, Z.numeric, Z.codes, y, np.ones(10), penalty)(Q.numeric[:, :2].copy(), Q.codes)
    with pytest.raises(ValueError, match="instruction set"):
        engine.NATIVE.Sums(0, Z.numeric, Z.codes, y, np.ones(10), penalty, "6502")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "two"])
def test_threads_must_be_a_positive_integer(wrong):
    with pytest.raises(ValueError, match="set_threads"):
        boke.set_threads(wrong)


def test_the_environment_can_choose_numpy():
    code = "import boke; boke.show_config(); print(boke.minimize(lambda x: (x[0] - 0.3) ** 2, [(0, 1)], n_trials=12, rng=0).fun)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"BOKE_SUMS": "numpy", "PATH": ""}, capture_output=True, text=True, check=True
    )
    assert "sums     NumPy" in done.stdout and float(done.stdout.split()[-1]) < 0.01


def test_a_kernel_of_ones_own_is_left_to_numpy():
    class Flat(type(KERNELS["quartic"])):
        name = "flat"

    Z, Q, y, w, penalty = problem(3, 10, 2, 0, False)
    got, want = Observations(Flat(), Z, y, w, penalty)(Q), kernel_sums(KERNELS["quartic"], Q, Z, y, w, penalty)
    np.testing.assert_array_equal(got.mean, want.mean)
