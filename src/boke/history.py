"""Trials and their append-only history: a row for each trial, in the order of trial numbers."""

from __future__ import annotations

import math
import numbers
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boke.compiled import NATIVE
from boke.data import Data, finite
from boke.elementary import log
from boke.keys import Keys, Numbers, by_key, multipliers, row_keys, uniform
from boke.pool import Pool
from boke.space import Array, Mask, Space
from boke.view import Index, View

LONGEST = 1 << 62
NOTHING = np.empty(0, np.uint64), np.empty(0, np.int64)  # keys and rows
FORGETTING = 0x5851F42D4C957F2D  # salt of the ages at which trials are forgotten
CATALOGUE = 1000  # points of a finite space from which on kernel sums at all of them are kept
INDEXED = 2000 if NATIVE is None else 4000  # trials from which on an index is kept; below, all rows cost less

HORIZON = 1000  # pending trials that count are among so many of the last numbers,
PATIENCE = 7  # and no more newer ones than this have come back for each that is out: killed workers never tell theirs


class State(Enum):
    """What is known of a trial."""

    PENDING = 0
    COMPLETE = 1
    FAILED = 2
    REMOVED = 3


STATES = tuple(State)  # the state of a code, and codes: sooner had than from the class
PENDING, COMPLETE, FAILED, REMOVED = (state.value for state in STATES)


@dataclass(frozen=True)
class Trial:
    """One point that was asked for or told.

    Attributes:
        number: Position in the history, from 0, without gaps.
        params: The point as the user sees it.
        x: The point in the unit cube (d,), read-only.
        state: PENDING, COMPLETE, FAILED or REMOVED at the time this object was made.
        value: What was told, in the user's orientation; None while pending or failed.
        reason: Why it failed, if somebody said.
    """

    number: int
    params: dict[str, Any]
    x: Array = field(repr=False)
    state: State = State.PENDING
    value: float | None = None
    reason: str | None = None


def oldest(pending: Mask, told: Mask) -> int:
    """The number from which on pending trials count; those before it are taken for dead.

    With w workers about w others come back while one is out, so a trial that has seen many times as many newer ones
    come back as are out will hardly come back itself. Looking back from the newest, the first such trial is the end:
    whatever is older has waited longer. Clocks and the order of results play no part.

    Args:
        pending: Which trials (n,), by number, are out.
        told: Which of them (n,) were asked for and have come back.
    """
    start = max(0, len(pending) - HORIZON)
    out, back = pending[start:][::-1], told[start:][::-1]
    late = np.flatnonzero(out & (np.cumsum(back) > PATIENCE * np.cumsum(out)))
    return len(pending) - int(late[0]) if len(late) else start


def as_value(value: Any) -> float | None:
    """Read an objective's value: a real number, or None for None and nan."""
    if value is None:
        return None
    if isinstance(value, np.ndarray | np.generic) and np.size(value) == 1:
        value = value.item()
    if isinstance(value, numbers.Real) or (hasattr(value, "__float__") and not isinstance(value, numbers.Complex)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"The 'value' parameter must be a real number or None. Got {value!r}.") from None
        return None if math.isnan(number) else number
    raise TypeError(f"The 'value' parameter must be a real number or None. Got {value!r}.")


@dataclass(frozen=True)
class Memory:
    """What is forgotten: a trial leaves the model as if it had been removed, and keeps its number and its value.

    Args:
        window: Only so many trials, the last ones, are remembered.
        half_life: Each trial is forgotten at a random age, so that of any age half are left so many trials later.
            A sum over what is remembered is on average the sum with exponential weights.
    """

    window: int | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        w, h = self.window, self.half_life
        if w is not None and (isinstance(w, bool) or not isinstance(w, int | np.integer) or w < 1):
            raise ValueError(f"The 'window' parameter must be None or a positive integer. Got {w!r}.")
        if h is not None and not (isinstance(h, int | float) and not isinstance(h, bool) and 0.0 < h < math.inf):
            raise ValueError(f"The 'half_life' parameter must be None or a positive number. Got {h!r}.")
        object.__setattr__(self, "window", None if w is None else int(w))  # a state file has no NumPy types

    def span(self, rows: Numbers) -> Numbers:
        """For how many trials each row (n,) is remembered."""
        span = np.full(len(rows), LONGEST)
        if self.window is not None:
            span = np.minimum(span, self.window)
        if self.half_life is not None:
            ages = -self.half_life * log(1.0 - uniform(rows, FORGETTING)) / math.log(2.0)
            span = np.minimum(span, np.minimum(ages, float(LONGEST)).astype(np.int64) + 1)
        return np.asarray(span, dtype=np.int64)


