"""The same faults for boke and its peers: what docs/reliability.md shows, each cell from a run of this script.

    python scripts/reliability.py              all cells -> results/reliability.json and docs/results/reliability.inc
    python scripts/reliability.py torn         one row of them
    python scripts/reliability.py torn TPE     one cell, printed

It needs what `make test-faults` installs. Every cell runs in a process of its own, with four minutes to live.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from boke import Optimizer

OPTIMIZER, SAMPLER, TPE, CMA = "boke", "boke in Optuna", "TPE", "CMA-ES"
RAY, RAY_OPTUNA = "boke in Ray", "OptunaSearch in Ray"
OPTUNA = (SAMPLER, TPE, CMA)
OUT, TABLE = Path("results/reliability.json"), Path("docs/results/reliability.inc")

Answer = tuple[bool, str]
Array = np.ndarray[Any, Any]


def study(kind: str, storage: Any = None, seed: int = 0) -> Any:
    import optuna

    from boke.integrations.optuna import BOKESampler

    makers = {SAMPLER: BOKESampler, TPE: optuna.samplers.TPESampler, CMA: optuna.samplers.CmaEsSampler}
    return optuna.create_study(study_name="s", storage=storage, sampler=makers[kind](seed=seed), load_if_exists=True)


class Run:
    """Ask and tell, the same for an Optimizer (in memory or in a log) and for a study (in any storage)."""

    def __init__(self, kind: str, bounds: list[tuple[float, float]], seed: int = 0, where: Any = None) -> None:
        self.study = None if kind == OPTIMIZER else study(kind, where, seed)
        if self.study is not None:
            from optuna.distributions import FloatDistribution

            self.space = {f"x{i}": FloatDistribution(*pair) for i, pair in enumerate(bounds)}
        else:
            self.own = Optimizer(bounds, rng=seed) if where is None else Optimizer.open(where, bounds, rng=seed)

    def go(self, n: int, f: Callable[[Array], float | None]) -> Run:
        """n trials of a function, for which None is a failure."""
        for _ in range(n):
            if self.study is None:
                trial = self.own.ask()
                self.own.tell(trial, f(np.array(list(trial.params.values()))))
                continue
            asked = self.study.ask(self.space)
            value = f(np.array([asked.params[name] for name in self.space]))
            self.study.tell(asked, value, state=None if value is not None else _failed())
        return self

    @property
    def points(self) -> Array:
        if self.study is None:
            return np.asarray(self.own.history.native)
        return np.array([[trial.params[name] for name in self.space] for trial in self.study.trials])

    def close(self) -> None:
        if self.study is None:
            self.own.close()


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL


def journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(path)))


SQUARE = [(-1.0, 1.0)] * 2


def bowl(x: Array) -> float:
    return float(np.square(x - 0.3).sum())


# the checks: kind, folder -> (passed, what was seen)


def torn(kind: str, folder: Path) -> Answer:
    """The last 10 bytes of the file are cut off, as after a power cut; go on, and open it again."""
    path = folder / "log"

    def opened() -> Run:
        return Run(kind, SQUARE, where=path if kind == OPTIMIZER else journal(path))

    opened().go(20, bowl).close()
    os.truncate(path, path.stat().st_size - 10)
    with contextlib.suppress(Exception):
        opened().go(5, bowl).close()
    try:
        n = len(opened().points)
    except Exception as error:
        return False, f"unreadable for good: {type(error).__name__} in Optuna's journal"
    return n >= 24, f"{n} trials after going on"


def stale_lock(kind: str, folder: Path) -> Answer:
    """A process is killed while it holds the lock of the file; how long does the next writer wait?"""
    path = folder / "log"
    Run(kind, SQUARE).go(1, bowl)  # whatever is imported at the first ask
    if kind == OPTIMIZER:
        code = f"from boke import Optimizer; o = Optimizer.open({str(path)!r}, [(-1, 1)] * 2, rng=0); o.ask()"
    else:
        Run(kind, SQUARE, where=journal(path)).go(3, bowl)
        code = "from optuna.storages.journal import JournalFileBackend; "
        code += f"JournalFileBackend({str(path)!r})._lock.acquire()"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('held', flush=True); import time; time.sleep(600)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    child.kill()
    child.wait()
    begun = time.monotonic()
    Run(kind, SQUARE, where=path if kind == OPTIMIZER else journal(path)).go(1, bowl).close()
    waited = time.monotonic() - begun
    return waited < 5, f"{waited:.1f} s"


def text_value(kind: str, folder: Path) -> Answer:
    """The objective returns the string "1.5"; is a trial left running?"""
    if kind == OPTIMIZER:
        import boke

        result = boke.minimize(lambda x: "1.5", [(0, 1)], n_trials=3, rng=0)
        states = [trial.state.name for trial in result.optimizer.history]
        return "PENDING" not in states, f"{states.count('FAILED')} of 3 failed with a reason"
    found = study(kind)
    caught = ""
    try:
        found.optimize(lambda t: "1.5" if t.suggest_float("x", 0, 1) > -1 else 0.0, n_trials=3)
    except BaseException as error:
        caught = f"{type(error).__name__}, "
    left = sum(trial.state.name == "RUNNING" for trial in found.trials)
    return not left and not caught, f"{caught}{left} left running"


def nan_in_ray(kind: str, folder: Path) -> Answer:
    """A trial of Ray Tune reports nan; does the searcher learn that it is over?"""
    searcher = ray_searcher(kind)
    searcher.suggest("a")
    searcher.on_trial_complete("a", {"loss": float("nan")})
    if kind == RAY:
        states = [trial.state.name for trial in searcher.optimizer.history]
        return states == ["FAILED"], states[0]
    states = [trial.state.name for trial in searcher._ot_study.trials]
    return states == ["FAIL"], states[0]


def ray_searcher(kind: str) -> Any:
    from ray import tune

    if kind == RAY:
        from boke.integrations.ray import BOKESearch

        return BOKESearch({"x": tune.uniform(0, 1)}, metric="loss", mode="min", seed=0)
    from ray.tune.search.optuna import OptunaSearch

    return OptunaSearch({"x": tune.uniform(0, 1)}, metric="loss", mode="min", seed=0)


class Bomb:
    """What a hostile file holds."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def hostile_restore(kind: str, folder: Path) -> Answer:
    """A state file from a stranger; is anything in it executed?"""
    marker, path = folder / "executed", folder / "state"
    path.write_bytes(pickle.dumps(Bomb(str(marker))))
    said = "accepted"
    try:
        if kind == OPTIMIZER:
            Optimizer.load(path)
        else:
            ray_searcher(kind).restore(str(path))
    except Exception as error:
        said = type(error).__name__
    return not marker.exists(), f"{said}, {'code was executed' if marker.exists() else 'nothing executed'}"


