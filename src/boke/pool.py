"""Kernel sums at the points of a finite set, kept from one suggestion to the next.

Afresh they cost the number of candidates times that of the observations. But a kernel is narrow: only the few
observations that are hardly farther away than the nearest count in the sums of a candidate. A pool knows these, with
their distances. A point that is told costs one distance for each candidate, and a sum the few terms that matter;
bandwidth and values, which are ranks and all move with every observation, need not be known before.

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
CROWDED = 64  # neighbours of a candidate, on average, from which on they are not worth keeping


class Pool:
    """Candidates (n, d) of the unit cube."""

    def __init__(self, candidates: Array) -> None:
        self._candidates = np.ascontiguousarray(candidates)
        self._seen: Any = None
        self._silent: Any = None
        self._crowded = NATIVE is None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._candidates)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, (self._candidates,)  # what it knows is soon found again

    def sums(self, X: Array, y: Array, w: Array | None, silent: Array, bandwidth: float) -> tuple[Array, Array] | None:
        """Mean and density (n,) for the gaussian kernel.

        The observations are X (t, d), with values y (t,) and positive weights w (t,); silent points are (s, d).
        None where too many observations count: with a wide kernel sums afresh are no dearer.
        """
        with self._lock:
            if self._crowded:
                return None
            if self._seen is None:
                assert NATIVE is not None
                self._seen, self._silent = NATIVE.Pool(self._candidates), NATIVE.Pool(self._candidates)
            mean, density = self._seen.sums(X, row_keys(X), y, w, bandwidth, WITHIN)
            if len(silent):
                zero = np.zeros(len(silent))
                density = density + self._silent.sums(silent, row_keys(silent), zero, None, bandwidth, WITHIN)[1]
            if max(self._seen.size, self._silent.size) > CROWDED * len(self):
                self._crowded, self._seen, self._silent = True, None, None
            return mean, density