def plain_collected(
    x: Array,
    value: Array,
    state: NDArray[np.uint8],
    told_at: NDArray[np.int64],
    asked_at: NDArray[np.int64],
    n: int,
    arrivals: int,
    remembered: Mask | None,
    sign: float,
    discourage: bool,
    keys: Keys,
    rows: Numbers,
) -> tuple[Array, Array, Array, Numbers, Mask, Keys, bool]:
    """The definition of what ``History.data`` is made of: that of the first n trials, after so many arrivals.

    Args:
        x: Columns of the history, of n rows at least, down to ``asked_at``.
        value: See there.
        state: See there.
        told_at: See there.
        asked_at: See there.
        n: How many trials there are.
        arrivals: How many results had arrived; those of later ones are pending.
        remembered: Which trials (n,) are not forgotten; None is all of them.
        sign: Factor of the values.
        discourage: Whether failures count as values, where there are any.
        keys: Those of the content of some rows, in order; others are made.
        rows: The rows that they belong to.

    Returns:
        Points, values, silent points, numbers, which were asked for, keys, and whether all values are finite.
    """
    asked, known = asked_at[:n] >= 0, told_at[:n] < arrivals
    pending, complete, failed = (state[:n] == code for code in (PENDING, COMPLETE, FAILED))
    pending |= (complete | failed) & ~known
    complete, failed = complete & known, failed & known
    pending[: oldest(pending, (complete | failed) & asked)] = False
    if remembered is not None:
        complete, failed, pending = complete & remembered, failed & remembered, pending & remembered
    if discourage and complete.any():
        complete, silent = complete | failed, pending
    else:
        silent = pending | failed
    keys, numbers = _ordered(x, sign * value[:n], complete, keys, rows)
    y, S = sign * value[numbers], x[:n][silent]
    S = S[np.argsort(row_keys(S), kind="stable")]
    return x[numbers], y, S, numbers, asked[numbers], keys, bool(np.isfinite(y).all())


def _ordered(x: Array, y: Array, chosen: Mask, keys: Keys, rows: Numbers) -> tuple[Keys, Numbers]:
    """The rows that a mask (n,) chooses, with the keys of their content, in the order of these; some are known."""
    here = rows < len(chosen)
    here[here] = chosen[rows[here]]
    keys, rows, fresh = keys[here], rows[here], chosen.copy()
    fresh[rows] = False
    new = np.flatnonzero(fresh)
    told = np.where(np.isnan(y[new]), np.nan, y[new])  # one nan of all: its bits are part of the key
    made = row_keys(np.column_stack([x[new], told]))
    return by_key(np.concatenate([keys, made]), np.concatenate([rows, new]))


