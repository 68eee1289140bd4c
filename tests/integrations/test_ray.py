"""BOKESearch: the Searcher contract, state without pickle, and runs on a local cluster."""

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("ray.tune", reason="needs ray[tune]: make test-integrations")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

import ray  # noqa: E402
from optuna.trial import TrialState  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune.search import ConcurrencyLimiter, Searcher  # noqa: E402
from ray.tune.search.optuna import OptunaSearch  # noqa: E402

import boke  # noqa: E402
from boke.integrations.optuna import BOKESampler  # noqa: E402
from boke.integrations.ray import BOKESearch  # noqa: E402
from boke.policies import BOKEPlus  # noqa: E402

QUICK = BOKEPlus(n_acq=64)
SPACE = {"x": tune.uniform(0, 1), "net": {"width": tune.randint(1, 9), "act": tune.choice(["relu", "tanh"])}, "k": 3}


def search(space=SPACE, **kwargs):
    return BOKESearch(space, **({"metric": "loss", "mode": "min", "policy": QUICK, "seed": 0} | kwargs))


def loss(config):
    return (config["x"] - 0.3) ** 2 + abs(config["net"]["width"] - 4) / 8 + (config["net"]["act"] == "tanh")


def drive(algorithm, n):
    seen = []
    for i in range(n):
        config = algorithm.suggest(f"t{i}")
        seen.append(config)
        algorithm.on_trial_complete(f"t{i}", {"loss": loss(config)})
    return seen


def test_it_minimizes_and_maximizes():
    algorithm = search()
    assert isinstance(algorithm, Searcher)
    assert min(map(loss, drive(algorithm, 60))) < 0.05
    algorithm = search(mode="max")
    for i in range(40):
        algorithm.on_trial_complete(f"t{i}", {"loss": -loss(algorithm.suggest(f"t{i}"))})
    assert algorithm.optimizer.best.value > -0.2


def test_nested_spaces_of_every_domain():
    algorithm = search(
        {
            "a": {"b": {"c": tune.loguniform(1e-4, 1)}},
            "q": tune.quniform(0, 1, 0.25),
            "i": tune.lograndint(1, 100),
            "s": tune.qrandint(2, 10, 2),
            "d": tune.choice([{"kind": "x"}, {"kind": "y"}]),
            "own": boke.Float(5, 6),
            "constant": "k",
        }
    )
    for i in range(12):
        config = algorithm.suggest(str(i))
        assert 1e-4 <= config["a"]["b"]["c"] <= 1 and config["q"] % 0.25 == 0
        assert type(config["i"]) is int and 1 <= config["i"] < 100
        assert config["s"] in (2, 4, 6, 8, 10) and config["d"] in ({"kind": "x"}, {"kind": "y"})
        assert 5 <= config["own"] <= 6 and "constant" not in config
        algorithm.on_trial_complete(str(i), {"loss": config["q"]})


def test_the_same_seed_gives_the_same_suggestions():
    assert drive(search(seed=3), 15) == drive(search(seed=3), 15) != drive(search(seed=4), 15)


def test_running_trials_keep_others_away_and_ids_are_stable():
    algorithm = search({"x": tune.uniform(0, 1)})
    first = [algorithm.suggest(str(i))["x"] for i in range(8)]
    assert len(set(first)) == 8 and algorithm.n_running == 8
    assert algorithm.suggest("3")["x"] == first[3]


def test_points_to_evaluate_come_first():
    points = [{"x": 0.25, "net": {"width": 2, "act": "tanh"}}, {"x": 0.5, "net": {"width": 3, "act": "relu"}}]
    algorithm = search(points_to_evaluate=points)
    assert [algorithm.suggest("a"), algorithm.suggest("b")] == points
    algorithm = search(points_to_evaluate=points, evaluated_rewards=[0.5, 0.25])
    assert algorithm.optimizer.best.value == 0.25
    assert algorithm.suggest("a") not in points
    with pytest.raises(ValueError, match="'net/act'"):
        search(points_to_evaluate=[{"x": 0.5, "net": {"width": 3, "act": "gelu"}}])
    with pytest.raises(ValueError, match="lacks the parameter 'net/width'"):
        search(points_to_evaluate=[{"x": 0.5, "net": {"act": "relu"}}])
    with pytest.raises(ValueError, match="'evaluated_rewards' parameter"):
        search(points_to_evaluate=points, evaluated_rewards=[1.0])


