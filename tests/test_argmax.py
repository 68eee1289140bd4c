"""The maximizer finds what brute force finds, stays inside, and spends the budget it was given."""

import numpy as np
import pytest

from boke import argmax as module
from boke.acquisition import Mean, PaperBeta, UpperConfidenceBound
from boke.argmax import argmax, around, plain_spread, polish, screen
from boke.bandwidth import Silverman
from boke.compiled import NATIVE
from boke.data import Data
from boke.engine import Draw
from boke.keys import TakenPoints
from boke.model import KernelModel
from boke.policies import BOKE, BOKEPlus, Key
from boke.space import Categorical, Float, Int, Space


def bumpy(X):
    return -np.square(X - 0.4).sum(axis=-1) + 0.1 * np.cos(9 * X).sum(axis=-1)


def history_of_a_run(d, t, seed):
    space = Space.of([(0, 1)] * d)
    X = np.random.default_rng(seed).random((20, d))
    for number in range(20, t):
        X = np.vstack([X, BOKEPlus(n_init=0).suggest(Data(X, bumpy(X), X[:0]), space, Key(seed, number)).x])
    return X


@pytest.mark.parametrize("d", [2, 5, 10])
@pytest.mark.parametrize("policy", [BOKE(n_init=0), BOKE(n_init=0, bandwidth=Silverman(1.0), beta=PaperBeta(0.1))])
@pytest.mark.parametrize("kind", ["uniform", "run"])
def test_suggestion_is_as_good_as_20000_random_points(d, policy, kind):
    """Up to 1 % of the range."""
    gaps = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.random((100, d)) if kind == "uniform" else history_of_a_run(d, 60, seed)
        chosen = policy.suggest(Data(X, bumpy(X), X[:0]), Space.of([(0, 1)] * d), Key(seed, len(X)))
        a = UpperConfidenceBound(chosen.model, chosen.beta, chosen.rho)
        random = a(rng.random((20_000, d)))
        gaps.append((random.max() - a(chosen.x[None])[0]) / np.ptp(random))
    assert max(gaps) <= 0.01


@pytest.mark.parametrize("d", [2, 5, 10])
def test_exploitation_is_as_good_as_20000_random_points(d):
    X = history_of_a_run(d, 60, 3)
    chosen = BOKEPlus(n_init=0, q=1e-12).suggest(Data(X, bumpy(X), X[:0]), Space.of([(0, 1)] * d), Key(3, 60))
    assert chosen.branch == "exploit"
    random = Mean(chosen.model)(np.random.default_rng(0).random((20_000, d)))
    assert Mean(chosen.model)(chosen.x[None])[0] >= random.max() - 0.01 * np.ptp(random)


class Parabola:
    """A function with a known maximizer that counts its evaluations."""

    def __init__(self, top):
        self.top, self.evaluations = np.asarray(top), 0

    def __call__(self, X):
        self.evaluations += len(X)
        return -np.square(X - self.top).sum(axis=1)

    def screen(self, draw, most):
        return None

    def gradient(self, X):
        return self(X), -2.0 * (X - self.top)

    def near(self, centers, radius):
        return self

    def polish(self, X, scale, steps, leash):
        return None


@pytest.mark.parametrize("budget", [64, 256, 1024])
@pytest.mark.parametrize("centers", [0, 3])
def test_budget_is_respected(budget, centers):
    f = Parabola([0.3, 0.8])
    rng = np.random.default_rng(0)
    some = rng.random((centers, 2))
    argmax(f, Space.of([(0, 1)] * 2), budget, rng, bandwidth=np.full(2, 0.1), centers=some, taken=TakenPoints(some))
    assert 0.5 * budget <= f.evaluations <= budget


def test_polish_climbs_to_the_top_and_leaves_frozen_columns_alone():
    f = Parabola([0.3, 0.8, 0.5])
    X = np.random.default_rng(0).random((5, 3))
    polished, values = polish(f, X, np.array([0.2, 0.2, 0.0]), 60)
    np.testing.assert_allclose(polished[:, :2], np.tile([0.3, 0.8], (5, 1)), atol=0.05 * 0.2 * 2)
    np.testing.assert_array_equal(polished[:, 2], X[:, 2])
    np.testing.assert_array_equal(values, f(polished))


def test_polish_never_loses_and_stays_in_the_cube():
    f = Parabola([1.7, -0.5])
    X = np.random.default_rng(0).random((6, 2))
    polished, values = polish(f, X, np.full(2, 0.2), 40)
    assert (values >= f(X)).all()
    np.testing.assert_allclose(polished, np.tile([1.0, 0.0], (6, 1)), atol=0.05 * 0.2 * 2)


