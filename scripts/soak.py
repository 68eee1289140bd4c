"""Soak: 4 processes with 8 threads each ask, tell, fail, remove and save for minutes, and are killed now and then.

Every process has a log of its own and a ledger beside it. At the end every ledger line must be in its log, and the one
process that lives through it all must not have grown after its first fifth; otherwise the script ends with an error.
`python scripts/soak.py --minutes 10` writes results/soak.json.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from faults.ledger import log_not_lost, note

from boke import Optimizer, State
from boke.policies import BOKEPlus

PROCESSES, THREADS = 4, 8
LIFE = 60.0  # seconds after which a process is killed and another takes over its log; the first one lives on
ONE_HEAP = -8  # M_ARENA_MAX of malloc.h
FLAT = 10.0  # megabytes between the medians of the second and the last fifth, within which memory is flat
MOST = 3000  # trials of a log; a full one is begun anew, so that memory has a reason to be flat


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work(folder: str, slot: int, memory: multiprocessing.Queue) -> None:
    """One process: threads on one optimizer with a log."""
    with contextlib.suppress(AttributeError, OSError):  # glibc; a heap for each thread would hide a leak in its noise
        ctypes.CDLL(None).mallopt(ONE_HEAP, 1)
    begun = time.monotonic()
    for generation in itertools.count():  # a full one is left at once
        path = Path(folder) / f"{slot}-{generation}.log"
        optimizer = Optimizer.open(path, [(-1.0, 1.0)] * 3, rng=slot, policy=BOKEPlus(n_acq=64), durable=False)
        threads = [threading.Thread(target=loop, args=(optimizer, path, i)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            memory.put((slot, os.getpid(), time.monotonic() - begun, resident(), len(optimizer.history)))
            time.sleep(1.0)
        optimizer.close()


def loop(optimizer: Optimizer, path: Path, i: int) -> None:
    dice = random.Random(f"{path}{i}{time.time_ns()}")
    while len(optimizer.history) < MOST:
        trial = optimizer.ask()
        chance = dice.random()
        if chance < 0.05:
            optimizer.tell(trial, None, reason="soaked")
        elif chance < 0.08:
            optimizer.remove(trial)
        else:
            value = float(np.square(trial.x - 0.3).sum())
            optimizer.tell(trial, value)
            note(f"{path}.ledger", trial.number, trial.params, value)
        if chance > 0.995:
            optimizer.save(f"{path}.copy{i}")
            optimizer.recommend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", default="results/soak.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        memory: multiprocessing.Queue = multiprocessing.Queue()
        running: dict[int, tuple[multiprocessing.Process, float]] = {}
        deadline, kills = time.monotonic() + 60 * given.minutes, 0
        samples: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
        while time.monotonic() < deadline:
            for slot in range(PROCESSES):
                process, born = running.get(slot, (None, 0.0))
                if process is not None and slot and time.monotonic() - born > LIFE * (1 + slot / PROCESSES):
                    assert process.is_alive(), "a process died of itself"
                    os.kill(process.pid or 0, signal.SIGKILL)
                    process.join()
                    process, kills = None, kills + 1
                if process is None:
                    process = multiprocessing.Process(target=work, args=(folder, slot, memory))
                    process.start()
                    running[slot] = process, time.monotonic()
            time.sleep(0.5)
            while not memory.empty():
                slot, pid, age, size, trials = memory.get()
                samples.setdefault((slot, pid), []).append((age, size, trials))
        for process, _ in running.values():
            assert process.is_alive(), "a process died of itself"
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
        results = left = 0
        for path in sorted(Path(folder).glob("*.log")):
            with Optimizer.open(path):
                pass  # cuts the tail of the last kill, as the next process would
            known, optimizer = log_not_lost(f"{path}.ledger", path)
            results += known
            left += sum(trial.state is State.PENDING for trial in optimizer.history)
        (longest,) = (series for (slot, _), series in samples.items() if slot == 0)
        sizes = np.array([size for _, size, _ in longest]) / 1e6
        fifth = len(sizes) // 5
        growth = float(np.median(sizes[-fifth:]) - np.median(sizes[fifth : 2 * fifth]))
        answer = {
            "command": f"python scripts/soak.py --minutes {given.minutes:g}",
            "results_in_ledgers": results,
            "kills": kills + PROCESSES,
            "left_pending": left,
            "trials_of_the_process_that_lives_on": sum(max(0, b[2] - a[2]) for a, b in itertools.pairwise(longest)),
            "its_megabytes_by_tenths": [round(float(part.max()), 1) for part in np.array_split(sizes, 10)],
            "its_growth_after_warm_up_MB": round(growth, 1),
            "largest_resident_MB": round(max(size for series in samples.values() for _, size, _ in series) / 1e6, 1),
        }
        print(json.dumps(answer, indent=1))
        Path(given.out).write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
        if growth > FLAT:
            sys.exit(f"Memory is not flat: {growth:.1f} MB more at the end than after the first fifth.")


if __name__ == "__main__":
    main()
