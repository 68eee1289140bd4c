"""Studies in PostgreSQL: four workers, one of them killed; the command line; the dashboard on top."""

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")
pytest.importorskip("psycopg2", reason="needs psycopg2-binary: make test-integrations")

from optuna.trial import TrialState  # noqa: E402

from boke.integrations.optuna import BOKESampler  # noqa: E402
from boke.policies import BOKEPlus  # noqa: E402

spec = importlib.util.spec_from_file_location("boke_test_postgres", Path(__file__).with_name("postgres.py"))
postgres = importlib.util.module_from_spec(spec)
spec.loader.exec_module(postgres)

pytestmark = [
    pytest.mark.skipif(postgres.binaries() is None, reason="needs PostgreSQL's initdb and postgres"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "postgres_workers.py"


@pytest.fixture(scope="module")
def url():
    with postgres.server() as found:
        yield found


def load(url, name):
    return optuna.load_study(study_name=name, storage=url)


def test_four_workers_one_of_them_killed(url, tmp_path):
    ledger = tmp_path / "ledger"
    run = subprocess.run(
        [sys.executable, EXAMPLE, url, "--trials", "60", "--kill", "--ledger", ledger],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"killed worker \d+ after \d+ trials", run.stdout)
    trials = load(url, "four-workers").trials
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    assert 60 <= len(complete) <= 63  # each of the other three may have had one under way at the end
    assert [trial.number for trial in trials] == list(range(len(trials)))
    evaluated = [int(line) for line in ledger.read_text().split()]
    assert len(set(evaluated)) == len(evaluated)  # none twice,
    assert {trial.number for trial in complete} <= set(evaluated) and len(evaluated) - len(complete) <= 1  # none lost
    unfinished = [trial for trial in trials if not trial.state.is_finished()]
    assert len(unfinished) <= 1 and all(trial.state is not TrialState.FAIL for trial in trials)
    points = [tuple(sorted(trial.params.items())) for trial in complete]
    assert len(set(points)) == len(points)
    by = {trial.user_attrs["worker"] for trial in complete}
    assert len(by) == 4
    killed = int(re.search(r"killed worker (\d+)", run.stdout)[1])
    last = {worker: max(t.number for t in complete if t.user_attrs["worker"] == worker) for worker in by}
    assert killed in by and all(last[worker] > last[killed] for worker in by - {killed})


def test_the_same_study_as_in_memory(url):
    studies = [
        optuna.create_study(storage=storage, study_name="same", sampler=BOKESampler(policy=BOKEPlus(n_acq=64), seed=2))
        for storage in (None, url)
    ]
    for study in studies:
        study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_int("größe", 0, 9), n_trials=15)
    assert [t.params for t in studies[0].trials] == [t.params for t in studies[1].trials]


def test_the_command_line(url, tmp_path):
    (tmp_path / "space.toml").write_text("x = {low = 0.0, high = 1.0}\n")
    command = [sys.executable, "-m", "boke.cli", "run", "--space", "space.toml", "--cmd", "echo {x}", "--trials", "12"]
    both = [
        subprocess.Popen(
            [*command, "--storage", url.replace("+psycopg2", ""), "--json"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert all(process.returncode == 0 for process in both)
    assert sum(answer["new"] for answer in answers) == len(load(url, "space").trials) in (12, 13)


def test_the_dashboard_shows_it(url, tmp_path):
    pytest.importorskip("optuna_dashboard", reason="needs optuna-dashboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    optuna.create_study(storage=url, study_name="shown", load_if_exists=True)
    command = [sys.executable, "-m", "boke.cli", "dashboard", url, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        deadline = time.monotonic() + 60
        answer = None
        while answer is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies", timeout=5).read()
            time.sleep(0.3)
        assert "shown" in [study["study_name"] for study in json.loads(answer)["study_summaries"]]
    finally:
        process.terminate()
        process.wait(timeout=30)
