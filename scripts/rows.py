"""Results of a study as lines of JSON in a file, where a run that is there is not made again, and their comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

Row = dict[str, Any]
Run = Callable[..., Row | list[Row]]


def stored(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fill(path: Path, run: Run, jobs: Sequence[tuple[Any, ...]], workers: int | None = None) -> None:
    """Add what ``run`` returns for every job, one row or several at once, in the order in which they end."""
    path.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(workers) as pool, path.open("a") as out:
        for future in tqdm(as_completed([pool.submit(run, *job) for job in jobs]), total=len(jobs), unit="run"):
            found = future.result()
            out.write("".join(json.dumps(row) + "\n" for row in (found if isinstance(found, list) else [found])))
            out.flush()


class Duel(NamedTuple):
    """Regrets beside others of the same problems: shares that are lower and higher, difference of log10, its error."""

    better: Any
    worse: Any
    mean: Any
    error: Any


def duel(ours: Any, theirs: Any) -> Duel:
    """Of regrets (runs,) or (runs, budgets)."""
    gain = np.log10(ours) - np.log10(theirs)
    error = gain.std(axis=0) / np.sqrt(len(gain))
    return Duel((gain < 0.0).mean(axis=0), (gain > 0.0).mean(axis=0), gain.mean(axis=0), error)
