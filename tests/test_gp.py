"""The local Gaussian process against textbook formulas, and its compiled twin against it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import numeric_gradient
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from boke import ascent, engine, gp, rotations
from boke.gp import LENGTHS, NOISES, START, TRENDS, LocalGP, improvement_slope, log_improvement

native = pytest.mark.skipif(engine.NATIVE is None, reason="the sums are not compiled here")


def problem(seed, n=30, d=3, noise=0.0, versions=2):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) / np.sqrt(d)
    y = -np.square(Z - 0.2).sum(axis=1) + 0.2 * np.sin(4 * Z[:, 0]) + noise * rng.normal(size=n)
    y = (y - y.mean()) / y.std()
    return Z, np.array([y, np.cbrt(y)])[:versions], np.array([0.0, -1.0])[:versions]


def covariance(model, A, B):
    length, a, *_ = model.hyperparameters
    r = np.sqrt(5 * np.square(A[:, None] - B[None]).sum(-1)) / length
    return (1 + r + r**2 / 3) * np.exp(-r) + a * (1 + A @ B.T) ** 2


def posterior(model, Z, Y, Q):
    """Mean (m,) and covariance (m, m) at Q, by the textbook."""
    _, a, nugget, variance, _, version = model.hyperparameters
    own, k = covariance(model, Z, Z), covariance(model, Q, Z)
    K = own + np.diag(nugget * (1 + a) + 1e-10 * np.diag(own))
    full = covariance(model, Q, Q) - k @ np.linalg.solve(K, k.T)
    return k @ np.linalg.solve(K, Y[version]), variance * full


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_prediction_is_the_textbook_one(noise):
    Z, Y, J = problem(0, noise=noise)
    model = LocalGP(Z, Y, J)
    Q = np.random.default_rng(1).normal(size=(7, 3))
    expected, full = posterior(model, Z, Y, Q)
    mean, sd = model.predict(Q)
    np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(full)), rtol=1e-5)
    np.testing.assert_allclose(model.fitted(), posterior(model, Z, Y, Z)[0], atol=1e-6)


def test_the_grid_is_climbed_by_the_marginal_likelihood():
    Z, Y, J = problem(2, noise=0.3)
    model = LocalGP(Z, Y, J)
    _, a, nugget, variance, likelihood, version = model.hyperparameters
    own = covariance(model, Z, Z)
    K = variance * (own + np.diag(nugget * (1 + a) + 1e-10 * np.diag(own)))
    n = len(Z)
    constant = 0.5 * n * (1 + np.log(2 * np.pi))
    assert likelihood - constant == pytest.approx(
        multivariate_normal(cov=K, allow_singular=True).logpdf(Y[version]) + J[version], abs=1e-6
    )
    unit = model._grid[0][0] / LENGTHS[0]
    at = [model._grid[i].index(model.hyperparameters[i]) for i in range(3)]
    for axis, size in enumerate((len(LENGTHS), len(TRENDS), len(NOISES))):
        for step in (-1, 1):
            if 0 <= at[axis] + step < size:
                other = tuple(v + step * (i == axis) for i, v in enumerate(at))
                grid = [(unit * LENGTHS[other[0]] / unit,), (TRENDS[other[1]],), (NOISES[other[2]],)]
                assert LocalGP(Z, Y, J, *grid, (0, 0, 0)).hyperparameters[4] <= likelihood + 1e-9


@pytest.mark.parametrize("u", [-300.0, -30.0, -6.0, -5.0, -4.99, -2.0, -1.0, 0.0, 3.0, 20.0])
def test_improvement_is_its_integral(u):
    if u > -30:
        integral = quad(lambda v: (v + u) * norm.pdf(v), -u, np.inf, epsabs=0, epsrel=1e-10)[0] if u < 8 else u
        assert np.exp(log_improvement(u)) == pytest.approx(integral, rel=1e-6)
    step = 1e-4 * max(1.0, abs(u))
    slope = (log_improvement(u + step) - log_improvement(u - step)) / (2 * step)
    assert improvement_slope(u) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_slopes_of_log_ei(noise):
    Z, Y, J = problem(3, noise=noise)
    model = LocalGP(Z, Y, J)
    for q in 0.7 * np.random.default_rng(4).normal(size=(5, 3)):
        value, slope = model.log_ei_gradient(q[None], 0.3)
        assert value[0] == pytest.approx(model.log_ei(q[None], 0.3)[0], rel=1e-12)
        expected = numeric_gradient(lambda x: model.log_ei(x[None], 0.3)[0], q)
        np.testing.assert_allclose(slope[0], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("make", [LocalGP, gp.fit])
def test_drawn_functions_have_the_mean_and_the_covariance_of_the_posterior(make):
    Z, Y, J = problem(6, noise=0.5)
    model = make(Z, Y, J)
    Q = np.random.default_rng(1).normal(size=(7, 3))
    _, expected = posterior(model, Z, Y, Q)
    mean = model.draw(Q, np.zeros(7))
    np.testing.assert_allclose(mean, model.predict(Q)[0], atol=1e-9)
    columns = np.array([model.draw(Q, e) - mean for e in np.eye(7)])  # of the factor of the covariance
    np.testing.assert_allclose(columns.T @ columns, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("make", [LocalGP, gp.fit])
def test_a_drawn_function_has_one_value_at_one_point(make):
    Z, Y, J = problem(6, noise=0.5)
    Q = np.repeat(np.random.default_rng(1).normal(size=(4, 3)), 5, axis=0)
    values = make(Z, Y, J).draw(Q, np.random.default_rng(2).standard_normal(20)).reshape(4, 5)
    assert np.ptp(values, axis=1).max() < 1e-2 * np.ptp(values)


def test_climbing_never_loses_and_stays_in_the_box():
    Z, Y, J = problem(5)
    model, low, high = LocalGP(Z, Y, J), np.full(3, -0.4), np.full(3, 0.3)
    starts = np.random.default_rng(0).uniform(low, high, (6, 3))
    tops, values = model.climb(starts, Y[0].max(), low, high, 40)
    assert ((tops >= low) & (tops <= high)).all()
    np.testing.assert_allclose(values, model.log_ei(tops, Y[0].max()), rtol=1e-9)
    assert (values >= model.log_ei(starts, Y[0].max())).all()
    many = model.log_ei(np.random.default_rng(1).uniform(low, high, (4000, 3)), Y[0].max())
    assert values.max() >= many.max() - 0.01


def test_a_quadratic_is_found_exactly():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    Z = rng.normal(size=(40, 4)) / 2
    y = -np.square((Z - 0.1) @ A).sum(axis=1)
    y = (y - y.mean()) / y.std()
    model = gp.fit(Z, y[None], np.zeros(1))
    top, _ = model.climb(np.zeros((1, 4)), float(y.max()), np.full(4, -1.0), np.full(4, 1.0), 100)
    assert model.hyperparameters[1] > 0
    np.testing.assert_allclose(top[0], 0.1, atol=0.01)


def test_slopes_of_the_likelihood_in_the_stretch_of_columns():
    Z, Y, J = problem(8, noise=0.2)
    model, by = LocalGP(Z, Y, J), np.array([0.3, -0.5, 0.1])
    value, slopes = model.stretched(by)
    np.testing.assert_allclose(slopes, numeric_gradient(lambda b: model.stretched(b)[0], by), rtol=1e-6, atol=1e-8)
    _, a, nugget, _, likelihood, version = model.hyperparameters
    own, n = covariance(model, Z * np.exp(by), Z * np.exp(by)), len(Z)
    K = own + np.diag(nugget * (1 + a) + 1e-10 * np.diag(own))
    variance = Y[version] @ np.linalg.solve(K, Y[version]) / n
    constant = 0.5 * n * (1 + np.log(2 * np.pi))
    assert value - constant == pytest.approx(multivariate_normal(np.zeros(n), variance * K).logpdf(Y[version]))
    assert model.stretched(np.zeros(3))[0] == pytest.approx(likelihood - J[version])


def test_columns_without_effect_are_shrunk():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 4))
    y = np.sin(2.0 * Z[:, 0]) - 0.5 * np.square(Z[:, 1])
    model = LocalGP(Z, y[None], np.zeros(1))
    by, gain = model.stretch(1.0, 3.0, 20, 0.01, 0.0)
    assert gain > 10.0
    assert max(by[2:]) < min(by[:2]) - 0.5
    assert np.abs(by).max() <= 3.0


def test_an_ascent_that_promises_little_is_given_up():
    calls, steep = [], np.array([1.0, 3.0, 10.0, 30.0])
    top = np.array([0.9, -0.2, 0.1, 0.4])

    def bowl(x):
        calls.append(x)
        return -float(steep @ np.square(x - top)), -2.0 * steep * (x - top)

    def ascend(least):
        calls.clear()
        return ascent.ascend(bowl, np.zeros(4), np.full(4, -1.0), np.ones(4), 30, 0.0, least)[1], len(calls)

    (best, used), (early, fewer) = ascend(0.0), ascend(100.0)
    assert best > early and used > fewer == ascent.PROMISING


def test_slopes_of_the_likelihood_in_the_metric():
    """By finite differences in every entry of a matrix behind the observations."""
    Z, Y, J = problem(8, noise=0.2)
    model = LocalGP(Z, Y, J)

    def value(entries):
        changed = LocalGP(Z, Y, J)
        changed.Z = Z @ (np.eye(3) + entries.reshape(3, 3))
        return changed.stretched(np.zeros(3))[0]

    slopes = model.metric_slopes()
    np.testing.assert_allclose(slopes.ravel(), numeric_gradient(value, np.zeros(9)), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(np.diag(slopes), model.stretched(np.zeros(3))[1], rtol=1e-12)
    np.testing.assert_allclose(slopes, slopes.T, atol=1e-9)


@pytest.mark.parametrize("d", [0, 1, 2, 3, 8])
def test_eigenvectors(d):
    rng = np.random.default_rng(d)
    for A in (
        rng.normal(size=(d, d)),
        np.diag(rng.normal(size=d)),
        np.ones((d, d)),
        np.zeros((d, d)),
        1e200 * np.eye(d),
    ):
        A = A + A.T
        V = rotations.eigenvectors(A)
        np.testing.assert_allclose(V, rotations.plain_eigenvectors(A), atol=1e-12)
        np.testing.assert_allclose(V.T @ V, np.eye(d), atol=1e-12)
        inside = V.T @ A @ V
        limit = 2.0 * rotations.NEGLIGIBLE * np.abs(A).max(initial=0.0)
        np.testing.assert_allclose(inside, np.diag(np.diag(inside)), atol=limit + 1e-12)


def valley(angle, n=40):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 2))
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    y = np.sin(6.0 * Z @ across) - 0.1 * np.square(Z @ along)
    return Z, (y - y.mean()) / y.std(), across


@pytest.mark.parametrize("angle", [0.4, 0.8, 2.0])
def test_axes_turn_to_those_of_the_function(angle):
    Z, y, across = valley(angle)
    model = gp.fit(Z, y[None], np.zeros(1))
    found = gp.turn(model, Z.shape[1])
    assert found is not None
    lengths = np.linalg.norm(found, axis=0)
    assert lengths.max() > 2.0 * lengths.min()
    assert abs(found[:, np.argmax(lengths)] @ across) > 0.98 * lengths.max()  # what it depends on is made long
    assert gp.fit(rotations.turned(Z, found), y[None], np.zeros(1)).hyperparameters[4] > model.hyperparameters[4] + 2.0


def test_axes_stay_where_columns_are_enough_or_nothing_is_known():
    for Z, y in (valley(0.0)[:2], (np.zeros((30, 2)), np.zeros(30)), problem(3, 30, 2, noise=3.0)[:2]):
        y = np.atleast_2d(y)[:1]
        model = gp.fit(np.ascontiguousarray(Z), np.ascontiguousarray(y), np.zeros(1))
        assert gp.turn(model, Z.shape[1]) is None


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_factors_of_axes_are_those_of_the_columns_of_a_turned_model(d):
    (Z, Y, J), how = problem(d, 50, d, 0.1), (gp.SPREAD, gp.MOST, gp.STRETCHES, 0.01, 0.5)
    model = gp.fit(Z, Y, J)
    axes, *found = model.axes(*how)
    np.testing.assert_array_equal(axes, rotations.eigenvectors(model.metric_slopes()))
    _, trend, noise, *_ = model.hyperparameters
    same = gp.fit(rotations.turned(Z, axes), Y, J, (gp.LENGTHS[model.at[0]],), (trend,), (noise,), (0, 0, 0))
    for a, b in zip(found, same.stretch(*how), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_a_climb_in_turned_columns_is_one_in_the_columns():
    Z, Y, J = problem(5)
    T = np.random.default_rng(3).normal(size=(3, 3))
    low, high = np.full(3, -0.4), np.full(3, 0.3)
    starts = np.random.default_rng(0).uniform(low, high, (6, 3))
    for make in (LocalGP, *([engine.NATIVE.LocalGP] if engine.NATIVE else [])):
        model = make(Z, Y, J, LENGTHS, TRENDS, NOISES, START)
        tops, values = model.climb(starts, Y[0].max(), low, high, 60, T)
        assert ((tops >= low) & (tops <= high)).all()
        np.testing.assert_allclose(values, model.log_ei(np.ascontiguousarray(tops @ T), Y[0].max()), rtol=1e-9)
        many = np.random.default_rng(1).uniform(low, high, (4000, 3))
        assert values.max() >= model.log_ei(np.ascontiguousarray(many @ T), Y[0].max()).max() - 0.01
        same = model.climb(starts, Y[0].max(), low, high, 60, np.eye(3))
        plain = model.climb(starts, Y[0].max(), low, high, 60)
        np.testing.assert_array_equal(same[0], plain[0])


@native
@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_compiled_improvements_are_the_plain_ones_of_the_compiled_model(d, turns):
    Z, Y, J = problem(5, 40, d)
    rng = np.random.default_rng(d)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0] * rng.uniform(0.5, 2.0, d) if turns else None
    origin, scale, low, high = rng.random(d), rng.uniform(0.2, 2.0, d), np.full(d, 0.1), np.full(d, 0.9)
    for m, count in ((64, 2), (65, 5), (2, 4), (1, 2)):
        X = rng.uniform(low, high, (m, d))
        X[m // 2] = X[0]  # equal values: the first of them comes first
        frame = (origin, scale, turn, low, high)
        for isa in engine.NATIVE.instruction_sets():
            model = engine.NATIVE.LocalGP(Z, Y, J, LENGTHS, TRENDS, NOISES, START, isa)
            expected = LocalGP.improvements(model, X, 0.5, *frame, count, 12)
            for a, b in zip(model.improvements(X, 0.5, *frame, count, 12), expected, strict=True):
                np.testing.assert_array_equal(a, b)


@native
@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 2, 7, 8, 9, 40, 81]),
    d=st.integers(1, 12),
    noise=st.sampled_from([0.0, 0.3]),
)
def test_the_compiled_twin_agrees(seed, n, d, noise):
    Z, Y, J = problem(seed, n, d, noise) if n > 1 else (np.zeros((1, d)), np.zeros((1, 1)), np.zeros(1))
    slow, fast = LocalGP(Z, Y, J), engine.NATIVE.LocalGP(Z, Y, J, LENGTHS, TRENDS, NOISES, START)
    np.testing.assert_allclose(fast.hyperparameters, slow.hyperparameters, rtol=1e-4, atol=1e-5)
    Q = np.random.default_rng(seed).normal(size=(9, d)) / np.sqrt(d)
    for a, b in zip(fast.predict(Q), slow.predict(Q), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(fast.fitted(), slow.fitted(), atol=1e-4)


@native
def test_the_compiled_twin_agrees_closely_where_the_matrix_is_well_conditioned():
    Z, Y, J = problem(7, 40, 4, 0.5)
    grid = (1.2,), (0.1,), (1e-1,)
    slow = LocalGP(Z, Y, J, *grid, (0, 0, 0))
    low, high = np.full(4, -0.5), np.full(4, 0.5)
    Q = np.random.default_rng(0).uniform(-0.5, 0.5, (9, 4))
    results = []
    for isa in engine.NATIVE.instruction_sets():
        fast = engine.NATIVE.LocalGP(Z, Y, J, *grid, (0, 0, 0), isa)
        np.testing.assert_allclose(fast.hyperparameters, slow.hyperparameters, rtol=1e-10)
        for a, b in zip(fast.log_ei_gradient(Q, 0.5), slow.log_ei_gradient(Q, 0.5), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
        normal = np.random.default_rng(1).standard_normal(len(Q))
        np.testing.assert_allclose(fast.draw(Q, normal), slow.draw(Q, normal), rtol=1e-6, atol=1e-8)
        for a, b in zip(fast.stretched(np.full(4, 0.2)), slow.stretched(np.full(4, 0.2)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        for least in (0.0, 1e9):
            for a, b in zip(
                fast.stretch(1.0, 3.0, 20, 0.01, least), slow.stretch(1.0, 3.0, 20, 0.01, least), strict=True
            ):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(fast.metric_slopes(), slow.metric_slopes(), rtol=1e-8, atol=1e-8)
        for a, b in zip(fast.axes(1.0, 3.0, 20, 0.01, 0.0), slow.axes(1.0, 3.0, 20, 0.01, 0.0), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        tops, shapes = fast.climb(Q, 0.5, low, high, 40), fast.stretch(1.0, 3.0, 20, 0.01, 0.0)
        results.append((*tops, fast.draw(Q, normal), *shapes, *fast.stretched(np.full(4, 0.2)), fast.metric_slopes()))
    np.testing.assert_allclose(results[0][1], slow.climb(Q, 0.5, low, high, 40)[1], rtol=1e-5)
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(a, b)


@native
@pytest.mark.parametrize("d", [1, 2, 5, 8, 9, 50, 200])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 50, 53, 75])
def test_the_compiled_twin_agrees_in_every_size_and_on_every_instruction_set(n, d):
    """Rows and columns beyond the last ones complete blocks of eight, and must not be seen."""
    rng = np.random.default_rng(n * d)
    Z, Y, J = problem(3, n, d, 0.5) if n > 1 else (rng.normal(size=(1, d)), np.ones((1, 1)), np.zeros(1))
    grid, by, normal = ((1.2,), (0.1,), (1e-1,), (0, 0, 0)), 0.3 * rng.normal(size=d), rng.standard_normal(11)
    Q, low, high = rng.uniform(-0.5, 0.5, (11, d)), np.full(d, -0.5), np.full(d, 0.5)

    def answers(model):
        yield from (model.hyperparameters, *model.predict(Q), model.log_ei(Q, 0.5), *model.log_ei_gradient(Q, 0.5))
        yield from (model.draw(Q, normal), model.fitted(), *model.stretched(by), model.metric_slopes())

    def ends(model):
        yield from (*model.climb(Q[:2], 0.5, low, high, 8), *model.stretch(1.0, 3.0, 6, 0.01, 0.5))

    expected, first = list(answers(LocalGP(Z, Y, J, *grid))), None
    for isa in engine.NATIVE.instruction_sets():
        fast = engine.NATIVE.LocalGP(Z, Y, J, *grid, isa)
        found = list(answers(fast))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(1.0, float(np.abs(b).max())))
        found += ends(fast)
        first = first or found
        for a, b in zip(found, first, strict=True):
            np.testing.assert_array_equal(a, b)


@native
@pytest.mark.parametrize("n", [2, 3, 4, 5, 30, 81])
def test_the_unit_of_length_is_the_median_distance(n):
    """Also where many distances are equal, zero, or of very different sizes."""
    rng = np.random.default_rng(n)
    for Z in (
        rng.normal(size=(n, 3)),
        rng.integers(3, size=(n, 3)).astype(float),
        np.repeat(rng.normal(size=(2, 3)), [n - n // 4, n // 4], axis=0),
        np.repeat(rng.normal(size=(2, 3)), [n - n // 2, n // 2], axis=0),
        10.0 ** rng.uniform(-9, 2, size=(n, 3)),
        np.zeros((n, 3)),
    ):
        grid = np.zeros((1, n)), np.zeros(1), (1.0,), (0.0,), (1e-1,), (0, 0, 0)
        for isa in engine.NATIVE.instruction_sets():
            length = engine.NATIVE.LocalGP(Z, *grid, isa).hyperparameters[0]
            assert length == pytest.approx(LocalGP(Z, *grid).hyperparameters[0], rel=1e-14)


@native
def test_compiled_improvements_are_right_far_out_and_near():
    """One observation of 1 and no noise: the mean and the deviation elsewhere are known, and ``best`` makes any u of them."""
    model = engine.NATIVE.LocalGP(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), (1.0,), (0.0,), (1e-8,), (0, 0, 0))
    q = np.array([[0.7]])
    (mean,), (sd,) = model.predict(q)
    for u in np.concatenate([-np.geomspace(1e9, 1e-9, 400), [0.0], np.geomspace(1e-9, 1e9, 400)]):
        best = mean - u * sd
        u = (mean - best) / sd
        expected = np.log(sd) + log_improvement(u)
        np.testing.assert_allclose(model.log_ei(q, best)[0], expected, rtol=1e-12, atol=1e-12)
        value, slope = model.log_ei_gradient(q, best)
        np.testing.assert_allclose(value[0], expected, rtol=1e-12, atol=1e-12)
        assert np.isfinite(slope).all()


def test_copies_of_one_point_and_constant_values_are_survived():
    for Z in (np.zeros((12, 2)), np.tile([[0.3, -0.2]], (90, 1))):
        model = gp.fit(Z, np.zeros((1, len(Z))), np.zeros(1))
        values = model.log_ei(np.array([[0.0, 0.0], [1.0, 1.0]]), 0.0)
        assert np.isfinite(values).all()
