"""Kernel sums that are kept at candidates, against those made afresh."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boke import Optimizer, policies
from boke.bandwidth import Fixed, Silverman
from boke.compiled import NATIVE
from boke.data import Data
from boke.history import CATALOGUE
from boke.keys import row_keys
from boke.model import KernelModel
from boke.policies import BOKE, BOKELocal, BOKEPlus, Key
from boke.pool import CROWDED, FEW, WITHIN, Pool
from boke.space import Categorical, Float, Int, Space

pytestmark = pytest.mark.skipif(NATIVE is None, reason="a pool is compiled or not at all")


def assert_fresh(pool, model, C):
    """A pool's sums are those of the model, to ten digits and more."""
    mean, density = model.over(C, pool)
    p = model.predict(C)
    np.testing.assert_allclose(mean, p.mean, rtol=1e-10, atol=1e-10 * np.abs(model.y).max())
    large = p.density > 1e-290
    np.testing.assert_allclose(density[large], p.density[large], rtol=1e-10)
    assert (density[~large] < 1e-289).all()


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 5, 12]),
    ell=st.sampled_from([1e-3, 0.02, 0.1]),
    steps=st.lists(st.sampled_from("tttttTprRfwglbnN"), min_size=1, max_size=60),
)
def test_sums_are_fresh_after_any_history(seed, d, ell, steps):
    """Trials are told, alone and many at once, fail and are pending, results come back, are removed and weighted;
    bandwidths grow and fall; candidates are renewed."""
    rng = np.random.default_rng(seed)
    C = rng.random((300, d))
    A, pool, X, y, silent, weights = C, Pool(), [C[0]], [0.0], [], None
    for step in steps:
        if step in "tT":  # half of them at one of few points
            for _ in range(1 if step == "t" else 40):
                X.append(A[rng.integers(300 if rng.random() < 0.5 else 4)])
                y.append(rng.normal())
        elif step in "nN":
            C = C.copy()
            C[rng.permutation(300)[: 3 if step == "n" else 300]] = rng.random((3 if step == "n" else 300, d))
        elif step in "pf":
            silent.append(A[rng.integers(300)])
        elif step == "b" and silent:
            X.append(silent.pop(rng.integers(len(silent))))
            y.append(rng.normal())
        elif step == "r" and len(X) > 1:
            gone = rng.integers(len(X))
            del X[gone], y[gone]
        elif step == "R":
            del X[len(X) // 2 + 1 :], y[len(y) // 2 + 1 :]
        elif step in "gl":
            ell = min(0.1, ell * 1.3) if step == "g" else ell * 0.8
        weights = 10.0 ** rng.uniform(-6, 3, len(X)) * (rng.random(len(X)) < 0.9) if step == "w" else None
        if weights is not None and not weights.any():
            weights = None
        order = rng.permutation(len(X))
        model = KernelModel(
            np.array(X)[order], np.array(y)[order], bandwidth=ell, weights=weights, silent=silent or None
        )
        assert_fresh(pool, model, C)
        again = model.over(C, Pool())
        for kept, fresh in zip(model.over(C, pool), again, strict=True):
            np.testing.assert_array_equal(kept, fresh)  # what came and went leaves no trace


@pytest.mark.parametrize("d", [1, 3, 9])
def test_all_instruction_sets_agree(d):
    rng = np.random.default_rng(d)
    C, P, keys = rng.random((203, d)), rng.random((40, d)), np.arange(40, dtype=np.uint64)
    first = None
    for isa in NATIVE.instruction_sets():
        pool, y = NATIVE.Pool(isa), np.linspace(-1, 1, 40)
        pool.sums(C, False, P, keys, y, None, 0.05, WITHIN)
        found = (*pool.sums(C, True, P[::3].copy(), keys[::3].copy(), y[::3].copy(), None, 0.04, WITHIN), pool.size)
        first = first or found
        for a, b in zip(found, first, strict=True):
            np.testing.assert_array_equal(a, b)


def test_nothing_is_kept_where_everything_counts():
    rng = np.random.default_rng(0)
    C, some = rng.random((500, 2)), FEW // 500
    X = rng.random((some + 20, 2))
    pool, model = Pool(), KernelModel(X, np.zeros(some + 20), bandwidth=1.0)
    assert_fresh(pool, KernelModel(X[:some], np.zeros(some), bandwidth=1.0), C)
    assert some > CROWDED and model.over(C, pool) is not None and model.over(C, pool) is None
    others = (
        KernelModel(C[:9], np.arange(9.0), kernel="quartic", bandwidth=0.1),
        KernelModel(C[:9], np.arange(9.0), bandwidth=[0.1, 0.2]),
    )
    huge = KernelModel(C[:9], np.full(9, 1e300), bandwidth=0.1)
    assert all(model.over(C, Pool()) is None for model in (*others, huge))


def test_points_that_go_make_room_for_others():
    rng = np.random.default_rng(0)
    C, X, pool = rng.random((50, 2)), rng.random((2000, 2)), NATIVE.Pool()
    for i in range(0, 1990):
        some = X[i : i + 10]
        pool.sums(C, True, some, row_keys(some), np.zeros(10), None, 0.01, WITHIN)
        assert pool.slots < 100 and pool.size <= 50 * 100
    mean, density = pool.sums(C, True, X[:0], row_keys(X[:0]), np.zeros(0), None, 0.01, WITHIN)
    assert (mean == 0.0).all() and (density == 0.0).all()


def test_other_candidates_are_others():
    """As many or not, of as many columns or not."""
    rng, pool = np.random.default_rng(0), Pool()
    for n, d in ((40, 2), (40, 2), (60, 2), (60, 3), (5, 1)):
        C, X = rng.random((n, d)), rng.random((30, d))
        assert_fresh(pool, KernelModel(X, rng.normal(size=30), bandwidth=0.05), C)


@pytest.mark.parametrize("lengths", [(3, 3, 3, 3), (4, 3, 4, 4), (4, 4, 3, 4), (4, 4, 4, 3)])
def test_wrong_calls_are_refused(lengths):
    d, n, m, w = lengths
    with pytest.raises(ValueError, match="agree"):
        NATIVE.Pool().sums(
            np.zeros((9, 4)), False, np.zeros((4, d)), np.zeros(n, np.uint64), np.zeros(m), np.ones(w), 0.1, WITHIN
        )


def catalogue(d=3):
    return np.random.default_rng(1).random((CATALOGUE + 200, d))


def side_by_side(space, policy, steps):
    """A run with failures, pending and removed trials, beside the same one whose pool is lost at every step."""
    kept, lost = (Optimizer(space, direction="maximize", policy=policy, rng=5) for _ in range(2))
    rng = np.random.default_rng(0)
    for i in range(steps):
        lost.history.pool = Pool()
        a, b = kept.ask(), lost.ask()
        np.testing.assert_array_equal(a.x, b.x)
        value = None if rng.random() < 0.1 else -float(np.square(a.x - 0.4).sum()) + 0.1 * rng.normal()
        if rng.random() < 0.8:
            for optimizer, trial in ((kept, a), (lost, b)):
                optimizer.tell(trial, value)
        if i % 20 == 19:
            for optimizer in (kept, lost):
                optimizer.remove(i // 2)
    return kept


@pytest.mark.parametrize("policy", [BOKE(), BOKEPlus(max_points=30), BOKELocal(q=0.5), BOKE(bandwidth=Fixed(0.3))])
def test_a_large_catalogue_is_searched_as_if_nothing_were_kept(policy):
    assert side_by_side(Space.from_arms(catalogue()), policy, 60).history.pool is not None


BOX, GRID = Space.of([(0.0, 1.0)] * 3), Space({"x": Float(0, 1), "n": Int(0, 5000)})


@pytest.mark.parametrize("space", [BOX, GRID], ids=["box", "grid"])
@pytest.mark.parametrize("policy", [BOKE(n_acq=64), BOKEPlus(n_acq=64), BOKEPlus(n_acq=64, max_points=50)])
def test_a_box_is_searched_as_if_nothing_were_kept(space, policy, monkeypatch):
    """So are candidates that stay in a window: the sums at them are those made afresh, and so are suggestions."""
    monkeypatch.setattr(policies, "KEPT", 10)
    optimizer = side_by_side(space, policy, 80)
    data, key = optimizer.history.data(1.0, discourage=True), Key(optimizer.seed, 80)
    model = policy._fit(data, space)
    C = policies.standing(model, data, space, key, policy.n_acq)
    assert C is not None and len(C) == 16 and len(data.silent)
    before = policies.standing(model, data, space, Key(optimizer.seed, 79), policy.n_acq)
    assert (before == C).all(axis=1).sum() == 16 - policies.STRIDE
    assert_fresh(optimizer.history.pool, model, C)


def test_candidates_are_drawn_where_nothing_is_kept():
    X = np.random.default_rng(0).random((policies.KEPT + 1, 3))
    data, key, plain = Data(X, X[:, 0], X[:0]), Key(0, len(X)), BOKE()

    def stay(policy=plain, space=BOX, data=data):
        return policies.standing(policy._fit(data, space), data, space, key, policy.n_acq)

    assert stay() is not None
    assert stay(BOKE(kernel="quartic")) is None
    assert stay(BOKE(bandwidth=Silverman(2.0))) is None  # everything counts everywhere
    assert stay(BOKE(bandwidth=Fixed((0.01, 0.02, 0.01)))) is None
    assert stay(space=Space({"x": Float(0, 1), "y": Float(0, 1), "c": Categorical(["a", "b"])})) is None
    assert stay(space=Space.from_arms(X)) is None
    assert stay(space=Space({"x": Int(0, 3), "y": Int(0, 3), "z": Int(0, 3)})) is None
    assert stay(data=Data(X[1:], X[1:, 0], X[:0])) is None
    some = Data(X[:-1], X[:-1, 0], X[:0])
    assert policies.standing(BOKE()._fit(some, BOX), data, BOX, key, 1024) is None  # a sample is a new one each time


def test_the_suggestion_is_the_best_of_all_arms():
    space = Space.from_arms(catalogue())
    policy, optimizer = BOKE(), Optimizer(space, direction="maximize", policy=BOKE(), rng=0)
    for _ in range(30):
        trial = optimizer.ask()
        optimizer.tell(trial, float(np.sin(9 * trial.x).sum()))
    data = optimizer.history.data(1.0)
    model = policy._fit(data, space)
    p = model.predict(space.unit_arms)
    values = p.mean + policy.beta(len(data), space.dim) / np.sqrt(p.density + policy.rho)
    x = optimizer.ask().x
    chosen = int(np.flatnonzero((space.unit_arms == x).all(axis=1))[0])
    assert values[chosen] == pytest.approx(values.max(), rel=1e-12)


def test_small_sets_are_looked_at_afresh_and_pools_can_be_copied():
    assert Optimizer(Space.from_arms(catalogue()[: CATALOGUE - 1])).history.pool is None
    C = catalogue()
    pool, model = Pool(), KernelModel(C[:20], np.arange(20.0), bandwidth=0.02)
    model.over(C, pool)
    for other in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert_fresh(other, model, C)
