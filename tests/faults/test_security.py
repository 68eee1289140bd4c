"""Rows 46, 48 and 50, and what SECURITY.md promises: nothing is executed from a file, values arrive as they are."""

import ast
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from processes import alive

import boke
from boke import Optimizer

SOURCE = Path(boke.__file__).parent
FORBIDDEN_CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "marshal.loads", "marshal.load"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "dill.load", "dill.loads", "joblib.load", "shelve.open"),
    *("cloudpickle.load", "cloudpickle.loads", "yaml.load", "yaml.unsafe_load", "subprocess.getoutput"),
}
FORBIDDEN_KEYWORDS = {"allow_pickle": True, "shell": True, "weights_only": False}


def name_of(node):
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def scan(text):
    """Calls in a source that execute data."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = name_of(node.func)
            if name in FORBIDDEN_CALLS:
                found.append(name)
            for keyword in node.keywords:
                wrong = FORBIDDEN_KEYWORDS.get(keyword.arg or "")
                if wrong is not None and not (isinstance(keyword.value, ast.Constant) and keyword.value.value != wrong):
                    found.append(f"{name}({keyword.arg}=)")
        if isinstance(node, ast.ImportFrom) and node.module in ("pickle", "marshal", "shelve", "dill", "cloudpickle"):
            found.append(f"from {node.module}")
    return found


def test_row_46_source_scan(observed):
    """source scan: no pickle.load / eval / yaml.load / allow_pickle=True / shell=True in the package and around it"""
    assert scan("import pickle\npickle.loads(b'')") and scan("run(x, shell=True)") and scan("eval('1')")
    assert scan("np.load(f, allow_pickle=flag)") and scan("from pickle import loads") and not scan("pickle.dumps(f)")
    folders = [SOURCE, *(Path(__file__).parents[2] / name for name in ("examples", "scripts", "bench/src"))]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    hits = {str(file): found for file in files if (found := scan(file.read_text(encoding="utf-8")))}
    assert not hits and len(files) > 40
    observed(f"{len(files)} modules, no hit (pickle.dumps tells early whether an objective can travel)")


@pytest.mark.slow
def test_row_48_scikit_learn(tmp_path, observed):
    """sklearn: one bad candidate; a worker that dies; sparse, DataFrame, read-only memmap"""
    pytest.importorskip("sklearn")
    import joblib
    from scipy.sparse import csr_matrix
    from sklearn.datasets import make_regression
    from sklearn.linear_model import Ridge

    from boke.integrations.sklearn import BOKESearchCV

    X, y = make_regression(60, 4, random_state=0)

    class Touchy(Ridge):
        def fit(self, X, y):
            if self.alpha > 0.7:
                raise ValueError("too strong")
            return super().fit(X, y)

    search = BOKESearchCV(Touchy(), {"alpha": (0.1, 1.0)}, n_iter=8, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    bad = np.array([p["alpha"] > 0.7 for p in search.cv_results_["params"]])
    assert bad.any() and not bad.all() and np.array_equal(np.isnan(scores), bad)
    seen = ["nan for the bad candidates only"]

    joblib.dump(X, tmp_path / "X.joblib")
    mapped = joblib.load(tmp_path / "X.joblib", mmap_mode="r")
    inputs = [csr_matrix(X), mapped]
    if importlib.util.find_spec("pandas") is not None:
        import pandas as pd

        inputs.append(pd.DataFrame(X, columns=list("abcd")))
        seen.append("DataFrame")
    for given in inputs:
        before = given.copy()
        plain = BOKESearchCV(Ridge(), {"alpha": (0.1, 1.0)}, n_iter=4, random_state=0).fit(given, y)
        assert np.isfinite(plain.best_score_) and (given != before).sum().sum() == 0
    seen.append("sparse and read-only memmap untouched")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DYING], capture_output=True, text=True, timeout=300, env=os.environ
    )
    assert "TerminatedWorkerError" in done.stdout or "BrokenProcessPool" in done.stdout, done.stdout + done.stderr
    seen.append(f"a worker that dies: {done.stdout.split()[-1]}")
    observed("; ".join(seen))


DYING = """
import os, signal
import numpy as np
from sklearn.linear_model import Ridge
from boke.integrations.sklearn import BOKESearchCV

