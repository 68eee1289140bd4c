"""Well-known test functions on the unit cube, all to be maximized, and the one-dimensional example of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from boke_bench.protocol import Array


@dataclass(frozen=True)
class Classic:
    """A formula, the box it is meant for and its largest value."""

    name: str
    low: Array
    high: Array
    formula: Callable[[Array], float]
    optimum: float | None

    @property
    def dim(self) -> int:
        return len(self.low)

    def __call__(self, x: Array) -> float:
        return self.true(x)

    def true(self, x: Array) -> float:
        return float(self.formula(self.low + np.asarray(x, dtype=float) * (self.high - self.low)))


def toy() -> Classic:
    """f(x) = -exp(-1.4 x) cos(3.5 π x), the example of the paper; its slope is 0 where tan(3.5 π x) = -0.4 / π."""
    peak = (math.pi - math.atan(0.4 / math.pi)) / (3.5 * math.pi)
    return Classic("Toy 1-D", np.zeros(1), np.ones(1), _toy, _toy(np.array([peak])))


def make_classic(function: str, dim: int | None = None) -> Classic:
    """A function of FUNCTIONS; ``dim`` is needed by those that exist in any dimension and refused by the others."""
    if function not in FUNCTIONS:
        raise ValueError(f"The 'function' parameter must be one of {list(FUNCTIONS)}. Got {function!r}.")
    formula, low, high, fixed, best = FUNCTIONS[function]
    if fixed is not None and dim not in (None, fixed):
        raise ValueError(f"The 'dim' parameter of {function} must be {fixed}. Got {dim}.")
    d = fixed or dim
    if d is None or d < 1:
        raise ValueError(f"The 'dim' parameter of {function} must be at least 1. Got {dim}.")
    optimum = best(d) if callable(best) else best
    box = np.broadcast_to(low, d) + 0.0, np.broadcast_to(high, d) + 0.0
    return Classic(f"{function.capitalize()} {d}-D", *box, formula, optimum)


def _toy(x: Array) -> float:
    return -math.exp(-1.4 * x[0]) * math.cos(3.5 * math.pi * x[0])


def _branin(x: Array) -> float:
    bowl = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return -float(bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10)


def _ackley(x: Array) -> float:
    far, rough = math.sqrt(np.mean(x**2)), float(np.mean(np.cos(2 * math.pi * x)))
    return 20 * math.exp(-0.2 * far) + math.exp(rough) - 20 - math.e


def _levy(x: Array) -> float:
    w = 1 + (x - 1) / 4
    middle = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2))
    return -float(math.sin(math.pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2))


def _michalewicz(x: Array) -> float:
    i = np.arange(1, len(x) + 1)
    return float(np.sum(np.sin(x) * np.sin(i * x**2 / math.pi) ** 20))


def _michalewicz_best(d: int) -> float:
    """The function is a sum over coordinates: the sum of their maxima, each found on a grid and refined."""
    grid, total = np.linspace(0.0, math.pi, 4001), 0.0
    for i in range(1, d + 1):
        values = np.sin(grid) * np.sin(i * grid**2 / math.pi) ** 20
        near = grid[np.argmax(values)]

        def loss(t: float, i: int = i) -> float:
            return -math.sin(t) * math.sin(i * t * t / math.pi) ** 20

        found = minimize_scalar(loss, bounds=(near - 1e-3, near + 1e-3), method="bounded", options={"xatol": 1e-12})
        total -= float(found.fun)
    return total


_HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _hartmann6(x: Array) -> float:
    return float(np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-np.sum(_HARTMANN_A * (x - _HARTMANN_P) ** 2, axis=1)))


# formula, low, high, dimension if there is only one, largest value
FUNCTIONS: dict[str, tuple[Callable[[Array], float], Array, Array, int | None, float | Callable[[int], float]]] = {
    "branin": (_branin, np.array([-5.0, 0.0]), np.array([10.0, 15.0]), 2, -0.39788735772973816),
    "hartmann6": (_hartmann6, np.array([0.0]), np.array([1.0]), 6, 3.3223680114155147),
    "ackley": (_ackley, np.array([-32.768]), np.array([32.768]), None, 0.0),
    "levy": (_levy, np.array([-10.0]), np.array([10.0]), None, 0.0),
    "michalewicz": (_michalewicz, np.array([0.0]), np.array([math.pi]), None, _michalewicz_best),
}
