"""What is passed, which message comes, and that nothing has changed."""

import math

import numpy as np
import pytest
from scipy.optimize import Bounds

import boke
from boke import Categorical, Float, Int, Optimizer, Space
from boke.acquisition import PaperBeta
from boke.bandwidth import FillDistanceSchedule, Fixed, Scott, Silverman
from boke.policies import BOKE, KRUCB, BOKEPlus, DensityExploration
from boke.recommend import EmpiricalBestArm

CONSTRUCTION = {
    "reversed": (lambda: Float(3, 1), ValueError, "The 'low' parameter of Float must be less than 'high'.* Got low=3.0, high=1.0"),
    "nan bound": (lambda: Float(math.nan, 1), ValueError, "The 'low' parameter of Float must be finite. Got nan"),
    "infinite bound": (lambda: Float(0, math.inf), ValueError, "The 'high' parameter of Float must be finite. Got inf"),
    "text bound": (lambda: Float("0", 1), TypeError, "The 'low' parameter of Float must be a real number. Got '0'"),
    "none bound": (lambda: Float(None, 1), TypeError, "must be a real number. Got None"),
    "bool bound": (lambda: Float(False, 1), TypeError, "must be a real number. Got False"),
    "complex bound": (lambda: Float(0, 1j), TypeError, "must be a real number"),
    "step zero": (lambda: Float(0, 1, step=0), ValueError, "The 'step' parameter of Float must be positive. Got step=0.0"),
    "step negative": (lambda: Float(0, 1, step=-0.1), ValueError, "must be positive. Got step=-0.1"),
    "step and log": (lambda: Float(1, 2, log=True, step=0.1), ValueError, "must be None when log=True"),
    "step too fine": (lambda: Float(0, 1e300, step=1e-300), ValueError, "must be so wide that doubles keep its values apart. Got step=1e-300"),
    "log from zero": (lambda: Float(0, 1, log=True), ValueError, "The 'low' parameter of Float must be positive when log=True"),
    "log negative": (lambda: Int(-1, 5, log=True), ValueError, "The 'low' parameter of Int must be positive when log=True"),
    "int reversed": (lambda: Int(5, 2), ValueError, "The 'low' parameter of Int must be less than 'high'"),
    "int not whole": (lambda: Int(0.5, 2), TypeError, "The 'low' parameter of Int must be an integer. Got 0.5"),
    "int bool": (lambda: Int(True, 2), TypeError, "must be an integer. Got True"),
    "int step zero": (lambda: Int(0, 5, step=0), ValueError, "The 'step' parameter of Int must be at least 1. Got step=0"),
    "int log step": (lambda: Int(1, 5, log=True, step=2), ValueError, "must be 1 when log=True. Got step=2"),
    "int too large": (lambda: Int(0, 2**60), ValueError, "The 'high' parameter of Int must be within ±2"),
    "no choices": (lambda: Categorical([]), ValueError, "The 'choices' parameter of Categorical must not be empty"),
    "choice twice": (lambda: Categorical(["a", "b", "a"]), ValueError, "must be distinct. Got 'a' twice"),
    "choices text": (lambda: Categorical("abc"), TypeError, "must be a list or tuple. Got 'abc'"),
    "choices number": (lambda: Categorical(3), TypeError, "must be a list or tuple. Got 3"),
    "empty space": (lambda: Space.of({}), ValueError, "must have at least one parameter"),
    "empty bounds": (lambda: Space.of([]), ValueError, "must have at least one parameter"),
    "not a parameter": (lambda: Space.of({"a": (0, 1)}), TypeError, "The parameter 'a' of the space must be a Float"),
    "name not text": (lambda: Space.of({1: Float(0, 1)}), TypeError, "name must be a string. Got 1"),
    "bounds a number": (lambda: Space.of(3), TypeError, "A list, tuple or array was expected. Got 3"),
    "bounds of three": (lambda: Space.of([(0, 1, 2)]), ValueError, r"must hold \(low, high\) pairs. Got \(0, 1, 2\) at 0"),
    "bounds reversed": (lambda: Space.of([(0, 1), (2, 1)]), ValueError, "wrong at position 1: The 'low' parameter of Float"),
    "scipy bounds infinite": (lambda: Space.of(Bounds([-np.inf], [1])), ValueError, "wrong at position 0.*must be finite"),
    "arms empty": (lambda: Space.from_arms([]), ValueError, r"must be a finite \(M, d\) array"),
    "arms nan": (lambda: Space.from_arms([[0.0], [np.nan]]), ValueError, r"must be a finite \(M, d\) array"),
    "arms twice": (lambda: Space.from_arms([1.0, 1.0]), ValueError, "must be distinct"),
    "direction": (lambda: Optimizer([(0, 1)], direction="up"), ValueError, "must be 'minimize' or 'maximize'. Got 'up'"),
    "policy": (lambda: Optimizer([(0, 1)], policy="boke"), TypeError, "must be a policy.* Got 'boke'"),
    "policy class": (lambda: Optimizer([(0, 1)], policy=3), TypeError, "must be a policy"),
    "seed negative": (lambda: Optimizer([(0, 1)], rng=-1), ValueError, "The 'rng' parameter must be None, an integer"),
    "seed text": (lambda: Optimizer([(0, 1)], rng="1"), ValueError, "Got '1'"),
    "seed bool": (lambda: Optimizer([(0, 1)], rng=True), ValueError, "Got True"),
    "kernel": (lambda: BOKE(kernel="box"), ValueError, "The 'kernel' parameter must be one of .*'epanechnikov'.* Got 'box'"),
    "rho": (lambda: BOKE(rho=0.0), ValueError, r"The 'rho' parameter of BOKE must be in \(0, inf\]. Got 0.0"),
    "q": (lambda: BOKEPlus(q=1.5), ValueError, r"The 'q' parameter of BOKEPlus must be in \(0, 1\]. Got 1.5"),
    "q zero": (lambda: BOKEPlus(q=0), ValueError, "must be in"),
    "n_acq": (lambda: BOKE(n_acq=0), ValueError, "The 'n_acq' parameter of BOKE must be an integer, at least 4. Got 0"),
    "n_init": (lambda: KRUCB(n_init=-1), ValueError, "The 'n_init' parameter of KRUCB must be an integer, at least 0"),
    "init": (lambda: BOKE(init="grid"), ValueError, "must be one of .*'lhs'.* Got 'grid'"),
    "y_scale": (lambda: BOKE(y_scale="log"), ValueError, "must be one of .*'rank'.* Got 'log'"),
    "bandwidth rule": (lambda: DensityExploration(bandwidth=0.1), TypeError, r"must be a rule, such as Fixed\(0.1\). Got 0.1"),
    "beta rule": (lambda: BOKE(beta=2.0), TypeError, "The 'beta' parameter of BOKE must be a rule"),
    "kappa": (lambda: KRUCB(kappa=2), ValueError, "The 'kappa' parameter of KRUCB must be in"),
    "fixed": (lambda: Fixed(-1.0), ValueError, "The 'value' parameter of Fixed must be positive and finite. Got -1.0"),
    "silverman": (lambda: Silverman(0), ValueError, "The 'c' parameter of Silverman must be positive. Got 0"),
    "scott": (lambda: Scott(math.nan), ValueError, "The 'c' parameter of Scott must be positive. Got nan"),
    "schedule": (lambda: FillDistanceSchedule(-1), ValueError, "must be positive"),
    "beta": (lambda: PaperBeta(-1), ValueError, "The 'c' parameter of PaperBeta must be at least 0. Got -1"),
    "gamma": (lambda: EmpiricalBestArm(gamma=1.0), ValueError, r"The 'gamma' parameter of EmpiricalBestArm must be in \(0, 1\)"),
    "separation": (lambda: EmpiricalBestArm(separation="far"), ValueError, "must be 'fill', 'loo' or a positive number. Got 'far'"),
    "design n": (lambda: boke.design.sobol(-1, 2), ValueError, "The 'n' parameter must be at least 0. Got -1"),
    "design d": (lambda: boke.design.uniform(3, 0), ValueError, "The 'd' parameter must be at least 1. Got 0"),
    "design float": (lambda: boke.design.latin_hypercube(3.0, 2), TypeError, "The 'n' parameter must be an integer. Got 3.0"),
    "fun": (lambda: boke.minimize(3, [(0, 1)]), TypeError, "The 'fun' parameter must be callable. Got 3"),
    "n_trials": (lambda: boke.minimize(sum, [(0, 1)], n_trials=0), ValueError, "The 'n_trials' parameter must be a positive integer. Got 0"),
    "n_trials float": (lambda: boke.minimize(sum, [(0, 1)], n_trials=2.5), ValueError, "Got 2.5"),
    "workers": (lambda: boke.minimize(sum, [(0, 1)], workers=0), ValueError, "The 'workers' parameter must be a positive integer"),
    "callback": (lambda: boke.minimize(sum, [(0, 1)], callback=3), TypeError, "The 'callback' parameter must be callable. Got 3"),
    "x0 outside": (lambda: boke.minimize(sum, [(0, 1)], x0=[2.0]), ValueError, r"The value of 'x0' must be in \[0.0, 1.0\]. Got 2.0"),
    "x0 length": (lambda: boke.minimize(sum, [(0, 1)], x0=[0.1, 0.2]), ValueError, "must have 1 coordinates. Got 2"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), CONSTRUCTION.values(), ids=CONSTRUCTION)
