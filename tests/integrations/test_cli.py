"""The boke command: every command, wrong input, and what happens to a run that is stopped or killed."""

import csv
import gc
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from processes import alive

optuna = pytest.importorskip("optuna")
testing = pytest.importorskip("click.testing")

from optuna.trial import TrialState  # noqa: E402

from boke.cli import analysis, runner, store  # noqa: E402
from boke.cli.commands import boke  # noqa: E402

PROGRAM = """
import json, os, sys, time
x, y = float(sys.argv[1]), float(sys.argv[2])
mode = sys.argv[3] if len(sys.argv) > 3 else "print"
if mode == "slow": time.sleep(float(sys.argv[4]))
if mode == "fragile" and x > 0.5: sys.exit("too far right")
if mode == "nan": print("nan"); sys.exit()
value = (x - 0.3) ** 2 + (y - 0.6) ** 2
print("thinking", "hard")
if mode == "json":
    with open(sys.argv[4], "w") as f: json.dump({"result": {"loss": value}}, f)
elif mode == "regex": print(f"loss={value} after 3 steps")
elif mode == "two": print(x + y, x - y)
elif mode == "silent": pass
elif mode in ("digits", "deep"):
    with open(sys.argv[4], "w") as f: f.write("9" * 400 if mode == "digits" else "[" * 100_000)
else: print(value)
"""

SPACE = "x = {low = 0.0, high = 1.0}\ny = {low = 0.0, high = 1.0}\n"


# a command leaves its database connections to the end of the process, of which Python 3.13 complains
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("f.py").write_text(PROGRAM)
    Path("space.toml").write_text(SPACE)
    yield tmp_path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # here, and not in somebody else's test


def study_file(command="", trials=8, extra="", objective="", name="study.toml"):
    command = f"{sys.executable} f.py {{x}} {{y}} {command}".strip().replace("\\", "/")
    Path(name).write_text(
        f'trials = {trials}\n{extra}\n[objective]\ncommand = "{command}"\n{objective}\n[space]\n{SPACE}'
    )


def call(*words, code=0, text=None):
    result = testing.CliRunner().invoke(boke, [str(word) for word in words], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def load(source="study.toml"):
    return store.find(source, None)


def test_a_study_from_a_file(folder):
    study_file(trials=24)
    out = call("run", "study.toml")
    assert "24 trials complete" in out and "best" in out
    assert load().best_value < 0.05
    assert "24 trials (24 complete)" in call("status")
    assert call("best").startswith("best ")
    assert "recommended: x = " in call("recommend")
    assert sum(json.loads(call("importance", "--json")).values()) == pytest.approx(1.0)
    again = call("run", "study.toml", "--json")
    assert json.loads(again)["new"] == 0  # it has its trials


def test_a_study_from_options(folder):
    command = f"{sys.executable} f.py {{x}} {{y}}"
    common = ["run", "--cmd", command, "--space", "space.toml", "--quiet", "--seed", 3]
    assert call(*common, "--trials", 4) == ""
    call(*common, "--trials", 9, "--workers", 2)
    study = load("space.db")
    assert [trial.number for trial in study.trials] == list(range(9))
    assert study.study_name == "space"


def test_the_same_seed_gives_the_same_trials(folder):
    for name in ("a", "b"):
        study_file(trials=9, name=f"{name}.toml")
        call("run", f"{name}.toml", "-q")
    a, b = ([t.params for t in load(f"{name}.toml").trials] for name in "ab")
    assert a == b


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("json {out}/r.json", '{json = "{out}/r.json", key = "result.loss"}'),
        ("regex", "{regex = 'loss=(\\S+)'}"),
        ("print", '"last-line"'),
    ],
)
def test_where_the_value_is(folder, mode, value):
    study_file(mode, trials=3, objective=f"value = {value}")
    call("run", "study.toml", "-q")
    assert all(
        trial.value == pytest.approx((trial.params["x"] - 0.3) ** 2 + (trial.params["y"] - 0.6) ** 2)
        for trial in load().trials
    )


@pytest.mark.parametrize("option", ["json:{out}/r.json:result.loss", "regex:loss=([^ ]+)"])
def test_where_the_value_is_by_option(folder, option):
    mode = "json {out}/r.json" if option.startswith("json") else "regex"
    command = f"{sys.executable} f.py {{x}} {{y}} {mode}"
    call("run", "--cmd", command, "--space", "space.toml", "--trials", 2, "--value", option, "-q")
    assert len(load("space.db").trials) == 2


