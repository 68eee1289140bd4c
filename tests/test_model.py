import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import COMPACT, NAMES, KernelSums, numeric_gradient
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from boke.bandwidth import Silverman
from boke.kernels import KERNELS
from boke.model import KernelModel

SKLEARN = {"gaussian": "gaussian", "epanechnikov": "epanechnikov", "triangular": "linear"}
SEEDS = st.integers(0, 2**32 - 1)


def data(seed=0, t=40, d=2):
    rng = np.random.default_rng(seed)
    X = rng.random((t, d))
    return X, rng.normal(size=t), rng.random((15, d)), rng


def mixed(seed=0, t=40, d=3):
    """As above; the last column holds one of three categories."""
    X, y, Q, rng = data(seed, t, d)
    for A in (X, Q):
        A[:, -1] = np.floor(3 * A[:, -1])
    return X, y, Q, rng, np.arange(d) == d - 1


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_the_papers_formulas(name):
    X, y, Q, rng, categorical = mixed()
    w, ell = rng.random(40), np.array([0.3, 0.5, 0.7])
    model = KernelModel(X, y, kernel=name, bandwidth=ell, weights=w, categorical=categorical)
    slow = KernelSums(name, X, y, ell, w, categorical)
    np.testing.assert_allclose(model.mean(Q), [slow.mean(q) for q in Q], rtol=1e-12)
    np.testing.assert_allclose(model.density(Q), [slow.density(q) for q in Q], rtol=1e-12)
    np.testing.assert_allclose(model.uncertainty(Q, rho=0.1), [(slow.density(q) + 0.1) ** -0.5 for q in Q], rtol=1e-12)
    np.testing.assert_array_equal(model.uncertainty(Q), model.uncertainty(Q, rho=1e-4))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_density_against_scipy(d, weighted):
    X, y, Q, rng = data(d=d)
    w = rng.random(40) if weighted else None
    kde = gaussian_kde(X.T, bw_method=0.4, weights=w)
    root = np.linalg.cholesky(np.atleast_2d(kde.covariance) / 0.4**2)  # scipy's kernel has the covariance of the data
    Z, Zq = (np.linalg.solve(root, A.T).T for A in (X, Q))
    W = KernelModel(Z, y, bandwidth=0.4, weights=w).density(Zq)
    total = 40 if w is None else w.sum()
    np.testing.assert_allclose(
        W / (total * (0.4 * math.sqrt(2 * math.pi)) ** d * np.linalg.det(root)), kde(Q.T), rtol=1e-10
    )


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_density_against_sklearn(name, d, weighted):
    X, y, _, rng = data(d=d)
    Q, w = X + 0.02, rng.random(40) + 0.1 if weighted else np.ones(40)
    theirs = KernelDensity(kernel=SKLEARN[name], bandwidth=0.4).fit(X, sample_weight=w).score_samples(Q)
    ours = KernelModel(X, y, kernel=name, bandwidth=0.4, weights=w).predict(Q).log_density
    normaliser = math.log(w.sum()) + d * math.log(0.4) + KERNELS[name].log_integral(d)
    np.testing.assert_allclose(ours - normaliser, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_silent_points_add_density_and_no_value(name):
    X, y, Q, _, categorical = mixed()
    options = {"kernel": name, "bandwidth": 0.5, "categorical": categorical}
    model = KernelModel(X[:30], y[:30], silent=X[30:], **options)
    np.testing.assert_array_equal(model.mean(Q), KernelModel(X[:30], y[:30], **options).mean(Q))
    np.testing.assert_allclose(model.density(Q), KernelModel(X, y, **options).density(Q), rtol=1e-13)
    np.testing.assert_allclose(model.predict(Q).log_density, KernelModel(X, y, **options).predict(Q).log_density)


@pytest.mark.parametrize("name", NAMES)
def test_silent_points_alone_are_a_density(name):
    X, y, Q, _ = data()
    model = KernelModel(X[:0], y[:0], kernel=name, bandwidth=0.4, silent=X)
    np.testing.assert_array_equal(model.mean(Q), 0.0)
    np.testing.assert_array_equal(model.density(Q), KernelModel(X, y, kernel=name, bandwidth=0.4).density(Q))


@pytest.mark.parametrize("silent", [0, 10])
def test_gradients_in_the_coordinates_of_the_cube(silent):
    X, y, Q, _, categorical = mixed()
    ell = np.array([0.2, 0.6, 0.8])
    model = KernelModel(X[silent:], y[silent:], bandwidth=ell, silent=X[:silent], categorical=categorical)
    got = model.predict(Q, gradient=True)
    for i, q in enumerate(Q):
        for slope, field in ((got.dmean, 0), (got.ddensity, 1), (got.dlog_density, 2)):
            step = numeric_gradient(lambda x, field=field: model.predict(x[None])[field][0], q)
            step[categorical] = 0.0
            np.testing.assert_allclose(slope[i], step, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", COMPACT)
def test_gradients_vanish_where_nothing_is_near(name):
    X, y, Q, _ = data()
    got = KernelModel(X[:20], y[:20], kernel=name, bandwidth=1e-5, silent=X[20:]).predict(Q, gradient=True)
    assert got.log_density.tolist() == [-math.inf] * 15
    for slope in (got.dmean, got.ddensity, got.dlog_density):
        np.testing.assert_array_equal(slope, 0.0)


def test_log_density_of_silent_points_survives_underflow():
    model = KernelModel([[0.0]], [1.0], bandwidth=1e-3, silent=[[0.9]])
    near, far = model.predict(np.array([[0.6], [0.4]]), gradient=True), [(0.6 - 0.9) / 1e-3, 0.4 / 1e-3]
    np.testing.assert_allclose(near.log_density, [-(far[0] ** 2) / 2, -(far[1] ** 2) / 2], rtol=1e-12)
    np.testing.assert_allclose(near.dlog_density[:, 0], [-far[0] / 1e-3, -far[1] / 1e-3], rtol=1e-9)


# exact forgetting


def same_bits(a, b, Q):
    for x, y in zip(a.predict(Q, gradient=True), b.predict(Q, gradient=True), strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(a.leave_one_out(), b.leave_one_out())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [[3], [0, 7, 39], [-1], []])
def test_removed_rows_leave_no_trace(name, rows):
    X, y, Q, rng, categorical = mixed()
    kept = np.delete(np.arange(40), rows)
    options = {"kernel": name, "bandwidth": 0.4, "silent": rng.random((5, 3)), "categorical": categorical}
    same_bits(KernelModel(X, y, **options).remove(rows), KernelModel(X[kept], y[kept], **options), Q)


@pytest.mark.parametrize("name", NAMES)
def test_weight_zero_leaves_no_trace(name):
    X, y, Q, _, categorical = mixed()
    options = {"kernel": name, "bandwidth": 0.4, "categorical": categorical}
    w = np.ones(40)
    w[[2, 11]] = 0.0
    kept = np.flatnonzero(w)
    fresh = KernelModel(X[kept], y[kept], **options)
    same_bits(KernelModel(X, y, **options).reweight(w), fresh, Q)
    same_bits(KernelModel(X, y, weights=w, **options).reweight(None).remove([2, 11]), fresh, Q)


def test_removing_keeps_the_weights_of_the_others():
    X, y, Q, rng = data()
    w = rng.random(40)
    same_bits(
        KernelModel(X, y, bandwidth=0.3, weights=w).remove([0, 5]),
        KernelModel(np.delete(X, [0, 5], 0), np.delete(y, [0, 5]), bandwidth=0.3, weights=np.delete(w, [0, 5])),
        Q,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_counts_copies(name):
    X, y, Q, rng = data()
    copies = rng.integers(1, 4, 40)
    weighted = KernelModel(X, y, kernel=name, bandwidth=0.4, weights=copies)
    repeated = KernelModel(np.repeat(X, copies, axis=0), np.repeat(y, copies), kernel=name, bandwidth=0.4)
    np.testing.assert_allclose(weighted.mean(Q), repeated.mean(Q), rtol=1e-12)
    np.testing.assert_allclose(weighted.density(Q), repeated.density(Q), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_equals_removing(name):
    X, y, _, rng, categorical = mixed(t=20)
    model = KernelModel(X, y, kernel=name, bandwidth=0.4, weights=rng.random(20), categorical=categorical)
    expected = [model.remove([i]).mean(X[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(model.leave_one_out(), expected, rtol=1e-11)
    np.testing.assert_array_equal(model.leave_one_out(7), model.leave_one_out()[:7])


# neighbourhoods


def scattered(seed, t, d, clusters, ell):
    """Uniform points, or points in clusters a few bandwidths wide."""
    rng = np.random.default_rng(seed)
    if not clusters:
        return rng.random((t, d)), rng
    middles = rng.random((clusters, d))
    return np.clip(middles[rng.integers(clusters, size=t)] + 3 * ell * rng.normal(size=(t, d)), 0, 1), rng


@settings(deadline=None, max_examples=60)
@given(
    seed=SEEDS,
    d=st.integers(1, 4),
    clusters=st.sampled_from([0, 1, 4]),
    ell=st.sampled_from([0.003, 0.02, 0.1]),
    categories=st.booleans(),
    silent=st.sampled_from([0, 100]),
    weighted=st.booleans(),
)
def test_near_gives_the_same(seed, d, clusters, ell, categories, silent, weighted):
    X, rng = scattered(seed, 400, d + categories, clusters, ell)
    categorical = np.arange(d + categories) == d
    X[:, categorical] = np.floor(3 * X[:, categorical])
    y, w = rng.normal(size=400), 10.0 ** rng.uniform(-6, 6, 400) if weighted else None
    model = KernelModel(
        X[silent:],
        y[silent:],
        bandwidth=ell,
        silent=X[:silent],
        categorical=categorical,
        weights=None if w is None else w[silent:],
    )
    centers = np.vstack([X[:2], np.where(categorical, 1.0, rng.random(X.shape[1]))])
    step = rng.normal(size=(3, 10, X.shape[1])) * ~categorical
    step *= 5 * ell * rng.random((3, 10, 1)) / np.linalg.norm(step, axis=2, keepdims=True)
    Q = (centers[:, None] + step).reshape(30, -1)
    Q[::3, categorical] = 2.0
    small = model.near(centers, 5.0)
    full, part = model.predict(Q), small.predict(Q)
    np.testing.assert_allclose(part.mean, full.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(part.log_density, full.log_density, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(part.density, full.density, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("spread", [1.0, 1e15])
def test_near_gives_the_same_in_the_worst_direction(spread):
    """The nearest observation lies behind the center, the query in front of it and a crowd beyond, dense and heavy."""
    ell, center, radius, behind = 0.01, 0.3, 5.0, 2.0
    kernel_ratios = np.geomspace(1e-3, 1e-40, 400) / spread**2
    beyond = radius + np.sqrt((behind + radius) ** 2 - 2 * np.log(kernel_ratios))
    X = center + ell * np.append(-behind, beyond)[:, None]
    y, w = np.append(0.0, np.ones(400)), np.append(1 / spread, np.full(400, spread))
    model, q = KernelModel(X, y, bandwidth=ell, weights=w), np.array([[center + radius * ell]])
    small = model.near(np.array([[center]]), radius)
    assert len(small.y) < 400
    np.testing.assert_allclose(small.mean(q), model.mean(q), rtol=1e-12)


def test_near_leaves_most_points_out():
    X, _ = scattered(0, 2000, 2, 0, 0.01)
    small = KernelModel(X, X[:, 0], bandwidth=0.01, silent=X).near(X[:1], 2.0)
    assert len(small.X) < 500
    assert len(small.silent) < 500


@pytest.mark.parametrize("name", COMPACT)
def test_near_of_a_compact_kernel_is_the_model_itself(name):
    X, y, Q, _ = data()
    model = KernelModel(X, y, kernel=name, bandwidth=0.1)
    assert model.near(Q, 1.0) is model


# shares


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ell", [1e-6, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_sum_to_one_and_make_up_the_mean(name, ell, weighted):
    X, y, Q, rng, categorical = mixed()
    w = np.where(rng.random(40) < 0.2, 0.0, rng.random(40)) if weighted else None
    model = KernelModel(X, y, kernel=name, bandwidth=ell, weights=w, categorical=categorical)
    for q in Q:
        shares = model.shares(q)
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1.0, rel=1e-14)
        assert shares @ y == pytest.approx(model.mean(q[None])[0], rel=1e-12, abs=1e-14)
        assert w is None or not shares[w == 0].any()


# odd and bad inputs


@pytest.mark.parametrize("name", NAMES)
def test_no_data_at_all(name):
    model, Q = KernelModel(np.empty((0, 2)), [], kernel=name, bandwidth=0.1), np.full((3, 2), 0.5)
    assert model.mean(Q).tolist() == model.density(Q).tolist() == [0.0] * 3
    assert model.uncertainty(Q, rho=0.25).tolist() == [2.0] * 3
    assert model.shares(Q[0]).shape == (0,)
    assert model.leave_one_out().shape == (0,)
    assert model.near(Q, 1.0).predict(Q, gradient=True).dmean.tolist() == [[0.0, 0.0]] * 3


def test_all_weights_zero_is_no_data():
    X, y, Q, _ = data()
    model = KernelModel(X, y, bandwidth=0.1, weights=np.zeros(40))
    assert not model.density(Q).any()
    assert not model.shares(Q[0]).any()


def test_no_queries():
    X, y, Q, _ = data()
    assert KernelModel(X, y, bandwidth=0.1).predict(Q[:0], gradient=True).dmean.shape == (0, 2)


def test_lists_are_welcome():
    assert KernelModel([[0, 1]], [3], bandwidth=1, weights=[2], silent=[], categorical=[0, 1]).mean(
        [[0, 1]]
    ).tolist() == [3]


@pytest.mark.parametrize("ell", [1e-160, 1e-300, 5e-324])
def test_bandwidths_too_small_to_divide_by_give_the_limit(ell):
    X, y, _, _ = data()
    model = KernelModel(X, y, bandwidth=ell)
    np.testing.assert_array_equal(model.mean(X), y)
    np.testing.assert_array_equal(model.density(X), 1.0)
    assert np.isfinite(model.predict(np.full((1, 2), 0.5), gradient=True).log_density).all()


def test_a_rule_chooses_the_bandwidth():
    X, y, _, _ = data()
    assert (
        KernelModel(X, y, bandwidth=Silverman(0.5)).bandwidth.tolist()
        == [pytest.approx(0.5 / math.sqrt(12) * 40 ** (-1 / 6))] * 2
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [1.0, 2.0]}, r"'X' parameter of KernelModel must be a \(t, d\) array. Got shape \(2,\)"),
        ({"y": [1.0]}, r"'y' parameter of KernelModel must have shape \(2,\). Got \(1,\)"),
        ({"y": [1.0, math.nan]}, r"'X' and 'y' parameters of KernelModel must be finite"),
        ({"X": [[0, 0], [math.inf, 0]]}, r"'X' and 'y' parameters of KernelModel must be finite"),
        ({"bandwidth": 0.0}, r"'bandwidth' parameter of KernelModel must be a positive number or 2 of them. Got 0.0"),
        ({"bandwidth": math.nan}, r"'bandwidth' parameter .* Got nan"),
        ({"bandwidth": [1.0, 1.0, 1.0]}, r"'bandwidth' parameter .* Got \[1.0, 1.0, 1.0\]"),
        ({"bandwidth": [1.0, -1.0]}, r"'bandwidth' parameter .* Got \[1.0, -1.0\]"),
        ({"weights": [1.0]}, r"'weights' parameter of KernelModel must be 2 finite numbers >= 0"),
        ({"weights": [1.0, -1.0]}, r"'weights' parameter of KernelModel must be 2 finite numbers >= 0"),
        ({"weights": [1.0, math.inf]}, r"'weights' parameter of KernelModel must be 2 finite numbers >= 0"),
        ({"silent": [[0.0, 0.0, 0.0]] * 2}, r"'silent' parameter of KernelModel must be a finite \(s, 2\) array"),
        ({"silent": [[0.0, math.nan]]}, r"'silent' parameter of KernelModel must be a finite \(s, 2\) array"),
        ({"categorical": [True]}, r"'categorical' parameter of KernelModel must have shape \(2,\). Got \(1,\)"),
        ({"kernel": "cubic"}, r"'kernel' parameter must be one of"),
    ],
)
def test_bad_models(change, message):
    arguments = {"X": [[0.0, 0.0], [1.0, 1.0]], "y": [1.0, 2.0], "bandwidth": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        KernelModel(arguments.pop("X"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("Xq", [[0.0, 0.0], [[0.0]], [[0.0, 0.0, 0.0]]])
def test_bad_queries(Xq):
    with pytest.raises(ValueError, match=r"The 'Xq' parameter must be an \(n, 2\) array. Got shape"):
        KernelModel([[0.0, 0.0]], [1.0], bandwidth=0.1).mean(Xq)
