"""Kernel profiles: k(x, x') = Ψ((x - x') / ℓ) with Ψ(0) = 1 (section 3.1 of the paper).

All four are radial, so each class is a function of the squared scaled distance s = ‖(x - x') / ℓ‖²:

    value(s)        Ψ
    slope(s)        dΨ/ds; the gradient in x is 2 · slope(s) · (x - x') / ℓ²
    radius          R_Ψ: Ψ vanishes for √s > R_Ψ
    reach(κ)        the distance √s at which Ψ falls to κ
    log_integral(d) ln ∫ Ψ over R^d, the normaliser of a density
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from boke.elementary import exp
from boke.space import Array


class Kernel(Protocol):
    name: ClassVar[str]
    radius: ClassVar[float]

    def value(self, s: Array) -> Array: ...
    def slope(self, s: Array) -> Array: ...
    def reach(self, kappa: float) -> float: ...
    def log_integral(self, d: int) -> float: ...


@dataclass(frozen=True)
class Gaussian:
    """Ψ = exp(-s / 2). The only one for which Ψ(a) Ψ(b) = Ψ(a + b), so that exponents can be shifted."""

    name: ClassVar[str] = "gaussian"
    radius: ClassVar[float] = math.inf

    def value(self, s: Array) -> Array:
        return exp(-0.5 * s)

    def slope(self, s: Array) -> Array:
        return -0.5 * exp(-0.5 * s)

    def reach(self, kappa: float) -> float:
        return math.sqrt(-2.0 * math.log(kappa))

    def log_integral(self, d: int) -> float:
        return 0.5 * d * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Triangular:
    """Ψ = (1 - √s)₊. At s = 0 it has a kink; its slope there is taken as 0, a subgradient."""

    name: ClassVar[str] = "triangular"
    radius: ClassVar[float] = 1.0

    def value(self, s: Array) -> Array:
        return np.maximum(1.0 - np.sqrt(s), 0.0)

    def slope(self, s: Array) -> Array:
        inside = (s > 0.0) & (s < 1.0)
        return np.where(inside, -0.5 / np.sqrt(np.where(inside, s, 1.0)), 0.0)

    def reach(self, kappa: float) -> float:
        return 1.0 - kappa

    def log_integral(self, d: int) -> float:
        return _log_ball(d) - math.log(d + 1.0)


@dataclass(frozen=True)
class Epanechnikov:
    """Ψ = (1 - s)₊."""

    name: ClassVar[str] = "epanechnikov"
    radius: ClassVar[float] = 1.0

    def value(self, s: Array) -> Array:
        return np.maximum(1.0 - s, 0.0)

    def slope(self, s: Array) -> Array:
        return np.where(s < 1.0, -1.0, 0.0)

    def reach(self, kappa: float) -> float:
        return math.sqrt(1.0 - kappa)

    def log_integral(self, d: int) -> float:
        return _log_ball(d) + math.log(2.0 / (d + 2.0))


@dataclass(frozen=True)
class Quartic:
    """Ψ = (1 - s)₊²."""

    name: ClassVar[str] = "quartic"
    radius: ClassVar[float] = 1.0

    def value(self, s: Array) -> Array:
        return np.square(np.maximum(1.0 - s, 0.0))

    def slope(self, s: Array) -> Array:
        return -2.0 * np.maximum(1.0 - s, 0.0)

    def reach(self, kappa: float) -> float:
        return math.sqrt(1.0 - math.sqrt(kappa))

    def log_integral(self, d: int) -> float:
        return _log_ball(d) + math.log(8.0 / ((d + 2.0) * (d + 4.0)))


KERNELS: dict[str, Kernel] = {k.name: k for k in (Gaussian(), Triangular(), Epanechnikov(), Quartic())}


def get_kernel(kernel: str | Kernel) -> Kernel:
    """Look a kernel up by name; a Kernel object passes through."""
    if not isinstance(kernel, str):
        return kernel
    if kernel not in KERNELS:
        raise ValueError(f"The 'kernel' parameter must be one of {sorted(KERNELS)} or a Kernel. Got {kernel!r}.")
    return KERNELS[kernel]


def _log_ball(d: int) -> float:
    """Log volume of the unit ball."""
    return 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
