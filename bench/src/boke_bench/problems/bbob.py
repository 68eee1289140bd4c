"""The BBOB suite by ioh: any function, dimension and instance; the value is minus the distance to the optimum."""

from __future__ import annotations

import ioh
import numpy as np

from boke_bench.protocol import Array

# Two functions of each class, as the paper shows them: f1, f4, f8 and f11 are named in its text, the other six are a
# reading of it: the panels of its figures are two of each class.
BATCH_1 = (1, 8, 14, 15, 20)
BATCH_2 = (4, 6, 11, 17, 21)
PAPER_FUNCTIONS = BATCH_1 + BATCH_2
NAMED_IN_PAPER = (1, 4, 8, 11)


class BBOB:
    """-(f(10 x - 5) - f_opt), at most 0.

    Args:
        function: 1 to 24.
        dim: At least 2.
        instance: Which shift and rotation.
    """

    optimum: float | None = 0.0

    def __init__(self, function: int, dim: int, instance: int = 1) -> None:
        if not 1 <= function <= 24:
            raise ValueError(f"The 'function' parameter of BBOB must be in 1..24. Got {function}.")
        if dim < 2:
            raise ValueError(f"The 'dim' parameter of BBOB must be at least 2. Got {dim}.")
        self.dim = dim
        self._inner = ioh.get_problem(function, instance, dim, ioh.ProblemClass.BBOB)
        self._best = float(self._inner.optimum.y)
        self.name = f"f{function} {self._inner.meta_data.name} {dim}-D" + (f" #{instance}" if instance != 1 else "")

    def __call__(self, x: Array) -> float:
        return self.true(x)

    def true(self, x: Array) -> float:
        return self._best - float(self._inner(10.0 * np.asarray(x, dtype=float) - 5.0))
