"""Save and load: bit for bit, atomic, and nothing foreign or damaged gets in."""

import base64
import json
import os
import pickle
import zlib

import numpy as np
import pytest

from boke import Categorical, Float, Int, Optimizer, Space, State
from boke.acquisition import PaperBeta, UCB1Beta
from boke.bandwidth import FillDistanceSchedule, Fixed, LeastSquaresCV, MaximumLikelihoodCV, Scott, Silverman
from boke.data import Data
from boke.journal import pack, unpack
from boke.policies import BOKE, KRUCB, BOKEPlus, DensityExploration, Key, Suggestion

SPACE = {
    "ünïcode\n'name\"": Float(1e-5, 1.0, log=True),
    "stepped": Float(0.0, 1.0, step=0.1),
    "n": Int(1, 64, log=True),
    "c": Categorical(["a", None, True, 1.5, float("nan"), float("inf"), "x" * 200]),
}


def objective(trial):
    return None if trial.number % 7 == 3 else float("inf") if trial.number % 11 == 5 else float(trial.x.sum())


def started(policy=None, n=24, space=SPACE):
    optimizer = Optimizer(space, policy=policy, rng=3)
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, objective(trial), reason="no luck" if objective(trial) is None else None)
    optimizer.remove(2)
    optimizer.ask(3)  # stay pending
    return optimizer


def test_continuing_after_every_save_equals_the_uninterrupted_run(tmp_path):
    whole, broken = Optimizer(SPACE, rng=1), Optimizer(SPACE, rng=1)
    for _ in range(40):
        broken.save(tmp_path / "state.jsonl")
        broken = Optimizer.load(tmp_path / "state.jsonl")
        a, b = whole.ask(), broken.ask()
        assert repr(a.params) == repr(b.params)
        np.testing.assert_array_equal(a.x, b.x)
        whole.tell(a, objective(a))
        broken.tell(b, objective(b))
    assert repr(list(whole.history)) == repr(list(broken.history))
    assert repr(whole.explain(35)) == repr(broken.explain(35))


@pytest.mark.parametrize(
    "policy",
    [
        BOKE(beta=UCB1Beta(), bandwidth=Fixed((0.1, 0.2, 0.3, 0.4)), y_scale="none"),
        BOKEPlus(q=0.25, kernel="quartic", bandwidth=Scott(0.2, per_dimension=True), beta=PaperBeta(0.5), n_acq=32),
        DensityExploration(bandwidth=FillDistanceSchedule(2.0), n_acq=32),
        KRUCB(C=0.5, bandwidth=LeastSquaresCV(), n_acq=32),
        KRUCB(bandwidth=MaximumLikelihoodCV(), n_acq=32, init="sobol"),
        BOKE(bandwidth=Silverman(0.3), n_init=3),
    ],
    ids=lambda p: type(p).__name__,
)
def test_everything_comes_back(tmp_path, policy):
    optimizer = started(policy, n=10)
    path = tmp_path / "ünï 'code'.jsonl"
    optimizer.save(path)
    loaded = Optimizer.load(path)
    assert loaded.policy == policy and loaded.seed == optimizer.seed and loaded.direction == optimizer.direction
    assert repr(loaded.space) == repr(optimizer.space)
    assert repr(list(loaded.history)) == repr(list(optimizer.history))
    assert [t.state for t in loaded.history][-3:] == [State.PENDING] * 3
    np.testing.assert_array_equal(loaded.ask().x, optimizer.ask().x)


def test_arms_and_plain_bounds_come_back(tmp_path):
    for space in (Space.from_arms(np.random.default_rng(0).random((20, 2))), [(-1, 1), (0, 5)]):
        optimizer = Optimizer(space, direction="maximize", rng=0)
        for _ in range(8):
            optimizer.tell(optimizer.ask(), 1.0)
        optimizer.save(tmp_path / "s")
        loaded = Optimizer.load(tmp_path / "s")
        assert loaded.space == optimizer.space and loaded.direction == "maximize"
        assert loaded.ask().params == optimizer.ask().params


class Mine:
    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        return Suggestion(key.generator().random(space.dim), "mine")


def test_a_policy_of_ones_own_is_passed_in_again(tmp_path):
    optimizer = Optimizer([(0, 1)], policy=Mine(), rng=0)
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.save(tmp_path / "s")
    with pytest.raises(ValueError, match="policy of your own"):
        Optimizer.load(tmp_path / "s")
    assert Optimizer.load(tmp_path / "s", policy=Mine()).ask().params == optimizer.ask().params


def test_the_file_is_text_and_holds_its_promises(tmp_path):
    optimizer = started()
    optimizer.save(tmp_path / "s")
    lines = (tmp_path / "s").read_text(encoding="utf-8").splitlines()
    length, crc, header = json.loads(lines[0])
    assert header["format"] == "boke-state" and header["version"] == 2 and header["trials"] == len(optimizer.history)
    content = lines[0].encode().split(b", ", 2)[2][:-1]
    assert (length, crc) == (len(content), zlib.crc32(content))
    assert base64.b64decode(json.loads(lines[1])[2]["rows"]) == optimizer.history.native.astype("<f8").tobytes()
    assert os.listdir(tmp_path) == ["s"]  # no temporary file is left