class History:
    """Columns that only grow: native values, unit-cube points, values, states and the order of arrival."""

    def __init__(self, space: Space, memory: Memory | None = None) -> None:
        self.space, self.memory = space, memory
        arms = space.unit_arms
        self.pool = Pool() if arms is None or len(arms) >= CATALOGUE else None
        self._n = 0
        self._native = np.empty((16, space.dim))
        self._x = np.empty((16, space.dim))
        self._value = np.empty(16)
        self._state = np.empty(16, dtype=np.uint8)
        self._told_at = np.empty(16, dtype=np.int64)  # arrival number of the result, -1 before
        self._asked_at = np.empty(16, dtype=np.int64)  # arrivals known when it was asked, -1 for an unasked point
        self._reasons: dict[int, str] = {}
        self.arrivals = 0
        self._indexes: dict[tuple[float, bool], Index] = {}  # by sign, and whether failures discourage
        self._known: dict[float, tuple[Keys, Numbers]] = {}  # by sign: told rows in the order of their content
        self._views: list[weakref.ref[View]] = []
        self._oldest: int | None = None  # pending trial that counts, once it is needed

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, number: int) -> Trial:
        number = range(self._n)[number]
        state = STATES[self._state[number]]
        x = self._x[number].copy()
        x.setflags(write=False)
        value = float(self._value[number]) if state is State.COMPLETE else None
        return Trial(number, self.space.to_params(self._native[number]), x, state, value, self.reason(number))

    def __iter__(self) -> Iterator[Trial]:
        return (self[i] for i in range(self._n))

    @property
    def native(self) -> Array:
        return self._native[: self._n]

    @property
    def x(self) -> Array:
        return self._x[: self._n]

    @property
    def values(self) -> Array:
        """What was told (n,), nan for trials without a value."""
        n = self._n  # read once: another thread may be adding trials
        return np.where(self._state[:n] == COMPLETE, self._value[:n], np.nan)

    @property
    def states(self) -> NDArray[np.uint8]:
        return self._state[: self._n]

    @property
    def told(self) -> Array:
        """The column of values (n,): meaningful where a trial is complete."""
        return self._value[: self._n]

    @property
    def asked_at(self) -> NDArray[np.int64]:
        return self._asked_at[: self._n]

    @property
    def told_at(self) -> NDArray[np.int64]:
        return self._told_at[: self._n]

    def complete(self, rows: Numbers) -> Mask:
        """Which rows have a value and are remembered."""
        return np.asarray((self._state[rows] == COMPLETE) & self._remembered(rows, self._n))

    def failed(self, rows: Numbers) -> Mask:
        """Which rows have failed and are remembered."""
        return np.asarray((self._state[rows] == FAILED) & self._remembered(rows, self._n))

    def pending(self, rows: Numbers) -> Mask:
        """Which rows are pending, and not for too long."""
        if self._oldest is None:
            start = max(0, self._n - HORIZON)
            states = self.states[start:]
            self._oldest = start + oldest(states == PENDING, _told(states) & (self.asked_at[start:] >= 0))
        recent = (rows >= self._oldest) & self._remembered(rows, self._n)
        return np.asarray((self._state[rows] == PENDING) & recent)

    def open(self) -> Numbers:
        """The rows that are pending, and not for too long."""
        start = max(0, self._n - HORIZON)
        rows = start + np.flatnonzero(self.states[start:] == PENDING)
        return rows[self.pending(rows)] if len(rows) else rows

    def until(self, rows: Numbers) -> Numbers | None:
        """The number of the last trial that is chosen with these rows in mind; None is for ever."""
        return None if self.memory is None else rows + self.memory.span(rows)

    def _remembered(self, rows: Numbers, n: int) -> Mask | bool:
        """Which rows trial n is chosen with in mind."""
        ends = self.until(rows)
        return True if ends is None else ends >= n

    def append(self, native: Array, *, asked: bool) -> int:
        """Add pending rows (k, d); return the first one's number."""
        self._hold()
        k = len(native)
        while self._n + k > len(self._value):
            self._grow()
        first = self._n
        rows = first if k == 1 else slice(first, first + k)  # a slice of one row takes longer
        self._native[rows] = native
        self._x[rows] = self.space.encode(native)
        self._value[rows] = np.nan
        self._state[rows] = PENDING
        self._told_at[rows] = -1
        self._asked_at[rows] = self.arrivals if asked else -1
        self._n += k
        for index in self._indexes.values():
            index.appended()
        return first

    def finish(self, first: int, values: Array, reason: str | None = None) -> None:
        """Record the results (k,) of consecutive trials; nan is a failure."""
        self._hold()
        k = len(values)
        if k == 1:  # as a rule
            value = self._value[first] = float(values[0])
            self._state[first] = FAILED if math.isnan(value) else COMPLETE
            self._told_at[first] = self.arrivals
        else:
            rows = slice(first, first + k)
            self._value[rows] = values
            self._state[rows] = np.where(np.isnan(values), FAILED, COMPLETE)
            self._told_at[rows] = np.arange(self.arrivals, self.arrivals + k)
        self.arrivals += k
        if reason is not None:
            self._reasons[first] = reason
        for index in self._indexes.values():
            index.finished(first, first + k)

    def remove(self, number: int) -> None:
        """Forget a trial: its number stays used, its point and value leave every sum."""
        self._hold()
        self._state[number] = REMOVED
        for index in self._indexes.values():
            index.removed(number)

    def reason(self, number: int) -> str | None:
        return self._reasons.get(number)

    def restore(
        self,
        native: Array,
        values: Array,
        states: NDArray[np.uint8],
        told_at: NDArray[np.int64],
        asked_at: NDArray[np.int64],
        reasons: dict[int, str],
    ) -> None:
        """Fill an empty history with the columns of another one."""
        n = len(native)
        self.append(native, asked=False)
        self._indexes.clear()
        self._known.clear()
        self._value[:n], self._state[:n], self._oldest = values, states, None
        self._told_at[:n], self._asked_at[:n] = told_at, asked_at
        self._reasons = dict(reasons)
        self.arrivals = int(told_at.max(initial=-1)) + 1

    def data(self, sign: float, before: int | None = None, *, discourage: bool = False) -> Data:
        """The model's view: values times ``sign``, sorted by content.

        With ``before`` only what had been asked and told before that trial was asked: what its policy saw. With
        ``discourage`` failed trials are as bad as the worst value: as density alone they keep the search from their
        own places only, and exploitation would go on failing all around them. A mean with them in it expects a
        failure in proportion to their share, so places that fail are asked for less often, and never forbidden.
        """
        if before is None and self._n >= INDEXED and (view := self._view(sign, discourage)) is not None:
            return view
        n, arrivals = (self._n, LONGEST) if before is None else (before, int(self._asked_at[before]))
        columns = self._x, self._value, self._state, self._told_at, self._asked_at
        remembered = None if self.memory is None else np.asarray(self._remembered(np.arange(n), n))
        known = self._known.get(sign, NOTHING)  # most of the order, from the last time: a told trial never changes
        asked_for = *columns, n, arrivals, remembered, sign, discourage, *known
        if NATIVE is None:
            X, y, silent, numbers, asked, keys, usual = plain_collected(*asked_for)
        else:
            hashes = multipliers(self.space.dim + 1), multipliers(self.space.dim)
            X, y, silent, numbers, asked, keys, usual = NATIVE.collected(*asked_for, *hashes, HORIZON, PATIENCE)
        self._known[sign] = keys, numbers
        if not usual:
            y[np.isnan(y)] = np.nanmin(y, initial=np.inf)
            y = finite(y)
        return Data(X, y, silent, numbers, asked, keys, self.pool if before is None else None)

    def _view(self, sign: float, discourage: bool) -> View | None:
        """The same by an index; whoever still holds a view when the history changes keeps what it saw.

        None where all that was told are failures: they are silent then, whoever asks.
        """
        if (sign, discourage) not in self._indexes:
            self._indexes[sign, discourage] = Index(self, sign, discourage)
        index = self._indexes[sign, discourage]
        index.sync()
        if index.valued == 0:
            return None
        view = View(index)
        self._views.append(weakref.ref(view))
        return view

    def _hold(self) -> None:
        """Called before anything changes."""
        self._oldest = None
        for reference in self._views:
            if (view := reference()) is not None:
                view.hold()
        self._views.clear()

    def _grow(self) -> None:
        for name in ("_native", "_x", "_value", "_state", "_told_at", "_asked_at"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.empty_like(column)]))


def _told(states: NDArray[np.uint8]) -> Mask:
    return np.asarray((states == COMPLETE) | (states == FAILED))
