"""BOKESampler: what Optuna's own suite does not ask (that one is in tests/contract)."""

import contextlib
import json
import math
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

from boke import Float, Optimizer  # noqa: E402
from boke.integrations import _reader  # noqa: E402
from boke.integrations._outcomes import (  # noqa: E402
    cautious,
    chebyshev,
    clipped,
    discouraged,
    missed,
    nondominated,
    penalized,
)
from boke.integrations.optuna import BOKESampler  # noqa: E402
from boke.policies import BOKEPlus, DensityExploration  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)

QUICK = BOKEPlus(n_acq=64)
BOX = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}


def sampler(seed=0, **kwargs):
    return BOKESampler(policy=QUICK, seed=seed, **kwargs)


def study_of(seed=0, *, storage=None, directions=("minimize",), **kwargs):
    return optuna.create_study(
        storage=storage, directions=list(directions), sampler=sampler(seed, **kwargs), study_name="s"
    )


def bowl(trial):
    return (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + (trial.suggest_float("y", 0, 1) - 0.6) ** 2


def points(study):
    return [tuple(sorted(trial.params.items())) for trial in study.trials]


def told(params, value=None, state=TrialState.COMPLETE, distributions=BOX, **kwargs):
    return optuna.create_trial(params=params, distributions=distributions, value=value, state=state, **kwargs)


def next_point(trials, *, seed=0, distributions=BOX, **kwargs):
    study = study_of(seed, **kwargs)
    study.add_trials(trials)
    return study.ask(distributions).params


def some(n=30, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)).tolist()
    return [told({"x": a, "y": b}, (a - 0.3) ** 2 + (b - 0.6) ** 2) for a, b in X]


def test_it_finds_the_minimum_and_the_maximum():
    study = study_of()
    study.optimize(bowl, n_trials=60)
    assert study.best_value < 1e-3
    study = study_of(directions=["maximize"])
    study.optimize(lambda trial: -bowl(trial), n_trials=60)
    assert study.best_value > -1e-3


def test_every_distribution_arrives_as_optuna_has_it():
    choices = [None, True, 2, 1.5, "a"]

    def objective(trial):
        values = {
            "float": trial.suggest_float("float", -1, 1),
            "log": trial.suggest_float("log", 1e-5, 1.0, log=True),
            "step": trial.suggest_float("step", 0, 1, step=0.1),
            "int": trial.suggest_int("int", -3, 3),
            "odd": trial.suggest_int("odd", 1, 9, step=2),
            "logint": trial.suggest_int("logint", 1, 1000, log=True),
            "huge": trial.suggest_int("huge", 0, 2**60),
            "category": trial.suggest_categorical("category", choices),
            "one": trial.suggest_categorical("one", ["only"]),
            "fixed": trial.suggest_float("fixed", 2.0, 2.0),
        }
        assert type(values["float"]) is type(values["log"]) is type(values["step"]) is float
        assert type(values["int"]) is type(values["odd"]) is type(values["logint"]) is type(values["huge"]) is int
        assert values["odd"] % 2 == 1 and 0 <= values["huge"] <= 2**60
        assert round(values["step"], 1) == values["step"]
        return values["float"] ** 2 + (values["category"] is not None)

    study = study_of()
    study.optimize(objective, n_trials=40)
    assert all(trial.state is TrialState.COMPLETE for trial in study.trials)
    assert study.best_params["category"] is None


def test_the_same_seed_gives_the_same_study():
    studies = [study_of(3), study_of(3), study_of(4)]
    for study in studies:
        study.optimize(bowl, n_trials=25)
    assert points(studies[0]) == points(studies[1]) != points(studies[2])


@pytest.mark.parametrize("kind", ["sqlite", "journal", "grpc"])
def test_a_study_is_the_same_in_every_storage(kind, tmp_path):
    memory = study_of(5)
    memory.optimize(conditional, n_trials=20)
    if kind == "sqlite":
        storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db")
        study = study_of(5, storage=storage)
        study.optimize(conditional, n_trials=20)
        storage.engine.dispose()
    elif kind == "journal":
        file = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal"))
        study = study_of(5, storage=optuna.storages.JournalStorage(file))
        study.optimize(conditional, n_trials=20)
    else:
        pytest.importorskip("grpc", reason="needs grpcio")
        with proxy(f"sqlite:///{tmp_path}/study.db") as storage:
            study = study_of(5, storage=storage)
            study.optimize(conditional, n_trials=20)
            assert points(study) == points(memory)
        return
    assert points(study) == points(memory)


