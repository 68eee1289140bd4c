"""Experiments small enough for a test, out of the parts in bench_fakes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from boke_bench.experiment import Experiment
from boke_bench.store import Store

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # workers are handed the path and find bench_fakes on it
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))

UNIFORM, SLOW, BOWL = "bench_fakes:Uniform", "bench_fakes:Slow", "bench_fakes:Bowl"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def plan() -> Callable[..., Experiment]:
    """Makes an experiment from the keys of its file; two optimizers on one bowl by default."""

    def make(name: str = "bowls", *, scale: float | str = 1.0, **definition: Any) -> Experiment:
        default: dict[str, Any] = {
            "title": "Bowls",
            "optimizers": [UNIFORM, SLOW],
            "seeds": 3,
            "budget": 12,
            "n_init": 4,
            "problems": [{"spec": {"kind": BOWL, "dim": [2, 3]}}],
        }
        return Experiment(name, {**default, **definition}, scale)

    return make