def test_failures_and_odd_results():
    algorithm = search()
    results = [None, {}, {"loss": math.nan}, {"loss": "high"}, {"other": 1.0}, {"loss": math.inf}, {"loss": 1}]
    for i, result in enumerate(results):
        algorithm.suggest(str(i))
        algorithm.on_trial_complete(str(i), result, error=i == 0)
    states = [trial.state.name for trial in algorithm.optimizer.history]
    assert states == ["FAILED"] * 5 + ["COMPLETE"] * 2
    algorithm.on_trial_complete("unknown", {"loss": 1.0})
    assert len(algorithm.optimizer.history) == 7


def test_properties_come_from_the_tuner():
    algorithm = BOKESearch(seed=0)
    with pytest.raises(RuntimeError, match="no space, metric or mode"):
        algorithm.suggest("a")
    assert algorithm.set_search_properties("loss", "min", SPACE)
    assert algorithm.suggest("a")
    assert not search().set_search_properties("loss", "min", SPACE)  # two spaces
    assert search().set_search_properties("loss", "min", {})


def test_wrong_arguments():
    with pytest.raises(ValueError, match="grid_search"):
        search({"x": tune.grid_search([1, 2])})
    with pytest.raises(ValueError, match="'x' must be uniform"):
        search({"x": tune.randn(0, 1)})
    with pytest.raises(ValueError, match="'mode' parameter"):
        search(mode="least")
    with pytest.raises(ValueError, match="BOKESampler"):
        search(metric=["a", "b"], mode=["min", "max"])


def test_save_and_restore_go_on_as_if_nothing_had_happened(tmp_path):
    whole, first = search(), search()
    expected = drive(whole, 20)
    drive(first, 12)
    first.suggest("t12")  # running when it is saved
    first.save(str(tmp_path / "state"))
    second = search()
    second.restore(str(tmp_path / "state"))
    assert second.suggest("t12") == expected[12]
    for i in range(12, 20):
        config = second.suggest(f"t{i}")
        assert config == expected[i]
        second.on_trial_complete(f"t{i}", {"loss": loss(config)})
    third = BOKESearch(policy=QUICK)  # as Tuner.restore has it: without the space
    third.restore(str(tmp_path / "state"))
    assert third.suggest("t12") == expected[12] and third.metric == "loss" and third.mode == "min"
    copy = pickle.loads(pickle.dumps(first))
    assert copy.suggest("t12") == expected[12] and copy.n_running == 1


def test_hostile_states_are_refused_without_running_anything(tmp_path):
    marker = tmp_path / "marker"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    good = tmp_path / "good"
    search().save(str(good))
    newer = json.dumps(json.loads(good.read_text()) | {"version": 99})
    for content in (pickle.dumps(Evil()), b"", b"{}", b"[" * 100_000, newer.encode(), good.read_bytes()[:-40]):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match=r"not a state|not a valid|damaged|cut off|codec"):
            search().restore(str(tmp_path / "bad"))
    assert not marker.exists()
    with pytest.raises(ValueError, match="another space"):
        search({"z": tune.uniform(0, 1)}).restore(str(good))


def test_choices_that_are_not_plain_data_need_the_space_again(tmp_path):
    space = {"f": tune.choice([math.sin, math.cos])}
    search(space).save(str(tmp_path / "state"))
    search(space).restore(str(tmp_path / "state"))
    with pytest.raises(ValueError, match="choices of 'f'"):
        BOKESearch(policy=QUICK).restore(str(tmp_path / "state"))


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def train(config):
    tune.report({"loss": loss(config), "k": config["k"]})


