"""The runner: what a run records, what goes wrong, and what is left after kill -9."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from boke import design
from boke_bench import designs
from boke_bench.experiment import Run, canonical, key
from boke_bench.progress import Forecast, Progress, duration
from boke_bench.runner import ONE_THREAD, perform, run_experiment
from boke_bench.store import Store
from boke_bench.trial import execute, initial_design

BOWL, UNIFORM = "bench_fakes:Bowl", "bench_fakes:Uniform"


def spec(**changes):
    base = {
        "kind": "optimize",
        "problem": {"kind": BOWL, "dim": 2},
        "optimizer": UNIFORM,
        "options": {},
        "seed": 0,
        "budget": 12,
        "n_init": 4,
    }
    return {**base, **changes}


def test_a_run_records_values_and_times():
    record = execute(spec(problem={"kind": BOWL, "dim": 2, "sleep": 0.005}))
    assert record.error == ""
    assert record.y.shape == record.true.shape == record.optimizer_s.shape == (12,)
    assert (record.objective_s > 0.0049).all()
    assert record.optimizer_s.sum() < record.objective_s.sum()
    slow = execute(spec(optimizer="bench_fakes:Slow"))
    assert (slow.optimizer_s > 0.0019).all()
    assert slow.wall_s >= slow.optimizer_s.sum() * 0.99
    assert (record.name, record.optimum) == ("bowl", 0.0)


def test_the_same_spec_gives_the_same_run():
    one, other = execute(spec()), execute(spec())
    np.testing.assert_array_equal(one.y, other.y)
    assert one.id == other.id
    assert not np.array_equal(one.y, execute(spec(seed=1)).y)


def test_optimizers_share_the_initial_design_and_nothing_else():
    one, other = execute(spec()), execute(spec(optimizer="bench_fakes:Uniform", budget=20))
    np.testing.assert_array_equal(one.y[:4], other.y[:4])
    design = initial_design({"kind": "toy"}, 3, 8, 2)
    assert sorted((design[:, 0] * 8).astype(int)) == list(range(8))
    assert not np.array_equal(design, initial_design({"kind": "toy"}, 4, 8, 2))
    assert key("problem", {}, 0) != key("optimizer", {}, 0)


def test_noise_is_observed_and_truth_is_recorded():
    record = execute(spec(problem={"kind": BOWL, "spread": 0.1}))
    assert (record.y != record.true).all()
    assert (record.true <= 0).all()


def test_failed_evaluations_are_nan_and_the_run_goes_on():
    record = execute(spec(problem={"kind": BOWL, "dim": 2, "fails": "nan"}))
    assert record.error == ""
    assert 0 < np.isnan(record.y).sum() < 12
    np.testing.assert_array_equal(np.isnan(record.y), np.isnan(record.true))


@pytest.mark.parametrize(
    ("change", "message", "steps"),
    [
        ({"options": {"at": 6, "does": "raise"}}, "ValueError: I have lost", 6),
        ({"options": {"at": 5, "does": "outside"}}, "not a point of the unit cube", 5),
        ({"problem": {"kind": BOWL, "fails": "raise"}}, "The last one said: RuntimeError: no water", 4),
        ({"problem": {"kind": "bench_fakes:Nothing"}}, "AttributeError", 0),
        ({"optimizer": "nowhere:Nothing"}, "ModuleNotFoundError", 0),
        ({"options": {"speed": 3}}, "TypeError", 0),
    ],
)
def test_errors_are_recorded_with_the_steps_before_them(change, message, steps):
    record = execute(spec(**change))
    assert message in record.error.strip().splitlines()[-1]
    assert len(record.y) == steps


def test_a_dead_worker_costs_one_run_and_the_others_go_on(store, plan):
    override = {"optimizers": [UNIFORM], "options": {"at": 5, "does": "exit"}, "only": {"dim": [2]}}
    experiment = plan(seeds=2, overrides=[override])
    progress = run_experiment(experiment, store, {}, jobs=2)
    assert progress.failed == 2
    records = store.records(run.id for run in experiment.runs())
    assert len(records) == len(experiment.runs()) == 6
    assert {record.error for record in records.values() if record.failed} == {"The worker process died (exit code 7)."}


def test_a_run_that_hangs_is_stopped_at_the_limit(store, plan):
    override = {"optimizers": [UNIFORM], "options": {"at": 5, "does": "hang"}, "seeds": 1, "only": {"dim": [2]}}
    progress = run_experiment(plan(seeds=1, overrides=[override]), store, {}, jobs=2, limit_s=2.0)
    (bad,) = [record for record in store.records(store.statuses()).values() if record.failed]
    assert progress.failed == 1
    assert bad.error == "Stopped after 2 s, the time limit."


def test_failed_runs_are_retried_only_when_asked(store, plan, tmp_path):
    log = tmp_path / "starts"
    options = {"log": str(log), "at": 2, "does": "raise"}
    experiment = plan(optimizers=[UNIFORM], overrides=[{"optimizers": [UNIFORM], "options": options, "seeds": 1}])
    counts = []
    for flags in ({}, {}, {"retry": True}):  # nothing to do means no worker: the second is free
        run_experiment(experiment, store, {}, **flags)
        counts.append(len(log.read_text().splitlines()))
    assert counts == [2, 2, 4]
    assert store._db.execute("SELECT DISTINCT attempts FROM runs").fetchall() == [(2,)]


def test_redo_forgets_only_what_is_wanted(store, plan):
    experiment = plan(seeds=1)
    run_experiment(experiment, store, {"version": 1})
    run_experiment(experiment, store, {"version": 2}, redo=True, wanted=lambda run: run.optimizer == UNIFORM)
    versions = {
        (record.spec["optimizer"], record.environment["version"]) for record in store.records(store.statuses()).values()
    }
    assert versions == {(UNIFORM, 2), ("bench_fakes:Slow", 1)}


def test_workers_have_one_thread_and_the_environment_comes_back(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    runs = [Run(spec(problem={"kind": BOWL, "env": name}), 0) for name in ONE_THREAD]
    assert {record.name for _, record in perform(runs, 1)} == {"1"}
    assert "OMP_NUM_THREADS" not in os.environ


def test_designs_are_runs_too(store, plan):
    experiment = plan(
        kind="design",
        optimizers=["de", "de-sobol", "p-greedy", "p-greedy-naive", "lhs", "uniform"],
        seeds=1,
        budget=12,
        n_init=1,
        problems=[{"spec": {"dim": [1, 3], "bandwidth": 0.1}}],
    )
    assert run_experiment(experiment, store, {}).failed == 0
    for record in store.records(store.statuses()).values():
        assert record.y[-1] < record.y[0]
        assert len(record.y) == len(record.optimizer_s)


@pytest.mark.parametrize("d", [1, 3, 12])
def test_p_greedy_finds_the_points_of_the_library(d):
    points = designs.p_greedy(50, d, np.random.default_rng(3), 0.1)
    assert np.array_equal(points, design.p_greedy(50, d, rng=3, bandwidth=0.1))


@pytest.mark.parametrize("d", [1, 3, 12])
def test_sobol_exploration_goes_where_the_density_is_lowest(d):
    X = designs.sobol_exploration(30, d, np.random.default_rng(3), 0.1, n_acq=64)
    rng = np.random.default_rng(3)
    assert np.array_equal(X[0], rng.random(d))
    for t in range(1, 30):
        C = design.sobol(64, d, rng=rng)
        density = logsumexp(-cdist(X[:t], C, "sqeuclidean") / 0.02, axis=0)
        assert np.array_equal(X[t], C[np.argmin(density)])


# kill -9


def wait_for(condition, seconds: float = 30.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_after_kill_9_nothing_is_lost_and_nothing_is_run_twice(tmp_path, plan):
    log, path, file = tmp_path / "starts", tmp_path / "results.sqlite", tmp_path / "kill.toml"
    file.write_text(
        f"""
        title = "To be killed"
        optimizers = ["bench_fakes:Uniform", "bench_fakes:Slow"]
        seeds = 12
        budget = 12
        n_init = 4
        [[problems]]
        spec = {{ kind = "bench_fakes:Bowl", dim = 2, sleep = 0.01 }}
        [[overrides]]
        optimizers = ["bench_fakes:Uniform", "bench_fakes:Slow"]
        options = {{ log = "{log}" }}
        """
    )
    command = [sys.executable, "-m", "boke_bench.cli", "run", str(file), "--jobs", "2", "--store", str(path)]

    def rows() -> dict[str, tuple]:
        with Store(path) as store:
            return {row[0]: row for row in store._db.execute("SELECT id, status, attempts, started, true FROM runs")}

    runner = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for(path.is_file)
    wait_for(lambda: len(rows()) >= 6)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not any(alive(int(line.split()[2])) for line in log.read_text().splitlines()))
    before = rows()
    started = log.read_text().splitlines()
    assert 6 <= len(before) < 24

    assert subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60).returncode == 0
    after = rows()
    assert len(after) == 24
    assert {row[1:3] for row in after.values()} == {("done", 1)}
    assert {id: after[id] for id in before} == before

    names = {}
    from boke_bench.experiment import load

    (experiment,) = load(str(file))
    for run in experiment.runs():
        seed = key("optimizer", run.spec["problem"], run.seed) % 2**31
        names[f"{run.optimizer} {seed}"] = run.id
    starts = Counter(names[line.rpartition(" ")[0]] for line in log.read_text().splitlines())
    assert set(starts) == set(after)
    assert {starts[id] for id in before} == {1}
    unfinished = {names[line.rpartition(" ")[0]] for line in started} - set(before)
    assert len(unfinished) <= 2 + 1  # in two workers, and one in the pipe whose record had not been written
    assert {id for id, count in starts.items() if count == 2} == unfinished
    with Store(path) as store:
        for record in store.records(list(after)[:3]).values():
            np.testing.assert_array_equal(record.true, execute(record.spec).true)


@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_sigterm_stops_and_keeps(tmp_path):
    path, file = tmp_path / "results.sqlite", tmp_path / "long.toml"
    file.write_text(
        'title = "Long"\noptimizers = ["bench_fakes:Uniform"]\nseeds = 500\nbudget = 12\n'
        '[[problems]]\nspec = { kind = "bench_fakes:Bowl", dim = 2, sleep = 0.005 }\n'
    )
    command = [sys.executable, "-m", "boke_bench.cli", "run", str(file), "--store", str(path)]
    runner = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(path.is_file)
    with Store(path) as store:
        wait_for(lambda: len(store.statuses()) >= 2)
        runner.send_signal(signal.SIGTERM)
        _, errors = runner.communicate(timeout=20)
        assert runner.returncode == 130
        assert "finished runs are kept" in errors.splitlines()[-1]
        assert 2 <= len(store.statuses()) < 500


# progress


def test_time_left_comes_from_similar_runs(plan):
    runs = plan().runs()
    forecast, stream = Forecast(), io.StringIO()
    progress = Progress("bowls", runs, 5, 2, forecast, stream)
    assert progress.line() == "bowls: 5 of 17 runs, time left unknown"
    for run in runs[:4]:
        progress.finished(run, 40.0 if run.optimizer == UNIFORM else 80.0, failed=False)
    left = sum(40.0 if run.optimizer == UNIFORM else 80.0 for run in runs[4:]) / 2
    assert progress.line() == f"bowls: 9 of 17 runs, about {duration(left)} left"
    progress.finished(runs[4], 1.0, failed=True)
    assert "1 failed" in progress.line()
    progress.show(final=True)
    assert stream.getvalue().endswith("left\n")


@pytest.mark.parametrize(("seconds", "text"), [(7.4, "7 s"), (250, "4 min"), (7300, "2 h 2 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_canonical_text_does_not_depend_on_order():
    assert canonical({"b": 1, "a": [1, 2]}) == canonical({"a": [1, 2], "b": 1}) == '{"a":[1,2],"b":1}'
