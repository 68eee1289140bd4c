"""Problems: one contract for all kinds, then what each kind and each wrapper promises."""

from __future__ import annotations

import gzip
import math
import time
from pathlib import Path

import numpy as np
import pytest

from boke_bench.problems import make_problem, surrogate, tabulate
from boke_bench.problems.bbob import BATCH_1, BATCH_2, NAMED_IN_PAPER, PAPER_FUNCTIONS
from boke_bench.problems.classic import FUNCTIONS
from boke_bench.problems.data import FILES, load
from boke_bench.problems.tuning import RANGES, Range, Tuning
from boke_bench.problems.wrappers import signal_variance

FREE = {"ackley", "levy", "michalewicz"}  # of any dimension
TASKS = [(model, data) for model in ("rf", "xgb") for data in ("california", "wine")]
SPECS = [
    {"kind": "bbob", "function": 8, "dim": 5},
    {"kind": "bbob", "function": 21, "dim": 2, "instance": 3},
    {"kind": "sprinkler"},
    {"kind": "lander"},
    {"kind": "toy"},
    *({"kind": "classic", "function": f, **({"dim": 4} if f in FREE else {})} for f in FUNCTIONS),
    *({"kind": "surrogate", "model": model, "data": data} for model, data in TASKS),
    {"kind": "toy", "shift": 0.2, "levels": 50, "noise": 0.1, "failures": 0.2, "seconds": 1e-4},
]


@pytest.fixture
def small_data(tmp_path: Path) -> Path:
    """Files of the right names and shapes with 60 made-up rows in each."""
    rng = np.random.default_rng(0)
    for files, columns in ((FILES["california"], 8), (FILES["wine"], 11)):
        for file in files:
            X = rng.random((60, columns))
            table = np.column_stack([X, X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.standard_normal(60)])
            with gzip.open(tmp_path / file, "wt") as out:
                np.savetxt(out, table, delimiter=",", header="made up", comments="")
    return tmp_path


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(str(v) for v in spec.values()))
def test_contract(spec):
    problem, twin = make_problem(spec, 1), make_problem(spec, 1)
    X = np.random.default_rng(0).random((20, problem.dim))
    values = [problem(x) for x in X]
    assert all(type(value) is float for value in values)
    assert np.array_equal(values, [twin(x) for x in X], equal_nan=True)
    truth = [problem.true(x) for x in X]
    assert np.isfinite(truth).all()
    assert truth == [problem.true(x) for x in X]  # nothing that a call does changes the truth
    assert truth == [make_problem(spec, 2).true(x) for x in X[:20]]  # and neither does the seed
    if problem.optimum is not None:
        assert max(truth) <= problem.optimum + 1e-9
    assert problem.name
    for corner in (np.zeros(problem.dim), np.ones(problem.dim)):
        assert math.isfinite(problem.true(corner))


def test_a_wrong_specification_is_refused():
    with pytest.raises(ValueError, match="'kind'"):
        make_problem({"kind": "tsp"}, 0)
    with pytest.raises(TypeError, match="does not fit"):
        make_problem({"kind": "toy", "color": "red"}, 0)
    with pytest.raises(ValueError, match=r"1\.\.24"):
        make_problem({"kind": "bbob", "function": 25, "dim": 2}, 0)
    with pytest.raises(ValueError, match="at least 2"):
        make_problem({"kind": "bbob", "function": 1, "dim": 1}, 0)
    with pytest.raises(ValueError, match="must be 2"):
        make_problem({"kind": "classic", "function": "branin", "dim": 3}, 0)
    with pytest.raises(ValueError, match="at least 1"):
        make_problem({"kind": "classic", "function": "ackley"}, 0)


# bbob


def test_the_ten_functions_of_the_paper():
    assert len(set(PAPER_FUNCTIONS)) == 10
    classes = [range(1, 6), range(6, 10), range(10, 15), range(15, 20), range(20, 25)]
    for batch in (BATCH_1, BATCH_2):
        assert [sum(f in c for f in batch) for c in classes] == [1] * 5
    assert set(NAMED_IN_PAPER) <= set(PAPER_FUNCTIONS)


@pytest.mark.parametrize("function", range(1, 25))
def test_bbob_has_its_optimum_where_ioh_says(function: int):
    problem = make_problem({"kind": "bbob", "function": function, "dim": 3, "instance": 2}, 0)
    x = (np.array(problem._inner.optimum.x) + 5.0) / 10.0  # type: ignore[attr-defined]
    assert problem.true(x) == pytest.approx(0.0, abs=1e-6)
    assert problem.true(np.clip(x + 0.05, 0.0, 1.0)) < 0.0