def test_truncation_at_every_length_is_refused(tmp_path):
    optimizer = started(n=6)
    optimizer.save(tmp_path / "s")
    content = (tmp_path / "s").read_bytes()
    for length in range(len(content)):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"damaged or cut off|is not a boke state"):
            Optimizer.load(tmp_path / "cut")


def test_random_damage_is_refused_or_harmless(tmp_path):
    optimizer = started(n=8)
    optimizer.save(tmp_path / "s")
    content = (tmp_path / "s").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        at = int(rng.integers(len(content)))
        damaged[at] ^= int(rng.integers(1, 256))
        (tmp_path / "d").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged|not a boke state|not a valid"):
            Optimizer.load(tmp_path / "d")
        refused += 1
    assert refused == 300


class Bomb:
    def __reduce__(self):
        return (os.system, ("touch executed",))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"hello\n",
        b"[]\n",
        b"null\n",
        b'{"format": "other"}\n',
        b'{"format": "boke-state"',
        b"\x80\x04\x95",
        b"\xff\xfe\x00",
        b"PK\x03\x04",
        b"[" * 100_000,
        pickle.dumps(Bomb()),
        b'{"format": "boke-state", "version": 1, "trials": 0, "crc32": 0}\n',
        b'{"format": "boke-state", "version": 1, "trials": 0, "crc32": 0, "space": [["x", {"class": "os.system"}]], '
        b'"named": true, "arms": null, "direction": "minimize", "seed": 0, "policy": null}\n',
    ],
    ids=range(14),
)
def test_hostile_and_foreign_files(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a boke state|is not a valid boke state|damaged"):
        Optimizer.load("h")
    assert os.listdir(tmp_path) == ["h"]


def test_a_newer_version_is_refused_naming_both(tmp_path):
    started(n=3).save(tmp_path / "s")
    lines = (tmp_path / "s").read_bytes().splitlines(keepends=True)
    lines[0] = pack(unpack(lines[0]) | {"version": 9})
    (tmp_path / "s").write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match="has state version 9; this boke reads versions 1 to 2"):
        Optimizer.load(tmp_path / "s")


def test_values_outside_the_space_are_refused_even_with_a_right_checksum(tmp_path):
    optimizer = Optimizer([(0, 1)], rng=0)
    optimizer.tell([0.5], 1.0)
    optimizer.save(tmp_path / "s")
    head, body = (tmp_path / "s").read_bytes().splitlines(keepends=True)
    (tmp_path / "s").write_bytes(
        head + pack(unpack(body, len(head)) | {"rows": base64.b64encode(np.array([7.5]).tobytes()).decode()}, len(head))
    )
    with pytest.raises(ValueError, match="'x0' is outside the space"):
        Optimizer.load(tmp_path / "s")


@pytest.mark.parametrize("arms", [1.0, [], [0.5], [[0.5, 0.5]], [[float(10**308), None]], "a", [["a"]]])
def test_arms_that_are_none_are_refused(tmp_path, arms):
    Optimizer([(0, 1)], rng=0).save(tmp_path / "s")
    header = unpack((tmp_path / "s").read_bytes())
    (tmp_path / "s").write_bytes(pack(header | {"arms": arms}))
    with pytest.raises(ValueError, match="is not a valid boke state"):
        Optimizer.load(tmp_path / "s")


def test_what_cannot_be_saved_says_so_and_leaves_the_old_file(tmp_path):
    optimizer = Optimizer({"c": Categorical([(1, 2), object()])}, rng=0)
    (tmp_path / "s").write_text("precious")
    with pytest.raises(TypeError, match="cannot be saved"):
        optimizer.save(tmp_path / "s")
    assert (tmp_path / "s").read_text() == "precious" and os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_an_error_while_writing_leaves_the_old_file(tmp_path, monkeypatch, broken):
    optimizer = started(n=3)
    optimizer.save(tmp_path / "s")
    before = (tmp_path / "s").read_bytes()
    optimizer.ask()

    def fail(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        with pytest.raises(OSError, match="Input/output"):
            optimizer.save(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == before and os.listdir(tmp_path) == ["s"]
    optimizer.save(tmp_path / "s")
    assert len(Optimizer.load(tmp_path / "s").history) == len(optimizer.history)


@pytest.mark.parametrize("path", ["missing/folder/s", "."])
def test_bad_paths_are_oserrors(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"."):
        started(n=3).save(path)
    with pytest.raises(OSError, match=r"."):
        Optimizer.load(path)


def test_permissions_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        started(n=3).save(tmp_path / "s")
    finally:
        os.umask(old)
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o640
