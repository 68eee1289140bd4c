"""Rows 1 to 7, 11, 37, 41 and 49: studies in storages, with workers, servers and networks that fail."""

import contextlib
import importlib.util
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from faults.jobs import storage_of  # noqa: E402
from faults.ledger import finish, kill, lines, start, study_not_lost, wait_for  # noqa: E402
from integrations import postgres  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

from boke.integrations.optuna import BOKESampler  # noqa: E402
from boke.policies import BOKEPlus  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]
QUICK = BOKEPlus(n_acq=64)
BOX = {name: optuna.distributions.FloatDistribution(-1, 1) for name in ("x", "y")}


@pytest.fixture
def database():
    pytest.importorskip("psycopg2", reason="needs psycopg2")
    if postgres.binaries() is None:
        pytest.skip("needs PostgreSQL's initdb and postgres")
    with contextlib.closing(postgres.Server(safe=True)) as found:
        yield found


def killed_workers(url, ledger, kills, workers=2, n=6):
    """Workers share a study; now and then one is killed and another takes its place. Ends with all of them killed."""
    storage = storage_of(url)
    optuna.create_study(study_name="s", storage=storage)
    running = [start("study", url, ledger) for _ in range(workers)]
    for _ in range(kills):
        known = len(lines(ledger))
        wait_for(lambda known=known: len(lines(ledger)) >= known + n, 180)
        kill(running.pop(0))
        running.append(start("study", url, ledger))
    known = len(lines(ledger))
    wait_for(lambda: len(lines(ledger)) >= known + n, 180)
    for process in running:
        kill(process)
    study = optuna.load_study(study_name="s", storage=storage_of(url), sampler=BOKESampler(policy=QUICK, seed=9))
    left = sum(t.state is TrialState.RUNNING for t in study.trials)
    assert left <= kills + workers and not any(t.state is TrialState.FAIL for t in study.trials)
    study_not_lost(ledger, study)
    finish(start("study", url, ledger, len(lines(ledger)) + 3))  # a fresh process reads it and goes on
    return study_not_lost(ledger, study), left


@pytest.mark.slow
def test_row_01_killed_workers_sqlite(tmp_path, observed):
    """kill -9 of workers, SQLite"""
    known, left = killed_workers(f"sqlite:///{tmp_path}/s.db", tmp_path / "ledger", 2)
    observed(f"{known} results, all there; {left} trials left running by 4 kills; asks go on")


@pytest.mark.slow
def test_row_02_killed_workers_journal(tmp_path, observed):
    """kill -9 of workers, journal file"""
    known, left = killed_workers(str(tmp_path / "journal"), tmp_path / "ledger", 2)
    observed(f"{known} results, all there; {left} left running by 4 kills")


@pytest.mark.slow
def test_row_03_killed_workers_postgresql(database, tmp_path, observed):
    """kill -9 of workers, PostgreSQL"""
    known, left = killed_workers(database.url, tmp_path / "ledger", 3)
    observed(f"{known} results, all there; {left} left running by 5 kills")


@pytest.mark.slow
def test_row_04_immediate_shutdowns(database, tmp_path, observed):
    """PostgreSQL immediate shutdown x3 during the run"""
    ledger = tmp_path / "ledger"
    optuna.create_study(study_name="s", storage=database.url)
    workers = [start("study", database.url, ledger, 40, "0.05") for _ in range(2)]
    for n in (5, 12, 20):
        wait_for(lambda n=n: len(lines(ledger)) >= n, 180)
        database.stop(signal.SIGQUIT)
        time.sleep(0.5)
        database.start()
    said = {line for process in workers for line in finish(process).splitlines() if "error" in line}
    study = optuna.load_study(study_name="s", storage=database.url)
    known = study_not_lost(ledger, study)
    assert known >= 40 and said
    observed(f"{known} results, all there; workers saw {', '.join(sorted(s.split()[-1] for s in said))}, nothing else")


