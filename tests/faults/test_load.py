"""Rows 31 to 41 and 47: size, threads, processes, processors, clocks."""

import functools
import glob
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from faults.forked import FORK, in_a_child
from faults.ledger import finish, lines, log_not_lost, start

from boke import Optimizer
from boke.policies import BOKEPlus

SQUARE = [(0.0, 1.0)] * 2
QUICK = BOKEPlus(n_acq=64)


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def timed(call):
    begun = time.perf_counter()
    result = call()
    return time.perf_counter() - begun, result


def test_row_31_a_thousand_dimensions(observed):
    """d = 1000"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    optimizer = Optimizer([(0, 1)] * 1000, rng=0)
    took = []
    for _ in range(30):
        begun = time.process_time()
        trial = optimizer.ask()
        took.append(time.process_time() - begun)
        optimizer.tell(trial, float(trial.x.sum()))
        assert trial.x.min() >= 0 and trial.x.max() <= 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    assert grown < 1000
    observed(f"slowest of 30 asks {max(took):.2f} s, +{grown:.0f} MB")


@pytest.mark.slow
def test_row_32_many_observations(observed):
    """1e5 observations, d = 2 and 20"""
    seen = []
    for d in (2, 20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        X = np.random.default_rng(0).random((100_000, d))
        optimizer = Optimizer([(0, 1)] * d, rng=0)
        optimizer.tell_many(X, X.sum(axis=1))
        asks = [timed(optimizer.ask) for _ in range(5)]
        tells = [timed(functools.partial(optimizer.tell, trial, 1.0))[0] for _, trial in asks]
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
        assert len(optimizer.history) == 100_005 and grown < 1000
        seen.append(
            f"d={d}: ask {np.median([s for s, _ in asks]):.2f} s, tell {np.median(tells) * 1e6:.0f} us, +{grown:.0f} MB"
        )
    observed("; ".join(seen))


@pytest.mark.slow
def test_row_33_a_long_run(observed):
    """1e4 sequential ask/tell"""
    optimizer, marks = Optimizer(SQUARE, policy=QUICK, rng=0), {}
    begun = time.process_time()
    for n in range(1, 10_001):
        trial = optimizer.ask()
        optimizer.tell(trial, float(np.square(trial.x - 0.3).sum()))
        if n % 1000 == 0:
            marks[n] = (time.process_time() - begun, resident())
            begun = time.process_time()
    seconds = {n: marks[n][0] for n in marks}
    slope = (marks[10_000][1] - marks[1000][1]) / 9000  # bytes for each trial, the columns of the history among them
    assert slope < 1000
    # the last thousand saw 9.5 times as many observations as those about the second thousand on average
    assert seconds[10_000] / seconds[2000] < 9.5 / 1.5 * 1.5
    observed(f"1000 asks: {seconds[2000]:.1f} s at 2e3, {seconds[10_000]:.1f} s at 1e4; {slope:.0f} bytes a trial")


def test_row_35_asks_without_a_tell(observed):
    """20 asks without a tell (batch), 1000 asks without a tell"""
    for n in (20, 1000):
        optimizer = Optimizer(SQUARE, rng=0)
        optimizer.tell_many(np.random.default_rng(0).random((30, 2)), np.arange(30.0))
        marks = [timed(optimizer.ask) for _ in range(n)]
        assert len({t.x.tobytes() for _, t in marks}) == n
    tenth = [sum(s for s, _ in marks[i : i + 100]) for i in (0, 900)]
    observed(f"all different; the first hundred took {tenth[0]:.2f} s, the last {tenth[1]:.2f} s")


def test_row_36_threads(tmp_path, observed):
    """8 threads x 15 ask/tell on one object, in memory and with a log"""
    for optimizer in (
        Optimizer(SQUARE, policy=QUICK, rng=0),
        Optimizer.open(tmp_path / "log", SQUARE, policy=QUICK, rng=0, durable=False),
    ):
        told, errors = {}, []

        def work(optimizer=optimizer, told=told, errors=errors):
            try:
                for i in range(15):
                    trial = optimizer.ask()
                    told[trial.number] = float(trial.x.sum())
                    optimizer.tell(trial, told[trial.number])
                    assert optimizer.best.value is not None and len(optimizer.history.values) >= 1
                    if i % 5 == 4:
                        optimizer.recommend()
                        optimizer.explain(trial)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=240)
        assert not errors and not any(thread.is_alive() for thread in threads)
        assert dict(enumerate(optimizer.history.values.tolist())) == told and len(told) == 120
        assert sorted(optimizer.history.told_at) == list(range(120))
        optimizer.close()
    assert dict(enumerate(Optimizer.load(tmp_path / "log").history.values.tolist())) == told
    observed("120 values kept, twice; no error, no deadlock")


def test_row_38_fork_and_spawn(observed):
    """fork after import and after the first ask, with the lock held; multiprocessing spawn"""
    FORK.ask()
    held, release = threading.Event(), threading.Event()

    def hold():
        with FORK._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        with multiprocessing.get_context("fork").Pool(2) as pool:  # the lock is another thread's here, and free there
            same = pool.map_async(in_a_child, [None, None], chunksize=1).get(60)
            other = pool.map_async(in_a_child, [1, 2], chunksize=1).get(60)
    finally:
        release.set()
        thread.join()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.map_async(in_a_child, [1, 2], chunksize=1).get(120)
    assert same[0] == FORK.ask().x.tolist()
    assert other == spawned and other[0] != other[1]
    observed("no lock inherited; other seeds give other streams, the same in forked and spawned children")


SEQUENCE = """
import hashlib, math, boke
from boke import Float, Int, Categorical
space = {"lr": Float(1e-5, 1, log=True), "b": Float(-1, 1), "n": Int(1, 64), "act": Categorical(["relu", "tanh"])}
h = hashlib.sha256()
for s, noise in ((space, 0.0), ([(0, 1)] * 5, 0.0), ([(0, 1)] * 2, 0.2)):
    o = boke.Optimizer(s, rng=11)
    for i in range(40):
        t = o.ask()
        h.update(t.x.tobytes())
        o.tell(t, None if i % 9 == 4 else float(((t.x - 0.4) ** 2).sum()) + noise * math.sin(997 * i))
    h.update(repr(o.recommend().params).encode())