def bounds(kind: str, folder: Path) -> Answer:
    """25 trials within (0, 5e-324) and within (-1e308, 1e308)."""
    errors = []
    for low, high in ((0.0, 5e-324), (-1e308, 1e308)):
        try:
            points = Run(kind, [(low, high)] * 2).go(25, lambda x: float(x[0])).points
            assert ((points >= low) & (points <= high)).all()
        except Exception as error:
            errors.append(type(error).__name__)
    return not errors, ", ".join(errors) or "inside, no error"


SEQUENCE = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import reliability
print(reliability.digest(sys.argv[2]))
"""


def digest(kind: str) -> str:
    """A hash of 60 suggestions in five dimensions."""
    run = Run(kind, [(-1.0, 1.0)] * 5, seed=3).go(60, lambda x: bowl(x) + 3 * float(x[0] - x[1]) ** 2)
    return hashlib.sha256(run.points.tobytes()).hexdigest()


def digests(kind: str, environments: list[dict[str, str]]) -> Answer:
    found = {
        subprocess.run(
            [sys.executable, "-c", SEQUENCE, str(Path(__file__).parent), kind],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        ).stdout
        for environment in environments
    }
    return len(found) == 1, f"{len(found)} sequence{'s' if len(found) > 1 else ''}"


def processors(kind: str, folder: Path) -> Answer:
    """The same seed under OPENBLAS_CORETYPE Haswell, SkylakeX and Nehalem."""
    return digests(kind, [{"OPENBLAS_CORETYPE": core} for core in ("Haswell", "SkylakeX", "Nehalem")])


def threads(kind: str, folder: Path) -> Answer:
    """The same seed with 1, 2 and 4 BLAS threads and three hash seeds."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return digests(kind, [{**dict.fromkeys(names, n), "PYTHONHASHSEED": n} for n in ("1", "2", "4")])


def storages(kind: str, folder: Path) -> Answer:
    """The same seed in memory, in SQLite and in a journal."""
    places = [None, f"sqlite:///{folder}/s.db", journal(folder / "journal")]
    same = len({Run(kind, SQUARE, 5, where).go(30, bowl).points.tobytes() for where in places}) == 1
    return same, "the same sequence" if same else "different sequences"


def resume(kind: str, folder: Path) -> Answer:
    """30 trials at once, and 15 and 15 with a fresh process's sampler: the same trials?"""
    whole = Run(kind, SQUARE, 5).go(30, bowl).points
    for _ in range(2):
        part = Run(kind, SQUARE, 5, folder / "log" if kind == OPTIMIZER else f"sqlite:///{folder}/s.db").go(15, bowl)
        part.close()
    same = np.array_equal(whole, part.points)
    return same, "equal to the uninterrupted run" if same else "another run"


def failing_half(kind: str, folder: Path) -> Answer:
    """Half of the space fails, the optimum in it; share of failing asks among trials 20 to 60, mean of three seeds."""
    shares = []
    for seed in range(3):
        run = Run(kind, [(0.0, 1.0)] * 2, seed).go(60, lambda x: None if x[0] > 0.5 else bowl(x - [0.4, 0.0]))
        shares.append((run.points[20:, 0] > 0.5).mean())
    share = float(np.mean(shares))
    return share < 0.5, f"{share:.2f}"