def test_bbob_sphere_by_hand():
    problem = make_problem({"kind": "bbob", "function": 1, "dim": 2}, 0)
    best = np.array(problem._inner.optimum.x)  # type: ignore[attr-defined]
    assert problem.true(np.array([0.3, 0.8])) == pytest.approx(-np.sum((np.array([-2.0, 3.0]) - best) ** 2))
    assert problem.name == "f1 Sphere 2-D"


# classic functions and the toy


@pytest.mark.parametrize(
    ("function", "dim", "x", "value"),
    [
        ("branin", None, [(math.pi + 5) / 15, 2.275 / 15], -0.397887357729738),
        ("hartmann6", None, [0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053], 3.32236801),
        ("ackley", 7, [0.5] * 7, 0.0),
        ("levy", 5, [0.55] * 5, 0.0),
        ("michalewicz", 2, [2.20290552 / math.pi, 0.5], 1.8013034),
    ],
)
def test_classic_optima(function: str, dim: int | None, x: list[float], value: float):
    problem = make_problem({"kind": "classic", "function": function, **({"dim": dim} if dim else {})}, 0)
    assert problem.true(np.array(x)) == pytest.approx(value, abs=1e-7)
    assert problem.optimum == pytest.approx(value, abs=1e-7)


def test_michalewicz_optima_of_the_literature():
    for dim, value in ((5, 4.687658), (10, 9.66015)):
        optimum = make_problem({"kind": "classic", "function": "michalewicz", "dim": dim}, 0).optimum
        assert optimum == pytest.approx(value, abs=1e-5)


def test_toy_against_a_grid():
    problem = make_problem({"kind": "toy"}, 0)
    values = [problem.true(np.array([u])) for u in np.linspace(0.0, 1.0, 20001)]
    assert problem.optimum == pytest.approx(max(values), abs=1e-7)
    assert problem.optimum >= max(values)
    assert problem.true(np.array([0.5])) == pytest.approx(-math.exp(-0.7) * math.cos(1.75 * math.pi))


# lander


def test_lander_is_noisy_around_its_truth_and_can_be_flown():
    problem = make_problem({"kind": "lander"}, 0)
    x = np.array([0.5, 0.8, 0.4, 0.6, 0.6, 0.1, 0.3, 0.8])
    scores = [problem(x) for _ in range(60)]
    assert np.std(scores) > 1.0
    assert np.mean(scores) == pytest.approx(problem.true(x), abs=4.0 * np.std(scores) / math.sqrt(60) + 4.0)
    assert problem.true(x) > problem.true(np.zeros(8)) + 20.0


# wrappers


def test_noise_has_the_variance_that_was_asked_for():
    spec = {"kind": "bbob", "function": 1, "dim": 2}
    plain, noisy = make_problem(spec, 0), make_problem({**spec, "noise": 0.05}, 0)
    x = np.array([0.4, 0.6])
    draws = np.array([noisy(x) for _ in range(4000)]) - plain.true(x)
    assert draws.var() == pytest.approx(0.05 * signal_variance(plain), rel=0.1)
    assert abs(draws.mean()) < 4.0 * draws.std() / math.sqrt(4000)
    assert noisy.true(x) == plain.true(x)
    uniform = np.random.default_rng(0).random((20000, 2))
    assert signal_variance(plain) == pytest.approx(np.var([plain.true(u) for u in uniform]), rel=0.05)


def test_shift_moves_the_middle_and_keeps_the_optimum():
    spec = {"kind": "classic", "function": "ackley", "dim": 3}
    plain, moved = make_problem(spec, 0), make_problem({**spec, "shift": 0.3, "shift_instance": 4}, 0)
    centre = moved.centre  # type: ignore[attr-defined]
    assert (np.abs(centre - 0.5) <= 0.3).all()
    assert np.abs(centre - 0.5).max() > 0.01
    assert moved.true(centre) == pytest.approx(0.0, abs=1e-12)
    assert moved.optimum == plain.optimum
    for corner in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0]):
        assert moved.true(np.array(corner)) == pytest.approx(plain.true(np.array(corner)))
    other = make_problem({**spec, "shift": 0.3, "shift_instance": 5}, 0)
    assert not np.array_equal(other.centre, centre)  # type: ignore[attr-defined]


