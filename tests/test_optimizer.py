"""Ask and tell: order-free, repeatable, honest about failures and infinities."""

import itertools

import numpy as np
import pytest

import boke
from boke import Categorical, Float, Int, Optimizer, State
from boke.bandwidth import Fixed
from boke.policies import BOKE, BOKEPlus
from boke.recommend import EmpiricalBestArm

MIXED = {"lr": Float(1e-5, 1.0, log=True), "n": Int(1, 64), "act": Categorical(["relu", "tanh", None])}


def value(params):
    act = {"relu": 0.0, "tanh": 0.3, None: 0.6}[params["act"]]
    return float(abs(np.log10(params["lr"]) + 3) + 0.01 * params["n"] + act)


def run(optimizer, n, objective=value):
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, objective(trial.params))
    return optimizer


def test_trials_are_numbered_without_gaps_and_read_only():
    optimizer = run(Optimizer(MIXED, rng=0), 5)
    trial = optimizer.ask()
    assert trial.number == 5 and trial.state is State.PENDING and trial.value is None
    assert [t.number for t in optimizer.history] == list(range(6))
    with pytest.raises(ValueError, match="read-only"):
        trial.x[0] = 0.5
    assert list(trial.params) == list(MIXED)
    assert type(trial.params["n"]) is int and type(trial.params["lr"]) is float


def test_minimize_and_maximize_are_mirror_images():
    low, high = Optimizer([(0, 1)] * 2, rng=3), Optimizer([(0, 1)] * 2, rng=3, direction="maximize")
    for _ in range(30):
        a, b = low.ask(), high.ask()
        assert a.params == b.params
        y = float(np.square(a.x - 0.3).sum())
        low.tell(a, y)
        high.tell(b, -y)
    assert low.best.value == -high.best.value
    assert low.recommend().value == pytest.approx(-high.recommend().value)


@pytest.mark.parametrize("seed", range(5))
def test_order_of_tells_does_not_matter(seed):
    """The same set of told trials, asked ones and unasked ones, gives the same suggestion bit for bit."""
    rng = np.random.default_rng(seed)
    unasked = [({"lr": float(10 ** rng.uniform(-5, 0)), "n": int(rng.integers(1, 65)), "act": "tanh"}, float(v))
               for v in rng.normal(size=12)]  # fmt: skip
    answers = set()
    for permutation in range(4):
        shuffle = np.random.default_rng(100 * seed + permutation)
        optimizer = Optimizer(MIXED, rng=seed)
        asked = [(trial, value(trial.params)) for trial in optimizer.ask(15)]
        failed = asked[4][0]
        tells = [(t, None if t is failed else v) for t, v in asked] + list(unasked)
        for i in shuffle.permutation(len(tells)):
            optimizer.tell(*tells[i])
        next_one = optimizer.ask()
        answers.add((next_one.number, *next_one.params.values(), optimizer.recommend().value))
    assert len(answers) == 1


def test_order_does_not_matter_with_trials_still_pending():
    answers = set()
    for order in itertools.permutations(range(4)):
        optimizer = run(Optimizer([(0, 1)] * 3, rng=1), 20, lambda p: p["x0"])
        batch = optimizer.ask(6)
        for i in order:  # two of the six stay pending
            optimizer.tell(batch[i], batch[i].params["x0"])
        answers.add(optimizer.ask().x.tobytes())
    assert len(answers) == 1


def test_asking_again_is_repeatable_from_data_alone():
    """Rebuilding from the told points, in bulk, continues like the run that made them: for policies without outcomes."""
    first = run(Optimizer([(-5, 5)] * 3, rng=7, policy=BOKEPlus()), 30, lambda p: p["x0"] ** 2)
    second = Optimizer([(-5, 5)] * 3, rng=7, policy=BOKEPlus())
    points = np.array([list(t.params.values()) for t in first.history])
    second.tell_many(points, first.history.values)
    assert first.ask().params == second.ask().params


def test_pending_trials_are_density_without_a_value():
    optimizer = run(Optimizer([(0, 1)] * 2, rng=0), 20, lambda p: p["x0"])
    batch = optimizer.ask(10)
    data = optimizer.history.data(-1.0)
    assert len(data.silent) == 10 and len(data.y) == 20
    assert len({t.x.tobytes() for t in batch}) == 10
    for trial in batch:
        optimizer.tell(trial, 0.5)
    assert len(optimizer.history.data(-1.0).silent) == 0


@pytest.mark.parametrize("n", [20, 200])
def test_many_asks_without_a_tell_are_all_different(n):
    batch = Optimizer([(0, 1)] * 2, policy=BOKEPlus(n_acq=64), rng=0).ask(n)
    assert len({t.x.tobytes() for t in batch}) == n