@pytest.mark.parametrize(
    ("mode", "objective", "reason"),
    [
        ("fragile", "", "exit code 1: too far right"),
        ("nan", "", "the value is nan"),
        ("slow 60", "timeout = 0.3", "timeout: it ran for more than 0.3 s"),
        ("silent", "", "'hard' is not a number"),
        ("silent", "value = {regex = 'loss=(.+)'}", "nothing in the output matches"),
        ("silent", 'value = {json = "{out}/no.json"}', "there is no file"),
        ("digits {out}/r.json", 'value = {json = "{out}/r.json"}', "is not a number"),
        ("deep {out}/r.json", 'value = {json = "{out}/r.json"}', "cannot be read"),
    ],
)
def test_failures_are_trials_with_a_reason_and_a_log(folder, mode, objective, reason):
    study_file(mode, trials=4, objective=objective)
    call("run", "study.toml", "-q", code=0 if mode == "fragile" else 1)
    failed = [trial for trial in load().trials if trial.state is TrialState.FAIL]
    assert failed
    for trial in failed:
        assert reason in trial.user_attrs["reason"]
        assert (Path(trial.user_attrs["log"]) / "stdout.txt").exists()


def test_a_result_file_from_before_is_not_read(folder):
    Path("r.json").write_text("1.0")
    study_file("silent", trials=2, objective='value = {json = "r.json"}')
    call("run", "study.toml", "-q", code=1)
    assert "from before this trial" in load().trials[0].user_attrs["reason"]


def test_a_python_function(folder):
    Path("model.py").write_text(
        "import os\n"
        "def loss(p):\n"
        "    print('pid', os.getpid())\n"
        "    if p['x'] > 0.9: raise RuntimeError('too far')\n"
        "    if p['x'] > 0.8: os._exit(3)\n"
        "    if p['x'] > 0.7: return 'text'\n"
        "    return (p['x'] - 0.3) ** 2\n"
    )
    Path("study.toml").write_text(f'trials = 14\nseed = 5\n[objective]\npython = "model.py:loss"\n[space]\n{SPACE}')
    call("run", "study.toml", "-q")
    for trial in load().trials:
        x, reason = trial.params["x"], trial.user_attrs.get("reason")
        if x <= 0.7:
            assert trial.value == (x - 0.3) ** 2
        elif x > 0.9:
            assert reason == "RuntimeError: too far"
        else:
            assert "the process died: exit code 3" in reason if x > 0.8 else "not a number" in reason
    assert Path("study-logs/00000/stdout.txt").read_text().startswith("pid ")