@pytest.mark.skipif(NATIVE is None, reason="polishing is not compiled here")
@pytest.mark.parametrize("d", [1, 2, 7, 20])
@pytest.mark.parametrize("silent", [0, 9])
@pytest.mark.parametrize("kind", [Mean, UpperConfidenceBound])
def test_compiled_polishing_is_the_same(d, silent, kind, monkeypatch):
    rng = np.random.default_rng(d)
    X, S = rng.random((60, d)), rng.random((silent, d))
    model = KernelModel(X, rng.normal(size=60), bandwidth=rng.uniform(0.1, 0.3, d) * d**0.5, silent=S)
    f = Mean(model) if kind is Mean else UpperConfidenceBound(model, 0.3, 1e-4)
    start = np.vstack([rng.random((20, d)), np.zeros((1, d)), np.ones((1, d)), X[:2]])
    scale = model.bandwidth * (np.arange(d) != 3)  # a column that must not move
    for steps in (1, 2, 12):
        before = start.copy()
        compiled = f.polish(start, scale, steps, module.LEASH)
        assert compiled is not None
        np.testing.assert_array_equal(start, before)
        with monkeypatch.context() as patch:
            patch.setattr(kind, "polish", lambda *_: None)
            points, values = polish(f, start, scale, steps)
        np.testing.assert_allclose(compiled[0], points, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(compiled[1], values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("space", [Space.of({"a": Float(0, 1), "c": Categorical([*"xyz"])}), Space.of([(0, 1)] * 2)])
def test_what_is_not_compiled_is_polished_all_the_same(space):
    X = np.random.default_rng(0).random((30, 2))
    kernel = "quartic" if space.smooth else "gaussian"
    model = KernelModel(space.snap(X), bumpy(X), kernel=kernel, bandwidth=0.4, categorical=space.categorical)
    f = UpperConfidenceBound(model, 0.1, 1e-4)
    assert f.polish(X, model.bandwidth, 3, 8.0) is None
    start = space.snap(X)
    points, values = polish(f, start, model.bandwidth * space.continuous, 8)
    assert (values >= f(start)).all() and values.sum() > f(start).sum()
    np.testing.assert_array_equal(points[:, ~space.continuous], start[:, ~space.continuous])


@pytest.mark.skipif(NATIVE is None, reason="there is nothing compiled here")
@pytest.mark.parametrize("d", [1, 2, 5])
def test_compiled_spread_is_the_same(d):
    rng = np.random.default_rng(d)
    for n in (0, 1, 40):
        X = 6.0 * rng.random((n, d))
        X[n // 2 :] = X[: n - n // 2]  # copies
        for count in (1, 5, 100):
            assert list(NATIVE.spread(X, 2.0, count)) == plain_spread(X, 2.0, count)


def test_taken_points_are_passed_over_unless_repeats_are_wanted():
    space = Space.of({"n": Int(0, 4)})
    cells = space.enumerate(100)
    f = Parabola([cells[2, 0]])
    settings = {"bandwidth": np.ones(1), "centers": cells[:0], "taken": TakenPoints(cells[[1, 2]])}
    rng = np.random.default_rng(0)
    assert argmax(f, space, 64, rng, **settings)[0] == cells[3, 0]
    assert argmax(f, space, 64, rng, repeat=True, **settings)[0] == cells[2, 0]
    settings["taken"] = TakenPoints(cells)
    assert argmax(f, space, 64, rng, **settings)[0] == cells[2, 0]  # nothing else is left


def test_corner_that_was_tried_is_not_proposed_again():
    corner = np.ones((1, 2))
    rng = np.random.default_rng(0)
    x = argmax(
        Parabola([2.0, 2.0]),
        Space.of([(0, 1)] * 2),
        256,
        rng,
        bandwidth=np.full(2, 0.1),
        centers=corner,
        taken=TakenPoints(corner),
    )
    assert not np.array_equal(x, corner[0])


def test_neighbours_only_gives_the_same_choice_as_all_observations(monkeypatch):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.random((300, 4)), 0.5 + 0.01 * rng.normal(size=(300, 4))])
    model = KernelModel(X, bumpy(X), bandwidth=0.03)
    f = UpperConfidenceBound(model, 0.01, 1e-4)
    points = []
    for threshold in (0, 10**9):
        monkeypatch.setattr("boke.acquisition.NEAR_PAYS", threshold)
        best = X[np.argsort(-bumpy(X))[:5]]
        points.append(
            argmax(
                f,
                Space.of([(0, 1)] * 4),
                1024,
                np.random.default_rng(2),
                bandwidth=model.bandwidth,
                centers=best,
                taken=TakenPoints(X),
            )
        )
    np.testing.assert_allclose(points[0], points[1], atol=1e-9)


def some_draw(d, seed, n=512, rims=192, extra=0):
    rng = np.random.default_rng(seed)
    return Draw(
        rng.random((256, d)), rng.random((extra, d)), rng.random((40, d)), rng.random((n, 3)),
        rng.random(((n + 1) // 2, d)), rng.standard_normal((n, d)), 4.3, rims, 5, module.LEASH,
    )  # fmt: skip


def test_neighbours_reach_other_cells_and_other_categories():
    space = Space({"x": Float(0, 1), "n": Int(1, 10), "c": Categorical(["a", "b", "c"])})
    centers = space.snap(np.array([[0.5, 0.5, 0.5]]))
    reach, rng = np.linspace(0.25, 8.0, 400), np.random.default_rng(0)
    X = space.snap(around(some_draw(3, 0), slice(400), centers, reach, np.full(3, 0.01), space, rng))
    assert X.min() >= 0.0 and X.max() <= 1.0
    assert len(np.unique(X[:, 1])) >= 3 and len(np.unique(X[:, 2])) == 3
    assert np.abs(X[:, 0] - 0.5).max() < 0.25


def test_candidates_around_centers_are_as_far_as_they_should_be_and_half_of_them_move_few_columns():
    space, reach = Space.of([(0, 1)] * 10), np.linspace(0.25, 8.0, 400)
    steps = around(some_draw(10, 1), slice(7, 407), np.full((1, 10), 0.5), reach, np.full(10, 0.01), space, None) - 0.5
    np.testing.assert_allclose(np.sqrt(np.square(steps).sum(axis=1)), 0.01 * reach)
    moved = (steps != 0.0).sum(axis=1)
    assert (moved[::2] == 10).all() and 2.3 < moved[1::2].mean() < 3.3  # 1 + 9 * 2 / 10


def uneven_model(d, silent, seed=0):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.random((70, d)), np.clip(0.4 + 0.05 * rng.normal(size=(90, d)), 0.0, 1.0)])
    return KernelModel(X, 1e3 + bumpy(X), bandwidth=rng.uniform(0.02, 0.05, d) * d**0.5, silent=rng.random((silent, d)))


@pytest.mark.skipif(NATIVE is None, reason="screening is not compiled here")
@pytest.mark.parametrize("d", [1, 2, 7, 20])
@pytest.mark.parametrize("silent", [0, 9])
@pytest.mark.parametrize("shape", [(512, 192, 0), (333, 100, 50), (128, 0, 0), (0, 0, 0)])
@pytest.mark.parametrize("kind", [Mean, UpperConfidenceBound])
def test_compiled_screen_finds_the_same(d, silent, shape, kind):
    model, draw, space = uneven_model(d, silent), some_draw(d, d, *shape), Space.of([(0, 1)] * d)
    f = Mean(model) if kind is Mean else UpperConfidenceBound(model, 0.01, 1e-4)
    X, values = screen(f, space, model.bandwidth, draw, np.random.default_rng(0))
    best = f.screen(draw, 80)
    assert best.shape == (80, d)
    np.testing.assert_allclose(f(best), np.sort(values)[::-1][:80], rtol=0.0, atol=1e-4 * np.ptp(values))
    assert np.abs(best[:, None] - X).max(axis=2).min(axis=1).max() < 1e-12
    assert len(f.screen(draw, 10**6)) == len(X)


@pytest.mark.skipif(NATIVE is None, reason="screening is not compiled here")
@pytest.mark.parametrize("silent", [0, 9])
def test_screen_and_polish_agree_to_the_last_bit_on_all_instruction_sets(silent):
    model, draw = uneven_model(7, silent), some_draw(7, 0)
    ell = np.array(model.bandwidth)
    results = []
    for isa in NATIVE.instruction_sets():
        seen, hush = (
            NATIVE.Sums(0, Z.numeric, Z.codes, y, np.ones(len(y)), np.empty(0), isa)
            for Z, y in ((model._data, model.y), (model._silent, np.zeros(silent)))
        )
        other = hush if silent else None
        best = seen.screen(other, *draw[:6], ell, 0.01, 1e-4, *draw[6:], 80)
        results.append([best, *seen.polish(other, best[:16], ell, ell, 0.01, 1e-4, 8, 8.0)])
    for result in results[1:]:
        for a, b in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(a, b)


def test_where_single_precision_is_not_enough_nothing_is_screened_in_it():
    X, draw = np.random.default_rng(0).random((30, 2)), some_draw(2, 0)
    for model in (
        KernelModel(X, bumpy(X), bandwidth=1e-4),
        KernelModel(X, 1e35 * bumpy(X), bandwidth=0.1),
        KernelModel(X, np.zeros(30), bandwidth=0.1),
        KernelModel(X, bumpy(X), bandwidth=0.1, weights=np.arange(30.0)),
        KernelModel(X, bumpy(X), bandwidth=0.1, kernel="quartic"),
    ):
        assert Mean(model).screen(draw, 80) is None


def test_many_taken_candidates_are_passed_over_all_the_same():
    """A corner is the best place, known, and what most candidates are clipped to."""
    X = np.vstack([np.ones((1, 2)), np.random.default_rng(0).random((30, 2))])
    model = KernelModel(X, X.sum(axis=1), bandwidth=0.2)
    x = argmax(
        Mean(model), Space.of([(0, 1)] * 2), 1024, np.random.default_rng(0),
        bandwidth=model.bandwidth, centers=X[:1], taken=TakenPoints(X),
    )  # fmt: skip
    assert 1.9 < x.sum() < 2.0