@pytest.mark.parametrize("bad", [None, float("nan"), np.nan])
def test_failures_stay_as_density_and_are_not_proposed_again(bad):
    optimizer = Optimizer([(0, 1)], policy=BOKE(bandwidth=Fixed(0.05), n_init=5), rng=0)
    for _ in range(30):
        trial = optimizer.ask()
        optimizer.tell(trial, bad if trial.params["x0"] > 0.5 else trial.params["x0"], reason="crash")
    failed = [t for t in optimizer.history if t.state is State.FAILED]
    assert failed and all(t.value is None and t.reason == "crash" for t in failed if t.params["x0"] > 0.5)
    assert len({t.params["x0"] for t in failed}) == len(failed)
    assert optimizer.best.value <= 0.5


def test_all_failed():
    optimizer = Optimizer([(0, 1)] * 2, rng=0)
    with pytest.raises(ValueError, match="no best trial yet: none of the 0 trials"):
        _ = optimizer.best
    for _ in range(40):
        optimizer.tell(optimizer.ask(), None)
    with pytest.raises(ValueError, match="none of the 40 trials has a value"):
        _ = optimizer.best
    with pytest.raises(ValueError, match="nothing to recommend"):
        optimizer.recommend()
    assert boke.design.fill_distance(optimizer.history.x) < 0.25  # the asks filled the square


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_infinite_values_count_as_the_worst_or_best_finite_ones(direction):
    optimizer = Optimizer([(0, 1)], direction=direction, rng=0)
    for x, v in [(0.1, np.inf), (0.2, -np.inf), (0.3, 1.0), (0.4, 2.0), (0.5, 1e308), (0.6, -1e308)]:
        optimizer.tell([x], v)
    data = optimizer.history.data(1.0 if direction == "maximize" else -1.0)
    assert sorted(data.y) == [-1e308, -1e308, *sorted(np.array([1.0, 2.0]) * (1 if direction == "maximize" else -1)),
                              1e308, 1e308]  # fmt: skip
    assert optimizer.best.value == (1e308 if direction == "maximize" else -1e308)
    assert optimizer.history[0].value == np.inf and optimizer.history[1].value == -np.inf
    assert np.isfinite(optimizer.recommend().value)
    assert 0 <= optimizer.ask().params["x0"] <= 1


def test_best_without_any_finite_value():
    optimizer = Optimizer([(0, 1)], rng=0)
    optimizer.tell([0.1], np.inf)
    optimizer.tell([0.2], -np.inf)
    assert optimizer.best.value == -np.inf
    assert 0 <= optimizer.ask().params["x0"] <= 1
    worst = Optimizer([(0, 1)], rng=0)
    worst.ask()
    worst.tell([0.1], np.inf)
    assert worst.best.value == np.inf  # and not the pending trial before it


def test_removal_is_exact():
    """After removal the suggestion is the one of an optimizer that never saw the point (same trial number)."""
    a, b = Optimizer([(0, 1)] * 2, rng=5), Optimizer([(0, 1)] * 2, rng=5)
    points = np.random.default_rng(0).random((30, 2))
    for i, p in enumerate(points):
        a.tell(p, float(p.sum()))
        b.tell(p, float(p.sum()) if i != 11 else -100.0)
    a.remove(11)
    b.remove(b.history[11])
    assert a.history[11].state is State.REMOVED and a.history[11].value is None
    assert a.best.number != 11 and len(a.history.data(-1.0).y) == 29
    np.testing.assert_array_equal(a.ask().x, b.ask().x)


def test_registered_points_are_pending():
    optimizer = Optimizer([(0, 1)] * 2, rng=0)
    trial = optimizer.register([0.25, 0.75])
    assert trial.state is State.PENDING and trial.params == {"x0": 0.25, "x1": 0.75}
    optimizer.tell(trial, 1.0)
    assert optimizer.best.number == trial.number


def test_tell_many_equals_tells_one_by_one():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-3, 3, (40, 2)), rng.normal(size=40)
    y[3] = np.nan
    one, many = Optimizer([(-3, 3)] * 2, rng=0), Optimizer([(-3, 3)] * 2, rng=0)
    for x, v in zip(X, y, strict=True):
        one.tell(x, v)
    many.tell_many(X, y)
    assert [t.params for t in one.history] == [t.params for t in many.history]
    np.testing.assert_array_equal(one.ask().x, many.ask().x)
    named = Optimizer(MIXED, rng=0)
    named.tell_many([{"lr": 0.1, "n": 3, "act": None}, {"lr": 0.2, "n": 4, "act": "relu"}], [1.0, None])
    assert [t.state for t in named.history] == [State.COMPLETE, State.FAILED]


def test_recommendation_is_the_theorems_on_request():
    optimizer = run(Optimizer([(0, 1)], rng=0, policy=BOKEPlus()), 40, lambda p: (p["x0"] - 0.4) ** 2)
    theorem = optimizer.recommend(EmpiricalBestArm(separation="fill"))
    assert abs(theorem.params["x0"] - 0.4) < 0.2
    usual = optimizer.recommend()
    assert abs(usual.params["x0"] - 0.4) < 0.05
    assert usual.support > 0 and sum(share for _, share in usual.trials) == pytest.approx(1.0, abs=1e-3)


