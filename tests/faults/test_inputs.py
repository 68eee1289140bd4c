"""Rows 18 to 30: values, objectives, spaces and names that nobody should have to expect."""

import importlib.util
import json
import math
import signal
import sys
import threading
import time
import warnings
import wsgiref.util

import numpy as np
import pytest
from integrations import postgres

import boke
from boke import Categorical, Float, Int, Optimizer, Space, State
from boke.policies import BOKE, KRUCB, BOKELocal, BOKEPlus, DensityExploration

SQUARE = [(0.0, 1.0)] * 2
ODD = [math.nan, math.inf, -math.inf, None, 1e308, -1e308, 5e-324]


def bowl(x):
    return float(np.square(np.asarray(x) - 0.3).sum())


def inside(optimizer, low=0.0, high=1.0, share=0.9):
    X = optimizer.history.native
    assert np.isfinite(X).all() and X.min() >= low and X.max() <= high
    assert len(np.unique(X, axis=0)) >= share * len(X)


def test_row_18_odd_values(observed):
    """objective nan / inf / -inf / None / 1e308 / -1e308 / 5e-324, always and every third time"""
    runs = 0
    for policy in (BOKELocal(), BOKEPlus(n_acq=64)):
        for odd in ODD:
            for every in (1, 3):
                optimizer = Optimizer(SQUARE, policy=policy, rng=0)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for i in range(25):
                        trial = optimizer.ask()
                        optimizer.tell(trial, odd if i % every == 0 else bowl(trial.x))
                inside(optimizer)
                failed = sum(t.state is State.FAILED for t in optimizer.history)
                assert failed == (0 if odd is not None and odd == odd else len(range(0, 25, every)))
                if every == 3:
                    assert math.isfinite(optimizer.best.value)
                runs += 1
    observed(f"{runs} runs of 25: inside, 90 % distinct, nan and None kept as failures, no warning, best finite")


class Leaves(BaseException):
    pass


def test_row_19_exceptions(tmp_path, observed):
    """objective raises Exception, SystemExit, BaseException"""
    for error in (RuntimeError("hot"), SystemExit("bye")):

        def raises(x, error=error):
            if x[0] > 0.4:
                raise error
            return bowl(x)

        result = boke.minimize(raises, SQUARE, n_trials=12, rng=0)
        failed = [t for t in result.optimizer.history if t.state is State.FAILED]
        assert result.nfev == 12 and failed and result.success
        assert {t.reason for t in failed} == {f"{type(error).__name__}: {error}"}
    calls = iter(range(100))

    def leaves(x):
        if next(calls) == 7:
            raise Leaves("out")
        return bowl(x)

    with pytest.raises(Leaves, match="out"):
        boke.minimize(leaves, SQUARE, n_trials=20, rng=0, log=tmp_path / "log")
    kept = Optimizer.load(tmp_path / "log")
    assert [t.state for t in kept.history] == [State.COMPLETE] * 7 + [State.REMOVED]
    with pytest.raises(RuntimeError, match="hot"):
        boke.minimize(lambda x: (_ for _ in ()).throw(RuntimeError("hot")), SQUARE, raise_on_error=True)
    observed("FAIL with its reason and the run goes on; BaseException re-raised, history of 7 kept")


RETURNED = {
    "'1.5'": ("1.5", None),
    "complex": (1 + 2j, None),
    "array(1.)": (np.array(1.0), 1.0),
    "[1.]": ([1.0], None),
    "[1, 2]": ([1, 2], None),
    "dict": ({"loss": 1.0}, None),
    "float32": (np.float32(0.5), 0.5),
    "True": (True, 1.0),
}


def test_row_20_odd_types(observed):
    """objective returns "1.5", complex, array(1.), [1.], [1, 2], dict"""
    for returned, meant in RETURNED.values():
        result = boke.minimize(lambda x, value=returned: value, SQUARE, n_trials=6, rng=0)
        states = {t.state for t in result.optimizer.history}
        assert states == {State.FAILED if meant is None else State.COMPLETE}
        assert (result.fun == meant) if meant is not None else math.isnan(result.fun)
        optimizer = Optimizer(SQUARE, rng=0)
        trial = optimizer.ask()
        if meant is None:
            with pytest.raises(TypeError, match="must be a real number or None"):
                optimizer.tell(trial, returned)
            optimizer.tell(trial, None)
        else:
            optimizer.tell(trial, returned)
    observed("float or FAIL as documented, no trial left pending; tell refuses what is no number")


