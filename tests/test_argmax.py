"""The maximizer finds what brute force finds, stays inside, and spends the budget it was given."""

import numpy as np
import pytest

from boke import argmax as module
from boke.acquisition import Mean, PaperBeta, UpperConfidenceBound
from boke.argmax import argmax, around, plain_spread, polish
from boke.bandwidth import Silverman
from boke.compiled import NATIVE
from boke.data import Data
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
        monkeypatch.setattr("boke.argmax.LOCAL_PAYS", threshold)
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


def test_neighbours_reach_other_cells_and_other_categories():
    space = Space({"x": Float(0, 1), "n": Int(1, 10), "c": Categorical(["a", "b", "c"])})
    centers = space.snap(np.array([[0.5, 0.5, 0.5]]))
    X = space.snap(around(centers, np.linspace(0.25, 8.0, 400), np.full(3, 0.01), space, np.random.default_rng(0)))
    assert X.min() >= 0.0 and X.max() <= 1.0
    assert len(np.unique(X[:, 1])) >= 3 and len(np.unique(X[:, 2])) == 3
    assert np.abs(X[:, 0] - 0.5).max() < 0.25
