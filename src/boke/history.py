"""Trials and their append-only history: a row for each trial, in the order of trial numbers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boke.space import Array, Mask, Space

HORIZON = 1000  # pending trials count while so many numbers or fewer have followed: killed workers never tell theirs


class State(Enum):
    """What is known of a trial."""

    PENDING = 0
    COMPLETE = 1
    FAILED = 2
    REMOVED = 3


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


@dataclass(frozen=True)
class Data:
    """What a policy sees: larger is better, everything finite, in an order that depends on the content only.

    Attributes:
        X: Points with a value (t, d).
        y: Their values (t,). Infinite ones have become the worst or best finite one; failures may be among them.
        silent: Pending and failed points (s, d): density without a value.
        numbers: Trial number (t,) of every row of X.
        asked: Which rows of X (t,) had been asked for; None is all of them.
    """

    X: Array
    y: Array
    silent: Array
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    asked: Mask | None = None

    @property
    def points(self) -> Array:
        """All points (t + s, d)."""
        return np.vstack([self.X, self.silent])


def row_keys(rows: Array) -> NDArray[np.uint64]:
    """A 64-bit hash of every row (n, d), exact integer arithmetic: equal rows, and in practice only they, agree."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # + 0.0 makes -0.0 the same as 0.0
    mixed = ((bits ^ (bits >> np.uint64(29))) * _multipliers(bits.shape[1])).sum(axis=1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))


def among(rows: Array, known: NDArray[np.uint64]) -> Mask:
    """Which rows (n, d) have one of the known keys, which are sorted."""
    if len(known) == 0:
        return np.zeros(len(rows), bool)
    keys = row_keys(rows)
    return np.asarray(known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys)


@lru_cache(maxsize=64)
def _multipliers(d: int) -> NDArray[np.uint64]:
    return np.random.default_rng(d).integers(2**63, size=d, dtype=np.uint64) * 2 + 1


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


class History:
    """Columns that only grow: native values, unit-cube points, values, states and the order of arrival."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._n = 0
        self._native = np.empty((16, space.dim))
        self._x = np.empty((16, space.dim))
        self._value = np.empty(16)
        self._state = np.empty(16, dtype=np.uint8)
        self._told_at = np.empty(16, dtype=np.int64)  # arrival number of the result, -1 before
        self._asked_at = np.empty(16, dtype=np.int64)  # arrivals known when it was asked, -1 for an unasked point
        self._reasons: dict[int, str] = {}
        self.arrivals = 0

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, number: int) -> Trial:
        number = range(self._n)[number]
        state = State(int(self._state[number]))
        x = self._x[number].copy()
        x.flags.writeable = False
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
        return np.where(self._state[:n] == State.COMPLETE.value, self._value[:n], np.nan)

    @property
    def states(self) -> NDArray[np.uint8]:
        return self._state[: self._n]

    @property
    def asked_at(self) -> NDArray[np.int64]:
        return self._asked_at[: self._n]

    @property
    def told_at(self) -> NDArray[np.int64]:
        return self._told_at[: self._n]

    def append(self, native: Array, *, asked: bool) -> int:
        """Add pending rows (k, d); return the first one's number."""
        k = len(native)
        while self._n + k > len(self._value):
            self._grow()
        rows = slice(self._n, self._n + k)
        self._native[rows] = native
        self._x[rows] = self.space.encode(native)
        self._value[rows] = np.nan
        self._state[rows] = State.PENDING.value
        self._told_at[rows] = -1
        self._asked_at[rows] = self.arrivals if asked else -1
        self._n += k
        return rows.start

    def finish(self, first: int, values: Array, reason: str | None = None) -> None:
        """Record the results (k,) of consecutive trials; nan is a failure."""
        rows = slice(first, first + len(values))
        self._value[rows] = values
        self._state[rows] = np.where(np.isnan(values), State.FAILED.value, State.COMPLETE.value)
        self._told_at[rows] = self.arrivals + np.arange(len(values))
        self.arrivals += len(values)
        if reason is not None:
            self._reasons[first] = reason

    def remove(self, number: int) -> None:
        """Forget a trial: its number stays used, its point and value leave every sum."""
        self._state[number] = State.REMOVED.value

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
        self._value[:n], self._state[:n] = values, states
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
        n = self._n if before is None else before
        states, x = self._state[:n], self._x[:n]
        complete, failed = states == State.COMPLETE.value, states == State.FAILED.value
        pending = states == State.PENDING.value
        if before is not None:
            known = (self._told_at[:n] >= 0) & (self._told_at[:n] < self._asked_at[before])
            pending |= (complete | failed) & ~known
            complete, failed = complete & known, failed & known
        pending[: max(0, n - HORIZON)] = False
        silent = pending | failed
        if discourage and complete.any():
            complete, silent = complete | failed, pending
        X, y = x[complete], sign * self._value[:n][complete]
        y[np.isnan(y)] = np.nanmin(y, initial=np.inf)
        order = np.argsort(row_keys(np.column_stack([X, y])), kind="stable")
        X, y = X[order], y[order]
        S = x[silent]
        S = S[np.argsort(row_keys(S), kind="stable")]
        numbers = np.flatnonzero(complete)[order]
        return Data(X, _finite(y), S, numbers, self._asked_at[numbers] >= 0)

    def _grow(self) -> None:
        for name in ("_native", "_x", "_value", "_state", "_told_at", "_asked_at"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.empty_like(column)]))


def _finite(y: Array) -> Array:
    """Infinite values become the worst or best finite one; alone, they become -1 and 1."""
    finite = y[np.isfinite(y)]
    if len(finite) == len(y):
        return y
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 1.0)
    return np.clip(y, low, high)