def hangs(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the stubborn kind
    if x[0] > 0.5:
        time.sleep(600)
    return bowl(x)


def test_row_21_hanging_objective(tmp_path, observed):
    """objective hangs and ignores SIGTERM; timeout= given, minimize and command line"""
    begun = time.monotonic()
    result = boke.minimize(hangs, SQUARE, n_trials=4, rng=0, policy=BOKEPlus(n_acq=64), timeout=0.5)
    took = time.monotonic() - begun
    late = int(np.isnan(result.func_vals).sum())
    assert late and took < 60 and "TimeoutError: it ran for more than 0.5 s" in result.message
    assert not multiprocessing_children()
    optuna = pytest.importorskip("optuna")
    pytest.importorskip("click")
    from boke.cli.config import Config, Objective
    from boke.cli.programs import evaluator_of

    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    script = tmp_path / "f.py"
    script.write_text("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n")
    command = Objective(command=f"{sys.executable} {script} {{x}}", timeout=1.0)
    begun = time.monotonic()
    outcome = evaluator_of(Config("s", "", space, objective=command))(
        {"x": 0.5}, 0, tmp_path / "out", threading.Event()
    )
    once = time.monotonic() - begun
    assert outcome.values is None and outcome.reason == "timeout: it ran for more than 1 s" and once < 60
    observed(
        f"{late} late ones failed and killed; minimize: {took / late:.1f} s each, command line: {once:.1f} s for 1 s"
    )


def multiprocessing_children():
    import multiprocessing

    return multiprocessing.active_children()


def test_row_22_everything_fails(observed):
    """ALL evaluations fail"""
    for policy in (BOKELocal(), BOKE(n_acq=64), KRUCB(n_acq=64), DensityExploration(n_acq=64)):
        optimizer = Optimizer(SQUARE, policy=policy, rng=0)
        for _ in range(40):
            optimizer.tell(optimizer.ask(), None)
        inside(optimizer, share=1.0)
        quarters = {tuple((t.x > 0.5).tolist()) for t in list(optimizer.history)[20:]}
        assert len(quarters) == 4
        with pytest.raises(ValueError, match="There is no best trial yet: none of the 40 trials has a value"):
            _ = optimizer.best
    result = boke.minimize(lambda x: None, SQUARE, n_trials=10, rng=0)
    assert not result.success and result.status == 3 and result.x is None
    sklearn = pytest.importorskip("sklearn")
    from sklearn.datasets import make_regression
    from sklearn.linear_model import Ridge

    from boke.integrations.sklearn import BOKESearchCV

    X, y = make_regression(40, 3, random_state=0)
    search = BOKESearchCV(Ridge(solver="no such solver"), {"alpha": (0.1, 1.0)}, n_iter=6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="fail"):
            search.fit(X, y)
    assert sklearn.__version__
    observed("space filling goes on in all quarters, best raises a named error, SearchCV raises once at the end")


def test_row_23_half_of_the_space_fails(observed):
    """failures concentrated in half the space, which holds the optimum"""
    shares = {}
    for name, policy in (("BOKELocal", BOKELocal()), ("BOKEPlus", BOKEPlus()), ("BOKE", BOKE())):
        failed = []
        for seed in range(3):
            result = boke.minimize(
                lambda x: None if x[0] > 0.5 else bowl(x - [0.4, 0.0]), SQUARE, n_trials=60, rng=seed, policy=policy
            )
            failed.append(np.isnan(result.func_vals[20:]).mean())
        shares[name] = float(np.mean(failed))
    assert all(0.0 < share < 0.4 for share in shares.values()), shares  # 0.7 to 0.9 when failures were density only
    observed("share of failing asks after the first 20: " + ", ".join(f"{n} {s:.2f}" for n, s in shares.items()))


VALUES = {
    "all equal": lambda i, y: 1.0,
    "two levels": lambda i, y: float(y > 0.3),
    "1e15 and a signal": lambda i, y: 1e15 + y,
    "600 decades": lambda i, y: 10.0 ** (600 * y / 2 - 300),
}


def test_row_24_values_without_a_scale(observed):
    """all-equal values; two levels; 1e15 + signal; values over 600 decades"""
    for policy in (BOKELocal(), BOKEPlus(n_acq=64), BOKE(n_acq=64), KRUCB(n_acq=64)):
        for make in VALUES.values():
            optimizer = Optimizer(SQUARE, policy=policy, rng=0)
            for i in range(40):
                trial = optimizer.ask()
                optimizer.tell(trial, make(i, bowl(trial.x)))
            inside(optimizer)
    observed("inside and at least 90 % distinct, 4 policies")


def test_row_25_copies(observed):
    """50 copies of one point with different values"""
    for policy in (BOKELocal(), BOKEPlus(), BOKE(), KRUCB(eta=1.0), DensityExploration()):
        optimizer = Optimizer(SQUARE, policy=policy, rng=0)
        optimizer.tell_many(np.full((50, 2), 0.5), np.random.default_rng(0).normal(size=50))
        with np.errstate(all="raise", under="ignore"):
            asked = optimizer.ask(5)
        assert all((t.x != 0.5).any() for t in asked)
    observed("no singular matrix, no division by zero; five asks differ from the copy")


BOUNDS = {
    "one of zero width": [(2.0, 2.0), (0.0, 1.0)],
    "all of zero width": [(2.0, 2.0), (-3.0, -3.0)],
    "denormal": [(0.0, 5e-324)] * 2,
    "1e308 wide": [(-1e308, 1e308)] * 2,
    "few floats": [(1.0, float(np.nextafter(1.0, 2.0)))] * 2,
    "1e-300": [(1e-300, 2e-300)] * 2,
}


def test_row_26_extreme_bounds(observed):
    """zero-width bounds (one, all), denormal, 1e308 wide, few floats, 1e-300"""
    for bounds in BOUNDS.values():
        optimizer = Optimizer(bounds, rng=0)
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            for _ in range(25):
                trial = optimizer.ask()
                for (low, high), value in zip(bounds, trial.params.values(), strict=True):
                    assert low <= value <= high and (low < high or value == low)
                optimizer.tell(trial, sum(v / 4 for v in trial.params.values()))
    observed("exact bound values, inside, no overflow")


WRONG = {
    "reversed": (lambda: {"lr": Float(3, 1)}, "'low' parameter of Float"),
    "reversed, plain": (lambda: [(0, 1), (3, 1)], "position 1"),
    "nan": (lambda: {"lr": Float(math.nan, 1)}, "'low' parameter of Float"),
    "inf": (lambda: {"lr": Float(0, math.inf)}, "'high' parameter of Float"),
    "empty": (lambda: [], "at least one parameter"),
    "no choices": (lambda: {"c": Categorical([])}, "'choices' parameter of Categorical"),
    "step 0": (lambda: {"lr": Float(0, 1, step=0)}, "'step' parameter of Float"),
    "log of 0": (lambda: {"lr": Float(0, 1, log=True)}, "'low' parameter of Float must be positive"),
    "log of a negative": (lambda: {"n": Int(-1, 3, log=True)}, "'low' parameter of Int must be positive"),
    "the same choice twice": (lambda: {"c": Categorical(["a", "a"])}, "Got 'a' twice"),
}


def test_row_27_wrong_spaces(observed):
    """reversed, NaN, inf, empty bounds; step 0; log with low <= 0; duplicates"""
    for make, message in WRONG.values():
        with pytest.raises(ValueError, match=message):
            boke.minimize(lambda x: pytest.fail("evaluated"), make())
    observed(f"{len(WRONG)} ValueErrors that name the parameter, before any evaluation (a dict has no duplicate names)")


def test_row_28_wrong_tells(observed):
    """tell outside the bounds, wrong length, NaN in x, unknown trial, twice; not asked"""
    optimizer = Optimizer(SQUARE, rng=0)
    first = optimizer.ask()
    optimizer.tell(first, 1.0)
    before = repr(list(optimizer.history)), optimizer.history.arrivals
    for point in ([0.5, 1.5], [0.5], [0.5, 0.5, 0.5], [0.5, math.nan], [0.5, math.inf], {"x0": 0.5}, "ab", None):
        with pytest.raises((ValueError, TypeError), match=r"(point|value|list)"):
            optimizer.tell(point, 1.0)
    with pytest.raises(ValueError, match="was told already"):
        optimizer.tell(first, 2.0)
    with pytest.raises(ValueError, match="is not one of this optimizer's trials"):
        optimizer.tell(Optimizer(SQUARE, rng=9).ask(3)[2], 2.0)
    assert (repr(list(optimizer.history)), optimizer.history.arrivals) == before
    assert optimizer.tell([0.25, 0.75], 2.0).number == 1
    observed("named errors, history unchanged; a point that was not asked for is welcome")


NAMES = ["größe 网", "two\nlines", "'quotes\"", "'; DROP TABLE trials; --", "x" * 200, "{brace} %s \\", "<b>"]


@pytest.fixture
def postgres_url():
    """A server for this test, if there can be one."""
    if importlib.util.find_spec("psycopg2") is None or postgres.binaries() is None:
        yield None
        return
    with postgres.server() as url:
        yield url


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_row_29_names(tmp_path, monkeypatch, postgres_url, observed):
    """Unicode, newline, quotes, SQL, 200 characters in study, parameter, categories, file path"""
    space = {name: Categorical([name, name + "2"]) for name in NAMES}
    optimizer = Optimizer(space, rng=0, policy=BOKEPlus(n_acq=32))
    folder = tmp_path / "größe '网\" ; --"
    folder.mkdir()
    for _ in range(8):
        optimizer.tell(optimizer.ask(), 1.0, reason=None)
    optimizer.save(folder / NAMES[3])
    assert repr(list(Optimizer.load(folder / NAMES[3]).history)) == repr(list(optimizer.history))
    with Optimizer.open(folder / "log", space, rng=0) as logged:
        logged.tell(optimizer.history[0].params, None, reason=NAMES[0])
    assert Optimizer.load(folder / "log").history[0].reason == NAMES[0]
    places = ["state", "log"]
    optuna = pytest.importorskip("optuna")
    from boke.integrations.optuna import BOKESampler

    def objective(trial):
        for name in NAMES:
            assert trial.suggest_categorical(name, [name, name + "2"]) in (name, name + "2")
        return trial.suggest_float(NAMES[1] + "x", 0, 1)

    expected = None
    storages = [None, f"sqlite:///{folder}/s.db", str(folder / "journal")]
    for storage in [*storages, *([] if postgres_url is None else [postgres_url])]:
        if storage is not None and "://" not in storage:
            where = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(storage))
        else:
            where = storage
        study = optuna.create_study(study_name=NAMES[3], storage=where, sampler=BOKESampler(seed=0))
        study.optimize(objective, n_trials=8)
        got = [t.params for t in study.trials]
        expected = expected or got
        assert got == expected and study.study_name == NAMES[3]
        places.append("memory" if storage is None else storage.partition(":")[0] if "://" in storage else "journal")
    testing = pytest.importorskip("click.testing")
    from boke.cli.commands import boke as command

    monkeypatch.chdir(folder)
    found = testing.CliRunner().invoke(command, ["best", "s.db", "--json"])
    assert found.exit_code == 0, found.output
    assert set(json.loads(found.output)["params"]) == {*NAMES, NAMES[1] + "x"}
    places.append("command line")
    if importlib.util.find_spec("optuna_dashboard") is not None:
        shown = dashboard(f"sqlite:///{folder}/s.db", "/api/studies/1")
        assert shown["name"] == NAMES[3]
        for trial, params in zip(shown["trials"], expected, strict=True):
            assert {p["name"]: p["param_external_value"] for p in trial["params"]} == {
                k: str(params[k]) for k in params
            }
        places.append("dashboard")
    observed(f"round trip through {', '.join(places)}")