class Dying(Ridge):
    def fit(self, X, y):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    X = np.random.default_rng(0).random((30, 2))
    try:
        BOKESearchCV(Dying(), {"alpha": (0.1, 1.0)}, n_iter=4, n_jobs=2, random_state=0).fit(X, X.sum(axis=1))
    except Exception as error:
        print("caught", type(error).__name__)
"""


def command(*words, **kwargs):
    kwargs = {"capture_output": True, "timeout": 120} | kwargs
    return subprocess.run([sys.executable, "-W", "ignore", "-m", "boke.cli", *words], **kwargs)


@pytest.mark.slow
def test_row_50_command_line(tmp_path, observed):
    """CLI: unknown option, bad JSON, empty stdin, closed stdout (SIGPIPE), no terminal, LANG=C"""
    pytest.importorskip("optuna")
    pytest.importorskip("click")
    space = '[space]\n"größe" = {low = 0.0, high = 1.0}\n'
    (tmp_path / "study.toml").write_text(f'trials = 4\n[objective]\ncommand = "echo 1"\n{space}', encoding="utf-8")
    plain = {k: v for k, v in os.environ.items() if not k.startswith("LC_")} | {"LANG": "C"}
    done = command("run", "study.toml", cwd=tmp_path, env=plain, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and b"4 trials complete" in done.stdout, done
    wrong = {
        "unknown option": (["run", "--no-such-option"], None),
        "unknown command": (["walk"], None),
        "bad JSON": (["tell", "-", "--in", "study.toml"], b"{bad json\n"),
        "a value that is none": (["tell", "-", "--in", "study.toml"], b'{"trial": 0, "value": "abc"}\n'),
        "a trial that is none": (["tell", "-", "--in", "study.toml"], b'{"trial": [], "value": 1}\n'),
        "empty stdin": (["tell", "-", "--in", "study.toml"], b""),
        "not UTF-8": (["tell", "-", "--in", "study.toml"], b"\xff\xfe\x00\n"),
        "no such file": (["best", "nowhere.toml"], None),
    }
    for name, (words, text) in wrong.items():
        done = command(*words, cwd=tmp_path, env=plain, input=text or b"")
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()
        assert done.returncode == 2 and last and "Traceback" not in "".join(last), (name, done)
    done = command("export", "study.toml", "-", "--format", "csv", cwd=tmp_path, env=plain)
    assert "größe" in done.stdout.decode("utf-8")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "boke.cli", "export", "study.toml", "-", "--format", "json"],
        cwd=tmp_path,
        env=plain,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert b"Traceback" not in errors
    observed(
        f"{len(wrong)} wrong calls: exit code 2, a message, no traceback; UTF-8 kept under LANG=C; closed pipe quiet"
    )


AWKWARD = [
    "two words",
    "'single' \"double\"",
    "new\nline",
    "--help",
    "-rf",
    "$(touch executed)",
    "; touch executed",
    "*",
]
AWKWARD += ["`touch executed`", "${HOME}", "| touch executed", "ü网", "\\", "{x}", ""]


def test_commands_get_their_values_as_they_are(tmp_path, monkeypatch):
    """A template is split into words before values are put in, and no shell ever sees it."""
    optuna = pytest.importorskip("optuna")
    pytest.importorskip("click")
    from boke.cli.config import Config, Objective
    from boke.cli.programs import Program

    (tmp_path / "show.py").write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))\nprint(1)\n")
    monkeypatch.chdir(tmp_path)
    space = {"c": optuna.distributions.CategoricalDistribution(AWKWARD)}
    template = f"{sys.executable} show.py {{c}} pre-{{c}}-post 'quoted {{c}}'"
    program = Program(Config("s", "", space, objective=Objective(command=template), folder=tmp_path))
    for number, value in enumerate(AWKWARD):
        folder = tmp_path / f"{number:05d}"
        outcome = program({"c": value}, number, folder, threading.Event())
        assert outcome.values == [1.0], outcome
        got = json.loads((folder / "stdout.txt").read_text(encoding="utf-8").splitlines()[0])
        assert got == [value, f"pre-{value}-post", f"quoted {value}"]
    assert not (tmp_path / "executed").exists()


PAYLOAD = "<script>document.documentElement.dataset.ran='1'</script>"
PAYLOADS = [PAYLOAD, "<img src=x onerror=\"document.documentElement.dataset.ran='2'\">", "\"'><svg onload=alert(1)>"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_hostile_study_runs_nothing_in_a_browser(tmp_path):
    """Names, choices and reasons with scripts in them are text on the page."""
    optuna = pytest.importorskip("optuna")
    pytest.importorskip("matplotlib")
    pytest.importorskip("click")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    from boke.cli.report import report
    from boke.integrations.optuna import BOKESampler

    study = optuna.create_study(study_name=PAYLOADS[0], sampler=BOKESampler(seed=0))

    def objective(trial):
        choice = trial.suggest_categorical(PAYLOADS[1], PAYLOADS)
        value = trial.suggest_float(PAYLOADS[2], 0, 1)
        trial.set_user_attr("reason", PAYLOADS[0])
        if trial.number % 4 == 3:
            raise RuntimeError(PAYLOADS[1])
        return value + len(choice)

    study.optimize(objective, n_trials=12, catch=RuntimeError)
    page = report(study)
    assert "<script" not in page and "<img src=x" not in page and "<svg onload" not in page
    if browser is None:
        pytest.skip("the text is escaped; Chromium to open it is not there")
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    control = tmp_path / "control.html"
    control.write_text(f"<html><body>{PAYLOAD}</body></html>")
    doms = []
    for file in (control, tmp_path / "report.html"):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=2000"]
        flags.append(f"--user-data-dir={tmp_path}/profile")
        done = subprocess.run(
            [browser, *flags, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120
        )
        doms.append(done.stdout)
    if "data-ran" not in doms[0]:
        pytest.skip(f"{browser} does not run here: {done.stderr[-200:]}")
    assert "data-ran" not in doms[1] and "</html>" in doms[1]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_get_the_permissions_of_the_umask(tmp_path, umask, mode):
    """Never more than the umask leaves, never executable; a replaced file keeps what it had."""
    old = os.umask(umask)
    try:
        with Optimizer.open(tmp_path / "log", [(0, 1)], rng=0) as optimizer:
            optimizer.tell(optimizer.ask(), 1.0)
            optimizer.save(tmp_path / "state")
            for name in ("log", "state"):
                assert (tmp_path / name).stat().st_mode & 0o777 == mode
            (tmp_path / "state").chmod(0o640)
            optimizer.save(tmp_path / "state")
            assert (tmp_path / "state").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(old)


def test_a_private_file_is_never_open_to_others(tmp_path, monkeypatch):
    """While the new content of a file with mode 0600 is written, nobody else may read that either."""
    path, modes, fsync = tmp_path / "state", [], os.fsync
    optimizer = Optimizer([(0, 1)], rng=0)
    optimizer.save(path)
    path.chmod(0o600)

    def seen(handle):
        modes.append(os.fstat(handle).st_mode & 0o777)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    optimizer.save(path)
    assert modes[0] == 0o600 and path.stat().st_mode & 0o777 == 0o600


def test_a_killed_run_takes_its_processes_along(tmp_path):
    """kill -9 of minimize with workers: they and what they have started end too."""
    script = tmp_path / "job.py"
    script.write_text(
        "import os, sys, time, subprocess, boke\n"
        "def slow(x):\n"
        "    open(os.path.join(sys.argv[1], str(os.getpid())), 'w').close()\n"
        "    subprocess.run(['sleep', '600'])\n"
        "    return 0.0\n"
        "if __name__ == '__main__':\n"
        "    boke.minimize(slow, [(0, 1)], n_trials=9, rng=0, workers=2)\n"
    )
    folder = tmp_path / "pids"
    folder.mkdir()
    process = subprocess.Popen([sys.executable, script, folder])
    deadline = time.monotonic() + 60
    while len(os.listdir(folder)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    pids = [int(name) for name in os.listdir(folder)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)