def test_wrong_construction(make, error, message):
    with pytest.raises(error, match=message):
        make()


POINT = {"lr": 0.1, "n": 4, "c": "a"}
CALLS = {
    "unknown name": (lambda o: o.tell({**POINT, "z": 1}, 0.0), ValueError, r"unknown parameters \['z'\]"),
    "missing name": (lambda o: o.tell({"lr": 0.1}, 0.0), ValueError, r"lacks the parameters \['n', 'c'\]"),
    "list for named": (lambda o: o.tell([0.1, 4, "a"], 0.0), TypeError, "must be a dict with the keys"),
    "outside": (lambda o: o.tell({**POINT, "lr": 2.0}, 0.0), ValueError, r"The value of 'lr' must be in \[1e-05, 1.0\]. Got 2.0"),
    "nan in point": (lambda o: o.tell({**POINT, "lr": math.nan}, 0.0), ValueError, "'lr' is wrong.*must be finite"),
    "text in point": (lambda o: o.tell({**POINT, "lr": "0.1"}, 0.0), TypeError, "'lr' is wrong.*must be a real number"),
    "off the step": (lambda o: o.tell({**POINT, "n": 3}, 0.0), ValueError, "The value of 'n' must be 0 plus a multiple of 2. Got 3"),
    "not an int": (lambda o: o.tell({**POINT, "n": 3.5}, 0.0), TypeError, "'n' is wrong.*must be an integer"),
    "no such choice": (lambda o: o.tell({**POINT, "c": "z"}, 0.0), ValueError, r"The value of 'c' must be one of \['a', 'b'\]. Got 'z'"),
    "value text": (lambda o: o.tell(POINT, "1.5"), TypeError, "The 'value' parameter must be a real number or None. Got '1.5'"),
    "value complex": (lambda o: o.tell(POINT, 1j), TypeError, "must be a real number or None"),
    "value list": (lambda o: o.tell(POINT, [1.0]), TypeError, r"Got \[1.0\]"),
    "value array": (lambda o: o.tell(POINT, np.ones(2)), TypeError, "must be a real number or None"),
    "told twice": (lambda o: o.tell(o.history[0], 1.0), ValueError, "Trial 0 was told already: it is complete"),
    "told after failure": (lambda o: o.tell(o.history[1], 1.0), ValueError, "Trial 1 was told already: it is failed"),
    "foreign trial": (lambda o: o.tell(Optimizer([(0, 1)], rng=0).ask(), 1.0), ValueError, "is not one of this optimizer's trials"),
    "unknown trial": (lambda o: o.tell(Optimizer(o.space, rng=9).ask(9)[8], 1.0), ValueError, "Trial 8 is not one of"),
    "ask zero": (lambda o: o.ask(0), ValueError, "The 'n' parameter of ask must be a positive integer. Got 0"),
    "ask float": (lambda o: o.ask(2.0), ValueError, "Got 2.0"),
    "ask bool": (lambda o: o.ask(True), ValueError, "Got True"),
    "register outside": (lambda o: o.register({**POINT, "lr": 9.0}), ValueError, "The value of 'lr' must be in"),
    "many lengths": (lambda o: o.tell_many([POINT, POINT], [1.0]), ValueError, "a value for each of 2 points. Got 1"),
    "many text": (lambda o: o.tell_many([POINT], ["1"]), TypeError, "The 'values' parameter must hold real numbers"),
    "many shape": (lambda o: o.tell_many([POINT], [[1.0]]), ValueError, "must have one dimension"),
    "many one bad": (lambda o: o.tell_many([POINT, {**POINT, "n": 99}], [1.0, 2.0]), ValueError, "The value of 'n' must be in"),
    "remove unknown": (lambda o: o.remove(77), ValueError, "must be one of the 2 trials. Got 77"),
    "remove text": (lambda o: o.remove("0"), ValueError, "Got '0'"),
    "explain unknown": (lambda o: o.explain(77), ValueError, "must be one of the 2 trials. Got 77"),
    "load missing": (lambda o: o.load("no-such-file"), OSError, "no-such-file"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CALLS.values(), ids=CALLS)
def test_wrong_call_changes_nothing(call, error, message):
    space = {"lr": Float(1e-5, 1.0, log=True), "n": Int(0, 10, step=2), "c": Categorical(["a", "b"])}
    optimizer = Optimizer(space, rng=0)
    for value in (1.0, None):
        optimizer.tell(optimizer.ask(), value)
    before, arrivals = repr(list(optimizer.history)), optimizer.history.arrivals
    with pytest.raises(error, match=message):
        call(optimizer)
    assert repr(list(optimizer.history)) == before and optimizer.history.arrivals == arrivals
    untouched = Optimizer(space, rng=0)
    for value in (1.0, None):
        untouched.tell(untouched.ask(), value)
    assert optimizer.ask().params == untouched.ask().params


ARRAYS = {
    "rows too long": (np.zeros((3, 5)), ValueError, r"must be an \(n, 2\) array. Got shape \(3, 5\)"),
    "one row outside": (np.array([[0.5, 0.5], [0.5, 1.5]]), ValueError, "The value of 'x1' must be in"),
    "nan": (np.array([[0.5, np.nan]]), ValueError, "'x1' is wrong.*must be finite"),
    "flat": (np.zeros(4), ValueError, "Got shape"),
}


@pytest.mark.parametrize(("points", "error", "message"), ARRAYS.values(), ids=ARRAYS)
def test_wrong_bulk_changes_nothing(points, error, message):
    optimizer = Optimizer([(0, 1)] * 2, rng=0)
    with pytest.raises(error, match=message):
        optimizer.tell_many(points, np.zeros(len(points)))
    assert len(optimizer.history) == 0


def test_a_wrong_x0_costs_no_evaluation():
    calls = []
    with pytest.raises(ValueError, match="must be in"):
        boke.minimize(lambda x: calls.append(x) or 0.0, [(0, 1)], x0=[[0.5], [3.0]], n_trials=5)
    assert not calls
