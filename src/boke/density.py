"""The kernel density at candidates of the unit cube, kept from one trial to the next.

Afresh it costs the number of candidates times that of the observations. Kept, an observation that comes or goes costs
one kernel value for each candidate: W is a sum, and it is added or subtracted. The bandwidth changes only when there
are twice as many observations: all sums are then made afresh, in a series that doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from boke.compiled import NATIVE
from boke.elementary import exp, log, squared_distances
from boke.keys import Numbers
from boke.space import Array, Mask, Space
from boke.window import Window

TOGETHER = 256  # observations whose distances from all candidates are in memory at once
CHUNK = 1 << 16  # observations that are summed over at once where sums are made afresh,
MANY = 8  # compiled for so many candidates: for fewer the observations are not worth preparing
DRAINED = 1e-3  # of the largest sum that a candidate has had: below, subtracting has cost it three digits
LARGE, LOWEST, HIGHEST = 1e100, -700.0, 700.0  # of a sum relative to its level; of the powers of what is added to it

Observations = Callable[[], tuple[Array, Mask]]  # points (n, d), and which of them count


class Density:
    """ln W of observations that come and go, W = Σ k(x, x_i) (eq. KDE) with the gaussian kernel, in a window.

    Sums are relative to a level, as W itself may be too small for a number. They are those made afresh to ten digits.

    Args:
        window: The candidates.
        bandwidth: ℓ, one for all columns.
        space: What the candidates are points of.
    """

    def __init__(self, window: Window, bandwidth: float, space: Space) -> None:
        self.space, self.window, self.bandwidth = space, window, bandwidth
        self._places = window.places
        self._candidates = window.points(self._places, space)
        self._level, self._sum, self._most = np.zeros((3, window.count))
        self._stale = np.ones(window.count, bool)  # candidates whose sum has to be made afresh

    def follows(self, window: Window) -> bool:
        """Whether a window slides along the same sequence."""
        return replace(window, number=self.window.number) == self.window

    def add(self, points: Array) -> None:
        """Observations (m, d) come."""
        self._stale |= self._sum == 0.0
        self._change(points, 1.0)
        self._stale |= ~np.isfinite(self._sum)
        large = (self._sum > LARGE) & ~self._stale
        if large.any():
            self._level[large] += log(self._sum[large])
            self._most[large] /= self._sum[large]
            self._sum[large] = 1.0
        self._most = np.maximum(self._most, self._sum)

    def remove(self, points: Array) -> None:
        """Observations (m, d) that had come go."""
        self._change(points, -1.0)
        self._stale |= ~(self._sum > DRAINED * self._most)

    def _change(self, points: Array, sign: float) -> None:
        for first in range(0, len(points) if not self._stale.all() else 0, TOGETHER):
            powers = self._powers(self._candidates, points[first : first + TOGETHER]) - self._level[:, None]
            self._stale |= (powers > HIGHEST).any(axis=1)
            self._sum += sign * exp(np.clip(powers, LOWEST, HIGHEST)).sum(axis=1)

    def log(self, window: Window, bandwidth: float, observations: Observations) -> tuple[Array, Array]:
        """Candidates (count, d) of a window that follows, and ln W at them.

        The observations, those that came and did not go, are looked at where sums have to be made afresh.
        """
        self._stale |= bandwidth != self.bandwidth
        self.window, self.bandwidth = window, bandwidth
        places = window.places
        moved = places != self._places
        self._candidates[moved] = window.points(places[moved], self.space)
        self._places = places
        self._stale |= moved
        if self._stale.any():
            self._refresh(np.flatnonzero(self._stale), *observations())
        return self._candidates.copy(), self._level + log(self._sum)

    def _refresh(self, rows: Numbers, points: Array, counts: Mask) -> None:
        """Make some sums afresh."""
        level = np.full(len(rows), -np.inf)
        for first in range(0, len(points), CHUNK):
            chosen = slice(first, first + CHUNK)
            some = points[chosen] if counts[chosen].all() else points[chosen][counts[chosen]]
            if len(some):
                part = self._log_sums(self._candidates[rows], some)
                top = np.maximum(level, part)
                level = top + log(exp(np.maximum(level - top, LOWEST)) * np.isfinite(level) + exp(part - top))
        known = np.isfinite(level)
        self._level[rows], self._sum[rows] = np.where(known, level, 0.0), known
        self._most[rows], self._stale[rows] = self._sum[rows], False

    def _log_sums(self, candidates: Array, points: Array) -> Array:
        """ln W (n,) of all points at candidates (n, d)."""
        if NATIVE is not None and len(candidates) >= MANY:
            no, nothing = (np.empty((len(X), 0)) for X in (points, candidates))
            unit = 1.0 / self.bandwidth
            sums = NATIVE.Sums(0, points * unit, no, np.zeros(len(points)), None, no[0])
            return np.asarray(sums(candidates * unit, nothing)[3])
        powers = self._powers(candidates, points)
        top = powers.max(axis=1)
        return np.asarray(top + log(exp(np.maximum(powers - top[:, None], LOWEST)).sum(axis=1)))

    def _powers(self, candidates: Array, points: Array) -> Array:
        """-s / 2 of all pairs (n, m)."""
        return squared_distances(candidates, points) * (-0.5 / self.bandwidth**2)


def doubling(t: int) -> int:
    """The last power of two: how many observations the bandwidth is made for, so that it changes in a series."""
    return 1 << (t.bit_length() - 1) if t > 0 else 0