def test_levels_round_and_know_the_best_of_a_small_grid():
    problem = make_problem({"kind": "toy", "levels": 5}, 0)
    plain = make_problem({"kind": "toy"}, 0)
    grid = [plain.true(np.array([u])) for u in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert problem.optimum == max(grid)
    assert problem.true(np.array([0.3])) == grid[1]
    assert make_problem({"kind": "classic", "function": "ackley", "dim": 9, "levels": 11}, 0).optimum is None
    mixed = make_problem({"kind": "classic", "function": "branin", "levels": [3, 0]}, 0)
    assert mixed.optimum is None
    assert mixed.true(np.array([0.6, 0.3])) == mixed.true(np.array([0.5, 0.3])) != mixed.true(np.array([0.5, 0.31]))


def test_failures_and_seconds():
    problem = make_problem({"kind": "toy", "failures": 0.3}, 0)
    x = np.array([0.2])
    values = np.array([problem(x) for _ in range(1000)])
    assert np.isnan(values).mean() == pytest.approx(0.3, abs=0.06)
    assert set(values[~np.isnan(values)]) == {problem.true(x)}
    slow = make_problem({"kind": "toy", "seconds": [0.02, 0.04]}, 0)
    began = time.perf_counter()
    slow(x)
    assert time.perf_counter() - began >= 0.02
    for key, wrong in (("failures", 1.5), ("shift", 0.7), ("levels", 1), ("noise", -1.0), ("seconds", -1.0)):
        with pytest.raises(ValueError, match=key):
            make_problem({"kind": "toy", key: wrong}, 0)


# tuning and its surrogates


def test_ranges_round_and_stay_inside():
    depth = Range(2, 30, integer=True)
    assert [depth.at(u) for u in (0.0, 0.5, 1.0)] == [2, 16, 30]
    assert isinstance(depth.at(0.3), int)
    rate = Range(0.01, 0.5, log=True)
    assert rate.at(0.5) == pytest.approx(math.sqrt(0.005))
    assert rate.at(1.0) == 0.5
    assert [len(RANGES[model]) for model in ("rf", "xgb")] == [5, 7]


@pytest.mark.parametrize(("model", "data"), TASKS)
def test_tuning_is_the_cross_validated_r2(model: str, data: str, small_data: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sklearn")
    if model == "xgb":
        pytest.importorskip("xgboost")
    from sklearn.metrics import r2_score
    from sklearn.model_selection import KFold

    monkeypatch.setenv("BOKE_DATA", str(small_data))
    problem = make_problem({"kind": "tuning", "model": model, "data": data}, 0)
    assert isinstance(problem, Tuning)
    x = np.full(problem.dim, 0.3)
    scores = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(problem.X):
        fitted = problem._regressor(x).fit(problem.X[train], problem.y[train])
        scores.append(r2_score(problem.y[test], fitted.predict(problem.X[test])))
    assert problem(x) == pytest.approx(np.mean(scores))
    assert problem.optimum is None
    assert len(problem.X) == (60 if data == "california" else 120)


def test_data_do_not_depend_on_the_order_of_rows(small_data: Path):
    X, y = load("california", small_data)
    path = small_data / FILES["california"][0]
    table = np.loadtxt(path, delimiter=",", skiprows=1)[::-1]
    with gzip.open(path, "wt") as out:
        np.savetxt(out, table, delimiter=",", header="made up", comments="")
    again, target = load("california", small_data)
    assert np.array_equal(X, again)
    assert np.array_equal(y, target)
    part, _ = load("california", small_data, rows=20)
    assert part.shape == (20, 8)
    assert {tuple(row) for row in part} <= {tuple(row) for row in X}


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="BOKE_DATA"):
        load("wine", tmp_path)
    with pytest.raises(ValueError, match="one of"):
        load("iris", tmp_path)


@pytest.mark.parametrize(("model", "data"), TASKS)
def test_the_surrogate_goes_through_its_table(model: str, data: str):
    problem = make_problem({"kind": "surrogate", "model": model, "data": data}, 0)
    X, y = surrogate.read(model, data)
    assert X.shape == (tabulate.SPREAD + tabulate.NEAR_BEST, len(RANGES[model]))
    assert np.allclose([problem.true(x) for x in X[::40]], y[::40], atol=1e-12)
    assert problem.true(X[np.argmax(y)]) == pytest.approx(problem.optimum, abs=1e-12)
    assert "surrogate" in problem.name


def test_a_table_can_be_interrupted(small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(tabulate, "SPREAD", 4)
    monkeypatch.setattr(tabulate, "NEAR_BEST", 3)
    calls = []
    monkeypatch.setattr(Tuning, "true", lambda self, x: calls.append(x) or float(np.sum(x)))
    monkeypatch.setattr(tabulate, "TABLES", tmp_path / "whole")
    whole = tabulate.make("rf", "wine", str(small_data)).read_bytes()
    assert len(calls) == 7

    def interrupted(self: Tuning, x: np.ndarray) -> float:
        if len(calls) == 12:
            raise KeyboardInterrupt
        calls.append(x)
        return float(np.sum(x))

    monkeypatch.setattr(tabulate, "TABLES", tmp_path / "pieces")
    with monkeypatch.context() as patch:
        patch.setattr(Tuning, "true", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tabulate.make("rf", "wine", str(small_data))
    part = tmp_path / "pieces" / "rf_wine.part.csv"
    part.write_text(part.read_text() + "0.5,0.2")  # killed in the middle of a line
    assert tabulate.make("rf", "wine", str(small_data)).read_bytes() == whole
    assert len(calls) == 14
    assert not part.exists()