def ghosts(kind: str, folder: Path) -> Answer:
    """500 trials that will never end are in the study; 30 more trials beside 30 without ghosts: time (less than three
    times as much, median of five) and best value."""
    from optuna import create_trial
    from optuna.trial import TrialState

    rng = np.random.default_rng(0)
    ratios = []
    for seed in range(5):
        points, seconds = rng.uniform(-1, 1, (530, 2)), []
        for n in (0, 500):
            run = Run(kind, SQUARE, seed)
            made = {"distributions": run.space}
            for i, p in enumerate(points[: 30 + n]):
                how = {"value": bowl(p)} if i < 30 else {"state": TrialState.RUNNING}
                run.study.add_trial(create_trial(params=dict(zip(run.space, p.tolist(), strict=True)), **made, **how))
            begun = time.process_time()
            run.go(30, bowl)
            seconds.append(time.process_time() - begun)
        ratios.append((seconds[1] / seconds[0], run.study.best_value))
    ratio, best = np.median(ratios, axis=0)
    return bool(ratio < 3 and best < 0.02), f"time x{ratio:.1f}, best {best:.1e}"


def all_fail(kind: str, folder: Path) -> Answer:
    """40 evaluations, all failing; do asks go on and stay different?"""
    n = len(np.unique(Run(kind, SQUARE).go(40, lambda x: None).points, axis=0))
    return n == 40, f"{n} of 40 different"


ALL = (OPTIMIZER, *OPTUNA)
CHECKS: dict[str, tuple[Callable[[str, Path], Answer], int, tuple[str, ...]]] = {
    "torn": (torn, 13, ALL),
    "stale_lock": (stale_lock, 16, ALL),
    "text_value": (text_value, 20, ALL),
    "nan_in_ray": (nan_in_ray, 18, (RAY, RAY_OPTUNA)),
    "hostile_restore": (hostile_restore, 43, (OPTIMIZER, RAY, RAY_OPTUNA)),
    "bounds": (bounds, 26, ALL),
    "processors": (processors, 40, ALL),
    "threads": (threads, 39, ALL),
    "storages": (storages, 41, OPTUNA),
    "resume": (resume, 42, ALL),
    "failing_half": (failing_half, 23, ALL),
    "ghosts": (ghosts, 7, OPTUNA),
    "all_fail": (all_fail, 22, ALL),
}


def cell(name: str, kind: str) -> dict[str, Any]:
    """One check in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, name, kind]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {"passed": False, "seen": "did not end within four minutes"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    last = (err.strip().splitlines() or ["no output"])[-1]
    return json.loads(lines[-1]) if lines else {"passed": False, "seen": f"died: {last[:120]}"}


def main() -> None:
    if len(sys.argv) == 3:
        name, kind = sys.argv[1:]
        warnings.simplefilter("ignore")
        with contextlib.suppress(ImportError):
            import optuna

            optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        with tempfile.TemporaryDirectory() as folder:
            passed, seen = CHECKS[name][0](kind, Path(folder))
            print(json.dumps({"passed": bool(passed), "seen": seen}), flush=True)
            os._exit(0)  # a stuck thread of somebody else's is no reason to wait
    import importlib.metadata

    versions = {name: importlib.metadata.version(name) for name in ("optuna", "cmaes", "ray", "numpy")}
    answer: dict[str, Any] = {"command": "python scripts/reliability.py", "versions": versions, "cells": {}}
    if sys.argv[1:]:
        answer["cells"] = json.loads(OUT.read_text(encoding="utf-8"))["cells"]
    for name, (check, row, kinds) in CHECKS.items():
        if sys.argv[1:] and name != sys.argv[1]:
            continue
        done = " ".join((check.__doc__ or "").split())
        answer["cells"][name] = {"row": row, "done": done} | {kind: cell(name, kind) for kind in kinds}
        print(name, {kind: answer["cells"][name][kind] for kind in kinds}, flush=True)
    OUT.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(table(answer), encoding="utf-8")


def table(answer: dict[str, Any]) -> str:
    """The cells as Markdown."""
    columns = (OPTIMIZER, SAMPLER, RAY, TPE, CMA, RAY_OPTUNA)
    rows = [f"| row | what is done | {' | '.join(columns)} |", f"|---|---|{'---|' * len(columns)}"]
    for found in sorted(answer["cells"].values(), key=lambda each: each["row"]):
        cells = [found.get(column) for column in columns]
        shown = ["" if c is None else f"{'yes' if c['passed'] else '**no**'}: {c['seen']}" for c in cells]
        rows.append(f"| {found['row']} | {found['done']} | {' | '.join(shown)} |")
    versions = ", ".join(f"{name} {version}" for name, version in answer["versions"].items())
    return f"{chr(10).join(rows)}\n\nMade by `{answer['command']}` with {versions}.\n"


if __name__ == "__main__":
    main()