@contextlib.contextmanager
def proxy(url):
    """A gRPC proxy of its own process, as on a cluster."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    serve = "import optuna, sys; optuna.storages.run_grpc_proxy_server(optuna.storages.get_storage(sys.argv[1]), "
    serve += "host='localhost', port=int(sys.argv[2]))"
    server = subprocess.Popen([sys.executable, "-W", "ignore", "-c", serve, url, str(port)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            storage = optuna.storages.GrpcStorageProxy(host="localhost", port=port)
        storage.wait_server_ready(timeout=60)
        yield storage
        storage.close()
    finally:
        server.kill()
        server.wait()


def test_the_same_in_every_process_whatever_the_hash_seed():
    script = textwrap.dedent(
        """
        import json, optuna
        from boke.integrations.optuna import BOKESampler
        from boke.policies import BOKEPlus
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=BOKESampler(policy=BOKEPlus(n_acq=64), seed=1))
        def objective(trial):
            kind = trial.suggest_categorical("kind", ["a", "b"])
            x = trial.suggest_float("x", 0, 1)
            return x + (trial.suggest_float("u", 0, 1) if kind == "a" else trial.suggest_int("v", 1, 9))
        study.optimize(objective, n_trials=20)
        print(json.dumps([trial.params for trial in study.trials]))
        """
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    ]
    assert json.loads(runs[0]) == json.loads(runs[1]) and len(json.loads(runs[0])) == 20


def test_an_interrupted_study_goes_on_as_if_nothing_had_happened():
    whole = study_of(7)
    whole.optimize(bowl, n_trials=24)
    parts = study_of(7)
    for n in (1, 9, 14):
        parts.optimize(bowl, n_trials=n)
        parts.sampler = sampler(7)  # a new process has a new sampler
    assert points(parts) == points(whole)


def test_the_order_in_which_results_came_does_not_matter():
    trials = some()
    assert next_point(trials) == next_point(trials[::-1]) == next_point(trials[10:] + trials[:10])


def test_only_what_is_new_is_read(monkeypatch):
    rows = []
    add = _reader.Table.add
    monkeypatch.setattr(_reader.Table, "add", lambda self, trials: (rows.append(len(trials)), add(self, trials))[1])
    study = study_of()
    study.add_trials(some(200))
    for _ in range(5):
        study.tell(study.ask(BOX), 1.0)
    assert rows == [200, 1, 1, 1, 1]


def test_a_running_trial_is_density_without_a_value():
    study = study_of()
    study.add_trials(some())
    batch = [study.ask(BOX).params for _ in range(8)]
    assert len({tuple(p.values()) for p in batch}) == 8
    explorer = BOKESampler(policy=DensityExploration(n_acq=256), seed=0)
    alone = optuna.create_study(sampler=explorer)
    alone.add_trials(some(6))
    first = alone.ask(BOX).params
    second = alone.ask(BOX).params
    assert math.dist(first.values(), second.values()) > 0.2


def test_trials_that_start_at_the_same_moment_get_different_points():
    """Until a trial asks for its first parameter nobody can read its point; others work it out."""

    def valley(trial):
        x, y = trial.suggest_float("x", -2, 2), trial.suggest_float("y", -1, 3)
        return 100 * (y - x**2) ** 2 + (1 - x) ** 2 + 5 * x * (trial.suggest_categorical("kind", ["a", "b"]) == "b")

    study = optuna.create_study(sampler=BOKESampler(seed=0))
    study.optimize(valley, n_trials=40)
    for known in range(20, 40, 5):
        others = optuna.create_study(sampler=BOKESampler(seed=0))
        others.add_trials(study.trials[:known])
        frozen = [others._storage.get_trial(others._storage.create_new_trial(others._study_id)) for _ in range(4)]
        space = [others.sampler.infer_relative_search_space(others, trial) for trial in frozen]
        points = [others.sampler.sample_relative(others, *pair) for pair in zip(frozen, space, strict=True)]
        assert len({tuple(point.values()) for point in points}) == 4
        in_turn = optuna.create_study(sampler=BOKESampler(seed=0))
        in_turn.add_trials(study.trials[:known])
        assert [in_turn.ask(space[0]).params for _ in range(4)] == points


def test_a_worker_that_died_before_its_first_parameter_is_soon_forgotten():
    study = optuna.create_study(sampler=BOKESampler(seed=0))
    study.optimize(bowl, n_trials=20)
    study.ask()  # never heard of again
    reader = _reader.Reader(study)
    reader.read(study)
    trial = study.trials[-1]
    for later, heard in ((1, [20]), (16, [20]), (17, [])):
        trial.number = 20 + later
        assert reader.starting(trial, {"x", "y"}) == heard
    trial.number = 21
    conditional = study.ask()
    conditional.suggest_float("x", 0, 1)
    reader.read(study)
    trial.number = 22
    assert reader.starting(trial, {"x", "y"}) == [20, 21]  # it has asked for x, y comes next
    assert reader.starting(trial, {"z"}) == [20]  # of its branch, z is no part


def test_another_process_s_running_trial_counts():
    storage = optuna.storages.InMemoryStorage()
    study = study_of(storage=storage)
    study.add_trials(some())
    other = optuna.load_study(study_name="s", storage=storage, sampler=sampler())
    ours, theirs = study.ask(BOX), other.ask(BOX)
    assert ours.params != theirs.params
    pending = _reader.Reader(study)
    pending.read(study)
    assert pending.pending(optuna.trial.FrozenTrial(99, TrialState.RUNNING, None, None, None, {}, {}, {}, {}, {}, 99))


def test_trials_of_killed_workers_are_bounded_and_age_out():
    study = study_of()
    study.add_trials(some())
    for _ in range(150):
        study.add_trial(told({"x": 0.5, "y": 0.5}, state=TrialState.RUNNING))
    reader = _reader.Reader(study)
    reader.read(study)
    asked = study.ask(BOX)
    assert len(reader.pending(study.trials[asked.number])) == _reader.PENDING
    late = optuna.trial.create_trial(state=TrialState.RUNNING)
    late.number = 5000
    assert reader.pending(late) == []
    for _ in range(8):  # so many have come back since that the others will not
        asked = study.ask(BOX)
        study.tell(asked, 1.0)
    reader.read(study)
    assert [set(params) for params in reader.pending(study.trials[asked.number])] == []


def test_a_failed_trial_is_not_suggested_again():
    grid = {"n": IntDistribution(0, 5)}
    study = study_of()
    study.add_trials([told({"n": n}, float(n), distributions=grid) for n in (1, 3)])
    study.add_trials([told({"n": n}, state=TrialState.FAIL, distributions=grid) for n in (0, 2)])
    for _ in range(5):
        study.tell(study.ask(grid), 1.0)
    assert study.ask(grid).number >= 6
    assert {trial.params["n"] for trial in study.trials[4:6]} == {4, 5}


def test_where_much_fails_the_search_keeps_away():
    study = study_of()

    def half(trial):
        if trial.suggest_float("x", 0, 1) > 0.5:
            raise RuntimeError
        return (trial.params["x"] - 0.6) ** 2 + trial.suggest_float("y", 0, 1) ** 2  # best where it fails

    study.optimize(half, n_trials=60, catch=RuntimeError)
    assert sum(trial.state is TrialState.FAIL for trial in study.trials[20:]) < 14
    assert study.best_params["x"] > 0.4
    np.testing.assert_array_equal(
        discouraged(np.array([3.0, 1.0, np.nan, np.nan]), np.array([0, 0, 1, 0]) == 1)[:3], [3, 1, 1]
    )


def test_failed_trials_count_as_in_an_optimizer():
    rng = np.random.default_rng(0)
    points = [{"x": float(x), "y": float(y)} for x, y in rng.random((12, 2))]
    values = [None if i % 4 == 1 else float(i) for i in range(12)]
    study, optimizer = study_of(), Optimizer({"x": Float(0, 1), "y": Float(0, 1)}, rng=0)
    for point, value in zip(points, values, strict=True):
        study.add_trial(told(point, value, TrialState.FAIL if value is None else TrialState.COMPLETE))
        optimizer.tell(point, value)
    reader = _reader.Reader(study)
    reader.read(study)
    ours, core = study.sampler._data(reader.table(BOX), [], 12), optimizer.history.data(-1.0, discourage=True)
    rows = [sorted(map(tuple, np.column_stack([data.X, data.y]).tolist())) for data in (ours, core)]
    assert rows[0] == rows[1] and len(ours.silent) == len(core.silent) == 0


def test_an_interrupted_trial_says_nothing_about_its_point():
    study = study_of()
    study.add_trials([told({"x": 0.5, "y": 0.5}, state=TrialState.FAIL, user_attrs={"lost": True}), *some(5)])
    reader = _reader.Reader(study)
    reader.read(study)
    assert not reader.table(BOX).failed.any() and np.isnan(reader.table(BOX).values).sum() == 1


def test_suggestions_are_explained():
    study = study_of()
    study.optimize(bowl, n_trials=20)
    study.add_trial(told({"x": 0.1, "y": 0.1}, 1.0))
    found = {n: study.sampler.explain(study, n) for n in range(21)}
    assert found[0] is None and found[20] is None  # drawn before the space was known; added
    assert found[1].branch == "initial" and {found[n].branch for n in range(8, 20)} == {"exploit", "explore"}
    assert all(number < 19 for number, _ in found[19].trials) and found[19].trials[0][1] > 0.05
    with pytest.raises(ValueError, match="'number' parameter"):
        study.sampler.explain(study, 99)
    other = sampler(99)
    assert other.explain(study, 19) is None


def test_a_study_in_which_everything_fails_goes_on_filling_the_space():
    study = study_of()

    def broken(trial):
        bowl(trial)
        raise RuntimeError("no license")

    study.optimize(broken, n_trials=30, catch=RuntimeError)
    assert len(set(points(study))) == 30
    assert all(trial.state is TrialState.FAIL for trial in study.trials)


def test_a_failure_halfway_through_its_parameters_does_not_split_the_space():
    study = study_of()
    study.add_trials(some(5))
    study.add_trial(told({"x": 0.5}, state=TrialState.FAIL, distributions={"x": BOX["x"]}))
    reader = _reader.Reader(study)
    reader.read(study)
    assert reader.groups == [("x", "y")]


def conditional(trial):
    lr = trial.suggest_float("lr", 1e-4, 1, log=True)
    kind = trial.suggest_categorical("kind", ["svm", "forest"])
    if kind == "svm":
        return abs(math.log10(lr) + 2) + abs(trial.suggest_float("C", 0, 10) - 3)
    return abs(math.log10(lr) + 2) + 0.2 * abs(trial.suggest_int("depth", 1, 20) - 5) + 0.1


def test_conditional_parameters_form_groups():
    study = study_of()
    study.optimize(conditional, n_trials=80)
    reader = _reader.Reader(study)
    reader.read(study)
    assert reader.groups == [("C",), ("depth",), ("kind", "lr")]
    assert study.best_value < 0.5


def test_branches_know_the_way_that_leads_to_them():
    space = {"m": CategoricalDistribution(["a", "b"]), "x": BOX["x"], "n": IntDistribution(1, 9)}
    study = study_of()
    assert next(iter(_reader_of(study).branches), None) is None
    for m, x, n in [("a", 0.1, 4), ("a", 0.2, 4), ("b", 0.3, 5), ("b", 0.4, 6)]:
        names = ["m", "x", "n"] if m == "b" else ["m", "n"]
        params = {name: {"m": m, "x": x, "n": n}[name] for name in names}
        study.add_trial(told(params, 1.0, distributions={name: space[name] for name in names}))
    one, two = _reader_of(study).branches
    assert (one.names, one.count, one.way) == ({"m", "n"}, 2, {"m": "a", "n": 4})
    assert (two.names, two.count, two.way) == ({"m", "n", "x"}, 2, {"m": "b"})


def test_a_branch_is_modelled_as_a_whole():
    """The best u depends on v: a group of its own, {u}, could not learn that."""

    def objective(trial):
        if trial.suggest_categorical("kind", ["flat", "valley"]) == "flat":
            return 1.5 + trial.suggest_float("w", 0, 1)
        v = trial.suggest_float("v", 0, 1)
        return 10 * abs(trial.suggest_float("u", 0, 1) - v) + v

    found = []
    for seed in range(6):
        study = optuna.create_study(sampler=BOKESampler(seed=seed))
        study.optimize(objective, n_trials=60)
        found.append(study.best_value)
        kinds = [trial.params["kind"] for trial in study.trials[20:]]
        assert kinds.count("flat") >= 3  # the other branch is not given up
    assert sum(value < 0.01 for value in found) >= 2  # u by itself comes to about 0.1
    why = [study.sampler.explain(study, trial.number) for trial in study.trials[40:]]
    assert all(each is not None and each.trials for each in why)


def _reader_of(study):
    reader = _reader.Reader(study)
    reader.read(study)
    return reader


def test_groups_of_one_size_do_not_move_in_step():
    study = study_of()
    study.add_trials([told({"x": 0.5}, 1.0, distributions={"x": BOX["x"]})])
    study.add_trials([told({"y": 0.5}, 1.0, distributions={"y": BOX["y"]})])
    params = study.ask(BOX).params
    assert params["x"] != params["y"]


@pytest.mark.parametrize("second", [(0, 5), (0, 20), (20, 30)])
def test_a_range_that_changes_is_followed(second):
    study = study_of()
    for low, high in [(0, 10), second]:
        study.optimize(lambda trial: trial.suggest_float("x", low, high) + trial.suggest_int("n", low, high), 12)  # noqa: B023
    late = [trial.params for trial in study.trials[13:]]
    assert all(second[0] <= p["x"] <= second[1] and second[0] <= p["n"] <= second[1] for p in late)
    assert study.ask().relative_params.keys() == {"x", "n"}  # and modelled, not drawn


def test_a_range_that_depends_on_another_parameter_is_modelled():
    def objective(trial):
        x = trial.suggest_float("x", 0.5, 1)
        return (x - 0.7) ** 2 + (trial.suggest_float("y", 0, x) - 0.4) ** 2

    study = study_of()
    study.optimize(objective, n_trials=60)
    assert study.best_value < 0.01


def test_added_categories_are_no_error():
    few, more = CategoricalDistribution(["a", "b"]), CategoricalDistribution(["a", "b", "c"])
    trials = [told({"k": k}, 1.0, distributions={"k": few}) for k in "ab"]
    trials += [told({"k": "c"}, 0.0, distributions={"k": more})]
    assert next_point(trials, distributions={"k": more})["k"] in "abc"


def test_fixed_and_enqueued_parameters_are_respected():
    study = study_of()
    study.optimize(bowl, n_trials=8)
    study.enqueue_trial({"x": 0.25})
    assert study.ask(BOX).params["x"] == 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.sampler = optuna.samplers.PartialFixedSampler({"y": 0.5}, study.sampler)
    study.optimize(bowl, n_trials=5)
    assert all(trial.params["y"] == 0.5 for trial in study.trials[-5:])
    assert len({trial.params["x"] for trial in study.trials[-5:]}) == 5


def test_pruned_trials_count_and_hyperband_brackets_are_kept_apart():
    def objective(trial):
        value = bowl(trial)
        for step in range(1, 10):
            trial.report(value + 1 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    for pruner in (optuna.pruners.MedianPruner(n_startup_trials=4), optuna.pruners.HyperbandPruner(max_resource=9)):
        study = optuna.create_study(sampler=sampler(seed=1), pruner=pruner)
        study.optimize(objective, n_trials=50)
        assert any(trial.state is TrialState.PRUNED for trial in study.trials)
        assert study.best_value < 0.02


def test_a_pruned_trial_is_no_better_than_the_median_of_whole_ones():
    y = np.array([1.0, 2.0, 3.0, 9.0, -9.0, np.nan])
    pruned = np.array([False, False, False, True, True, True])
    np.testing.assert_array_equal(cautious(y, pruned), [1, 2, 3, 2, -9, np.nan])
    np.testing.assert_array_equal(cautious(y[3:], pruned[3:]), y[3:])


def test_an_infeasible_trial_is_worse_than_the_best_feasible_one():
    y = np.array([1.0, 3.0, 100.0, 50.0, -9.0, np.nan])
    violations = np.array([[0.0, 0.0, 5.0, 0.1, 0.1, 1.0]]).T
    out = penalized(y, violations)
    assert out[:2].tolist() == [1.0, 3.0] and out[2] < out[3] < 3.0 and out[4] < out[3] and np.isnan(out[5])
    alone = penalized(y[2:4], violations[2:4])
    assert alone[0] < alone[1] < 0.0  # the violation alone counts
    huge = penalized(np.array([1e308, -1e308, 0.0, 1.0]), np.array([[0.0, 0.0, math.inf, 5e-324]]).T)
    assert np.isfinite(huge).all() and huge.argmax() == 0


def test_each_constraint_is_measured_by_its_own_misses():
    rng = np.random.default_rng(0)
    violations = np.maximum(rng.normal(size=(30, 3)), 0.0)
    medians = [np.median([v for v in column if v > 0]) for column in violations.T]
    sums = [sum(v / unit for v, unit in zip(row, medians, strict=True)) for row in violations]
    expected = np.array(sums) / np.median([total for total in sums if total > 0])
    np.testing.assert_allclose(missed(violations), expected)
    np.testing.assert_allclose(missed(violations * [1e6, 1.0, 1e-6]), expected)
    assert missed(np.zeros((2, 0))).tolist() == missed(np.zeros((2, 1))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("m", [2, 3])
def test_nondominated_rows_by_their_definition(m):
    values = np.random.default_rng(m).integers(0, 9, size=(60, m)).astype(float)
    chosen = {tuple(row) for row in values if not any((other >= row).all() and (other > row).any() for other in values)}
    found = nondominated(values)
    assert {tuple(row) for row in found} == chosen and len(found) == len(chosen)


def both_ways():
    ways = ["function"]
    if hasattr(optuna.trial.Trial, "set_constraint"):
        ways.append("set_constraint")
    return ways


@pytest.mark.parametrize("way", both_ways())
def test_constraints(way):
    def objective(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if way == "set_constraint":
            trial.set_constraint("budget", 1.0 - x - y)
        else:
            trial.set_user_attr("c", 1.0 - x - y)
        return x**2 + y**2  # without the constraint the minimum is at 0, with it 1/2 at (1/2, 1/2)

    keys = {} if way == "set_constraint" else {"constraints_func": lambda trial: (trial.user_attrs["c"],)}
    study = study_of(**keys)
    study.optimize(objective, n_trials=80)
    feasible = [t for t in study.trials if t.params["x"] + t.params["y"] >= 1.0]
    assert min(t.value for t in feasible) < 0.55
    assert len(feasible) > 30


def test_a_constraint_that_is_nan_is_an_error_and_is_recorded_as_missing():
    study = study_of(constraints_func=lambda trial: (math.nan,))
    with pytest.raises(ValueError, match="must not be nan"):
        study.optimize(bowl, n_trials=1)


def test_two_objectives_spread_along_the_front():
    study = study_of(directions=["minimize", "maximize"])

    def objective(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        return x + y, x - y  # the front is y = 0

    study.optimize(objective, n_trials=60)
    front = [trial.params for trial in study.best_trials]
    assert len(front) >= 8
    assert np.ptp([p["x"] for p in front]) > 0.8 and np.mean([p["y"] for p in front]) < 0.1


def test_scalarisation_prefers_what_dominates():
    values = np.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.9], [-math.inf, 0.5], [math.nan, math.nan]])
    every = np.ones(5, dtype=bool)
    for w in (0.2, 0.5, 0.8):
        y = chebyshev(values, np.array([w, 1 - w]), every)
        assert np.isfinite(y[:4]).all() and np.isnan(y[4])
        assert np.nanargmax(y) == 2
    half = np.array([0.5, 0.5])
    huge = chebyshev(np.array([[1e308, -1e308], [-1e308, 1e308], [0.0, 0.0]]), half, every[:3])
    assert np.isfinite(huge).all() and huge.argmax() == 2
    assert np.isnan(chebyshev(np.full((2, 2), np.nan), half, every[:2])).all()


def test_a_direction_meets_the_front_whatever_the_units():
    a = np.linspace(0.0, math.pi / 2, 91)
    values = np.column_stack([np.cos(a), np.sin(a)])  # larger is better: a concave front with the ideal point (1, 1)
    for direction in (np.array([0.5, 0.5]), np.array([0.2, 0.8])):
        best = [
            int(chebyshev(values * units, direction, np.ones(91, dtype=bool)).argmax())
            for units in ([1.0, 1.0], [1e6, 1e-6])
        ]
        regret = 1.0 - values[best[0]]
        assert best[0] == best[1] and abs(regret[0] / regret.sum() - direction[0]) < 0.05


def test_the_front_that_sets_the_units_is_feasible():
    values = np.array([[0.0, 1.0], [1.0, 0.0], [50.0, 90.0]])
    half = np.array([0.5, 0.5])
    with_it = chebyshev(values, half, np.array([True, True, False]))
    np.testing.assert_allclose(with_it[:2], chebyshev(values[:2], half, np.ones(2, dtype=bool)))


def test_infinite_and_extreme_values_are_data_and_nan_is_a_failure():
    study = study_of()
    values = iter([math.inf, -math.inf, 1e308, -1e308, math.nan, 5e-324] * 5)
    study.optimize(lambda trial: (bowl(trial), next(values))[1], n_trials=30)
    assert len(set(points(study))) == 30
    np.testing.assert_array_equal(clipped(np.array([math.inf, -math.inf])), [1.0, -1.0])
    np.testing.assert_array_equal(clipped(np.array([math.inf, 2.0, 1.0])), [2.0, 2.0, 1.0])


@pytest.mark.parametrize("low_high", [(0, 5e-324), (-1e308, 1e308), (1e10, 1e10 + 2e-6)])
def test_ranges_at_the_edge_of_doubles(low_high):
    study = study_of()
    study.optimize(lambda trial: trial.suggest_float("x", *low_high) * 1e-300, n_trials=12)
    assert all(low_high[0] <= trial.params["x"] <= low_high[1] for trial in study.trials)


def test_a_step_too_fine_for_the_model_is_rounded():
    fine = {"x": FloatDistribution(0, 1e6, step=1e-10)}
    study = study_of()
    for _ in range(5):
        study.tell(study.ask(fine), 1.0)
    assert len({trial.params["x"] for trial in study.trials}) == 5


def test_names_of_any_kind(tmp_path):
    names = ["größe", "a\nb", "Robert'); DROP TABLE trials;--", "x" * 200, '"']
    study = study_of(storage=f"sqlite:///{tmp_path}/ö.db")
    study.optimize(lambda trial: sum(trial.suggest_float(name, 0, 1) for name in names), n_trials=8)
    assert set(study.best_params) == set(names)
    study._storage._backend.engine.dispose()


def test_threads():
    study = study_of()
    study.optimize(bowl, n_trials=24, n_jobs=4)
    assert len(set(points(study))) == 24
    assert sorted(trial.number for trial in study.trials) == list(range(24))


def test_one_sampler_may_serve_several_studies():
    shared = sampler(2)
    first = optuna.create_study(sampler=shared)
    first.optimize(bowl, n_trials=10)
    second = optuna.create_study(sampler=shared)
    second.optimize(bowl, n_trials=10)
    assert points(first) == points(second)


def test_a_study_made_anew_is_read_anew():
    storage = optuna.storages.InMemoryStorage()
    study = study_of(storage=storage)
    study.optimize(bowl, n_trials=10)
    reader = _reader.Reader(study)
    assert reader.read(study)
    other = study_of()
    assert not reader.read(other)


def test_a_sampler_survives_pickling():
    study = study_of(4)
    study.optimize(bowl, n_trials=8)
    copy = optuna.create_study(sampler=pickle.loads(pickle.dumps(study.sampler)))
    copy.add_trials(study.trials)
    assert copy.ask(BOX).params == study.ask(BOX).params
    assert str(study.sampler) == "BOKESampler"


def test_wrong_arguments_name_themselves():
    with pytest.raises(ValueError, match="'rng' parameter"):
        BOKESampler(seed=-1)
    with pytest.raises(TypeError, match="'policy' parameter"):
        BOKESampler(policy="tpe")
    with pytest.raises(TypeError, match="'constraints_func' parameter"):
        BOKESampler(constraints_func=1)
