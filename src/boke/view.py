"""The data of a long history: the answers of ``Data`` from an index that grows with it, not from all rows.

The index only says where to look. Whatever leaves it is measured afresh and put into the order of the content, so that
a suggestion is the same with the index, without it, and after any resume.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from boke.around import Around, Coarse
from boke.data import Data, box_distances, features, finite, squared_distances
from boke.density import Density
from boke.keys import Keys, Numbers, Runs, Taken, by_key, row_keys
from boke.pool import Pool
from boke.space import Array, Mask, Space
from boke.window import Window

CHUNK = 1 << 14  # rows of mixed columns that are spread out into features at once


class Columns(Protocol):
    """What the index reads of a history; row i is trial i."""

    @property
    def space(self) -> Space: ...
    @property
    def x(self) -> Array: ...
    @property
    def told(self) -> Array: ...  # nan for failures
    @property
    def asked_at(self) -> NDArray[np.int64]: ...
    @property
    def pool(self) -> Pool | None: ...
    def complete(self, rows: Numbers) -> Mask: ...
    def failed(self, rows: Numbers) -> Mask: ...
    def pending(self, rows: Numbers) -> Mask: ...
    def open(self) -> Numbers: ...  # the rows that are pending
    def until(self, rows: Numbers) -> Numbers | None: ...  # the last trial that still remembers them; None: for ever
    def __len__(self) -> int: ...


class Index:
    """Where things are in a history whose values count times ``sign``, and failures as the worst or not at all.

    The history reports what happens to its rows; the index takes it in when it is asked next.
    """

    def __init__(self, columns: Columns, sign: float, discourage: bool) -> None:
        self.columns, self.sign, self.discourage, self.version = columns, sign, discourage, 0
        self.space = columns.space
        self.n = self.count = self.answered = 0
        self._finished: list[Numbers] = [np.arange(len(columns))]
        self._removed: list[int] = []
        self._in = np.zeros(0, bool)  # rows that count as told
        self._record = np.empty(0)  # largest value up to each row
        self._asked, self._asks = np.empty(0, dtype=np.int64), 0  # trials that were asked for, and how many
        self._quiet, self._silent = np.empty((2, 0), dtype=np.int64)  # failed rows that don't count; and pending ones
        self._points, self._content, self._ends = Runs(), Runs(), Runs()
        self._near, self._box = Around(self._distances), Around(self._box_distances)
        self._coarse = Coarse(features(columns.x[:0], self.space).shape[1])
        self._density: Density | None = None
        self._plus = self._minus = self._failures = 0  # rows with an infinite value, and with none
        self._low: float | None = None  # smallest finite value, once it is needed
        self._best: tuple[float, int, int] | None = None  # minus the value, key, row: of the finite values,
        self._above: tuple[float, int, int] | None = None  # and of the infinitely good ones

    def finished(self, first: int, last: int) -> None:
        self.version += 1
        self._finished.append(np.arange(first, last))

    def removed(self, row: int) -> None:
        self.version += 1
        self._removed.append(row)

    def appended(self) -> None:
        self.version += 1

    # what is asked of it

    @property
    def valued(self) -> int:
        """How many rows have a value of their own."""
        return self.count - self._failures

    def raw(self, rows: Numbers | slice) -> Array:
        """Values as they were told, times the sign; nan for failures."""
        y = self.sign * self.columns.told[rows]
        y[np.isnan(y)] = np.nan  # one nan of all: its bits are part of the key
        return y

    def keys(self, rows: Numbers) -> Keys:
        return row_keys(np.concatenate([self.columns.x[rows], self.raw(rows)[:, None]], axis=1))

    def order(self) -> Numbers:
        return self._content.order(self._counts)

    def values(self, rows: Numbers) -> Array:
        y = self.raw(rows)
        if self._plus or self._minus or self._failures:
            low, high = self._range()
            y = np.clip(np.where(np.isnan(y), low if self._usual or self._minus else high, y), low, high)
        return y

    @property
    def _usual(self) -> int:
        """How many rows have a finite value."""
        return self.valued - self._plus - self._minus

    @property
    def _flat(self) -> bool:
        """Whether all values are the same, made finite."""
        if self._usual == 0:
            return self._plus == 0 or self._minus == 0
        low, high = self._range()
        return low == high

    def silent(self) -> Numbers:
        """Rows that are pending or failed."""
        return self._silent

    def silent_points(self) -> Array:
        S = self.columns.x[self._silent]
        return np.asarray(S[np.argsort(row_keys(S), kind="stable")])

    def distinct(self) -> int:
        return len(np.unique(row_keys(self.columns.x[np.append(self._all(), self._silent)])))

    def best(self) -> int:
        """The row of the largest value, by content the first of several."""
        if self._best is None and self._above is None:
            self._consider(self._all())
        if self._flat:
            return int(self._content.after(0, 1, self._counts)[1][0])
        return min((-np.inf, *which[1:]) for which in (self._best, self._above) if which is not None)[2]

    def nearest(self, x: Array, k: int) -> Numbers:
        """The k rows nearest to x, nearest first."""
        rows = self._near.nearest(self.columns.x, x, k, self._counts, partial(self._search, x, False))
        away = squared_distances(self.columns.x[rows], x, self.space)
        order = np.argsort(away)
        away = away[order]
        if (away[1:] == away[:-1]).any():
            rows = rows[order]
            order = np.lexsort((rows, self.keys(rows), away))
        return rows[order[:k]]

    def reach(self, x: Array, k: int) -> float:
        k = min(k, self.count)
        rows = self._box.nearest(self.columns.x, x, k, self._counts, partial(self._search, x, True))
        return float(np.partition(box_distances(self.columns.x[rows], x, self.space), k - 1)[k - 1])

    def outcomes(self, ours: Callable[[Numbers], Mask], since: int) -> tuple[Numbers, Mask, Array]:
        asked = self._asked[: self._asks]
        rows = asked[np.searchsorted(asked, since) :]
        rows = rows[self._counts(rows)]
        rows = rows[ours(rows)]
        before = np.where(rows > 0, self._record[np.maximum(rows - 1, 0)], -np.inf)
        alone = rows <= int(np.argmax(self._in[: self.n]))  # nothing was told before it
        values = self.values(rows)
        return rows, alone if self._flat else alone | (values > np.maximum(before, self._range()[0])), values

    def log_density(self, window: Window, bandwidth: float) -> tuple[Array, Array]:
        if self._density is None or not self._density.follows(window):
            self._density = Density(window, bandwidth, self.space)
        return self._density.log(window, bandwidth, lambda: (self.columns.x, self._in[: self.n]))

    def after(self, start: int, count: int) -> tuple[Keys, Numbers]:
        return self._content.after(start, count, self._counts)

    def has(self, rows: Array) -> Mask:
        return self._points.has(row_keys(rows), self._lives)

    # keeping up

    def sync(self) -> None:
        """Take in what has happened since."""
        known, n = self.n, len(self.columns)
        fresh = np.arange(known, n)
        self._in, self._record = _grown(self._in, n, False), _grown(self._record, n, -np.inf)
        self.n = n
        self._points.add(row_keys(self.columns.x[fresh]), fresh)
        asked = fresh[self.columns.asked_at[fresh] >= 0]
        self._asked = _grown(self._asked, self._asks + len(asked), 0)
        self._asked[self._asks : self._asks + len(asked)] = asked
        self._asks += len(asked)
        if (ends := self.columns.until(fresh)) is not None:
            self._ends.add(ends.astype(np.uint64), fresh)
        if self._removed or ends is not None:
            gone = np.unique(np.append(np.array(self._removed, dtype=np.int64), self._ends.between(known, n)))
            self._leave(gone[self._in[gone]], known)
        rows = np.concatenate([*self._finished, fresh[:0]])
        self._finished, self._removed = [], []
        self._join(rows[self._told(rows)], known)
        if not self.discourage:
            quiet = np.append(self._quiet, rows)
            self._quiet = quiet[self.columns.failed(quiet)]
        self._silent = np.append(self._quiet, self.columns.open())

    def _join(self, rows: Numbers, known: int) -> None:
        y = self.raw(rows)
        self._in[rows] = True
        self._tally(rows, y, 1)
        self._low = None if self._low is None else min(self._low, float(y[np.isfinite(y)].min(initial=np.inf)))
        self._content.add(self.keys(rows), rows)
        self._near.add(rows)
        self._box.add(rows)
        if self._density is not None:
            self._density.add(self.columns.x[rows])
        if len(rows) == self.count or self._best is not None or self._above is not None:
            self._consider(rows)
        # records change from the first new row to where they were as good already
        start, stop = min(int(rows.min(initial=self.n)), known), int(rows.max(initial=-1)) + 1
        stop = max(stop, start + int(np.searchsorted(self._record[start:known], _largest(y))))
        self._measure(start, self.n if known < self.n else stop)

    def _leave(self, rows: Numbers, known: int) -> None:
        if len(rows) == 0:
            return
        y = self.raw(rows)
        self._in[rows] = False
        if self._density is not None:
            self._density.remove(self.columns.x[rows])
        self._tally(rows, y, -1)
        if self._low is not None and (y <= self._low).any():
            self._low = None
        if any(which is not None and not self._in[which[2]] for which in (self._best, self._above)):
            self._best = self._above = None
        start = int(rows.min())
        self._measure(start, start + int(np.searchsorted(self._record[start:known], _largest(y), side="right")))

    def _tally(self, rows: Numbers, y: Array, step: int) -> None:
        self.count += step * len(y)
        self.answered += step * int(np.count_nonzero(self.columns.asked_at[rows] >= 0))
        self._plus += step * int(np.count_nonzero(y == np.inf))
        self._minus += step * int(np.count_nonzero(y == -np.inf))
        self._failures += step * int(np.count_nonzero(np.isnan(y)))

    def _measure(self, start: int, stop: int) -> None:
        """Make the records of rows start .. stop anew."""
        if start >= stop:
            return
        y = self.raw(slice(start, stop))
        y[np.isnan(y) | ~self._in[start:stop]] = -np.inf
        before = self._record[start - 1] if start > 0 else -np.inf
        self._record[start:stop] = np.maximum(np.maximum.accumulate(y), before)

    def _consider(self, rows: Numbers) -> None:
        """Let rows compete for the best."""
        y = self.raw(rows)
        usual = y[np.isfinite(y)]
        top = float(usual.max(initial=-np.inf))
        if len(usual) and (self._best is None or -top <= self._best[0]):
            found = (-top, *self._first(rows[y == top]))
            self._best = found if self._best is None else min(self._best, found)
        if (above := y == np.inf).any():
            found = (-np.inf, *self._first(rows[above]))
            self._above = found if self._above is None else min(self._above, found)

    def _first(self, rows: Numbers) -> tuple[int, int]:
        keys = self.keys(rows)
        return int(keys.min()), int(rows[keys == keys.min()].min())

    def _range(self) -> tuple[float, float]:
        """Smallest and largest finite value."""
        if self._usual == 0:
            return -1.0, 1.0
        if self._best is None:
            self._consider(self._all())
        if self._low is None:
            y = self.raw(self._all())
            self._low = float(y[np.isfinite(y)].min())
        assert self._best is not None
        return self._low, -self._best[0]

    def _counts(self, rows: Numbers) -> Mask:
        return np.asarray(self._in[rows])

    def _told(self, rows: Numbers) -> Mask:
        """Which rows, whatever the index knows of them, are to count as told."""
        complete = self.columns.complete(rows)
        return complete | self.columns.failed(rows) if self.discourage else complete

    def _lives(self, rows: Numbers) -> Mask:
        columns = self.columns
        return np.asarray(columns.complete(rows) | columns.failed(rows) | columns.pending(rows))

    def _all(self) -> Numbers:
        return np.flatnonzero(self._in[: self.n])

    def _search(self, x: Array, box: bool, k: int) -> Numbers:
        """Rows that count, among them the k nearest to x; in a box categories are left aside."""
        for start in range(len(self._coarse), self.n, CHUNK):  # most steps have no use for it
            self._coarse.add(features(self.columns.x[start : min(start + CHUNK, self.n)], self.space))
        z = features(x[None], self.space)[0]
        z = z[: np.count_nonzero(~self.space.categorical)] if box else z  # the numeric columns come first
        points = None if self.space.mixed else self.columns.x
        return self._coarse.nearest(z, k, self._in[: self.n], largest=box, points=points)

    def _distances(self, X: Array, x: Array) -> Array:
        if not self.space.mixed:
            return np.sqrt(squared_distances(X, x, self.space))
        parts = [squared_distances(X[i : i + CHUNK], x, self.space) for i in range(0, len(X), CHUNK)]
        return np.asarray(np.sqrt(np.concatenate([*parts, np.empty(0)])))

    def _box_distances(self, X: Array, x: Array) -> Array:
        return box_distances(X, x, self.space)


class View(Data):
    """``Data`` of a long history; arrays are made when somebody looks at them."""

    def __init__(self, index: Index) -> None:
        self.__dict__.update(_index=index, _version=index.version, _count=index.count, pool=index.columns.pool)

    def __len__(self) -> int:
        return int(self.__dict__["_count"])

    def hold(self) -> None:
        """Make all arrays now: the history is about to change."""
        if self._current is not None:
            for name in ("X", "y", "silent", "numbers", "asked", "keys"):
                getattr(self, name)

    @property
    def distinct(self) -> int:
        index = self._current
        return super().distinct if index is None else index.distinct()

    @property
    def taken(self) -> Taken:
        index = self._current
        return super().taken if index is None else _Taken(index, len(self) + len(index.silent()))

    @property
    def answered(self) -> int:
        index = self._current
        return super().answered if index is None else index.answered

    @property
    def best(self) -> Array:
        index = self._current
        return super().best if index is None else index.columns.x[index.best()].copy()

    def nearest(self, x: Array, k: int, space: Space) -> tuple[Array, Array]:
        if (index := self._current) is None:
            return super().nearest(x, k, space)
        rows = index.nearest(x, k)
        return index.columns.x[rows], index.values(rows)

    def reach(self, x: Array, k: int, space: Space) -> float:
        index = self._current
        return super().reach(x, k, space) if index is None else index.reach(x, k)

    def outcomes(self, ours: Callable[[Numbers], Mask], since: int) -> tuple[Numbers, Mask, Array]:
        index = self._current
        return super().outcomes(ours, since) if index is None else index.outcomes(ours, since)

    def log_density(self, window: Window, bandwidth: float, space: Space) -> tuple[Array, Array]:
        if (index := self._current) is None:
            return super().log_density(window, bandwidth, space)
        return index.log_density(window, bandwidth)

    def point(self, number: int) -> Array:
        index = self._current
        return super().point(number) if index is None else index.columns.x[number].copy()

    def sample(self, count: int, start: int, extra: int, space: Space) -> Data:
        if (index := self._current) is None:
            return super().sample(count, start, extra, space)
        keys, rows = index.after(start, count)
        near = index.nearest(self.best, extra)
        keys, rows = by_key(np.concatenate([keys, index.keys(near)]), np.concatenate([rows, near]))
        once = np.append(True, rows[1:] != rows[:-1])
        keys, rows = keys[once], rows[once]
        return Data(
            index.columns.x[rows], index.values(rows), self.silent, rows, index.columns.asked_at[rows] >= 0, keys
        )

    @property
    def _current(self) -> Index | None:
        """The index, as long as the history is as it was."""
        index: Index = self.__dict__["_index"]
        return index if index.version == self.__dict__["_version"] else None

    @property
    def _live(self) -> Index:
        assert self._current is not None  # the history calls hold() before it changes
        return self._current

    @cached_property
    def numbers(self) -> Numbers:
        return self._live.order()

    @cached_property
    def X(self) -> Array:  # noqa: N802
        return np.asarray(self._live.columns.x[self.numbers])

    @cached_property
    def y(self) -> Array:
        y = self._live.raw(self.numbers)
        y[np.isnan(y)] = np.nanmin(y, initial=np.inf)
        return finite(y)

    @cached_property
    def silent(self) -> Array:
        return self._live.silent_points()

    @cached_property
    def asked(self) -> Mask | None:
        return np.asarray(self._live.columns.asked_at[self.numbers] >= 0)

    @cached_property
    def keys(self) -> Keys | None:
        return self._live.keys(self.numbers)


class _Taken:
    def __init__(self, index: Index, count: int) -> None:
        self._index, self._count = index, count

    def __len__(self) -> int:
        return self._count

    def __call__(self, rows: Array) -> Mask:
        return self._index.has(rows)


def _largest(y: Array) -> float:
    """The largest value, failures left aside."""
    return float(np.max(y, initial=-np.inf, where=~np.isnan(y)))


def _grown(column: NDArray[Any], n: int, fill: float) -> NDArray[Any]:
    """A column with room for n rows at least."""
    if len(column) >= n:
        return column
    more = np.full(max(n - len(column), len(column) // 2, 16), fill, dtype=column.dtype)
    return np.concatenate([column, more])
