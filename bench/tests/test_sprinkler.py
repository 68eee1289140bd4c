"""The sprinkler against the outputs of the R package CompModels 0.3.0."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from boke_bench.problems.sprinkler import HIGH, LOW, Sprinkler, simulate

VECTORS = Path(__file__).parent / "sprinkler_vectors.csv.gz"
JUMPS = {"argmax_obj2": (1, 0.03), "argmax_obj3": (2, 0.2)}  # output, and how far the other side of its jump may lie


def rows() -> list[tuple[str, np.ndarray, np.ndarray]]:
    with gzip.open(VECTORS, "rt") as file:
        lines = [line.strip().split(",") for line in file][1:]
    return [(line[0].strip('"'), np.array(line[1:9], dtype=float), np.array(line[9:12], dtype=float)) for line in lines]


def test_all_vectors():
    seen: Counter[str] = Counter()
    for kind, x, expected in rows():
        outputs = np.array(simulate(x))
        error = np.abs(outputs - expected)
        if kind in JUMPS and error[JUMPS[kind][0]] > 1e-10:
            output, jump = JUMPS[kind]
            assert error[output] < jump  # the maximum sits on a discontinuity: the other side is right, too
            error[output] = 0.0
        assert error.max() <= 1e-10, (kind, x)
        seen[kind] += 1
    assert sum(seen.values()) == 540
    assert (seen["corner"], seen["random"], seen["argmax_obj2"], seen["argmax_obj3"]) == (256, 200, 2, 1)


@pytest.mark.parametrize(("output", "column"), [("range", 1), ("speed", 2)])
def test_the_optimum_is_the_best_vector(output: str, column: int):
    best = max(rows(), key=lambda row: float(row[2][column]))
    problem = Sprinkler(output)
    assert problem.optimum == pytest.approx(best[2][column], abs=1e-12)
    assert problem.true((best[1] - LOW) / (HIGH - LOW)) == pytest.approx(problem.optimum, abs=0.2)


def test_the_cube_is_the_box():
    problem = Sprinkler("consumption")
    assert problem.true(np.zeros(8)) == -simulate(LOW).consumption
    assert problem.true(np.ones(8)) == -simulate(HIGH).consumption
    assert (problem.dim, problem.optimum, problem.name) == (8, None, "Sprinkler consumption")


def test_an_unknown_output_is_refused():
    with pytest.raises(ValueError, match="one of"):
        Sprinkler("colour")
