"""Reasons to stop: each one when it holds, none otherwise, and nothing that ends by itself."""

import math

import numpy as np
import pytest

import boke
from boke import Categorical, Int, Optimizer, local, warp
from boke.space import Space

SQUARE = [(-1, 1), (-1, 1)]


def bowl(x):
    return float((x[0] - 0.3) ** 2 + (x[1] + 0.2) ** 2)


def valley(x):
    return float(0.1 * (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)


def told(n, direction="minimize", objective=bowl):
    optimizer = Optimizer(SQUARE, direction=direction, rng=0)
    sign = 1.0 if direction == "minimize" else -1.0
    for trial in (optimizer.ask() for _ in range(n)):
        optimizer.tell(trial, sign * objective(list(trial.params.values())))
    return optimizer


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_budget_and_target(direction):
    optimizer = told(12, direction)
    best, sign = optimizer.best.value, 1.0 if direction == "minimize" else -1.0
    assert optimizer.stop() == {}
    assert optimizer.stop(budget=13, target=best - sign * 1e-9) == {}
    assert optimizer.stop(budget=12, target=best) == {"budget": 12, "target": best}
    optimizer.remove(0)
    assert optimizer.stop(budget=12) == {}  # a trial that was forgotten is not an evaluation


def test_nothing_told_is_no_reason():
    empty = Optimizer(SQUARE, rng=0)
    assert empty.stop(budget=1, target=math.inf, gain=math.inf) == {}
    empty.tell(empty.ask(), None)
    assert empty.stop(budget=1, target=math.inf, gain=math.inf) == {"budget": 1}


def test_the_expected_gain_falls_when_the_search_settles():
    gains = {n: told(n, objective=valley).stop(gain=math.inf).get("gain") for n in (19, 20, 90)}
    assert gains[19] is None  # too little is known
    assert 0.0 <= gains[90] < 1e-3 * gains[20]


def test_the_expected_gain_is_in_units_of_the_objective():
    small, large = Optimizer(SQUARE, rng=0), Optimizer(SQUARE, rng=0)
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    y = np.array([bowl(x) for x in X])
    small.tell_many(X, y)
    large.tell_many(X, 1000.0 * y + 5.0)
    assert large.stop(gain=math.inf)["gain"] == pytest.approx(1000.0 * small.stop(gain=math.inf)["gain"], rel=1e-6)


def test_the_expected_gain_against_a_quadrature_on_a_fine_grid():
    optimizer = told(25)
    data, space = optimizer.history.data(-1.0), optimizer.space
    fitted = local.fit(data, space, data.best)
    half = 0.5 * local.resolved(data, space, fitted.center, local.AROUND)
    axes = [np.linspace(max(0, c - half), min(1, c + half), 81) for c in fitted.center]
    mean, sd = fitted.model.predict(fitted.z(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)))
    z = np.linspace(-8, 8, 2001)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    better = np.maximum(mean[:, None] + sd[:, None] * z, fitted.best)
    gains = warp.unwarped(better, fitted.y, fitted.version) - data.y.max()
    assert fitted.noise is None
    assert local.expected_gain(data, space) == pytest.approx((gains * density).sum(axis=1).max(), rel=0.05)


def test_a_finite_space_is_exhausted_when_all_of_it_was_tried():
    optimizer = Optimizer({"c": Categorical(["a", "b"]), "n": Int(1, 3)}, rng=0)
    for k in range(6):
        assert optimizer.stop() == {}
        trial = optimizer.ask()
        assert optimizer.stop() == {}  # it is under way, not tried
        optimizer.tell(trial, None if k == 3 else float(k))
    assert optimizer.stop() == {"space": 6}
    again = Optimizer(Space.from_arms([[0], [1]]), rng=0)
    again.tell_many(np.zeros((5, 1)), np.arange(5.0))
    assert again.stop() == {}
    again.tell([1.0], 1.0)
    assert again.stop() == {"space": 2}


@pytest.mark.parametrize(
    "limits", [{"budget": -1}, {"gain": -1e-9}, {"target": math.nan}, {"target": "low"}, {"gain": 1j}]
)
def test_bad_thresholds(limits):
    optimizer = told(3)
    (name,) = limits
    with pytest.raises(ValueError, match=f"The '{name}' parameter of stop must be a number"):
        optimizer.stop(**limits)


# in the loop


def test_a_run_says_why_it_ended_and_goes_on_unless_asked():
    result = boke.minimize(bowl, SQUARE, n_trials=30, rng=0)
    assert result.stop == {"budget": 30} and result.status == 0
    early = boke.minimize(bowl, SQUARE, n_trials=200, rng=0, stop={"target": 0.01})
    assert early.status == 4 and early.success and early.nfev < 200
    assert early.stop == {"target": early.fun} and early.fun <= 0.01
    assert early.message == "There is a reason to stop: target."
    np.testing.assert_array_equal(early.func_vals, boke.minimize(bowl, SQUARE, n_trials=early.nfev, rng=0).func_vals)
    settled = boke.maximize(lambda x: -bowl(x), SQUARE, n_trials=200, rng=0, stop={"gain": 1e-9})
    assert 20 <= settled.nfev < 200 and settled.fun > -1e-6 and settled.stop["gain"] <= 1e-9


def test_a_finite_space_ends_a_run_only_if_that_was_asked_for():
    space = {"n": Int(1, 4)}
    assert boke.minimize(lambda p: p["n"], space, n_trials=9, rng=0).stop == {"budget": 9, "space": 4}
    ended = boke.minimize(lambda p: p["n"], space, n_trials=9, rng=0, stop={})
    assert ended.nfev >= 4 and ended.stop == {"space": 4}


def test_other_ends_are_reasons_too():
    stopped = boke.minimize(bowl, SQUARE, n_trials=9, rng=0, callback=lambda r: r.nfev == 5)
    assert stopped.stop == {"callback": 5}

    def interrupted(x):
        raise KeyboardInterrupt

    assert boke.minimize(interrupted, SQUARE, n_trials=9, rng=0).stop == {"interrupt": 0}
    assert boke.minimize(lambda x: None, SQUARE, n_trials=3, rng=0).stop == {"budget": 3}


@pytest.mark.parametrize("stop", [{"n_trials": 5}, ["gain"], 0.1, {"gain": -1}, {"target": "low"}])
def test_bad_reasons_are_heard_of_before_anything_is_evaluated(stop, tmp_path):
    def never(x):
        raise AssertionError

    log = tmp_path / "log"
    with pytest.raises(ValueError, match=r"The 'stop' parameter must be a dict|parameter of stop must be a number"):
        boke.minimize(never, SQUARE, stop=stop, raise_on_error=True, log=log)
    assert not log.exists()
