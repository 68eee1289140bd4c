"""What a runner sees: an optimizer that is asked and told, and a problem that is called.

Everywhere in the bench larger is better and points live in the unit cube.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Optimizer(Protocol):
    """Suggests points of the unit cube; its first suggestions are the shared initial design."""

    def ask(self) -> Array:
        """The next point (d,) to evaluate."""
        ...

    def tell(self, x: Array, y: float | None) -> None:
        """Learn the value at x (d,), asked for or not; None and nan mean that the evaluation failed."""
        ...


class Problem(Protocol):
    """A function on the unit cube to maximize.

    Attributes:
        name: What figures and tables call it.
        dim: Number of coordinates.
        optimum: The largest value of ``true``; None when nobody knows it.
    """

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def optimum(self) -> float | None: ...

    def __call__(self, x: Array) -> float:
        """One evaluation at x (d,), noisy if the problem is; nan or an exception is a failure."""
        ...

    def true(self, x: Array) -> float:
        """The value at x (d,) without noise and without failures."""
        ...
