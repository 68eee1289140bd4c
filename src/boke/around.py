"""Nearest rows to a point that moves little: the neighbourhood of an anchor answers for every point close to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boke.keys import Numbers
from boke.space import Array, Mask

KEPT = 1 << 15  # rows of a neighbourhood
TAIL = 256  # rows that came later and are not yet in order
ANCHORS = 2  # neighbourhoods at once: under noise the best observation and the best estimate take turns
SLACK = 1e-9  # rounding of distances, relative, allowed for in bounds

Metric = Callable[[Array, Array], Array]  # distances (n,) of points (n, d) from one (d,)
Alive = Callable[[Numbers], Mask]


class Around:
    """Finds the nearest of many rows (n, d), which only grow in number, to one point after the other.

    It keeps the rows around the last few points it was asked for and looks at all only for a point far from these.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._known: list[_Neighbourhood] = []  # the last used one first

    def add(self, rows: Numbers) -> None:
        """Take in later rows."""
        for known in self._known:
            known.tail.append(rows)

    def nearest(self, X: Array, x: Array, k: int, alive: Alive, everything: Callable[[], Numbers]) -> Numbers:
        """Numbers of some rows of X, among them the k nearest to x (d,) and all that tie with the last of these.

        Args:
            X: All rows, by number.
            x: The point.
            k: How many are wanted.
            alive: Which rows, by number, count.
            everything: The numbers of all rows that count.
        """
        for known in self._known:
            rows = known.nearest(X, x, k, alive)
            if rows is not None:
                self._known.remove(known)
                self._known.insert(0, known)
                return rows
        numbers = everything()
        self._known.insert(0, _Neighbourhood(x, numbers, X, self._metric))
        del self._known[ANCHORS:]
        rows = self._known[0].nearest(X, x, k, alive)
        return numbers if rows is None else rows  # more ties than it keeps


class _Neighbourhood:
    """All rows closer to ``anchor`` than ``radius``, by their distance from it.

    By the triangle inequality the k rows nearest to a point x are among them if the k-th is closer to x than the
    radius less the distance between x and the anchor.
    """

    def __init__(self, anchor: Array, rows: Numbers, X: Array, metric: Metric) -> None:
        self.anchor, self.radius, self.metric = anchor.copy(), np.inf, metric
        self.tail: list[Numbers] = []
        away = metric(X if len(rows) == len(X) else X[rows], anchor)
        if len(rows) > 2 * KEPT:  # the quantile of a sample will do, at a fraction of the cost of a sort
            some = away[:: len(rows) // KEPT]
            self.radius = float(np.partition(some, len(some) * KEPT // len(rows))[len(some) * KEPT // len(rows)])
            near = away <= self.radius
            rows, away = rows[near], away[near]
        self._sort(rows, away)

    def nearest(self, X: Array, x: Array, k: int, alive: Alive) -> Numbers | None:
        """As ``Around.nearest``; None where this neighbourhood is too small to tell."""
        if sum(map(len, self.tail)) > TAIL:
            self._merge(X, alive)
        late = np.concatenate([*self.tail, self.rows[:0]])
        late = late[alive(late)]
        shift = float(self.metric(x[None], self.anchor)[0])
        seen = min(len(self.rows), 2 * k)
        while True:
            bound = self.away[seen] if seen < len(self.rows) else self.radius
            rows = self.rows[:seen]
            rows = np.concatenate([rows[alive(rows)], late])
            away = self.metric(X[rows], x)
            kth = float(np.partition(away, k - 1)[k - 1]) if len(rows) >= k else np.inf
            if np.isinf(bound) or (kth + shift) * (1.0 + SLACK) < bound:
                return rows[away <= kth * (1.0 + SLACK)]
            if seen == len(self.rows):
                return None
            enough = 2 * seen if np.isinf(kth) else np.searchsorted(self.away, (kth + shift) * (1.0 + 2.0 * SLACK)) + 1
            seen = min(len(self.rows), max(int(enough), seen + 1))

    def _merge(self, X: Array, alive: Alive) -> None:
        rows = np.concatenate([self.rows, *self.tail])
        away = np.concatenate([self.away, self.metric(X[rows[len(self.rows) :]], self.anchor)])
        self.tail = []
        near = alive(rows) & (away <= self.radius)
        self._sort(rows[near], away[near])

    def _sort(self, rows: Numbers, away: Array) -> None:
        order = np.argsort(away, kind="stable")
        if len(order) > 4 * KEPT:
            self.radius = float(away[order[KEPT]])
            order = order[:KEPT]
        self.rows, self.away = rows[order], away[order]
