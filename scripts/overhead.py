"""What a sampler adds to a trial, beside the objective: python scripts/overhead.py

Writes results/overhead.json and the table of docs/overhead.md. Per trial, medians in milliseconds: a bare objective,
and studies with Optuna's random sampler, TPE and BOKESampler at 100, 1000 and 10000 trials, in memory and in SQLite.
"reading" is BOKESampler with a policy that returns the middle of the space: what the sampler costs without the
suggestion itself. The difference between it and the random sampler is the overhead of reading the study and of
translating points.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
import pages
from optuna.distributions import FloatDistribution

import boke
from boke.integrations.optuna import BOKESampler
from boke.policies import Suggestion

HERE = Path(__file__).parents[1]
DIMENSIONS = 10
SPACE = {f"x{j}": FloatDistribution(0.0, 1.0) for j in range(DIMENSIONS)}


class Middle:
    """A policy that costs nothing."""

    def suggest(self, data, space, key):
        return Suggestion(np.full(space.dim, 0.5), "middle")


# In memory nothing waits, and processor time does not count what else the machine does. A database waits for the disk.
CLOCKS = {"memory": time.thread_time, "sqlite": time.perf_counter}

SAMPLERS = {
    "random": lambda: optuna.samplers.RandomSampler(seed=0),
    "reading": lambda: BOKESampler(policy=Middle(), seed=0),
    "boke": lambda: BOKESampler(seed=0),
    "tpe": lambda: optuna.samplers.TPESampler(seed=0),
}


def objective(params):
    return sum((value - 0.3) ** 2 for value in params.values())


def past(n):
    rng = np.random.default_rng(0)
    for row in rng.random((n, DIMENSIONS)).tolist():
        params = dict(zip(SPACE, row, strict=True))
        yield optuna.create_trial(params=params, distributions=SPACE, value=objective(params))


def fill(n, folder):
    """A SQLite file with n trials, made in memory where there is room: to disk it would take minutes."""
    quick = Path("/dev/shm") if Path("/dev/shm").is_dir() else folder
    with tempfile.TemporaryDirectory(dir=quick) as fast:
        optuna.create_study(storage=f"sqlite:///{fast}/full.db", study_name="s").add_trials(past(n))
        shutil.copy(f"{fast}/full.db", folder / "full.db")


def study_in(where, folder, name, n):
    sampler = SAMPLERS[name]()
    if where == "memory":
        study = optuna.create_study(sampler=sampler)
        study.add_trials(past(n))
        return study
    shutil.copy(folder / "full.db", folder / f"{name}.db")
    return optuna.load_study(storage=f"sqlite:///{folder}/{name}.db", study_name="s", sampler=sampler)


def trial_ms(study, clock):
    """Ask for all parameters, evaluate, tell."""
    start = clock()
    trial = study.ask(SPACE)
    study.tell(trial, objective(trial.params))
    return 1e3 * (clock() - start)


def medians(studies, repeats, clock):
    """The samplers take turns, so that what else the machine does meets all of them alike."""
    times = {name: [] for name in studies}
    for _ in range(repeats):
        for name, study in studies.items():
            trial_ms(study, clock)  # reads the whole study the first time, and brings it back into the caches later
            times[name] += [trial_ms(study, clock) for _ in range(4)]
    return {name: round(statistics.median(each), 3) for name, each in times.items()}


def bare_ms():
    params = dict.fromkeys(SPACE, 0.5)
    start = time.perf_counter()
    for _ in range(10_000):
        objective(params)
    return round(1e3 * (time.perf_counter() - start) / 10_000, 4)


def measure(sizes, repeats):
    rows = []
    for where in ("memory", "sqlite"):
        for n in sizes:
            row = {"storage": where, "trials": n}
            with tempfile.TemporaryDirectory(dir=HERE / "results") as name:
                folder = Path(name)
                if where == "sqlite":
                    fill(n, folder)
                row |= medians({name: study_in(where, folder, name, n) for name in SAMPLERS}, repeats, CLOCKS[where])
            row["overhead"] = round(row["reading"] - row["random"], 3)
            rows.append(row)
            print(row, flush=True)
    return rows


def table(result):
    lines = [
        "| storage | trials | bare | random | BOKESampler | of which reading | TPE |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        cells = [
            row["storage"],
            f"{row['trials']:,}",
            f"{result['bare_objective']:.3f}",
            *(f"{row[k]:.2f}" for k in ("random", "boke", "overhead", "tpe")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    result = {
        "command": "python scripts/overhead.py",
        "unit": "ms per trial, median",
        "dimensions": DIMENSIONS,
        "versions": {"boke": boke.__version__, "optuna": optuna.__version__, "python": platform.python_version()},
        "load": round(os.getloadavg()[0], 2),
        "bare_objective": bare_ms(),
        "rows": measure(given.sizes, given.repeats),
    }
    (HERE / "results" / "overhead.json").write_text(json.dumps(result, indent=1) + "\n")
    pages.put(table(result), "overhead.md")
