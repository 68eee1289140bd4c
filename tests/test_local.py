"""The local branch: what it may propose, what it makes of mixed columns, pending points and odd values."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boke import Categorical, Float, Int, Optimizer, clusters, gp, local, probe
from boke.compiled import NATIVE
from boke.data import Data, features
from boke.keys import Lot
from boke.policies import BOKELocal, BOKEPlus, Key, chance
from boke.region import Search, TrustRegion
from boke.shape import plain_shaped
from boke.space import Space

MIXED = Space({"a": Float(1e-4, 1.0, log=True), "n": Int(1, 9), "c": Categorical(["x", "y", "z"]), "b": Float(0, 1)})


def some(space, t, seed=0):
    rng = np.random.default_rng(seed)
    X = space.snap(rng.random((t, space.dim)))
    return Data(X, -np.square(X - 0.3).sum(axis=1), X[:0], np.arange(t), np.zeros(t, bool))


ALL, NONE = 0.0, 2.0  # of lots: what hashed numbers must be at least


def suggest(data, space, seed=0, own=NONE, since=0, aside=False):
    trials = local.Trials(Lot(since, 0, own), Lot(len(data), 0, ALL if aside else NONE), len(data), lambda: data)
    return local.suggest(data, space, TrustRegion(), trials, np.random.default_rng(seed))


@pytest.mark.parametrize("space", [Space.of([(0, 1)]), Space.of([(0, 1)] * 5), MIXED], ids=["1", "5", "mixed"])
@pytest.mark.parametrize("t", [1, 2, 3, 30, 200])
def test_suggestions_lie_on_the_grid_inside_the_region_and_are_new(space, t):
    data = some(space, t)
    x = suggest(data, space)
    np.testing.assert_array_equal(space.snap(x[None])[0], x)
    assert ((x >= 0) & (x <= 1)).all() and not (x == data.X).all(axis=1).any()


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
@pytest.mark.parametrize("d", [1, 2, 7, 60])
def test_compiled_candidates_are_the_plain_ones(d):
    rng = np.random.default_rng(d)
    center = rng.random(d)
    low, high = np.maximum(center - 0.1, 0.0), np.minimum(center + 0.1, 1.0)
    for n, few in ((16, 8), (5, 0), (3, 3), (0, 0)):
        drawn = (rng.random((n, d)), rng.random((few, d)), rng.integers(d, size=few), 0.25)
        plain = local.plain_in_box(*drawn, center, low, high)
        np.testing.assert_array_equal(NATIVE.in_box(*drawn, center, low, high), plain)
        assert ((plain >= low) & (plain <= high)).all() and (plain[:few] != center).any(axis=1).all()


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
@pytest.mark.parametrize("d", [1, 2, 3, 7, 10, 60])
def test_what_is_drawn_for_compiled_candidates_is_what_numpy_draws(d):
    space, center = Space.of([(0, 1)] * d), np.random.default_rng(d).random(d)
    low, high = np.maximum(center - 0.1, 0.0), np.minimum(center + 0.1, 1.0)
    for make in (np.random.PCG64, np.random.MT19937):
        ours, numpys = np.random.Generator(make(d)), np.random.Generator(make(d))
        for _ in range(5):  # half of a 64-bit number may be left over
            plain = local.plain_candidates(center, low, high, space, numpys)
            np.testing.assert_array_equal(local.candidates(center, low, high, space, ours), plain)
        assert ours.random() == numpys.random()


def test_a_smooth_bowl_is_solved_in_a_few_steps():
    optimizer = Optimizer([(0, 1)] * 5, rng=0)
    for _ in range(60):
        trial = optimizer.ask()
        optimizer.tell(trial, float(np.square(trial.x - 0.37) @ np.arange(1, 6)))
    assert optimizer.best.value < 1e-6


def test_it_beats_the_kernel_mean_on_a_bowl():
    finals = {}
    for policy in (BOKELocal(), BOKEPlus()):
        optimizer = Optimizer([(0, 1)] * 4, rng=1, policy=policy)
        for _ in range(50):
            trial = optimizer.ask()
            optimizer.tell(trial, float(np.square(trial.x - 0.37).sum()))
        finals[type(policy).__name__] = optimizer.best.value
    assert finals["BOKELocal"] < 0.1 * finals["BOKEPlus"]


def test_a_small_region_keeps_the_suggestion_near_the_best():
    space, data = Space.of([(0, 1)] * 3), some(Space.of([(0, 1)] * 3), 60)
    worse = Data(data.X, data.y, data.silent, data.numbers)
    best = data.X[np.argmax(data.y)]
    first = max(21, int(np.argmax(data.y)) + 1)  # from there on all trials are failures
    x, after = suggest(worse, space, own=ALL, since=first), 60 - first
    side = TrustRegion().replay(np.zeros(after, bool), np.zeros(after), np.zeros(after, bool), 3).side
    assert np.abs(x - best).max() <= 0.5 * side + 1e-12


def two_peaks(space, t=60):
    """A high peak at 0.2 where everything has been tried, and a lower one at 0.8 that is hardly known."""
    rng = np.random.default_rng(0)
    X = np.vstack([0.2 + 1e-3 * rng.standard_normal((t, space.dim)), rng.random((20, space.dim))])
    low, high = (np.square(X - at).sum(axis=1) for at in (0.2, 0.8))
    y = np.exp(-20.0 * low) + 0.9 * np.exp(-20.0 * high)
    order = np.argsort(-y[:t])
    X[:t], y[:t] = X[:t][order], y[:t][order]  # the first is the best: all others were failures
    return Data(X, y, X[:0], np.arange(len(X)))


def test_a_settled_region_looks_elsewhere_every_other_time():
    space, data = Space.of([(0, 1)] * 2), two_peaks(Space.of([(0, 1)] * 2))
    best = data.best
    stays = suggest(data, space, own=ALL)
    assert np.abs(stays - best).max() < 0.01
    goes = np.array([suggest(data, space, seed, own=ALL, aside=True) for seed in range(8)])
    assert np.median(np.abs(goes - best).max(axis=1)) > 0.2
    wide = suggest(data, space, aside=True)  # no outcomes yet: the region has not settled
    np.testing.assert_array_equal(wide, suggest(data, space))


@pytest.mark.parametrize("space", [Space.of([(0, 1)] * 2), MIXED], ids=["2", "mixed"])
def test_a_second_search_begins_with_the_best_observation_nearest_to_a_few_random_points(space):
    data = some(space, 60)
    F = features(data.X, space)
    for seed in range(10):
        places = space.snap(np.random.default_rng(seed).random((local.LONELY, space.dim)))
        nearest = [np.argmin(np.square(F - features(x[None], space)).sum(axis=1)) for x in places]
        expected = data.X[max(nearest, key=lambda i: data.y[i])]
        np.testing.assert_array_equal(local._lonely(data, space, np.random.default_rng(seed)), expected)


@pytest.mark.parametrize("space", [Space.of([(0, 1)] * 2), MIXED], ids=["2", "mixed"])
def test_a_second_search_goes_on_around_its_own_best(space, monkeypatch):
    data = some(space, 60)
    data = Data(data.X, data.y, data.silent, data.numbers)  # all asked for
    numeric = ~space.categorical
    monkeypatch.setattr(TrustRegion, "replay", lambda *_: Search(1e-5, 40, 0.1))
    for seed in range(5):
        x = suggest(data, space, seed, own=ALL, aside=True)
        away = np.abs(x - data.X[40])[numeric]
        assert (away <= np.maximum(0.05, space.spacing[numeric]) + 1e-12).all() and away.max() > 0.0


def test_a_valley_across_the_columns_is_followed_in_the_plane():
    """A sharp ridge along axes of its own, which no quadratic describes: without axes that turn it is followed slowly."""
    angle = 0.6
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def regret(x):
        along, across = R @ (x - np.array([0.37, 0.62]))
        return float(along**2 + 100.0 * abs(across))

    finals = {}
    for turning in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not turning:
                patch.setattr(gp, "turn", lambda *_: None)
                patch.setattr(local, "shaped", plain_shaped)  # which calls it
                patch.setattr(local, "usual", lambda *_: None)
            best = []
            for seed in range(9):
                optimizer = Optimizer([(0, 1)] * 2, rng=seed, policy=BOKELocal(init="lhs"))  # far from it
                for _ in range(120):
                    trial = optimizer.ask()
                    optimizer.tell(trial, regret(trial.x))
                best.append(optimizer.best.value)
            finals[turning] = np.median(best)
    assert finals[True] < 5e-3
    assert finals[True] < 0.2 * finals[False]


def test_axes_do_not_turn_under_noise_in_gridded_spaces_or_with_few_observations(monkeypatch):
    asked = []
    monkeypatch.setattr(gp, "turn", lambda *_: asked.append(1))
    monkeypatch.setattr(local, "shaped", plain_shaped)
    rng = np.random.default_rng(0)
    plane, grid = Space.of([(0, 1)] * 2), Space({"a": Int(0, 100), "b": Float(0, 1)})
    X = rng.random((60, 2))
    noisy = rng.normal(size=60)
    for space, points, y in (
        (plane, X, noisy),
        (grid, grid.snap(X), X.sum(axis=1)),
        (plane, X[:23], X[:23].sum(axis=1)),
    ):
        local.fit(Data(points, y, X[:0]), space, points[np.argmax(y)])
    assert not asked
    local.fit(Data(X[:24], X[:24].sum(axis=1), X[:0]), plane, X[0])
    assert asked


def test_suggestions_of_a_batch_share_their_first_model():
    space = Space.of([(0, 1)] * 4)
    data = some(space, 60)
    gp._made.cache_clear()
    local.fit(data, space, data.best)
    made = gp._made.cache_info().misses
    crowd = Data(data.X, data.y, np.random.default_rng(0).random((3, 4)), data.numbers)
    local.fit(crowd, space, crowd.best)
    assert gp._made.cache_info().misses == made + 1  # that with the pending points


def test_the_wrong_peak_is_left_after_a_while():
    def f(x):
        return -np.exp(-30.0 * np.square(x - 0.2).sum()) - 1.5 * np.exp(-40.0 * np.square(x - 0.75).sum())

    found = 0
    for seed in range(16):
        optimizer = Optimizer([(0, 1)] * 2, rng=seed)
        for _ in range(150):
            trial = optimizer.ask()
            optimizer.tell(trial, float(f(trial.x)))
        found += optimizer.best.value < -1.2
    assert found >= 13


def noisy(space, t, seed=0):
    data = some(space, t, seed)
    return Data(data.X, data.y + 0.3 * np.random.default_rng(seed).standard_normal(t), data.X[:0], np.arange(t))


def probed(data, space, change):
    """The data after the probe that they call for, whose value is that of the best and a change."""
    x = suggest(data, space)
    return Data(np.vstack([data.X, x]), np.append(data.y, data.y.max() + change), data.silent, np.arange(len(data) + 1))


def test_the_best_point_is_looked_at_again_before_noise_is_believed():
    space, data = Space.of([(0, 1)]), noisy(Space.of([(0, 1)]), 60)
    before = local.fit(data, space, data.best)
    assert before.noise is not None and before.unprobed and not before.rugged
    x = suggest(data, space)
    assert 0.0 < np.abs(x - data.best).max() < probe.CLOSE * before.frame.radius
    pending = Data(data.X, data.y, x[None], data.numbers)  # nobody asks twice
    assert np.abs(suggest(pending, space) - data.best).max() > probe.CLOSE * before.frame.radius
    believed = local.fit(probed(data, space, -0.4), space, data.best)
    assert believed.noise is not None and not believed.unprobed
    plateau = local.fit(probed(data, space, 0.0), space, data.best)
    assert plateau.noise is not None and not plateau.rugged and not plateau.unprobed


def test_what_comes_back_is_no_noise():
    space, data = Space.of([(0, 1)]), noisy(Space.of([(0, 1)]), 60)
    data = probed(data, space, -1e-6)
    fitted = local.fit(data, space, data.best)
    assert fitted.noise is None and fitted.rugged
    np.testing.assert_array_equal(fitted.center, data.best)
    assert fitted.model.hyperparameters[2] in local.QUIET
    assert local.fit(data, space, data.best, average=True).noise is not None


def test_a_settled_region_of_a_rugged_function_is_averaged_every_other_time(monkeypatch):
    space, data = Space.of([(0, 1)]), noisy(Space.of([(0, 1)]), 60)
    data = probed(data, space, -1e-6)
    seen = []
    of = local.fit
    monkeypatch.setattr(local, "fit", lambda *a, **o: seen.append(o) or of(*a, **o))
    monkeypatch.setattr(TrustRegion, "replay", lambda *_: Search(0.15))
    suggest(data, space, aside=True)
    suggest(data, space, aside=False)
    assert seen == [{}, {"average": True}, {}]


def test_a_cluster_around_the_best_point_is_not_taken_for_noise(monkeypatch):
    """Among far observations it is one point to a model, with many values."""
    space, found = Space.of([(0, 1)] * 2), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        far = 0.05 * rng.standard_normal((60, 2))
        X = 0.3 + np.vstack([np.zeros((1, 2)), 1e-7 * rng.standard_normal((18, 2)), far])
        found.append(Data(X, -np.square(X - 0.3).sum(axis=1), X[:0], np.arange(len(X))))
    for data in found:
        assert local.fit(data, space, data.best).noise is None and local._quiet(data, space)
        assert clusters.around_the_first(data.nearest(data.best, 40, space)[0], space) == 19
    told = [Data(data.X, np.random.default_rng(1).standard_normal(79), data.silent, data.numbers) for data in found]
    assert all(local.fit(data, space, data.X[0]).noise is not None for data in told)  # there is noise in the cluster
    monkeypatch.setattr(clusters, "clearer", lambda *_: None)
    assert sum(local.fit(data, space, data.best).noise is not None for data in found) > 4


def test_a_cluster_elsewhere_is_not_taken_for_noise(monkeypatch):
    """Another search has closed in on a point among the observations around this one."""
    space, found = Space.of([(0, 1)] * 2), []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        cluster = 10.0 ** rng.uniform(-10, -7, (20, 1)) * rng.standard_normal((20, 2))
        others = [1e-4 * rng.standard_normal((11, 2)), 0.05 * rng.standard_normal((200, 2))]
        X = 0.3 + np.vstack([[[2e-4, 1e-4]], cluster, *others])
        found.append(Data(X, -np.square(X - 0.3).sum(axis=1), X[:0], np.arange(len(X))))
    for data in found:
        assert local.fit(data, space, data.X[0]).noise is None
        clear, values = clusters.clearer(*data.nearest(data.X[0], 32, space), data, space)
        assert np.count_nonzero(np.abs(clear - 0.3).max(axis=1) < 1e-6) < 3 and len(clear) > 12
        np.testing.assert_array_equal(values, -np.square(clear - 0.3).sum(axis=1))
    told = [Data(data.X, np.random.default_rng(1).standard_normal(232), data.silent, data.numbers) for data in found]
    assert sum(local.fit(data, space, data.X[0]).noise is not None for data in told) > 14  # there is noise
    monkeypatch.setattr(clusters, "scattered", lambda X, n, space: range(len(X)))
    assert sum(local.fit(data, space, data.X[0]).noise is not None for data in found) > 4


@pytest.mark.parametrize("seed", range(5))
def test_scattered_observations_are_those_far_from_all_before(seed):
    rng, space = np.random.default_rng(seed), Space.of([(0, 1)] * 2)
    X = np.vstack([rng.random((10, 2)), 0.5 + 0.01 * rng.random((40, 2)), 0.2 + 1e-4 * rng.random((20, 2))])
    X = X[np.argsort(np.linalg.norm(X - X[0], axis=1))]
    limit, rows = np.linalg.norm(X[39] - X[0]) / clusters.DENSE, []
    for i, x in enumerate(X):
        if all(np.linalg.norm(x - X[j]) > limit for j in rows):
            rows.append(i)
    assert clusters.scattered(X, 40, space) == rows and len(rows) < 70


def test_a_few_observations_or_repeated_ones_are_no_cluster():
    space, X = Space.of([(0, 1)] * 2), np.random.default_rng(0).random((30, 2))
    assert clusters.around_the_first(X[:6], space) == 6
    assert clusters.around_the_first(np.vstack([np.repeat(X[:1], 20, axis=0), X]), space) == 50


def test_gridded_columns_are_not_probed():
    space = Space({"a": Int(0, 50), "b": Float(0, 1)})
    data = noisy(space, 60)
    fitted = local.fit(data, space, data.best)
    assert fitted.noise is not None and not fitted.unprobed


def test_repeated_points_tell_noise_from_ruggedness():
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 4)), rng.standard_normal(30)
    assert probe.repeats(X, y, 0.5, 1.0) is None
    x = probe.beside(X[3], 0.5)
    assert ((x - X[3]) * (0.5 - X[3]) > 0.0).all()
    assert np.linalg.norm(x - X[3]) == pytest.approx(0.5 * probe.OFFSET)
    for change, expected in ((1e-3, True), (0.0, False), (0.1, False), (1e308, False)):
        assert probe.repeats(np.vstack([X, x]), np.append(y, y[3] + change), 0.5, 1.0) is expected
    both = np.vstack([X, x, X[7] + 1e-7]), np.concatenate([y, [y[3] + 1e-3, y[7] + 0.5]])
    assert probe.repeats(*both, 0.5, 1.0) is False  # one that differs is enough


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
@pytest.mark.parametrize(("n", "d"), [(0, 2), (1, 3), (60, 1), (60, 2), (60, 7)])
def test_compiled_pairs_are_the_plain_ones(n, d):
    X = np.random.default_rng(n).random((n, d)).round(1)
    for limit in (0.0, 1e-9, 0.15, 0.35, np.inf):
        for ours, plain in zip(NATIVE.pairs(X, limit), probe.plain_pairs(X, limit), strict=True):
            np.testing.assert_array_equal(ours, plain)


def test_an_ill_conditioned_bowl_is_not_taken_for_noise():
    weights = 10.0 ** np.linspace(0.0, 6.0, 5)
    for seed in range(3):
        optimizer = Optimizer([(0, 1)] * 5, rng=seed)
        for _ in range(120):
            trial = optimizer.ask()
            optimizer.tell(trial, float((weights * np.square(trial.x - 0.4)).sum()))
        assert optimizer.best.value < 0.01


def test_under_noise_about_every_other_suggestion_maximizes_a_drawn_function(monkeypatch):
    space, data = Space.of([(0, 1)] * 3), noisy(Space.of([(0, 1)] * 3), 60)
    data = probed(data, space, -0.4)
    assert local.fit(data, space, data.best).noise is not None
    draws = []
    monkeypatch.setattr(local, "_drawn", lambda *a, of=local._drawn: draws.append(of(*a)) or draws[-1])
    drawn = 0
    for seed in range(60):
        before = len(draws)
        x = suggest(data, space, seed)
        if len(draws) > before:
            X, values = draws[-1]
            np.testing.assert_array_equal(x, X[np.argmax(values)])
            drawn += 1
    assert 15 <= drawn <= 45
    assert len({tuple(X[np.argmax(values)]) for X, values in draws}) == drawn


def test_without_noise_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(local, "_drawn", None)
    space = Space.of([(0, 1)] * 3)
    assert all(suggest(some(space, 60), space, seed) is not None for seed in range(10))


def test_pending_points_push_the_next_one_away():
    space, data = Space.of([(0, 1)] * 2), some(Space.of([(0, 1)] * 2), 30)
    first = suggest(data, space)
    again = suggest(data, space, seed=1)
    second = suggest(Data(data.X, data.y, first[None], data.numbers), space, seed=1)
    assert np.linalg.norm(second - first) > 5 * np.linalg.norm(again - first)


def test_batches_are_distinct():
    optimizer = Optimizer([(0, 1)] * 3, rng=0)
    for _ in range(20):
        trial = optimizer.ask()
        optimizer.tell(trial, float(np.square(trial.x - 0.4).sum()))
    batch = np.array([t.x for t in optimizer.ask(12)])
    away = np.linalg.norm(batch[:, None] - batch[None], axis=2)[np.triu_indices(12, 1)]
    assert away.min() > 1e-4


def test_the_region_is_the_same_whoever_tells_and_in_whatever_order():
    def run(order_seed):
        optimizer = Optimizer([(0, 1)] * 2, rng=3)
        for _ in range(12):
            batch = optimizer.ask(3)
            for i in np.random.default_rng(order_seed).permutation(3):
                optimizer.tell(batch[i], float(np.square(batch[i].x - 0.6).sum()))
        return optimizer.ask().x

    np.testing.assert_array_equal(run(0), run(1))


def test_the_initial_design_and_exploration_are_no_outcomes(monkeypatch):
    seen = []

    def outcomes(data, ours, since):
        seen.append(np.sort(data.numbers[ours(data.numbers) & data.asked]))
        return data.numbers[:0], data.asked[:0], data.y[:0]

    monkeypatch.setattr(Data, "outcomes", outcomes)
    monkeypatch.setattr(local, "usual", lambda *_: None)  # which does not ask for them
    optimizer = Optimizer([(0, 1)] * 2, rng=5)
    for _ in range(40):
        trial = optimizer.ask()
        optimizer.tell(trial, float(np.square(trial.x - 0.4).sum()))
    expected = [n for n in range(6, 39) if chance(5, 0.05).has(n)]
    assert [n for n in seen[-1].tolist() if n < 39] == [n for n in expected if n <= seen[-1].max()]
    assert seen[-1].min() >= 6


@pytest.mark.skipif(NATIVE is None, reason="there is one way only")
@given(seed=st.integers(0, 2**32 - 1), d=st.sampled_from([1, 2, 5]), levels=st.sampled_from([2, 1000]))
@settings(deadline=None, max_examples=60)
def test_the_best_point_that_is_not_taken_is_the_same_compiled(seed, d, levels):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3, d)
    space = Space.of(list(zip(low, low + 10.0 ** rng.uniform(-3, 3, d), strict=True)))
    X = np.floor(4 * rng.random((6, d))) / 4 + rng.choice([0.0, 1e-17, 0.1], 6)[:, None]
    known = space.encode(space.decode(X[rng.random(6) < 0.5]))
    half = len(known) // 2
    data = Data(known[:half], np.zeros(half), known[half:])
    values = np.floor(levels * rng.random(6))
    values[rng.random(6) < 0.2] = -np.inf
    found, expected = local._new(X, values, data, space), local.plain_new(X, values, data, space)
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_array_equal(found, expected)
    everything = Data(space.encode(space.decode(X)), np.zeros(6), X[:0])
    assert local._new(X, values, everything, space) is None


def test_categories_are_alike_or_not():
    X = MIXED.encode(np.array([[0.1, 3, 0, 0.5], [0.1, 3, 1, 0.5], [0.1, 3, 2, 0.5]]))
    F = local.features(X, MIXED)
    away = np.linalg.norm(F[:, None] - F[None], axis=2)
    np.testing.assert_allclose(away, 0.5 * (1 - np.eye(3)), atol=1e-12)


def test_spaces_of_categories_alone():
    space = Space({f"c{i}": Categorical(list("abcdefgh")) for i in range(5)})
    data = some(space, 30)
    x = suggest(data, space)
    assert not (x == data.X).all(axis=1).any()


def test_the_exploring_share_is_q_and_known_in_advance():
    numbers = np.arange(100_000)
    for seed in (0, 7, 2**100 + 3):
        lot = chance(seed, 0.05)
        assert abs(lot(numbers).mean() - 0.95) < 0.005
        assert lot(numbers)[50:60].tolist() == [lot.has(n) for n in range(50, 60)]
    assert (chance(0, 0.05)(numbers) != chance(1, 0.05)(numbers)).any()


def test_high_dimensions_and_few_points():
    for d, t in ((100, 3), (200, 20)):
        space = Space.of([(0, 1)] * d)
        x = suggest(some(space, t), space)
        assert x.shape == (d,) and np.isfinite(x).all()


def test_finite_decision_sets_are_left_to_the_kernel_mean():
    space = Space({"n": Int(1, 4), "c": Categorical(["x", "y"])})
    data = some(space, 5)
    branches = {BOKELocal(n_init=0).suggest(data, space, Key(0, n)).branch for n in range(5, 40)}
    assert branches <= {"exploit", "explore"}


# large batches


def gaps(X):
    away = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(away, np.inf)
    return away.min(axis=1)


@pytest.mark.parametrize("space", [Space.of([(0, 1)] * 2), Space.of([(0, 1)] * 6), MIXED], ids=["2", "6", "mixed"])
def test_a_large_batch_spreads_out_and_repeats_nothing(space):
    optimizer = Optimizer(space, rng=0)
    X = np.random.default_rng(0).random((40, space.dim))
    for x in X:
        point = space.to_params(space.decode(x[None])[0])
        optimizer.tell(point, float(np.square(x - 0.3).sum()))
    batch = np.array([trial.x for trial in optimizer.ask(100)])
    assert len(np.unique(batch, axis=0)) == 100
    random = space.snap(np.random.default_rng(1).random((100, space.dim)))
    assert gaps(batch).mean() > gaps(random).mean()


def test_a_batch_is_its_points_asked_for_one_by_one():
    one, many = (Optimizer([(0, 1)] * 3, rng=0) for _ in range(2))
    for optimizer in (one, many):
        optimizer.tell_many(np.random.default_rng(0).random((30, 3)), np.arange(30.0))
    np.testing.assert_array_equal([t.x for t in many.ask(40)], [one.ask().x for _ in range(40)])


def test_a_few_pending_points_leave_the_region_as_it_is():
    space, data = Space.of([(0, 1)] * 2), some(Space.of([(0, 1)] * 2), 30)
    center = np.full(2, 0.5)
    near = center + 0.01 * np.random.default_rng(0).normal(size=(local.CROWD, 2))
    low, high, crowded = local._room(near[:-1], center, 0.2, space)
    assert not crowded and high[0] - low[0] == pytest.approx(0.2)
    low, high, crowded = local._room(near, center, 0.2, space)
    assert crowded and high[0] - low[0] == pytest.approx(0.2 * local.WIDER)
    low, high, crowded = local._room(np.vstack([near, near + 0.1, near - 0.3]), center, 0.1, space)
    assert crowded and (low == 0.0).all() and (high == 1.0).all()
    away = Data(data.X, data.y, near * 0.1 + 0.9, data.numbers)  # pending elsewhere: nothing to make room for
    fitted = local.fit(away, space, away.best)
    assert not local._room(away.silent, fitted.center, 0.2, space)[2]


def test_batches_do_not_end_in_the_same_corner():
    """The best point of a small box is often its corner; bounds that round must not make it look like a new one."""
    optimizer = Optimizer({"kind": Categorical(["a", "b"]), "x": Float(-2, 2), "y": Float(-1, 3)}, rng=2)
    for _ in range(15):
        batch = optimizer.ask(4)
        assert len({tuple(trial.params.values()) for trial in batch}) == 4
        for trial in batch:
            x, y = trial.params["x"], trial.params["y"]
            optimizer.tell(trial, 100 * (y - x**2) ** 2 + (1 - x) ** 2 + 5 * x * (trial.params["kind"] == "b"))


def pull(space, f, n, seed=0, batch=1):
    optimizer = Optimizer(space, direction="maximize", rng=seed)
    while len(optimizer.history) < n:
        for trial in optimizer.ask(batch):
            optimizer.tell(trial, f(trial.x))
    return optimizer


def pulls(optimizer):
    """How often each arm was pulled."""
    return np.unique(optimizer.history.x, axis=0, return_counts=True)[1]


@pytest.mark.parametrize("batch", [1, 8])
def test_the_best_of_a_catalogue_is_found_and_one_arm_at_most_tried_twice(batch):
    """Twice, to see whether values come back."""
    arms = np.random.default_rng(0).random((1500, 2))
    optimizer = pull(Space.from_arms(arms), lambda x: -float(np.square(x - 0.4).sum()), 48, batch=batch)
    assert pulls(optimizer).sum() - len(pulls(optimizer)) <= 1
    np.testing.assert_array_equal(optimizer.best.x, optimizer.space.unit_arms[np.square(arms - 0.4).sum(1).argmin()])


def test_a_rugged_catalogue_is_not_taken_for_a_noisy_one():
    values = {}
    rng = np.random.default_rng(0)
    space = Space.from_arms(rng.random((300, 2)))
    optimizer = pull(space, lambda x: values.setdefault(x.tobytes(), float(rng.normal())), 80)
    assert len(pulls(optimizer)) >= 75  # the best one is pulled again, once in each place that looks noisy


def test_all_arms_are_tried_and_tried_again():
    optimizer = pull(Space.from_arms(np.linspace(0, 1, 12)), lambda x: -abs(float(x[0]) - 0.3), 40)
    assert len(pulls(optimizer)) == 12 and len(optimizer.history) == 40


def test_under_noise_the_better_arms_are_pulled_again_and_the_best_is_recommended():
    space, rng = Space.from_arms(np.linspace(0, 1, 10)), np.random.default_rng(1)
    optimizer = pull(space, lambda x: float(np.sin(5 * x[0])) + 0.3 * rng.normal(), 120)
    best = np.sin(5 * space.unit_arms[:, 0]).argmax()
    np.testing.assert_array_equal(optimizer.recommend().x, space.unit_arms[best])
    assert 3 <= pulls(optimizer)[best] < 110


def test_whether_values_come_back():
    X = np.array([[0.0, 1.0], [0.5, 1.0], [0.0, 1.0], [0.2, 0.3]])
    assert probe.come_back(X[1:], np.arange(3.0)) is None
    assert probe.come_back(X, np.array([1.0, 2.0, 1.0, 3.0])) is True
    assert probe.come_back(X, np.array([1.0, 2.0, 1.1, 3.0])) is False
    assert probe.come_back(X[:0], np.empty(0)) is None


@pytest.mark.parametrize(
    ("d", "counts"),
    [(1, [32, 32, 32]), (2, [32, 32, 32]), (5, [48, 80, 80]), (10, [64, 104, 104]), (20, [96, 104, 104])],
)
def test_models_grow_with_what_a_search_has_asked_for(d, counts, monkeypatch):
    assert [local.nearest(d, answered) for answered in (200, 700, 10**6)] == counts
    space = Space.of([(0, 1)] * d)
    told = some(space, 700)
    asked = replace(told, asked=np.ones(700, bool))
    for data, count in ((told, local.nearest(d)), (asked, counts[1])):
        assert len(local.fit(data, space, data.best).y) == count
        compiled = suggest(data, space)
        with monkeypatch.context() as patch:
            patch.setattr(local, "usual", lambda *_: None)
            np.testing.assert_array_equal(compiled, suggest(data, space))


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
@pytest.mark.parametrize("d", [1, 2, 4, 11])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: float(np.square(x - 0.3).sum()),
        lambda x: float(np.abs(x - 0.4).sum() + 0.1 * np.sin(40.0 * x).sum()),
        lambda x: float(np.round(3.0 * x).sum()),
        lambda x: 1e300 * float(x[0]),
        lambda x: 7.0,
        lambda x: float(x.sum()) if x[0] > 0.3 else float("nan"),
    ],
    ids=["bowl", "rugged", "plateaus", "huge", "constant", "failing"],
)
def test_the_usual_suggestion_in_one_call_is_that_of_the_definition(f, d, monkeypatch):
    """To the last bit, whatever the function, through both searches."""
    compiled, used = local.usual, []

    def counted(*given):
        found = compiled(*given)
        used.append(found is not None)
        return found

    space = [Float(1e-3, 1.0, log=True), *[(-1.0, 2.0)] * (d - 1)]
    runs = []
    for usual in (counted, lambda *_: None):
        monkeypatch.setattr(local, "usual", usual)
        optimizer = Optimizer(space, rng=d, window=90)
        optimizer.tell_many(np.random.default_rng(d).uniform(0.1, 0.9, (10, d)), np.arange(10.0) + 100.0)
        for _ in range(120):
            trial = optimizer.ask()
            optimizer.tell(trial, f(trial.x))
        runs.append(optimizer.history.x.copy())
    np.testing.assert_array_equal(*runs)
    assert any(used)


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
def test_the_usual_suggestion_knows_when_it_is_not_usual():
    plane, number = Space.of([(0, 1)] * 2), 40
    data = some(plane, 40)
    trials = local.Trials(Lot(0, 1, ALL), Lot(0, 1, NONE), number, lambda: data)

    def usual(data, space=plane, trials=trials):
        return local.usual(data, space, TrustRegion(), trials, np.random.default_rng(0))

    assert usual(data) is not None
    assert usual(Data(data.X, data.y, data.X[:1] * 0.5, data.numbers, data.asked)) is None  # something is pending
    assert usual(Data(data.X, data.y, data.silent)) is None  # nobody knows the numbers
    assert usual(noisy(plane, 60)) is None
    grid = Space({"a": Int(0, 9), "b": Float(0, 1)})
    assert usual(some(grid, 40), grid) is None
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    local.usual(noisy(plane, 60), plane, TrustRegion(), trials, rng)
    assert rng.bit_generator.state == before  # the definition begins with the same random numbers
    with pytest.raises(ValueError, match="agree"):
        usual(Data(data.X[:, :1], data.y, data.silent[:, :1], data.numbers, data.asked))
    with pytest.raises(ValueError, match="negative"):
        usual(Data(data.X, data.y, data.silent, data.numbers - 1, data.asked))
