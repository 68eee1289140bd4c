"""The same faults for boke and its peers: what docs/reliability.md shows, each cell from a run of this script.

    python scripts/reliability.py              all cells -> results/reliability.json and docs/results/reliability.inc
    python scripts/reliability.py torn         one row of them
    python scripts/reliability.py torn TPE     one cell, printed

It needs what `make test-faults` installs. Every cell runs in a process of its own, with two minutes to live.
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

OPTIMIZER, SAMPLER, TPE, CMA = "boke", "boke in Optuna", "TPE", "CMA-ES"
RAY, RAY_OPTUNA = "boke in Ray", "OptunaSearch in Ray"
OPTUNA = (SAMPLER, TPE, CMA)
OUT, TABLE = Path("results/reliability.json"), Path("docs/results/reliability.inc")

Answer = tuple[bool, str]


def sampler(kind: str, seed: int = 0) -> Any:
    import optuna

    from boke.integrations.optuna import BOKESampler

    makers = {SAMPLER: BOKESampler, TPE: optuna.samplers.TPESampler, CMA: optuna.samplers.CmaEsSampler}
    return makers[kind](seed=seed)


def study(kind: str, storage: Any = None, seed: int = 0, name: str = "s", **more: Any) -> Any:
    import optuna

    return optuna.create_study(
        study_name=name, storage=storage, sampler=sampler(kind, seed), load_if_exists=True, **more
    )


def journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(path)))


def bowl(trial: Any) -> float:
    x, y = trial.suggest_float("x", -1, 1), trial.suggest_float("a", -1, 1)
    return float((x - 0.3) ** 2 + (y + 0.2) ** 2)


def tell_some(optimizer: Any, n: int) -> None:
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, float(np.square(trial.x - 0.3).sum()))


# the checks: kind, folder -> (passed, what was seen)


def torn(kind: str, folder: Path) -> Answer:
    """The last 10 bytes of the file are cut off, as after a power cut; go on, and open it again."""
    from boke import Optimizer

    path = folder / "log"
    if kind == OPTIMIZER:
        with Optimizer.open(path, [(-1, 1)] * 2, rng=0) as optimizer:
            tell_some(optimizer, 20)
        os.truncate(path, path.stat().st_size - 10)
        with Optimizer.open(path) as optimizer:
            tell_some(optimizer, 5)
        n = len(Optimizer.load(path).history)
        return n >= 24, f"{n} trials after going on"
    study(kind, journal(path)).optimize(bowl, n_trials=20)
    os.truncate(path, path.stat().st_size - 10)
    with contextlib.suppress(Exception):
        study(kind, journal(path)).optimize(bowl, n_trials=5)
    try:
        n = len(study(kind, journal(path)).trials)
    except Exception as error:
        return False, f"unreadable for good: {type(error).__name__} in Optuna's journal"
    return n >= 24, f"{n} trials after going on"


def stale_lock(kind: str, folder: Path) -> Answer:
    """A process is killed while it holds the lock of the file; how long does the next writer wait?"""
    path = folder / "log"
    if kind == OPTIMIZER:
        code = f"from boke import Optimizer; o = Optimizer.open({str(path)!r}, [(0, 1)], rng=0); o.ask()"
    else:
        study(kind, journal(path)).optimize(bowl, n_trials=3)
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
    from boke import Optimizer

    begun = time.monotonic()
    if kind == OPTIMIZER:
        with Optimizer.open(path) as optimizer:
            tell_some(optimizer, 1)
    else:
        study(kind, journal(path)).optimize(bowl, n_trials=1)
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
            from boke import Optimizer

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
            if kind == OPTIMIZER:
                from boke import Optimizer

                optimizer = Optimizer([(low, high)] * 2, rng=0)
                for _ in range(25):
                    trial = optimizer.ask()
                    assert all(low <= v <= high for v in trial.params.values())
                    optimizer.tell(trial, trial.params["x0"])
            else:
                found = study(kind, name=str(low))
                found.optimize(lambda t, a=low, b=high: t.suggest_float("x", a, b) + t.suggest_float("y", a, b), 25)
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
    h = hashlib.sha256()
    if kind == OPTIMIZER:
        from boke import Optimizer

        optimizer = Optimizer([(-1, 1)] * 5, rng=3)
        tell_some(optimizer, 60)
        h.update(optimizer.history.x.tobytes())
        return h.hexdigest()
    found = study(kind, seed=3)

    def objective(trial: Any) -> float:
        x = [trial.suggest_float(f"x{i}", -1, 1) for i in range(5)]
        return sum((v - 0.3) ** 2 for v in x) + 3 * (x[0] - x[1]) ** 2

    found.optimize(objective, n_trials=60)
    h.update(repr([trial.params for trial in found.trials]).encode())
    return h.hexdigest()


def digests(kind: str, environments: list[dict[str, str]]) -> Answer:
    found = {
        subprocess.run(
            [sys.executable, "-c", SEQUENCE, str(Path(__file__).parent), kind],
            env=os.environ | environment,
            capture_output=True,
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
    """The same seed with 1, 2 and 4 BLAS threads and two hash seeds."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return digests(kind, [{**dict.fromkeys(names, n), "PYTHONHASHSEED": n} for n in ("1", "2", "4")])


