"""The density that is kept at candidates of the cube, against that made afresh."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boke import density as module
from boke import history, policies
from boke.bandwidth import Fixed, LeastSquaresCV, Scott, Silverman, by_count
from boke.data import Data
from boke.density import Density, doubling
from boke.kernels import get_kernel
from boke.model import KernelModel
from boke.optimizer import Optimizer
from boke.policies import DensityExploration, Key
from boke.space import Categorical, Float, Int, Space
from boke.view import View
from boke.window import Window


def fresh(points, candidates, ell):
    """ln W (n,) by the model."""
    return KernelModel(points, np.zeros(len(points)), bandwidth=ell).predict(candidates).log_density


def observations(points):
    """All points that were ever there, and which are left."""
    return lambda: (np.array([x for x, _ in points]), np.array([there for _, there in points]))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 10, 60]),
    ell=st.sampled_from([0.003, 0.05, 1.0]),
    steps=st.lists(st.sampled_from("aaaaAcrRsSbn"), min_size=1, max_size=80),
    chunk=st.sampled_from([50, 1 << 16]),
)
def test_sums_are_fresh_after_any_history(seed, d, ell, steps, chunk):
    """Observations come, alone and many at once, at places where others are, and go; windows slide; bandwidths change."""
    with patch.object(module, "CHUNK", chunk):
        play(seed, d, ell, steps)


def play(seed, d, ell, steps):
    rng, space = np.random.default_rng(seed), Space.of([(0.0, 1.0)] * d)
    window = Window(seed, 40, 17)
    density, points = Density(window, ell, space), [(rng.random(d), True)]
    density.add(points[0][0][None])
    for step in steps:
        left = [i for i, (_, there) in enumerate(points) if there]
        if step in "aAc":
            copied = step == "c" and left
            new = [
                points[left[rng.integers(len(left))]][0] if copied else x
                for x in rng.random((300 if step == "A" else 1, d))
            ]
            points += [(x, True) for x in new]
            density.add(np.array(new))
        elif step in "rR" and len(left) > 1:
            gone = rng.permutation(left)[: 1 if step == "r" else len(left) // 2]
            for i in gone:
                points[i] = (points[i][0], False)
            density.remove(np.array([points[i][0] for i in gone]))
        elif step in "sS":
            window = Window(seed, 40, window.number + (1 if step == "s" else int(rng.integers(100))))
        elif step in "bn":
            ell *= 0.8 if step == "n" else 1.25
        candidates, log_W = density.log(window, ell, observations(points))
        np.testing.assert_array_equal(candidates, window.points(window.places, space))
        there = np.array([x for x, there in points if there])
        np.testing.assert_allclose(log_W, fresh(there, candidates, ell), rtol=1e-10, atol=1e-10)


def test_a_single_observation_costs_no_other_one():
    """What is kept is not made afresh behind the scenes, but for the candidate that is new."""
    space, rng = Space.of([(0.0, 1.0)] * 3), np.random.default_rng(0)
    X = rng.random((500, 3))
    seen = []
    density = Density(Window(0, 64, 500), 0.1, space)
    density._refresh, whole = lambda rows, *some: (seen.append(len(rows)), whole(rows, *some)), density._refresh
    for t in range(400, 500):
        density.log(Window(0, 64, t + 100), 0.1, lambda t=t: (X[:t], np.ones(t, bool)))
        density.add(X[t][None])
    assert seen == [64] + [1] * 99


def test_no_observations_have_no_density():
    space = Space.of([(0.0, 1.0)] * 2)
    density = Density(Window(0, 8, 0), 0.1, space)
    nothing = np.empty((0, 2)), np.zeros(0, bool)
    with np.errstate(divide="ignore"):
        assert (density.log(density.window, 0.1, lambda: nothing)[1] == -np.inf).all()
    far = np.full((1, 2), 0.5)
    density.add(far)
    candidates, log_W = density.log(Window(0, 8, 0), 1e-3, lambda: (far, np.ones(1, bool)))
    np.testing.assert_allclose(log_W, -0.5e6 * np.square(candidates - far).sum(axis=1), rtol=1e-10)


def test_bandwidths_double():
    assert [doubling(t) for t in (0, 1, 2, 3, 4, 1023, 1024)] == [0, 1, 2, 2, 4, 512, 1024]
    X = np.random.default_rng(0).random((50, 3))
    for rule in (Fixed(0.2), Silverman(0.5), Scott(2.0)):
        found = rule(X, X[:, 0], kernel=get_kernel("gaussian"), categorical=np.zeros(3, bool))
        assert by_count(rule, 50, 3) == found
    for rule in (Fixed((0.2, 0.1, 0.3)), Silverman(per_dimension=True), LeastSquaresCV()):
        assert by_count(rule, 50, 3) is None


@pytest.fixture
def kept(monkeypatch):
    """Everything is kept from the first observation on."""
    monkeypatch.setattr(policies, "KEPT", 0)
    monkeypatch.setattr(history, "INDEXED", 0)
    return monkeypatch


def run(steps, space, seed, policy, **settings):
    """Points asked for while trials are told, fail, stay out, come back late and are removed."""
    optimizer = Optimizer(space, rng=seed, policy=policy, **settings)
    rng, asked, out = np.random.default_rng(seed), [], []
    for _ in range(steps):
        trial, chance = optimizer.ask(), rng.random()
        asked.append(trial.x)
        if chance < 0.1:
            out.append(trial)
        else:
            optimizer.tell(trial, None if chance < 0.2 else float(trial.x.sum()))
        if chance > 0.9 and out:
            optimizer.tell(out.pop(0), 1.0)
        if chance > 0.95 and len(optimizer.history) > 5:
            told = [t.number for t in optimizer.history if t.state.name == "COMPLETE"]
            optimizer.remove(told[rng.integers(len(told))])
    return np.array(asked), optimizer


@pytest.mark.parametrize("settings_", [{}, {"window": 12}, {"half_life": 9.0}])
@pytest.mark.parametrize("space", [Space.of([(0.0, 1.0)] * 3), Space({"x": Float(0, 1), "n": Int(0, 5000)})])
def test_suggestions_are_those_made_afresh(kept, space, settings_):
    policy = DensityExploration(n_acq=128)
    found, _ = run(60, space, 1, policy, **settings_)
    kept.setattr(history, "INDEXED", 10**9)
    np.testing.assert_array_equal(run(60, space, 1, policy, **settings_)[0], found)


def test_what_is_kept_follows_the_history(kept):
    space = Space.of([(0.0, 1.0)] * 2)
    _, optimizer = run(80, space, 5, DensityExploration(n_acq=64))
    data = optimizer.history.data(-1.0, discourage=True)
    assert isinstance(data, View) and data._index._density is not None
    window, ell = Window(5, 64, len(optimizer.history)), data._index._density.bandwidth
    candidates, log_W = data.log_density(window, ell, space)
    np.testing.assert_allclose(log_W, fresh(data.X, candidates, ell), rtol=1e-10, atol=1e-10)


def test_gaps_are_filled_as_well_as_by_all_points(kept):
    """Designs by what is kept fill the square as those do that look at all points: the nearest others are as far."""
    from scipy.spatial import KDTree

    def gap(policy, seed):
        optimizer = Optimizer([(0, 1)] * 2, rng=seed, policy=policy)
        X = []
        for _ in range(150):
            X.append(optimizer.ask().x)
            optimizer.tell(optimizer.history[len(X) - 1], 0.0)
        return np.median(KDTree(X).query(X, 2)[0][:, 1])

    ours = [gap(DensityExploration(), seed) for seed in range(3)]
    kept.setattr(policies, "KEPT", 10**9)
    theirs = [gap(DensityExploration(), seed) for seed in range(3)]
    at_random = np.median([KDTree(X).query(X, 2)[0][:, 1] for X in np.random.default_rng(0).random((20, 150, 2))])
    assert np.mean(ours) > 0.9 * np.mean(theirs) > 1.5 * at_random


def test_others_look_at_all_points(kept):
    X, key = np.random.default_rng(0).random((30, 2)), Key(0, 30)
    mixed = Space({"a": Float(0, 1), "c": Categorical(["x", "y"])})
    data = Data(X, np.zeros(30), X[:0])
    for policy, space in (
        (DensityExploration(kernel="quartic"), Space.of([(0, 1)] * 2)),
        (DensityExploration(bandwidth=Silverman(per_dimension=True)), Space.of([(0, 1)] * 2)),
        (DensityExploration(), mixed),
        (DensityExploration(), Space({"a": Int(0, 3), "b": Int(0, 3)})),
        (DensityExploration(), Space.from_arms(X)),
    ):
        kept.setattr(Data, "log_density", None)
        assert policy.suggest(data, space, key).branch == "density"


def test_failures_alone_are_kept_away_from(kept):
    """Nothing has a value: the density is that of the silent points alone."""
    rng, space = np.random.default_rng(0), Space.of([(0.0, 1.0)] * 2)
    failed = 0.5 * rng.random((400, 2))
    data = Data(failed[:0], np.empty(0), failed)
    x = np.array([DensityExploration().suggest(data, space, Key(0, number)).x for number in range(400, 410)])
    assert ((x >= 0.0) & (x <= 1.0)).all() and (x.max(axis=1) > 0.6).all()
