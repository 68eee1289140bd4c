"""What a policy sees of a history, and what it may ask of it.

``Data`` is the definition: plain arrays, and every answer by looking at all of them. A long history hands out a
``boke.view.View``, which gives the same answers without that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from boke import elementary
from boke.compiled import NATIVE
from boke.density import Density
from boke.keys import Keys, Lot, Numbers, Taken, TakenPoints, row_keys
from boke.parameters import cell
from boke.pool import Pool
from boke.space import MISMATCH, Array, Mask, Space
from boke.window import Window


@dataclass(frozen=True)
class Data:
    """What a policy sees: larger is better, everything finite, in an order that depends on the content only.

    Attributes:
        X: Points with a value (t, d).
        y: Their values (t,). Infinite ones have become the worst or best finite one; failures may be among them.
        silent: Pending and failed points (s, d): density without a value.
        numbers: Trial number (t,) of every row of X.
        asked: Which rows of X (t,) had been asked for; None is all of them.
        keys: A random number (t,) of every row of X, made of its content; None is made of its point and value.
        pool: What is known of the kernel sums at candidates that stay; None is nothing.
    """

    X: Array
    y: Array
    silent: Array
    numbers: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    asked: Mask | None = None
    keys: Keys | None = None
    pool: Pool | None = None

    def __len__(self) -> int:
        """How many points have a value."""
        return len(self.y)

    @property
    def answered(self) -> int:
        """How many of the points with a value had been asked for."""
        return len(self) if self.asked is None else int(np.count_nonzero(self.asked))

    @property
    def points(self) -> Array:
        """All points (t + s, d)."""
        return np.vstack([self.X, self.silent])

    @property
    def distinct(self) -> int:
        """How many different points there are."""
        return len(np.unique(row_keys(self.points)))

    @property
    def taken(self) -> Taken:
        """All points, as something that knows them again."""
        return TakenPoints(self.X, self.silent)

    @property
    def best(self) -> Array:
        """The point (d,) with the largest value, the first of several."""
        return np.asarray(self.X[self.y.argmax()])

    def nearest(self, x: Array, k: int, space: Space) -> tuple[Array, Array]:
        """The k observations nearest to x (d,), nearest first: points and values."""
        if NATIVE is not None and not space.mixed:
            return NATIVE.neighbours(self.X, self.y, x, k)  # type: ignore[no-any-return]
        rows = nearest_rows(self.X, x, k, space)
        return self.X.take(rows, axis=0), self.y.take(rows)

    def nearest_silent(self, x: Array, k: int, space: Space) -> Array:
        """The k pending and failed points nearest to x (d,), nearest first."""
        return np.asarray(self.silent[nearest_rows(self.silent, x, k, space)])

    def reach(self, x: Array, k: int, space: Space) -> float:
        """Half the side of the smallest box around x (d,) with k observations in it, categories left aside."""
        away = box_distances(self.X, x, space)
        k = min(k, len(away))
        return float(np.partition(away, k - 1)[k - 1])

    def outcomes(self, ours: Callable[[Numbers], Mask], since: int) -> tuple[Numbers, Mask, Array]:
        """Asked trials from number ``since`` on that ``ours`` says yes to, which of them beat all before, values."""
        if len(self.numbers) != len(self.y):
            return self.numbers[:0], np.zeros(0, bool), self.y[:0]
        if NATIVE is not None and isinstance(ours, Lot):
            lot = ours.first, ours.salt, ours.least
            numbers, successes, values = NATIVE.outcomes(self.numbers, self.y, self.asked, since, *lot)
            return numbers, successes, values
        return self.plain_outcomes(ours, since)

    def plain_outcomes(self, ours: Callable[[Numbers], Mask], since: int) -> tuple[Numbers, Mask, Array]:
        """The same of trials with numbers, and its definition."""
        order = _increasing(self.numbers)
        y, numbers = self.y[order], self.numbers[order]
        before = np.append(-np.inf, np.maximum.accumulate(y)[:-1])
        chosen = ours(numbers) & (numbers >= since)
        if self.asked is not None:
            chosen &= self.asked[order]
        return numbers[chosen], (y > before)[chosen], y[chosen]

    def log_density(self, window: Window, bandwidth: float, space: Space) -> tuple[Array, Array]:
        """Candidates (n, d) of a window, and ln W of the observations at them."""
        observations = self.X, np.ones(len(self), bool)
        return Density(window, bandwidth, space).log(window, bandwidth, lambda: observations)

    def point(self, number: int) -> Array:
        """The point (d,) of a trial with a value."""
        return np.asarray(self.X[np.argmax(self.numbers == number)])

    def sample(self, count: int, start: int, extra: int, space: Space) -> Data:
        """``count`` observations at random, those whose keys come next from ``start``, and ``extra`` near the best.

        Silent points all stay. The keys are made of the content, so the sample depends on the set alone.
        """
        keys = row_keys(np.column_stack([self.X, self.y])) if self.keys is None else self.keys
        chosen = np.zeros(len(keys), bool)
        if (keys[1:] >= keys[:-1]).all():  # as in a history
            first = int(np.searchsorted(keys, np.uint64(start)))
            chosen[first : first + count] = True
            chosen[: max(0, first + count - len(keys))] = True
        else:
            chosen[np.argsort(keys - np.uint64(start), kind="stable")[:count]] = True
        chosen[nearest_rows(self.X, self.best, extra, space)] = True
        rows = np.flatnonzero(chosen)
        numbers = self.numbers[rows] if len(self.numbers) == len(self.y) else self.numbers
        asked = None if self.asked is None else self.asked[rows]
        return Data(self.X[rows], self.y[rows], self.silent, numbers, asked, keys[rows])


def features(X: Array, space: Space) -> Array:
    """What distances are measured in: numeric columns, and for a category one column each, MISMATCH apart."""
    if not space.mixed:
        return X
    columns = [X[:, ~space.categorical]]
    for j in np.flatnonzero(space.categorical):
        columns.append(_corners(space.cells[j])[cell(X[:, j], space.cells[j])])
    return np.concatenate(columns, axis=1)


@lru_cache(maxsize=8)
def _corners(cells: int) -> Array:
    """What the categories (cells, cells) of a column become."""
    return np.eye(cells) * (MISMATCH / math.sqrt(2.0))


def squared_distances(X: Array, x: Array, space: Space) -> Array:
    """Squared distances (n,) of the rows of X (n, d) from x (d,)."""
    return np.asarray(elementary.squared_distances(features(x[None], space), features(X, space))[0])


def box_distances(X: Array, x: Array, space: Space) -> Array:
    """Largest differences (n,) of the numeric columns."""
    if not space.mixed:
        return np.asarray(elementary.largest_differences(x[None], X)[0])
    return np.asarray(np.abs(X - x)[:, ~space.categorical].max(axis=1, initial=0.0))


def finite(y: Array) -> Array:
    """Infinite values become the worst or best finite one; alone, they become -1 and 1."""
    usual = y[np.isfinite(y)]
    if len(usual) == len(y):
        return y
    low, high = (float(usual.min()), float(usual.max())) if len(usual) else (-1.0, 1.0)
    return np.clip(y, low, high)


def _increasing(numbers: Numbers) -> Numbers:
    """What puts trial numbers, no two of which are equal, in order; where they are dense, without sorting."""
    if len(numbers) == 0 or int(numbers.max()) >= 4 * len(numbers):
        return np.argsort(numbers)
    row = np.full(int(numbers.max()) + 1, -1)
    row[numbers] = np.arange(len(numbers))
    return row[row >= 0]


def nearest_rows(X: Array, x: Array, k: int, space: Space) -> Numbers:
    """Rows of the k points of X (n, d) nearest to x (d,), nearest first and equally near ones by row."""
    if len(X) == 0:
        return np.empty(0, np.int64)
    if NATIVE is None:
        return plain_nearest(X, x, k, space)
    return np.asarray(NATIVE.closest(features(X, space), features(x[None], space)[0], k))


def plain_nearest(X: Array, x: Array, k: int, space: Space) -> Numbers:
    """The same for a point at least, and its definition."""
    away = squared_distances(X, x, space)
    if len(away) < 4 * k:
        return np.argsort(away, kind="stable")[:k]
    near = np.flatnonzero(away <= np.partition(away, k - 1)[k - 1])  # no need to sort the others
    return near[np.argsort(away[near], kind="stable")[:k]]