def test_a_python_function_that_hangs_is_killed_with_what_it_has_started(folder):
    Path("model.py").write_text(
        "import subprocess\n"
        "def loss(p):\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        "    open('pid', 'w').write(str(child.pid))\n"
        "    child.wait()\n"
    )
    study_file(name="slow.toml")
    start = time.monotonic()
    call("run", "slow.toml", "--python", "model.py:loss", "--timeout", 2, "--trials", 1, "-q", code=1)
    assert time.monotonic() - start < 30
    assert "timeout" in load("slow.toml").trials[0].user_attrs["reason"]
    deadline = time.monotonic() + 10  # killed, it may still have to be reaped by whoever adopts it
    while alive(int(Path("pid").read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_several_objectives(folder):
    study_file("two", trials=12, extra='direction = ["minimize", "maximize"]')
    call("run", "study.toml", "-q")
    front = json.loads(call("best", "--json"))
    assert isinstance(front, list) and len(front[0]["value"]) == 2
    assert "several objectives" in call("recommend", code=2)
    call("report", "--out", "front.html")
    assert "Pareto front" in Path("front.html").read_text()


def test_ask_and_tell(folder):
    study_file()
    first, second = (json.loads(line) for line in call("ask", "-n", 2).splitlines())
    assert first["trial"] == 0 and second["trial"] == 1 and first["params"] != second["params"]
    call("tell", 0, 0.5)
    call("tell", 1, "--failed", "the pump broke")
    call("tell", "-", text='{"params": {"x": 0.25, "y": 0.5}, "value": 0.125}\n\n')
    study = load()
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert study.trials[1].user_attrs["reason"] == "the pump broke"
    third = json.loads(call("ask", "study.db"))
    call("tell", "-", "--in", "study.db", text=json.dumps({"trial": third["trial"], "value": 1.0}))
    assert json.loads(call("best", "--json")) == {"trial": 2, "value": 0.125, "params": {"x": 0.25, "y": 0.5}}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["tell", "0"], None),
        (["tell", "0", "0.5", "--failed", "no"], None),
        (["tell", "zero", "0.5"], None),
        (["tell", "99", "0.5"], None),
        (["tell", "99", "--failed", "x"], None),
        (["tell", "0", "0.5", "0.6"], None),
        (["tell", "-"], ""),
        (["tell", "-"], "{not json"),
        (["tell", "-"], "[1, 2]"),
        (["tell", "-"], '{"trial": 0}'),
        (["tell", "-"], '{"params": {"x": 7.0, "y": 0.5}, "value": 1}'),
        (["tell", "-"], '{"params": {"x": 0.5}, "value": 1}'),
        (["best"], None),
        (["recommend"], None),
        (["report"], None),
        (["importance"], None),
        (["status", "nowhere.db"], None),
        (["status", "nowhere.toml"], None),
        (["status", "study.toml", "--study", "other"], None),
        (["status", "--frobnicate"], None),
        (["export", "study.toml", "trials"], None),
        (["export", "study.toml", "no/such/folder.csv"], None),
        (["run", "--cmd", "no-such-program-anywhere {x}", "--space", "space.toml"], None),
        (["run", "--cmd", "echo {z}", "--space", "space.toml"], None),
        (["run", "--cmd", "echo {x", "--space", "space.toml"], None),
        (["run", "--cmd", "echo 'x", "--space", "space.toml"], None),
        (["run", "--cmd", "echo", "--python", "a.py:f", "--space", "space.toml"], None),
        (["run", "--python", "nowhere.py:f", "--space", "space.toml"], None),
        (["run", "--python", "f.py", "--space", "space.toml"], None),
        (["run", "--space", "space.toml"], None),
        (["run", "study.toml", "--space", "space.toml"], None),
        (["run", "study.toml", "--value", "xml"], None),
        (["run", "study.toml", "--value", "regex:("], None),
        (["run", "study.toml", "--value", "json:r.json", "--workers", "2"], None),
        (["run", "study.toml", "--trials", "0"], None),
        (["run", "study.toml", "--storage", "no/such/folder/x.db"], None),
        (["run", "study.toml", "--storage", "nosuchdb://host/x"], None),
        (["run", "study.toml", "--direction", "maximize"], None),
        (["run", "missing.toml"], None),
        (["completion", "tcsh"], None),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(folder, words, text):
    study_file()
    call("ask")
    before = [trial.state for trial in load().trials]
    out = call(*words, code=2, text=text)
    assert "Error: " in out and "Traceback" not in out
    assert [trial.state for trial in load().trials] == before


@pytest.mark.parametrize(
    "content",
    [
        "not toml",
        "trials = 3",
        "bananas = 3\n[space]\nx = [1, 2]",
        "trials = -1\n[space]\nx = [1, 2]",
        'direction = "up"\n[space]\nx = [1, 2]',
        "[space]\nx = 3",
        "[space]\nx = {low = 0}",
        "[space]\nx = {low = 2, high = 1}",
        "[space]\nx = {low = 0.0, high = 1.0, log = true}",
        '[space]\nx = {low = 0, high = 1, type = "complex"}',
        "[space]\nx = {low = 0, high = 1, unit = 3}",
        "[space]\nx = [[1], [2]]",
        "[space]\nx = []",
        '[objective]\ncommand = "a"\npython = "b"\n[space]\nx = [1, 2]',
        "[objective]\ntimeout = -1\n[space]\nx = [1, 2]",
        "[objective]\nvalue = 3\n[space]\nx = [1, 2]",
        "[objective]\nshell = true\n[space]\nx = [1, 2]",
        "[objective]\ntimeout = nan\n[space]\nx = [1, 2]",
        "trials = 0x" + "f" * 5000 + "\n[space]\nx = [1, 2]",
        "[space]\nx = " + "[" * 5000 + "]" * 5000,
        "[space]\nx = {low = 0, high = " + "9" * 5000 + "}",
        "[space]\nx = {low = 0.0, high = " + "9" * 400 + "}",
        "[space]\nx = {low = nan, high = 1.0}",
        "[space]\nx = {low = 0.0, high = inf}",
        "[space]\nx = {low = 0.0, high = 1.0, step = nan}",
        "[space]\nx = {low = 0.0, high = 1.0, step = 1e-320}",
        "[space]\nx = {low = 0.0, high = 1.0, step = 'a'}",
        '[space]\nx = {low = 0.5, high = 3, type = "int"}',
        "[space]\nx = {low = 0, high = 3, step = 0}",
        "[space]\nx = [1, 1]",
    ],
    ids=lambda content: content[-40:],
)
def test_wrong_files_are_named(folder, content):
    Path("wrong.toml").write_text(content)
    assert "wrong.toml" in call("run", "wrong.toml", "--cmd", "echo 1", code=2)


def test_another_space_of_the_same_name_is_refused(folder):
    study_file(trials=2)
    call("run", "study.toml", "-q")
    Path("study.toml").write_text(Path("study.toml").read_text().replace("high = 1.0", "high = 2.0", 1))
    assert "another space: ['x'] changed" in call("run", "study.toml", code=2)


def test_names_of_any_kind(folder):
    Path("ö ü.toml").write_text(
        'name = "größe; DROP TABLE"\ntrials = 3\n[objective]\ncommand = "echo {größe} {a b} 1"\n'
        '[space]\n"größe" = {low = 0.0, high = 1.0}\n"a b" = ["ä", "x y", "\'"]\n'
    )
    call("run", "ö ü.toml", "-q")
    assert set(load("ö ü.toml").trials[0].params) == {"größe", "a b"}
    call("export", "ö ü.toml", "t.csv")
    assert "param_größe" in Path("t.csv").read_text(encoding="utf-8")


def test_export(folder):
    study_file("fragile", trials=6)
    call("run", "study.toml", "-q")
    assert "6 trials in t.csv" in call("export", "study.toml", "t.csv")
    rows = list(csv.DictReader(Path("t.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 6 and {"trial", "state", "value", "param_x", "reason", "seconds"} <= set(rows[0])
    assert json.loads(call("export", "study.toml", "-", "--format", "json"))[0]["trial"] == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    call("export", "study.toml", "t.parquet")
    assert parquet.read_table("t.parquet").num_rows == 6


def test_a_report_has_everything_and_needs_nothing(folder):
    study_file("fragile", trials=25)
    call("run", "study.toml", "-q")
    assert call("report", "--png", "study.png").split() == ["study.html", "study.png"]
    assert Path("study.png").read_bytes().startswith(b"\x89PNG")
    page = Path("study.html").read_text(encoding="utf-8")
    for part in (
        "best observed",
        "recommended",
        "Progress",
        "Slices",
        "matter",
        "All trials",
        "Failures",
        "suggestions",
    ):
        assert part in page
    assert "too far right" in page and "study-logs/" in page
    assert "<script" not in page and 'src="http' not in page and "@BODY@" not in page


def test_a_report_escapes_what_it_shows(folder):
    Path("evil.toml").write_text(
        'name = "<script>alert(1)</script>"\ntrials = 4\n[objective]\ncommand = "echo 1"\n'
        '[space]\n"<b>" = {low = 0.0, high = 1.0}\nk = ["<i>", "@BODY@"]\n'
    )
    call("run", "evil.toml", "-q")
    call("report", "evil.toml", "--out", "evil.html")
    page = Path("evil.html").read_text()
    assert "<script>" not in page and "<b>" not in page.replace("<b>", "<b>", 0).split("<main>")[0]
    assert "&lt;script&gt;" in page


def test_explanations_are_those_of_the_search(folder):
    study_file(trials=16)
    call("run", "study.toml", "-q")
    found = dict(analysis.explanations(load(), 30))
    assert set(found) == set(range(1, 16))  # all but the first, which was drawn before the space was known
    assert found[1].branch == "initial" != found[15].branch


def test_studies_of_other_programs(folder):
    study = optuna.create_study(
        storage="sqlite:///foreign.db", study_name="f", sampler=optuna.samplers.RandomSampler(0)
    )
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_categorical("k", [1, 2]), n_trials=12)
    assert "12 complete" in call("status", "foreign.db")
    assert "recommended: k = 1" in call("recommend", "foreign.db")
    call("report", "foreign.db", "--out", "f.html")
    assert "k" in json.loads(call("ask", "foreign.db"))["params"]
    optuna.create_study(storage="sqlite:///foreign.db", study_name="g")
    assert "has 2 studies: ['f', 'g']" in call("status", "foreign.db", code=2)


def test_journal_storage(folder):
    study_file(trials=3)
    call("run", "study.toml", "--storage", "s.journal", "-q")
    assert "3 complete" in call("status", "s.journal")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell):
    assert "_BOKE_COMPLETE" in call("completion", shell)


def test_help_has_examples():
    for command in ("run", "ask", "tell", "export", "completion"):
        assert "Examples:" in call(command, "--help")
    assert "0.1" in call("--version")


# processes


def start(*words, **kwargs):
    return subprocess.Popen(
        [sys.executable, "-m", "boke.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs
    )


def wait_for(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.5)
    raise AssertionError("it did not happen")


def finished(path="study.db"):
    if not Path(path).exists():
        return 0
    try:
        return sum(trial.state.is_finished() for trial in load(path).trials)
    except Exception:
        return 0


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_goes_on(folder, sign, code):
    study_file("slow 0.2", trials=12, extra="workers = 2")
    process = start("run", "study.toml")
    wait_for(lambda: finished() >= 3)
    process.send_signal(sign)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code and "The same command goes on" in err
    states = [trial.state for trial in load().trials]
    assert TrialState.RUNNING not in states
    call("run", "study.toml", "-q")
    trials = load().trials
    lost = [trial for trial in trials if trial.user_attrs.get("lost")]
    assert len(trials) - len(lost) == 12 and len(lost) <= 2
    assert sum(trial.state is TrialState.COMPLETE for trial in trials) == 12


def test_a_killed_run_goes_on(folder):
    study_file("slow 0.2", trials=10, extra="workers = 2")
    process = start("run", "study.toml", "-q")
    wait_for(lambda: finished() >= 3)
    process.kill()
    process.communicate()
    done = [(t.number, t.params, t.values) for t in load().trials if t.state is TrialState.COMPLETE]
    call("run", "study.toml", "-q")
    trials = load().trials
    assert all((trials[n].params, trials[n].values) == (params, values) for n, params, values in done)
    assert sum(trial.state is TrialState.COMPLETE for trial in trials) == 10
    killed = [trial for trial in trials if trial.user_attrs.get("reason") == "its worker was killed"]
    assert len(killed) <= 2
    assert [trial.number for trial in trials] == list(range(len(trials)))


def test_two_processes_share_a_study(folder):
    study_file("slow 0.05", trials=16)
    both = [start("run", "study.toml", "-q") for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
    trials = load().trials
    assert 16 <= len(trials) <= 17 and all(trial.state is TrialState.COMPLETE for trial in trials)
    assert len({tuple(trial.params.values()) for trial in trials}) == len(trials)
    assert len({trial.user_attrs["worker"] for trial in trials}) == 2


def test_a_closed_pipe_and_an_ascii_locale(folder):
    study_file(trials=2)
    call("run", "study.toml", "-q")
    environment = os.environ | {"LANG": "C", "LC_ALL": "C"}
    _, err = start("importance", "study.toml", env=environment).communicate(timeout=60)
    assert "three complete trials" in err and "Traceback" not in err
    process = start("export", "study.toml", "-", "--format", "csv", env=environment)
    process.stdout.close()
    with process.stderr as errors:
        assert "Traceback" not in errors.read()
    process.wait(timeout=60)


def test_a_living_worker_is_not_reaped(folder):
    study_file()
    call("ask")
    study = load()
    trial = study.ask(store.space_of(study))
    trial.set_user_attr("worker", runner.whoami())
    gone = study.ask(store.space_of(study))
    gone.set_user_attr("worker", runner.whoami().rpartition(":")[0] + ":1")  # the same pid, an earlier process
    assert runner.reap(study) == [gone.number]


def test_two_processes_may_reap_the_same_trial(folder, monkeypatch):
    study_file()
    call("ask")
    study = load()
    trial = study.ask(store.space_of(study))
    trial.set_user_attr("worker", runner.whoami().rpartition(":")[0] + ":1")
    stale = study.get_trials(states=(TrialState.RUNNING,))
    assert runner.reap(load()) == [trial.number]
    monkeypatch.setattr(study, "get_trials", lambda **_: stale)  # what this process saw before the other one was done
    assert runner.reap(study) == [trial.number]
    assert load().trials[trial.number].state is TrialState.FAIL


def test_logs_of_two_files_do_not_meet(folder):
    study_file()
    call("run", "study.toml", "--trials", "2")
    call("run", "study.toml", "--trials", "1", "--storage", "other.db")
    assert len(list(Path("study-logs").iterdir())) == 2 and len(list(Path("other-study-logs").iterdir())) == 1
