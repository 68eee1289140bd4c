"""Results of a study as lines of JSON in a file: a run that is there is not made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

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
