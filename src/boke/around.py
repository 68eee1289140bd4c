"""The rows nearest to a point: from the neighbourhood of an anchor close to it, or else by a coarse copy of all."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from boke.compiled import NATIVE
from boke.keys import Numbers
from boke.space import Array, Mask

KEPT = 128  # rows of a neighbourhood, or twice what is asked for: more would cost a far move more than they save
TAIL = 256  # rows that came later and are not yet in order
ANCHORS = 2  # neighbourhoods at once: under noise the best observation and the best estimate take turns
SLACK = 1e-9  # rounding of distances, relative, allowed for in bounds

BLOCK, TOGETHER = 64, 4  # points of the coarse copy, and columns of them, that lie side by side for the compiled loop
PIECE = 1 << 16  # points of the coarse copy that get their memory at once
STEPS = 127  # codes of the unit interval, less one
ARRANGED = 24  # columns, at most, of points that are put in order of their places: with more, places say nothing

Metric = Callable[[Array, Array], Array]  # distances (n,) of points (n, d) from one (d,)
Alive = Callable[[Numbers], Mask]
Search = Callable[[int], Numbers]  # k -> some rows, in order, among them the k nearest and all that tie


class Coarse:
    """A copy of points of the unit cube (n, d), one byte for each number, by which most of them are too far away.

    Distances of the copies are off by what the rounding can make of them, and no more: whatever may be among the
    nearest is found, and measured by those who ask. Points come in pieces. Those of a full one are put in order of
    their places, halved again and again as in a tree, so that most blocks of them are too far away as a whole; those
    of the last one are looked at one by one. Without the compiled module it keeps nothing and finds all.
    """

    def __init__(self, columns: int) -> None:
        self._columns, self._n = columns, 0
        self._pieces: list[NDArray[np.uint8]] = []  # (blocks, groups, BLOCK, TOGETHER)
        self._places: list[tuple[NDArray[np.uint16], NDArray[np.uint8]] | None] = []  # which is where, and boxes
        self._rounding = 0.0  # the largest of a coordinate, in steps

    def __len__(self) -> int:
        return self._n

    def add(self, points: Array) -> None:
        """Take in later points."""
        if NATIVE is None:
            self._n += len(points)
            return
        while len(points):
            start = self._n % PIECE
            if start == 0:
                groups = -(-self._columns // TOGETHER)
                self._pieces.append(np.zeros((PIECE // BLOCK, groups, BLOCK, TOGETHER), np.uint8))
                self._places.append(None)
            codes, rounding = _codes(points[: PIECE - start])
            (block, place), columns = np.divmod(np.arange(start, start + len(codes)), BLOCK), np.arange(self._columns)
            self._pieces[-1][block[:, None], columns // TOGETHER, place[:, None], columns % TOGETHER] = codes
            self._rounding = max(self._rounding, float(rounding.max(initial=0.0)))
            self._n, points = self._n + len(codes), points[len(codes) :]
            if start + len(codes) == PIECE and 0 < self._columns <= ARRANGED:
                order, box = NATIVE.arrange(self._pieces[-1], self._columns)
                self._places[-1] = order.copy(), box.copy()

    def nearest(self, x: Array, k: int, alive: Mask, largest: bool = False, points: Array | None = None) -> Numbers:
        """Numbers of some living points, in order, among them the k nearest to x and all that tie with the last.

        Args:
            x: Coordinates; those of later columns, if there are more, don't count.
            k: How many are wanted.
            alive: Which points (n,) count.
            largest: Whether the distance is the largest difference, and not the root of the sum of squares.
            points: The points themselves; with them no others are found.
        """
        if NATIVE is None:
            return np.flatnonzero(alive)
        codes, rounding = _codes(x)
        off = rounding.max(initial=0.0) if largest else math.sqrt(float(np.square(rounding).sum()))
        off += self._rounding * (1.0 if largest else math.sqrt(len(x)))
        slack = 2.0 * off * (1.0 + SLACK) + SLACK  # the k-th may be nearer by its code, and another one farther
        places = self._pieces, self._places
        return np.asarray(NATIVE.nearest(*places, codes, x, points, alive, k, slack, largest))


def _codes(points: Array) -> tuple[NDArray[np.uint8], Array]:
    """The nearest code of every number, and what is lost, in steps."""
    exact = points * STEPS
    codes = np.clip(np.rint(exact), 0, STEPS).astype(np.uint8)
    return codes, np.abs(exact - codes)


class Around:
    """Finds the nearest of many rows (n, d), which only grow in number, to one point after the other.

    It keeps the rows around the last few points it was asked for and searches all only for a point far from these.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._known: list[_Neighbourhood] = []  # the last used one first

    def add(self, rows: Numbers) -> None:
        """Take in later rows."""
        for known in self._known:
            known.tail.append(rows)

    def nearest(self, X: Array, x: Array, k: int, alive: Alive, search: Search) -> Numbers:
        """Numbers of some rows of X, among them the k nearest to x (d,) and all that tie with the last of these.

        Args:
            X: All rows, by number.
            x: The point.
            k: How many are wanted.
            alive: Which rows, by number, count.
            search: Finds them among all rows.
        """
        for known in self._known:
            rows = known.nearest(X, x, k, alive)
            if rows is not None:
                self._known.remove(known)
                self._known.insert(0, known)
                return rows
        kept = max(2 * k, KEPT)
        found = search(kept)
        self._known.insert(0, _Neighbourhood(x, found, X, self._metric, kept))
        del self._known[ANCHORS:]
        rows = self._known[0].nearest(X, x, k, alive)
        return found if rows is None else rows  # more ties than it keeps