print(h.hexdigest())
"""


def digest(**environment):
    done = subprocess.run(
        [sys.executable, "-c", SEQUENCE], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_row_39_threads_and_hash_seeds(observed):
    """same seed: BLAS threads 1/2/4, two PYTHONHASHSEEDs, fresh processes"""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    found = {
        digest(**dict.fromkeys(names, threads), PYTHONHASHSEED=seed)
        for threads, seed in (("1", "0"), ("2", "1"), ("4", "2"))
    }
    assert len(found) == 1
    observed(f"one digest, {next(iter(found))[:12]}")


@pytest.mark.slow
def test_row_40_processor_types(observed):
    """same seed under OPENBLAS_CORETYPE Haswell/SkylakeX/Nehalem, and with NumPy's vector instructions off"""
    cores = [{"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "1"} for core in ("Haswell", "SkylakeX", "Nehalem")]
    assert len({digest(**environment) for environment in [*cores, {"NPY_DISABLE_CPU_FEATURES": vectors()}]}) == 1
    observed(f"one digest, also without {vectors() or 'any that could be switched off'}")


def vectors():
    """What this processor has beyond the least that NumPy needs, as far as NumPy uses it."""
    core = getattr(np, "_core", None) or np.core
    found = core._multiarray_umath
    return " ".join(name for name in found.__cpu_dispatch__ if found.__cpu_features__[name])


def faketime():
    """Where the library lies that shifts clocks."""
    places = ["/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1"]
    places.append(
        os.path.join(sys.prefix, "lib/python*/site-packages/libfaketime/vendor/libfaketime/src/libfaketime.so.1")
    )
    found = [path for place in places for path in glob.glob(place)]
    return found[0] if found else None


def test_row_47_clocks(tmp_path, observed):
    """the clock of a worker an hour back, and one that jumps during the run"""
    library = faketime()
    if library is None:
        pytest.skip("needs libfaketime")
    path, ledger = tmp_path / "log", tmp_path / "ledger"
    clock = tmp_path / "clock"
    for n, shift in ((10, "-1h"), (20, "+2d"), (30, "-3d")):
        clock.write_text(shift + "\n")
        environment = os.environ | {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        process = start("log", path, ledger, n, 0.02, env=environment)
        time.sleep(0.3)
        clock.write_text("+5h\n")  # jumps while it runs
        finish(process)
    known, optimizer = log_not_lost(ledger, path)
    assert known == 30 and [line["number"] for line in lines(ledger)] == list(range(30))
    straight = Optimizer([(-1.0, 1.0)] * 2, rng=5)
    for value in optimizer.history.values:
        straight.tell(straight.ask(), float(value))
    assert np.array_equal(straight.history.x, optimizer.history.x)
    observed("30 of 30 kept, in order, suggestions equal to those of a straight clock")
