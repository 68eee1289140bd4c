"""What runs in the processes that the tests kill: python jobs.py JOB ARGUMENTS."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.ledger import lines, note

BOX = [(-1.0, 1.0)] * 2


def value_of(params):
    return sum((v - 0.3) ** 2 for v in params.values())


def log(path, ledger, n="1000000", pause="0.0"):
    """Ask and tell on a log until it has n trials, a ledger line after each tell."""
    from boke import Optimizer, State

    with Optimizer.open(path, BOX, rng=5) as optimizer:
        print("open", flush=True)
        for trial in list(optimizer.history):
            if trial.state is State.PENDING:
                told(optimizer, trial, ledger)
        while len(optimizer.history) < int(n):
            time.sleep(float(pause))
            told(optimizer, optimizer.ask(), ledger)


def told(optimizer, trial, ledger):
    value = value_of(trial.params)
    optimizer.tell(trial, value)
    note(ledger, trial.number, trial.params, value)


def slow_bowl(x):
    time.sleep(0.03)
    return float(((x - 0.3) ** 2).sum())


def minimize(path, n, workers="1"):
    """minimize with a log; prints every evaluation that the log has."""
    import boke

    def tick(result):
        note(path + ".ledger", result.trial.number, result.trial.params, result.trial.value)
        print("tick", flush=True)

    result = boke.minimize(slow_bowl, BOX, n_trials=int(n), rng=5, log=path, callback=tick, workers=int(workers))
    print("status", result.status, result.message, flush=True)
    if result.status == 2:
        raise KeyboardInterrupt


def study(url, ledger, n="1000000", seconds="0"):
    """Ask and tell on a study until the ledger has n lines; errors of the storage are waited out and printed."""
    import optuna

    from boke.integrations.optuna import BOKESampler
    from boke.policies import BOKEPlus

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: optuna.distributions.FloatDistribution(-1, 1) for name in ("x", "y")}
    deadline = time.monotonic() + 180

    def patiently(call):
        while True:
            try:
                return call()
            except Exception as error:
                if type(error).__module__.split(".")[0] not in ("optuna", "sqlalchemy", "psycopg2", "grpc"):
                    raise
                print("storage error", type(error).__name__, flush=True)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    found = patiently(lambda: optuna.load_study(study_name="s", storage=storage_of(url)))
    found.sampler = BOKESampler(policy=BOKEPlus(n_acq=64), seed=3)
    print("open", flush=True)
    while len(lines(ledger)) < int(n):
        trial = patiently(lambda: found.ask(space))
        time.sleep(float(seconds))
        value = value_of(trial.params)
        tell(found, trial, value, patiently)
        note(ledger, trial.number, trial.params, value)


def tell(found, trial, value, patiently):
    """A tell whose answer got lost may have been heard: then it is told already, with this value."""

    def once():
        try:
            found.tell(trial, value)
        except ValueError:
            assert found.trials[trial.number].value == value

    patiently(once)


def storage_of(url):
    import optuna

    if url.startswith("grpc:"):
        return optuna.storages.GrpcStorageProxy(host="localhost", port=int(url.removeprefix("grpc:")))
    if "://" not in url:
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(url))
    settings = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    return optuna.storages.RDBStorage(url, engine_kwargs=settings)


def beating(url, seconds, n="1"):
    """study.optimize with a heartbeat."""
    import optuna

    from boke.integrations.optuna import BOKESampler

    storage = optuna.storages.RDBStorage(
        url,
        heartbeat_interval=1,
        grace_period=2,
        failed_trial_callback=optuna.storages.RetryFailedTrialCallback(max_retry=2),
    )
    found = optuna.load_study(study_name="s", storage=storage, sampler=BOKESampler(seed=0))

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        print("begun", trial.number, flush=True)
        time.sleep(float(seconds))
        return x

    found.optimize(objective, n_trials=int(n))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