class _Neighbourhood:
    """All rows closer to ``anchor`` than ``radius``, by their distance from it.

    By the triangle inequality the k rows nearest to a point x are among them if the k-th is closer to x than the
    radius less the distance between x and the anchor. Their points are copied: side by side they are read much sooner.
    """

    def __init__(self, anchor: Array, rows: Numbers, X: Array, metric: Metric, kept: int) -> None:
        self.anchor, self.radius, self.metric, self.kept = anchor.copy(), np.inf, metric, kept
        self.tail: list[Numbers] = []
        points = X if len(rows) == len(X) else X[rows]
        away = metric(points, anchor)
        if len(rows) >= kept:  # there may be others, farther away
            self.radius = float(np.partition(away, kept - 1)[kept - 1])
            near = away <= self.radius
            rows, points, away = rows[near], points[near], away[near]
        self._sort(rows, points, away)

    def nearest(self, X: Array, x: Array, k: int, alive: Alive) -> Numbers | None:
        """As ``Around.nearest``; None where this neighbourhood is too small to tell."""
        shift = float(self.metric(x[None], self.anchor)[0])
        if shift * (1.0 + SLACK) >= self.radius:  # no need to look at its rows
            return None
        if sum(map(len, self.tail)) > TAIL:
            self._merge(X, alive)
        self.tail = [np.concatenate([*self.tail, self.rows[:0]])]
        late = self.tail[0][alive(self.tail[0])]
        late_away = self.metric(X[late], x)
        seen = min(len(self.rows), 2 * k)
        while True:
            bound = self.away[seen] if seen < len(self.rows) else self.radius
            living = alive(self.rows[:seen])
            rows = np.concatenate([self.rows[:seen][living], late])
            away = np.concatenate([self.metric(self.points[:seen], x)[living], late_away])
            kth = float(np.partition(away, k - 1)[k - 1]) if len(rows) >= k else np.inf
            if np.isinf(bound) or (kth + shift) * (1.0 + SLACK) < bound:
                return rows[away <= kth * (1.0 + SLACK)]
            if seen == len(self.rows):
                return None
            enough = 2 * seen if np.isinf(kth) else np.searchsorted(self.away, (kth + shift) * (1.0 + 2.0 * SLACK)) + 1
            seen = min(len(self.rows), max(int(enough), seen + 1))

    def _merge(self, X: Array, alive: Alive) -> None:
        new = np.concatenate(self.tail)
        rows, points = np.concatenate([self.rows, new]), np.concatenate([self.points, X[new]])
        away = np.concatenate([self.away, self.metric(X[new], self.anchor)])
        self.tail = []
        near = alive(rows) & (away <= self.radius)
        self._sort(rows[near], points[near], away[near])

    def _sort(self, rows: Numbers, points: Array, away: Array) -> None:
        order = np.argsort(away, kind="stable")
        if len(order) > 4 * self.kept:
            self.radius = float(away[order[self.kept]])
            order = order[: self.kept]
        self.rows, self.points, self.away = rows[order], points[order], away[order]