def dashboard(url, path):
    """What the server behind the dashboard says."""
    import optuna_dashboard

    asked = {"PATH_INFO": path}
    wsgiref.util.setup_testing_defaults(asked)
    server = optuna_dashboard.wsgi(url)
    return json.loads(b"".join(server(asked, lambda *answer: None)))


def test_row_30_spaces_that_change(observed):
    """ranges change between calls; conditional parameters; categories added"""
    optuna = pytest.importorskip("optuna")
    from boke.integrations.optuna import BOKESampler

    study = optuna.create_study(sampler=BOKESampler(seed=0))

    def objective(trial):
        late = trial.number >= 20
        x = trial.suggest_float("x", 0.5 if late else 0.0, 2.0 if late else 1.0)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        y = trial.suggest_int("n", 1, 9) if kind == "a" else trial.suggest_float("u", 0, 1)
        if late:
            assert 0.5 <= x <= 2.0
        return x + y

    study.optimize(objective, n_trials=45)
    assert all(t.state.name == "COMPLETE" for t in study.trials)
    wider = optuna.create_study(sampler=BOKESampler(seed=0))
    for choices in (["a", "b"], ["a", "b", "c"]):  # in two studies' trials, as Optuna itself keeps one to its choices
        distribution = {"k": optuna.distributions.CategoricalDistribution(choices)}
        for _ in range(6):
            wider.add_trial(optuna.create_trial(params={"k": choices[-1]}, distributions=distribution, value=1.0))
    assert wider.ask(distribution).params["k"] in ("a", "b", "c")
    assert Space.of(SQUARE) != Space.of([(0, 2)] * 2)
    observed("no error; asks inside the new ranges; an added category is chosen from")
