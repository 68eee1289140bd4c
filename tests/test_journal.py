"""The log: what a step leaves in it, what comes back, and that no fault leaves it half changed."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import boke
from boke import Categorical, Float, Int, Optimizer, State, journal
from boke.journal import pack, records, unpack
from boke.policies import BOKEPlus

FIXTURES = Path(__file__).parent / "fixtures"
QUICK = BOKEPlus(n_acq=64)
SPACE = {
    "größe\n'name\"": Float(1e-5, 1.0, log=True),
    "stepped": Float(0.0, 1.0, step=0.1),
    "n": Int(1, 64, log=True),
    "c": Categorical(["a", None, True, 1.5, float("nan"), float("inf")]),
}
STEPS = 12


def steps(optimizer, n=STEPS):
    """A bit of everything that changes a history."""
    for _ in range(n):
        trial = optimizer.ask()
        value = None if trial.number % 5 == 3 else float("-inf") if trial.number % 7 == 6 else float(trial.x.sum())
        optimizer.tell(trial, value, reason="no luck" if value is None else None)
    point = dict(zip(SPACE, [0.5, 0.3, 7, "a"], strict=True))
    optimizer.tell(point, -0.25)
    optimizer.tell(point, None, reason="ünlucky")
    optimizer.tell_many([point] * 3, [1.0, None, float("inf")])
    optimizer.register(point)
    optimizer.remove(2)
    optimizer.ask(2)
    return optimizer


def same(a, b):
    assert repr(list(a.history)) == repr(list(b.history)) and a.history.arrivals == b.history.arrivals
    for name in ("native", "told_at", "asked_at", "states", "values"):
        np.testing.assert_array_equal(getattr(a.history, name), getattr(b.history, name))
    assert a.ask().params.__repr__() == b.ask().params.__repr__()


@pytest.mark.parametrize("record", [{}, {"a": "\n]ü"}, {"x": [1e308, 5e-324, 0.1]}, {"deep": [[[{"b": None}]]]}])
def test_a_line_is_its_record(record):
    line = pack(record)
    assert unpack(line) == record and line.count(b"\n") == 1 and json.loads(line)[2] == record
    for i in range(len(line)):
        assert unpack(line[:i]) is None
        for flip in (1, 128):
            assert unpack(line[:i] + bytes([line[i] ^ flip]) + line[i + 1 :]) is None


def test_groups_come_whole_or_not_at_all(tmp_path):
    content, lines = b"", []
    for record in ({"a": 1}, {"b": 1, "more": True}, {"b": 2, "more": True}, {"b": 3}, {"c": 1}):
        lines.append(pack(record, len(content)))
        content += lines[-1]
    ends = np.cumsum([len(line) for line in lines])
    for length in range(len(content) + 1):
        (tmp_path / "f").write_bytes(content[:length])
        with open(tmp_path / "f", "rb") as file:
            found = list(records(file))
        whole = 5 if length == ends[4] else 4 if length >= ends[3] else 1 if length >= ends[0] else 0
        assert len(found) == whole and (not found or found[-1][1] == ends[whole - 1])


def test_damage_before_whole_records_is_refused(tmp_path):
    a, b = pack({"a": 1}), pack({"a": 2}, len(pack({"a": 1})))
    c = pack({"a": 3}, len(a + b))
    damaged = [
        a + b"garbage\n" + pack({"a": 2}, len(a) + 8),
        a + b + b + c,
        a + c + c,
        b + a + c,
        a + b[:-4] + b"9]}\n" + c,
    ]
    for content in damaged:  # garbage, a line doubled, lost, moved, changed
        (tmp_path / "f").write_bytes(content)
        with open(tmp_path / "f", "rb") as file, pytest.raises(ValueError, match="damaged at byte"):
            list(records(file))


@pytest.mark.parametrize("durable", [True, False])
def test_a_reopened_log_is_the_same_optimizer(tmp_path, durable):
    path = tmp_path / "ünï code.jsonl"
    whole = steps(Optimizer(SPACE, direction="maximize", rng=3))
    with Optimizer.open(path, SPACE, direction="maximize", rng=3, durable=durable) as logged:
        steps(logged)
    same(Optimizer.load(path), steps(Optimizer(SPACE, direction="maximize", rng=3)))
    with Optimizer.open(path) as again:
        same(again, whole)
        assert again.direction == "maximize" and again.seed == 3
    assert os.listdir(tmp_path) == [path.name]


def test_reopening_after_every_step_changes_nothing(tmp_path):
    whole = Optimizer(SPACE, rng=1, policy=QUICK)
    Optimizer.open(tmp_path / "log", SPACE, rng=1, policy=QUICK).close()
    for i in range(30):
        with Optimizer.open(tmp_path / "log") as broken:
            a, b = whole.ask(), broken.ask()
            np.testing.assert_array_equal(a.x, b.x)
        with Optimizer.open(tmp_path / "log") as broken:
            for optimizer, trial in ((whole, a), (broken, b)):
                optimizer.tell(trial, None if i % 7 == 3 else float(a.x.sum()))
    same(Optimizer.load(tmp_path / "log"), whole)


def test_the_whole_is_written_anew_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "ROOM", 2000)
    replaced = []
    original = journal.Journal.replace
    monkeypatch.setattr(journal.Journal, "replace", lambda self, lines: (replaced.append(1), original(self, lines)))
    with Optimizer.open(tmp_path / "log", [(0, 1)] * 2, rng=0, policy=QUICK, durable=False) as optimizer:
        sizes = []
        for i in range(400):
            optimizer.tell([i / 400, 0.5], float(i))
            sizes.append(os.path.getsize(tmp_path / "log"))
    assert 5 < len(replaced) < 40  # geometric
    assert (np.diff(sizes) < 0).sum() > 0
    same(Optimizer.load(tmp_path / "log"), optimizer_of(400))


def optimizer_of(n):
    optimizer = Optimizer([(0, 1)] * 2, rng=0, policy=QUICK)
    for i in range(n):
        optimizer.tell([i / n, 0.5], float(i))
    return optimizer


def test_many_points_at_once_are_one_step(tmp_path, monkeypatch):
    monkeypatch.setattr("boke.state.BLOCK", 7)
    X = np.random.default_rng(0).random((30, 2))
    with Optimizer.open(tmp_path / "log", [(0, 1)] * 2, rng=0) as optimizer:
        optimizer.tell([0.5, 0.5], 1.0)
        before = os.path.getsize(tmp_path / "log")
        optimizer.tell_many(X, X.sum(axis=1))
    content = (tmp_path / "log").read_bytes()
    for length in range(before + 1, len(content), 97):
        (tmp_path / "log").write_bytes(content[:length])
        with pytest.warns(RuntimeWarning, match="was cut off"), Optimizer.open(tmp_path / "log") as cut:
            assert len(cut.history) == 1
    (tmp_path / "log").write_bytes(content)
    assert len(Optimizer.load(tmp_path / "log").history) == 31


def test_saving_under_the_logs_own_name_keeps_it_open(tmp_path):
    with Optimizer.open(tmp_path / "log", [(0, 1)], rng=0) as optimizer:
        for _ in range(6):
            optimizer.tell(optimizer.ask(), 1.0)
        optimizer.save(tmp_path / "log")
        optimizer.save(tmp_path / "copy")
        optimizer.tell(optimizer.ask(), 2.0)
    assert len(Optimizer.load(tmp_path / "log").history) == 7
    assert len(Optimizer.load(tmp_path / "copy").history) == 6


def test_what_is_given_has_to_agree(tmp_path):
    Optimizer.open(tmp_path / "log", {"a": Float(0, 1)}, rng=4, direction="maximize").close()
    content = (tmp_path / "log").read_bytes()
    with pytest.raises(ValueError, match=r"belongs to another space: Space\(\{'a'.*Got Space\(\{'b'"):
        Optimizer.open(tmp_path / "log", {"b": Float(0, 1)})
    with pytest.raises(ValueError, match=r"was made with direction='maximize'. Got direction='minimize'"):
        Optimizer.open(tmp_path / "log", direction="minimize")
    with pytest.raises(ValueError, match=r"was made with rng=4. Got rng=5"):
        Optimizer.open(tmp_path / "log", rng=5)
    with pytest.raises(FileNotFoundError, match="other"):
        Optimizer.open(tmp_path / "other")
    assert (tmp_path / "log").read_bytes() == content and os.listdir(tmp_path) == ["log"]
    Optimizer.open(tmp_path / "log", {"a": Float(0, 1)}, rng=np.random.default_rng(7)).close()


def test_foreign_files_are_refused_and_stay_as_they_are(tmp_path):
    for content in (b"precious\n", b"[1, 2, 3]\n", b'{"format": "other"}\n', pack({"format": "boke-state"}), b"[12"):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(ValueError, match="is not a boke state"):
            Optimizer.open(tmp_path / "f", [(0, 1)])
        assert (tmp_path / "f").read_bytes() == content and os.listdir(tmp_path) == ["f"]
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        Optimizer.open(tmp_path / "f")
    Optimizer.open(tmp_path / "f", [(0, 1)]).close()
    assert len(Optimizer.load(tmp_path / "f").history) == 0


FORGED = {
    "no such trial": {"tell": 99, "value": 1.0},
    "told twice": {"tell": 0, "value": 1.0},
    "no number": {"tell": True, "value": 1.0},
    "negative": {"remove": -1},
    "outside": {"ask": [7.0]},
    "two columns": {"ask": [0.5, 0.5]},
    "text": {"ask": ["a"]},
    "no value": {"points": [[0.5]], "values": []},
    "a block after a step": {"rows": "", "states": "", "values": "", "told": "", "asked": "", "reasons": {}},
    "unknown": {"what": 1},
    "a list": [],
    "a value that is none": {"point": [0.5], "value": "one"},
}


@pytest.mark.parametrize("record", FORGED.values(), ids=FORGED)
def test_records_that_make_no_sense_are_refused(tmp_path, record):
    with Optimizer.open(tmp_path / "log", [(0, 1)], rng=0) as optimizer:
        optimizer.tell([0.5], 1.0)
    with open(tmp_path / "log", "ab") as file:
        file.write(pack(record, file.tell()))
    for read in (Optimizer.load, Optimizer.open):
        with pytest.raises(ValueError, match="is not a valid boke state"):
            read(tmp_path / "log")


def test_a_closed_log_can_be_read_and_not_written(tmp_path):
    with Optimizer.open(tmp_path / "log", [(0, 1)], rng=0) as optimizer:
        trial = optimizer.ask()
        optimizer.tell(optimizer.ask(), 1.0)
    for step in (optimizer.ask, lambda: optimizer.tell(trial, 2.0), lambda: optimizer.remove(0)):
        with pytest.raises(ValueError, match="is closed"):
            step()
    assert optimizer.best.value == 1.0 and len(optimizer.history) == 2
    assert optimizer.history[0].state is State.PENDING


def test_a_forked_child_neither_writes_nor_keeps_the_lock(tmp_path):
    optimizer = Optimizer.open(tmp_path / "log", [(0, 1)], rng=0)
    optimizer.tell(optimizer.ask(), 1.0)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            optimizer.ask()
            os.write(into, b"wrote")
        except ValueError as error:
            os.write(into, str(error).encode())
        os.close(into)
        threading.Event().wait(60)
        os._exit(0)
    try:
        os.close(into)
        with open(out, "rb") as pipe:
            assert b"opened by the process that forked" in pipe.read()
        optimizer.tell(optimizer.ask(), 2.0)
        optimizer.close()
        with Optimizer.open(tmp_path / "log") as again:  # the child lives, the lock does not
            assert [t.value for t in again.history] == [1.0, 2.0]
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_an_interrupt_waits_until_the_step_is_whole(tmp_path):
    import signal

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Optimizer.open(tmp_path / "log", [(0, 1)], rng=0) as optimizer:
            finish = optimizer.history.finish

            def interrupted(*args):
                signal.raise_signal(signal.SIGINT)
                finish(*args)

            optimizer.history.finish = interrupted
            with pytest.raises(KeyboardInterrupt):
                optimizer.tell([0.5], 1.0)
            del optimizer.history.finish
            assert optimizer.history[0].value == 1.0 and optimizer.history.arrivals == 1
            optimizer.tell([0.25], 2.0)
        same(Optimizer.load(tmp_path / "log"), optimizer_from([[0.5], [0.25]], [1.0, 2.0]))
    finally:
        signal.signal(signal.SIGINT, before)


def optimizer_from(points, values):
    optimizer = Optimizer([(0, 1)], rng=0)
    for point, value in zip(points, values, strict=True):
        optimizer.tell(point, value)
    return optimizer


@pytest.mark.parametrize("name", ["state_v1.jsonl", "state_v2.jsonl", "log_v2.jsonl"])
def test_states_of_older_versions_are_read(tmp_path, name):
    """The fixtures were written by the version they name: never write them anew."""
    expected = json.loads((FIXTURES / "states.json").read_text(encoding="utf-8"))[name]
    found = Optimizer.load(FIXTURES / name)
    assert repr(list(found.history)) == expected["history"] and repr(found.space) == expected["space"]
    assert found.seed == expected["seed"] and found.direction == expected["direction"]
    (tmp_path / "log").write_bytes((FIXTURES / name).read_bytes())
    with Optimizer.open(tmp_path / "log") as opened:
        assert repr(list(opened.history)) == expected["history"]
        opened.tell(opened.ask(), 1.0)
    assert len(Optimizer.load(tmp_path / "log").history) == len(found.history) + 1


def test_minimize_goes_on_from_its_log(tmp_path):
    def bowl(x):
        calls.append(x)
        return float(np.square(x - 0.3).sum())

    calls = []
    whole = boke.minimize(bowl, [(0, 1)] * 2, n_trials=25, rng=1, x0=[[0.1, 0.1], [0.2, 0.2]], policy=QUICK)
    calls.clear()
    for n in (1, 7, 7, 25):
        parts = boke.minimize(
            bowl, [(0, 1)] * 2, n_trials=n, rng=1, x0=[[0.1, 0.1], [0.2, 0.2]], policy=QUICK, log=tmp_path / "log"
        )
        assert parts.nfev == n
    assert len(calls) == 25 and np.array_equal(parts.x_iters, whole.x_iters)
    assert parts.fun == whole.fun and parts.message == whole.message


def test_an_evaluation_that_was_under_way_comes_first(tmp_path):
    with Optimizer.open(tmp_path / "log", [(0, 1)] * 2, rng=1, policy=QUICK) as optimizer:
        for _ in range(3):
            optimizer.tell(optimizer.ask(), 1.0)
        left = optimizer.ask()  # as a killed run leaves it
    points = []
    boke.minimize(
        lambda x: points.append(x) or 1.0, [(0, 1)] * 2, n_trials=6, rng=1, policy=QUICK, log=tmp_path / "log"
    )
    assert points[0].tolist() == list(left.params.values()) and len(points) == 3


def test_a_log_that_cannot_be_written_is_found_before_the_first_evaluation(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "log", "/dev/full"):
        with pytest.raises(OSError, match=r"."):
            boke.minimize(lambda x: pytest.fail("evaluated"), [(0, 1)], log=path)
