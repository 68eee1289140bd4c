"""The ledger: a line for every result, written and on the disk after tell has returned, apart from the program's word."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

JOBS = Path(__file__).with_name("jobs.py")


def note(ledger, number, params, value):
    """What jobs call after tell has returned."""
    line = json.dumps({"number": number, "params": params, "value": float(value).hex()}) + "\n"
    handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, line.encode())
    os.fsync(handle)
    os.close(handle)


def lines(ledger):
    if not Path(ledger).exists():
        return []
    found = Path(ledger).read_bytes().split(b"\n")
    return [json.loads(line) for line in found[:-1]]  # a last line without its end was not acknowledged


def start(*words, **kwargs):
    """A job of jobs.py in a process of its own."""
    command = [sys.executable, "-W", "ignore", str(JOBS), *map(str, words)]
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | kwargs
    return subprocess.Popen(command, **kwargs)


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def finish(process, seconds=240):
    """Wait for a job that should end well."""
    out, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, out[-3000:]
    return out


def wait_for(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def nothing_lost(ledger, numbers, found, best):
    """Every line is there with the same bits, numbers have no gap and no double, the best is the best of the ledger.

    Args:
        ledger: The file.
        numbers: Numbers of all trials of the state.
        found: number -> (params, value) of its complete trials. One more than the ledger has may be there: told, and
            killed before it was written down.
        best: The best value of the state.
    """
    known = lines(ledger)
    assert sorted(numbers) == list(range(len(numbers)))
    assert len({line["number"] for line in known}) == len(known)
    for line in known:
        params, value = found[line["number"]]
        assert float(value).hex() == line["value"] and json.loads(json.dumps(params)) == line["params"], line
    if known:
        least = min(float.fromhex(line["value"]) for line in known)
        unacknowledged = [value for number, (_, value) in found.items() if number not in {k["number"] for k in known}]
        assert best == min([least, *unacknowledged])
    return len(known)


def log_not_lost(ledger, path):
    """Nothing lost, of a log of ours; returns the number of lines and the optimizer."""
    from boke import Optimizer, State

    optimizer = Optimizer.load(path)
    complete = {t.number: (t.params, t.value) for t in optimizer.history if t.state is State.COMPLETE}
    best = optimizer.best.value if complete else None
    return nothing_lost(ledger, [t.number for t in optimizer.history], complete, best), optimizer


def study_not_lost(ledger, study):
    from optuna.trial import TrialState

    complete = {t.number: (t.params, t.value) for t in study.trials if t.state is TrialState.COMPLETE}
    best = study.best_value if complete else None
    return nothing_lost(ledger, [t.number for t in study.trials], complete, best)
