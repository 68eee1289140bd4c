"""The kernel sums of one model, evaluated again and again: compiled where it can be, by NumPy otherwise.

The compiled sums do what ``boke.sums`` does, to within rounding, and the same to the last bit on every instruction set
and with any number of threads.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from boke.compiled import NATIVE
from boke.kernels import KERNELS, Kernel
from boke.space import Array
from boke.sums import LARGEST, Points, Sums, kernel_sums, plain_mean, times

NAMES = ("gaussian", "triangular", "epanechnikov", "quartic")  # in the order of the compiled module
MODERATE = (1e-15, 1e30)  # values that single precision can hold, with those a millionth as large
_threads = 1


def set_threads(n: int) -> None:
    """Let the compiled sums use n threads; suggestions stay the same. One is the default."""
    global _threads
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"The 'n' parameter of set_threads must be a positive integer. Got {n!r}.")
    _threads = n


def config() -> dict[str, str]:
    """Which engine computes the sums, and with what."""
    import scipy

    return {
        "sums": "NumPy" if NATIVE is None else f"compiled ({NATIVE.instruction_sets()[0]})",
        "threads": str(_threads if NATIVE is not None else 1),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": sys.version.split()[0],
    }


class Draw(NamedTuple):
    """Candidates for a maximum, and the random numbers from which ``argmax`` makes n more around the centers.

    Attributes:
        cube: Candidates (., d) all over the cube.
        extra: Candidates (., d) of the caller.
        centers: Observations (m, d), the best first.
        which: Uniform numbers (n, 3) that choose a center, a column that moves in any case, and a distance.
        chance: Uniform numbers ((n + 1) // 2, d) that say, of every other candidate, which columns move.
        step: Normal numbers (n, d), the directions.
        rim: Distance, in bandwidths, of the candidates at the rim of an observation's reach.
        rims: How many of these there are, twice: around all centers, and around the best of them.
        few: Centers of the others, which are near.
        leash: Distance of the farthest of these.
    """

    cube: Array
    extra: Array
    centers: Array
    which: Array
    chance: Array
    step: Array
    rim: float
    rims: int
    few: int
    leash: float


class Observations:
    """t observations, ready to be summed over: what ``kernel_sums`` takes, but the queries.

    Args:
        kernel: Its profile; one that is not of ``boke.kernels`` is left to NumPy.
        Z: Scaled points (t, p) and codes (t, c).
        y: Values (t,).
        w: Weights (t,), positive; None is 1.
        penalty: Squared distances of unlike categories (c,).
    """

    def __init__(self, kernel: Kernel, Z: Points, y: Array, w: Array | None = None, penalty: Array | None = None):
        self.kernel, self.Z, self.y, self.w, self.penalty = kernel, Z, y, w, penalty
        self._native = None
        self._factor = 1.0
        self._moderate = False
        if NATIVE is None or KERNELS.get(kernel.name) is not kernel or len(y) == 0:
            return
        largest = float(np.abs(y).max())
        self._moderate = w is None and MODERATE[0] < largest < MODERATE[1]
        total = len(y) if w is None else max(1.0, float(w.sum()))
        if largest * total > LARGEST:
            self._factor = largest
        self._native = NATIVE.Sums(
            NAMES.index(kernel.name),
            np.ascontiguousarray(Z.numeric),
            np.ascontiguousarray(Z.codes),
            y / self._factor if self._factor != 1.0 else np.ascontiguousarray(y),
            None if w is None else np.ascontiguousarray(w),
            np.empty(0) if penalty is None else penalty,
        )

    def screen(
        self, silent: Observations | None, draw: Draw, bandwidth: Array, beta: float, rho: float, most: int
    ) -> Array | None:
        """The ``most`` best candidates of ``draw`` for a maximum of m + β σ̂, the best first.

        They are compared in single precision; None where that is not compiled or not enough.
        """
        if not self._moderate or self.kernel.name != "gaussian" or len(self.Z.codes[0]):
            return None
        assert self._native is not None
        other = None if silent is None else silent._native
        return self._native.screen(other, *draw[:6], np.ascontiguousarray(bandwidth), beta, rho, *draw[6:], most)  # type: ignore[no-any-return]

    def polish(
        self,
        silent: Observations | None,
        X: Array,
        bandwidth: Array,
        scale: Array,
        beta: float,
        rho: float,
        steps: int,
        leash: float,
    ) -> tuple[Array, Array] | None:
        """Points and values that ``argmax.polish`` of m + β σ̂ leads to from X (n, d); None where it is not compiled."""
        if self._native is None or self._factor != 1.0 or self.kernel.name != "gaussian" or len(self.Z.codes[0]):
            return None
        other = None if silent is None else silent._native
        ell = np.ascontiguousarray(bandwidth)
        return self._native.polish(other, np.ascontiguousarray(X), ell, scale, beta, rho, steps, leash)  # type: ignore[no-any-return]

    def __call__(self, Q: Points, *, gradient: bool = False, leave_one_out: bool = False) -> Sums:
        """W, S, mean, ln W and, when asked for, their gradients at the queries.

        With ``leave_one_out`` query i is observation i and skips itself.
        """
        if self._native is None or len(self.y) - leave_one_out <= 0:
            return kernel_sums(
                self.kernel, Q, self.Z, self.y, self.w, self.penalty, gradient=gradient, leave_one_out=leave_one_out
            )
        numeric, codes = np.ascontiguousarray(Q.numeric), np.ascontiguousarray(Q.codes)
        sums = Sums(*self._native(numeric, codes, gradient, leave_one_out, _threads))
        if self.kernel.name != "gaussian" and (empty := sums.W <= 0.0).any():
            rows = np.arange(len(numeric)) if leave_one_out else None
            y = self.y / self._factor
            sums.mean[empty] = np.broadcast_to(plain_mean(y, self.w, rows), len(numeric))[empty]
        return sums if self._factor == 1.0 else times(sums, self._factor)
