"""Kernel sums at the points of a finite set, kept from one suggestion to the next.

Afresh they cost the number of candidates times that of the observations. But a kernel is narrow: only the few
observations that are hardly farther away than the nearest count in the sums of a candidate. A pool knows these, with
their distances. A point that is told costs one distance for each candidate, and a sum the few terms that matter;
bandwidth and values, which are ranks and all move with every observation, need not be known before.

The sums are those of ``KernelModel.predict`` but for rounding, and the same bits whatever came and went before.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from boke.compiled import NATIVE
from boke.keys import Keys, row_keys
from boke.space import Array, Mask

WITHIN = 104.0  # squared distance, in bandwidths, beyond the nearest: farther points weigh below 3e-23, no sum notices
CROWDED = 64  # neighbours of a candidate, on average, from which on they are not worth keeping


class Pool:
    """Candidates (n, d) of the unit cube."""

    def __init__(self, candidates: Array) -> None:
        self._candidates = np.ascontiguousarray(candidates)
        self._seen: Neighbours | None = None
        self._silent: Neighbours | None = None
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
            if self._seen is None or self._silent is None:
                self._seen, self._silent = Neighbours(self._candidates), Neighbours(self._candidates)
            mean, density = self._seen(X, y, w, bandwidth)
            if len(silent) or len(self._silent):
                density = density + self._silent(silent, np.zeros(len(silent)), None, bandwidth)[1]
            if max(self._seen.kept, self._silent.kept) > CROWDED * len(self):
                self._crowded, self._seen, self._silent = True, None, None
            return mean, density


class Neighbours:
    """For every candidate (n, d) the points that count in its sums; points that repeat are one with a weight."""

    def __init__(self, candidates: Array) -> None:
        self._native = NATIVE.Pool(candidates)
        self._keys: Keys = np.empty(0, np.uint64)  # of the points, sorted
        self._slots = np.empty(0, np.int64)  # under which numbers the compiled pool knows them

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def kept(self) -> int:
        """How many neighbours all candidates have together."""
        return int(self._native.size)

    def __call__(self, X: Array, y: Array, w: Array | None, bandwidth: float) -> tuple[Array, Array]:
        """Mean and density (n,) of points X (t, d) with values y (t,) and weights w (t,)."""
        keys, first, which = np.unique(row_keys(X), return_index=True, return_inverse=True)
        w, within = (np.ones(len(y)), WITHIN) if w is None else (w, WITHIN + 2.0 * math.log(w.max() / w.min()))
        self._become(keys, X[first], within * bandwidth**2)
        slots, m = self._slots[which], self._native.slots
        weights, values = np.bincount(slots, w, m), np.bincount(slots, w * y, m)
        return self._native.sums(weights, values, bandwidth)  # type: ignore[no-any-return]

    def _become(self, keys: Keys, points: Array, reach: float) -> None:
        """Let the points be these (m, d), with sorted keys (m,)."""
        stay, old = _among(self._keys, keys), _among(keys, self._keys)
        added = self._native.update(self._slots[~stay].tolist(), np.ascontiguousarray(points[~old]), keys[~old], reach)
        slots = np.empty(len(keys), np.int64)
        slots[old], slots[~old] = self._slots[stay], added
        self._keys, self._slots = keys, slots


def _among(some: Keys, others: Keys) -> Mask:
    """Which keys (n,) are among others, both sorted."""
    if len(others) == 0:
        return np.zeros(len(some), bool)
    return np.asarray(others[np.minimum(np.searchsorted(others, some), len(others) - 1)] == some)
