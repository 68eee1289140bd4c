"""Four processes, one study in PostgreSQL: python examples/postgres_workers.py postgresql://user@host/database

Each worker would be a machine of its own in real life; they share nothing but the database. With --kill one of them is
killed (-9) halfway: the others go on, and what it had finished stays. Look at it while it runs with

    optuna-dashboard postgresql://user@host/database

With --ledger each evaluation writes its trial's number to a file as it begins: what was evaluated, whatever the
database says. Needs bokeopt[optuna] and psycopg2-binary.
"""

import argparse
import multiprocessing
import os
import signal
import time
from collections import Counter

import optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

from boke.integrations.optuna import BOKESampler

NAME = "four-workers"


def objective(trial):
    """A valley with a bend, and a switch; a tenth of a second to evaluate."""
    x, y = trial.suggest_float("x", -2, 2), trial.suggest_float("y", -1, 3)
    kind = trial.suggest_categorical("kind", ["plain", "tilted"])
    trial.set_user_attr("worker", os.getpid())
    if ledger := os.environ.get("LEDGER"):
        with open(ledger, "a") as file:
            file.write(f"{trial.number}\n")
    time.sleep(0.1)
    return 100 * (y - x**2) ** 2 + (1 - x) ** 2 + (5 * x if kind == "tilted" else 0)


def work(url, trials):
    """What runs on every machine. All have the same seed: randomness is keyed by the trial's number."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(study_name=NAME, storage=url, sampler=BOKESampler(seed=0))
    study.optimize(objective, callbacks=[MaxTrialsCallback(trials, states=(TrialState.COMPLETE,))])


def finished(study):
    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--trials", type=int, default=120)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill", action="store_true", help="kill -9 one worker when a third of the trials are done")
    parser.add_argument("--ledger", help="file for the numbers of the trials that were evaluated")
    given = parser.parse_args()
    if given.ledger:
        os.environ["LEDGER"] = given.ledger  # the workers inherit it
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name=NAME, storage=given.url, load_if_exists=True)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(given.url, given.trials)) for _ in range(given.workers)]
    for worker in workers:
        worker.start()
    if given.kill:
        while finished(study) < given.trials // 3:
            time.sleep(0.2)
        os.kill(workers[0].pid, signal.SIGKILL)
        print(f"killed worker {workers[0].pid} after {finished(study)} trials", flush=True)
    for worker in workers:
        worker.join()
    share = Counter(t.user_attrs["worker"] for t in study.trials if t.state is TrialState.COMPLETE)
    points = {tuple(trial.params.values()) for trial in study.trials if len(trial.params) == 3}
    states = Counter(trial.state.name.lower() for trial in study.trials)
    print(f"{dict(states)}, {len(points)} different points, by worker {dict(share)}")
    print(f"best {study.best_value:.4f} with {study.best_params}")
