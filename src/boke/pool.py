"""Kernel sums at many candidates, kept from one suggestion to the next.

Afresh they cost the number of candidates times that of the observations. But a kernel is narrow: only the few
observations that are hardly farther away than the nearest count in the sums of a candidate. A pool knows these, with
their distances. A point that is told costs one distance for each candidate, a candidate that is new one for each point,
and a sum the few terms that matter. Values, which are ranks and all move with every observation, and the bandwidth need
not be known before: distances are kept for a somewhat larger one, until it is half as large, so that the times at which
all of them are looked at again form a geometric series.

The sums are those of ``KernelModel.predict`` but for rounding, and the same bits whatever came and went before.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from boke.compiled import NATIVE
from boke.keys import row_keys
from boke.space import Array

WITHIN = 104.0  # squared distance, in bandwidths, beyond the nearest: farther points weigh below 3e-23, no sum notices
CROWDED = 64  # neighbours of a candidate, on average, from which on they are not worth keeping,
FEW = 1 << 20  # unless those of all candidates together are no more than so many


class Pool:
    """What is known of the sums at the candidates that were asked for last."""

    def __init__(self) -> None:
        self._crowded = NATIVE is None
        self._seen: Any = None if NATIVE is None else NATIVE.Pool()
        self._silent: Any = None if NATIVE is None else NATIVE.Pool()
        self._last: Array | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, ()  # what it knows is soon found again

    def sums(
        self, candidates: Array, X: Array, y: Array, w: Array | None, silent: Array, bandwidth: float
    ) -> tuple[Array, Array] | None:
        """Mean and density (n,) for the gaussian kernel at candidates (n, d) of the unit cube.

        The observations are X (t, d), with values y (t,) and positive weights w (t,); silent points are (s, d).
        None where too many observations count: with a wide kernel sums afresh are no dearer.
        """
        with self._lock:
            if self._crowded:
                return None
            same = candidates is self._last and not candidates.flags.writeable
            mean, density = self._seen.sums(candidates, same, X, row_keys(X), y, w, bandwidth, WITHIN)
            if len(silent):
                zero = np.zeros(len(silent))
                hush = self._silent.sums(candidates, False, silent, row_keys(silent), zero, None, bandwidth, WITHIN)
                density = density + hush[1]
            self._last = candidates
            if max(self._seen.size, self._silent.size) > max(CROWDED * len(candidates), FEW):
                self._crowded, self._seen, self._silent = True, None, None
            return mean, density