@contextlib.contextmanager
def proxy(url, port=None):
    """A gRPC proxy in a process of its own."""
    if port is None:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
    serve = "import optuna, sys; optuna.storages.run_grpc_proxy_server(optuna.storages.get_storage(sys.argv[1]), "
    serve += "host='localhost', port=int(sys.argv[2]))"
    server = subprocess.Popen([sys.executable, "-W", "ignore", "-c", serve, url, str(port)], stderr=subprocess.DEVNULL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = optuna.storages.GrpcStorageProxy(host="localhost", port=port)
        client.wait_server_ready(timeout=60)
        client.close()
        yield server, port
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_row_05_killed_proxy(tmp_path, observed):
    """kill -9 of the gRPC proxy x3"""
    pytest.importorskip("grpc", reason="needs grpcio")
    url, ledger = f"sqlite:///{tmp_path}/s.db", tmp_path / "ledger"
    optuna.create_study(study_name="s", storage=url)
    port, worker = None, None
    for i in range(4):
        with proxy(url, port) as (server, port):
            worker = worker or start("study", f"grpc:{port}", ledger, 24, "0.05")
            wait_for(lambda i=i: len(lines(ledger)) >= min(24, 6 * (i + 1)), 180)
            if i == 3:
                finish(worker)
            server.kill()
    study = optuna.load_study(study_name="s", storage=url)
    known = study_not_lost(ledger, study)
    assert known >= 24
    observed(f"{known} results, all there; the sampler went on after every reconnection")


@pytest.mark.slow
def test_row_06_heartbeat(tmp_path, observed):
    """heartbeat + retry"""
    url = f"sqlite:///{tmp_path}/s.db"
    optuna.create_study(study_name="s", storage=url)
    for _ in range(3):  # the first life and its two retries
        process = start("beating", url, 600)
        assert "begun" in next(line for line in process.stdout if "begun" in line)
        time.sleep(2.5)  # at least one heartbeat
        kill(process)
        time.sleep(3.0)
    finish(start("beating", url, 0, 4))
    trials = optuna.load_study(study_name="s", storage=url).trials
    states = [t.state.name for t in trials]
    history = optuna.storages.RetryFailedTrialCallback.retry_history
    retried = [len(history(t)) for t in trials]
    assert states.count("FAIL") == 3 and "RUNNING" not in states and max(retried) <= 2
    first = trials[0].params
    assert all(t.params == first for t in trials if history(t)) and trials[3].params != first
    assert len({tuple(t.params.items()) for t in trials[3:]}) == 4
    observed(
        f"{states.count('FAIL')} stale trials failed once each, retried at most twice; the search went on elsewhere"
    )


def test_row_07_ghosts(observed):
    """500 ghost RUNNING trials in the study, then ask; the same in an Optimizer"""
    rng = np.random.default_rng(0)
    known = [
        optuna.create_trial(params=dict(zip(BOX, p, strict=True)), distributions=BOX, value=float(np.square(p).sum()))
        for p in rng.uniform(-1, 1, (30, 2)).tolist()
    ]
    asked, seconds = {}, {}
    for ghosts in (0, 500):
        study = optuna.create_study(sampler=BOKESampler(seed=1))
        study.add_trials(known)
        for p in rng.uniform(-1, 1, (ghosts, 2)).tolist():
            study.add_trial(
                optuna.create_trial(params=dict(zip(BOX, p, strict=True)), distributions=BOX, state=TrialState.RUNNING)
            )
        begun = time.process_time()
        for _ in range(30):
            trial = study.ask(BOX)
            study.tell(trial, float(np.square(list(trial.params.values())).sum()))
        seconds[ghosts] = time.process_time() - begun
        points = np.array([list(t.params.values()) for t in study.trials[-30:]])
        asked[ghosts] = points
        assert len(np.unique(points, axis=0)) == 30
    best = {g: float(np.square(points).sum(axis=1).min()) for g, points in asked.items()}
    assert best[500] < 0.05  # it still finds the minimum
    from boke import Optimizer
    from boke.history import PATIENCE

    haunted = Optimizer([(0, 1)] * 2, rng=0)
    haunted.ask(500)
    for _ in range(PATIENCE + 1):
        trial = haunted.ask()
        haunted.tell(trial, float(trial.x.sum()))
    assert len(haunted.history.data(1.0).silent) == 0
    observed(
        f"30 asks: {seconds[0]:.2f} s without, {seconds[500]:.2f} s with ghosts; best {best[0]:.1e} and {best[500]:.1e}; "
        f"in an Optimizer they are gone after {PATIENCE + 1} results"
    )


@pytest.mark.slow
def test_row_11_killed_ray_driver(tmp_path, observed):
    """kill -9 of the Ray driver, Tuner.restore"""
    pytest.importorskip("ray", reason="needs Ray")
    from integrations import test_ray

    test_ray.test_a_killed_driver_is_restored(tmp_path)
    runs = (tmp_path / "ledger").read_text().splitlines()
    observed(f"10 of 10 samples, all different; {len(runs) - len(set(runs))} unfinished evaluations began anew")


@pytest.mark.slow
def test_row_37_eight_processes(database, tmp_path, observed):
    """8 processes x 50 trials on PostgreSQL"""
    optuna.create_study(study_name="s", storage=database.url)
    ledgers = [tmp_path / f"ledger{i}" for i in range(8)]
    workers = [start("study", database.url, ledger, 50) for ledger in ledgers]
    for process in workers:
        finish(process, 500)
    (tmp_path / "ledger").write_text("".join(ledger.read_text() for ledger in ledgers))
    study = optuna.load_study(study_name="s", storage=database.url)
    assert study_not_lost(tmp_path / "ledger", study) == 400
    assert [t.number for t in study.trials] == list(range(400))
    assert all(t.state is TrialState.COMPLETE for t in study.trials)
    double = 400 - len({tuple(sorted(t.params.items())) for t in study.trials})
    assert double < 4
    observed(f"400 COMPLETE, numbers 0..399, {double} duplicates of x")


def test_row_41_storages(tmp_path, observed):
    """same seed in memory / sqlite / journal / gRPC"""

    def sequence(storage):
        study = optuna.create_study(storage=storage, sampler=BOKESampler(policy=QUICK, seed=5))

        def objective(trial):
            kind = trial.suggest_categorical("z", ["a", "b"])
            x = trial.suggest_float("x", 0, 1)
            return x + (trial.suggest_float("u", 0, 1) if kind == "a" else trial.suggest_int("b", 1, 9))

        study.optimize(objective, n_trials=20)
        return [t.params for t in study.trials]

    whole, places = sequence(None), ["memory", "sqlite", "journal"]
    assert sequence(f"sqlite:///{tmp_path}/s.db") == whole
    assert sequence(storage_of(str(tmp_path / "journal"))) == whole
    if importlib.util.find_spec("grpc") is not None:
        with proxy(f"sqlite:///{tmp_path}/g.db") as (_, port):
            client = storage_of(f"grpc:{port}")
            assert sequence(client) == whole
            client.close()
        places.append("grpc")
    observed(f"identical in {', '.join(places)}")


class Relay:
    """A wire between a worker and a server, which can be cut: open connections end, new ones hang or are refused."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cut, self.pairs = threading.Event(), []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.cut.is_set():
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            self.pairs.append((near, far))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def sever(self):
        self.cut.set()
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()

    def close(self):
        self.sever()
        self.listener.close()


@pytest.mark.slow
def test_row_49_cut_network(database, tmp_path, observed):
    """network cut between worker and database for 5 s"""
    with contextlib.closing(Relay(database.port)) as relay:
        url = database.url.replace(str(database.port), str(relay.port))
        ledger = tmp_path / "ledger"
        optuna.create_study(study_name="s", storage=database.url)
        worker = start("study", url, ledger, 30, "0.05")
        wait_for(lambda: len(lines(ledger)) >= 8, 180)
        relay.sever()
        time.sleep(5.0)
        during = len(lines(ledger))
        relay.cut.clear()
        out = finish(worker)
    study = optuna.load_study(study_name="s", storage=database.url)
    known = study_not_lost(ledger, study)
    errors = out.count("storage error")
    assert known >= 30 and errors and during < 30
    observed(f"{known} results, all there; {errors} errors of the storage surfaced, then the retry succeeded")