def test_explanation_names_the_trials_and_the_exploration():
    optimizer = run(Optimizer(MIXED, rng=0, policy=BOKEPlus()), 40)
    branches = {optimizer.explain(n).branch for n in range(40)}
    assert branches == {"initial", "explore", "exploit"}
    number = next(n for n in range(20, 40) if optimizer.explain(n).branch == "explore")
    told = optimizer.explain(number)
    assert told.exploration > 0 and all(n < number for n, _ in told.trials)
    assert sum(share for _, share in told.trials) == pytest.approx(1.0, abs=1e-3)
    assert str(told).startswith("explore: mean")
    exploit = next(e for e in map(optimizer.explain, range(20, 40)) if e.branch == "exploit")
    assert exploit.exploration == 0


def test_local_suggestions_are_explained_by_the_kernel_model():
    optimizer = run(Optimizer(MIXED, rng=0), 30)
    told = next(e for e in map(optimizer.explain, range(20, 30)) if e.branch == "local")
    assert told.exploration == 0 and sum(share for _, share in told.trials) == pytest.approx(1.0, abs=1e-3)


def test_explanation_is_what_the_policy_saw_at_the_time():
    optimizer = run(Optimizer([(0, 1)] * 2, rng=0), 25, lambda p: p["x0"])
    before = optimizer.explain(optimizer.ask())
    number = 25
    run(optimizer, 20, lambda p: p["x1"])
    assert optimizer.explain(number) == before
    optimizer.tell([0.5, 0.5], 1.0)
    with pytest.raises(ValueError, match="told without having been asked"):
        optimizer.explain(len(optimizer.history) - 1)


def test_seeds():
    def first(rng):
        return Optimizer([(0, 1)], rng=rng).ask(2)[1].params["x0"]  # the very first is the middle

    assert first(1) == first(1) != first(2)
    assert first(np.random.default_rng(1)) == first(np.random.default_rng(1))
    assert first(np.random.SeedSequence(1)) == first(np.random.SeedSequence(1))
    assert first(None) != first(None)


@pytest.mark.parametrize("d", [1, 200])
def test_one_dimension_and_two_hundred(d):
    optimizer = run(Optimizer([(-1, 1)] * d, rng=0), 30, lambda p: sum(v * v for v in p.values()))
    assert optimizer.best.value < np.inf and len({t.x.tobytes() for t in optimizer.history}) == 30


@pytest.mark.parametrize(
    "bounds",
    [(3.0, 3.0), (0.0, 5e-324), (-1e308, 1e308), (1e-300, 2e-300), (1.0, np.nextafter(1.0, 2.0)), (0, 1e-300)],
)
def test_extreme_bounds(bounds):
    optimizer = Optimizer([bounds, bounds], rng=0)
    for _ in range(25):
        trial = optimizer.ask()
        assert all(bounds[0] <= v <= bounds[1] for v in trial.params.values())
        optimizer.tell(trial, trial.params["x0"])
    assert optimizer.best.value >= bounds[0]


def test_an_objective_that_jumps_is_followed_with_a_window():
    found = {}
    for window in (None, 40):
        optimizer = Optimizer([(0, 1)] * 2, rng=0, window=window)
        errors = []
        for t in range(200):
            trial = optimizer.ask()
            top, bonus = (0.2, 1.0) if t < 100 else (0.8, 0.0)  # nothing is ever as good again as it was once
            errors.append(float(np.abs(trial.x - top).max()))
            optimizer.tell(trial, float(np.square(trial.x - top).sum()) - bonus)
        found[window] = np.median(errors[-50:])
    assert found[40] < 0.1 < found[None]


@pytest.mark.parametrize("memory", [{}, {"window": 30}, {"half_life": 20.0}, {"window": np.int64(30), "half_life": 20}])
def test_forgetting_survives_save_and_load(tmp_path, memory):
    optimizer = Optimizer([(0, 1)] * 2, rng=0, **memory)
    for _ in range(50):
        trial = optimizer.ask()
        optimizer.tell(trial, float(trial.x.sum()))
    optimizer.save(tmp_path / "state")
    loaded = Optimizer.load(tmp_path / "state")
    assert loaded.history.memory == optimizer.history.memory
    np.testing.assert_array_equal(loaded.ask().x, optimizer.ask().x)


def test_bad_memories_are_refused():
    with pytest.raises(ValueError, match=r"The 'window' parameter must be None or a positive integer. Got 0"):
        Optimizer([(0, 1)], window=0)
    with pytest.raises(ValueError, match=r"The 'half_life' parameter must be None or a positive number. Got -1"):
        Optimizer([(0, 1)], half_life=-1)