def test_a_run_on_a_local_cluster(cluster, tmp_path):
    tuner = tune.Tuner(
        train,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=12,
            reuse_actors=True,  # a process for each trial would take a minute to start them
            search_alg=ConcurrencyLimiter(BOKESearch(policy=QUICK, seed=0), max_concurrent=2),
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="run", verbose=0),
    )
    results = tuner.fit()
    assert len(results) == 12 and not results.errors
    assert all(result.metrics["k"] == 3 for result in results)
    assert len({json.dumps(result.config, sort_keys=True) for result in results}) == 12
    assert results.get_best_result().metrics["loss"] < 0.5


def both(config):
    tune.report({"loss": config["x"] ** 2 + config["net"]["width"], "latency": (config["x"] - 1) ** 2})


def test_several_objectives_through_optuna_search(cluster, tmp_path):
    search_alg = OptunaSearch(
        sampler=BOKESampler(policy=QUICK, seed=0), metric=["loss", "latency"], mode=["min", "min"]
    )
    tuner = tune.Tuner(
        both,
        param_space={"x": tune.uniform(0, 1), "net": {"width": tune.randint(0, 4)}},
        tune_config=tune.TuneConfig(num_samples=16, max_concurrent_trials=2, reuse_actors=True, search_alg=search_alg),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="run", verbose=0),
    )
    results = tuner.fit()
    assert len(results) == 16 and not results.errors
    study = search_alg._ot_study
    assert len(study.directions) == 2 and len(study.trials) == 16
    assert all(trial.state is TrialState.COMPLETE for trial in study.trials)
    front = {(result.metrics["loss"], result.metrics["latency"]) for result in results}
    best = {(a, b) for a, b in front if not any(c <= a and d <= b and (c, d) != (a, b) for c, d in front)}
    assert {tuple(trial.values) for trial in study.best_trials} == best and len(best) >= 3


SCRIPT = """
import os, sys, time
from pathlib import Path
import ray
from ray import tune
from boke.integrations.ray import BOKESearch
from boke.policies import BOKEPlus

folder = Path(sys.argv[1])

def train(config):
    with open(folder / "ledger", "a") as ledger:
        ledger.write(f"{config['x']!r}\\n")
    time.sleep(0.5)
    tune.report({"loss": (config["x"] - 0.3) ** 2})

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
if tune.Tuner.can_restore(str(folder / "run")):
    tuner = tune.Tuner.restore(str(folder / "run"), trainable=train, resume_unfinished=True)
else:
    tuner = tune.Tuner(
        train,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=10, max_concurrent_trials=2,
                                    reuse_actors=True, search_alg=BOKESearch(policy=BOKEPlus(n_acq=64), seed=0)),
        run_config=tune.RunConfig(storage_path=str(folder), name="run", verbose=0),
    )
results = tuner.fit()
print("RESULT", len(results), len({r.config["x"] for r in results}), len(results.errors))
"""


def test_a_killed_driver_is_restored(tmp_path):
    (tmp_path / "run.py").write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-W", "ignore", str(tmp_path / "run.py"), str(tmp_path)]
    environment = os.environ | {"TUNE_GLOBAL_CHECKPOINT_S": "0.5", "RAY_TMPDIR": "/tmp"}
    first = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    ledger = tmp_path / "ledger"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (ledger.exists() and len(ledger.read_text().splitlines()) >= 5):
        time.sleep(0.2)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    time.sleep(3)
    begun = len(ledger.read_text().splitlines())
    states = sorted((tmp_path / "run").glob("experiment_state-*.json"))
    saved = states[-1].read_text().count("TERMINATED") if states else 0
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert "RESULT 10 10 0" in second.stdout, second.stderr[-3000:]
    runs = Path(ledger).read_text().splitlines()
    assert len(set(runs)) <= 12
    assert len(runs) - len(set(runs)) <= begun - saved  # only those that Tune had not saved as finished began anew