def storages(kind: str, folder: Path) -> Answer:
    """The same seed in memory, in SQLite and in a journal."""
    places = {"memory": None, "sqlite": f"sqlite:///{folder}/s.db", "journal": journal(folder / "journal")}
    runs = {}
    for name, storage in places.items():
        found = study(kind, storage, seed=5)
        found.optimize(bowl, n_trials=30)
        runs[name] = [(trial.params["x"], trial.params["a"]) for trial in found.trials]
    same = len({repr(run) for run in runs.values()}) == 1
    return same, "the same sequence" if same else "different sequences"


def resume(kind: str, folder: Path) -> Answer:
    """30 trials at once, and 15 and 15 with a fresh process's sampler: the same trials?"""
    if kind == OPTIMIZER:
        from boke import Optimizer

        whole = Optimizer([(-1, 1)] * 2, rng=5)
        tell_some(whole, 30)
        for _ in range(2):
            with Optimizer.open(folder / "log", [(-1, 1)] * 2, rng=5) as optimizer:
                tell_some(optimizer, 15)
        same = np.array_equal(whole.history.x, optimizer.history.x)
        return same, "equal to the uninterrupted run" if same else "another run"
    whole = study(kind, seed=5)
    whole.optimize(bowl, n_trials=30)
    for _ in range(2):
        parts = study(kind, f"sqlite:///{folder}/s.db", seed=5)
        parts.optimize(bowl, n_trials=15)
    same = [t.params for t in whole.trials] == [t.params for t in parts.trials]
    return same, "equal to the uninterrupted run" if same else "another run"


def failing_half(kind: str, folder: Path) -> Answer:
    """Half of the space fails, the optimum in it; share of failing asks among trials 20 to 60, mean of three seeds."""
    shares = []
    for seed in range(3):
        if kind == OPTIMIZER:
            import boke

            result = boke.minimize(
                lambda x: None if x[0] > 0.5 else float((x[0] - 0.7) ** 2 + (x[1] - 0.3) ** 2),
                [(0, 1)] * 2,
                n_trials=60,
                rng=seed,
            )
            failed = np.isnan(result.func_vals)
        else:
            found = study(kind, seed=seed, name=str(seed))

            def objective(trial: Any) -> float:
                x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
                return float("nan") if x > 0.5 else (x - 0.7) ** 2 + (y - 0.3) ** 2

            found.optimize(objective, n_trials=60)
            failed = np.array([trial.state.name == "FAIL" for trial in found.trials])
        shares.append(failed[20:].mean())
    share = float(np.mean(shares))
    return share < 0.5, f"{share:.2f}"


def ghosts(kind: str, folder: Path) -> Answer:
    """500 trials that will never end are in the study; 30 more trials beside 30 without ghosts: time and best value."""
    import optuna

    rng = np.random.default_rng(0)
    space = {name: optuna.distributions.FloatDistribution(-1, 1) for name in ("x", "a")}
    points = [dict(zip(space, p, strict=True)) for p in rng.uniform(-1, 1, (530, 2)).tolist()]
    best, seconds = [], []
    for n in (0, 500):
        found = study(kind, name=str(n))
        for p in points[:30]:
            value = (p["x"] - 0.3) ** 2 + (p["a"] + 0.2) ** 2
            found.add_trial(optuna.create_trial(params=p, distributions=space, value=value))
        for p in points[30 : 30 + n]:
            found.add_trial(optuna.create_trial(params=p, distributions=space, state=optuna.trial.TrialState.RUNNING))
        begun = time.process_time()
        found.optimize(bowl, n_trials=30)
        seconds.append(time.process_time() - begun)
        best.append(found.best_value)
    return seconds[1] < 5 * seconds[0] and best[1] < 0.02, f"time x{seconds[1] / seconds[0]:.1f}, best {best[1]:.1e}"


def all_fail(kind: str, folder: Path) -> Answer:
    """40 evaluations, all failing; do asks go on and stay different?"""
    if kind == OPTIMIZER:
        from boke import Optimizer

        optimizer = Optimizer([(0, 1)] * 2, rng=0)
        for _ in range(40):
            optimizer.tell(optimizer.ask(), None)
        n = len({trial.x.tobytes() for trial in optimizer.history})
    else:
        found = study(kind)

        def objective(trial: Any) -> float:
            bowl(trial)
            return float("nan")

        found.optimize(objective, n_trials=40)
        n = len({tuple(trial.params.values()) for trial in found.trials})
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
        done = (check.__doc__ or "").strip()
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
