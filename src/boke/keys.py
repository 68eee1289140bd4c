"""Rows by their content: 64-bit keys, and sorted runs of keys into which new ones are merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from boke.compiled import NATIVE
from boke.space import Array, Mask

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int64]
WORD = 2**64 - 1


def row_keys(rows: Array) -> Keys:
    """A 64-bit hash of every row (n, d), exact integer arithmetic: equal rows, and in practice only they, agree."""
    if NATIVE is not None:
        return np.asarray(NATIVE.row_keys(np.ascontiguousarray(rows), multipliers(rows.shape[1])))
    return plain_row_keys(rows)


def plain_row_keys(rows: Array) -> Keys:
    """The same, and its definition."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # + 0.0 makes -0.0 the same as 0.0
    mixed = ((bits ^ (bits >> np.uint64(29))) * multipliers(bits.shape[1])).sum(axis=1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))


@lru_cache(maxsize=64)
def multipliers(d: int) -> Keys:
    """Those of the columns of a row."""
    return np.random.default_rng(d).integers(2**63, size=d, dtype=np.uint64) * 2 + 1


def uniform(numbers: Numbers, salt: int) -> Array:
    """A number in [0, 1) for every trial number (n,), always the same: a hash, so that all are known at once."""
    if NATIVE is not None:
        return np.asarray(NATIVE.uniform(np.ascontiguousarray(numbers), salt))
    return plain_uniform(numbers, salt)


def plain_uniform(numbers: Numbers, salt: int) -> Array:
    """The same, and its definition."""
    mixed = (numbers.astype(np.uint64) ^ np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)  # arrays wrap around
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


@dataclass(frozen=True)
class Lot:
    """Trials that chance has chosen, known by their numbers alone.

    Attributes:
        first: The number from which on there are any.
        salt: What their hashed numbers are made with.
        least: The smallest hashed number that is chosen.
    """

    first: int
    salt: int
    least: float

    def __call__(self, numbers: Numbers) -> Mask:
        """Which trials (n,) are of this lot."""
        if NATIVE is not None:
            return np.asarray(NATIVE.drawn(numbers, self.first, self.salt, self.least))
        return self.plain(numbers)

    def has(self, number: int) -> bool:
        """Whether one trial is of this lot: the same arithmetic in Python's integers, sooner done than an array."""
        mixed = (number ^ self.salt) * 0x9E3779B97F4A7C15 & WORD
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
        mixed ^= mixed >> 31
        return number >= self.first and (mixed >> 11) * 2.0**-53 >= self.least

    def plain(self, numbers: Numbers) -> Mask:
        """The same, and its definition."""
        return np.asarray((numbers >= self.first) & (plain_uniform(numbers, self.salt) >= self.least))


class Taken(Protocol):
    """Points that were asked for or told already: how many, and which of some rows (n, d) are among them."""

    def __len__(self) -> int: ...
    def __call__(self, rows: Array) -> Mask: ...


class TakenPoints:
    """The points (n, d) themselves, in one array or two."""

    def __init__(self, points: Array, others: Array | None = None) -> None:
        self._points, self._others = points, points[:0] if others is None else others

    def __len__(self) -> int:
        return len(self._points) + len(self._others)

    def __call__(self, rows: Array) -> Mask:
        if NATIVE is not None:
            return np.asarray(NATIVE.among(rows, self._points, self._others, multipliers(rows.shape[1])))
        return self.plain(rows)

    def plain(self, rows: Array) -> Mask:
        """The same, and its definition."""
        if len(self) == 0:
            return np.zeros(len(rows), bool)
        keys, known = row_keys(rows), self._sorted
        return np.asarray(known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys)

    @cached_property
    def _sorted(self) -> Keys:
        return np.sort(row_keys(np.vstack([self._points, self._others])))


class Runs:
    """Keys and the numbers they belong to: a few sorted runs, each at least twice as long as the next.

    Adding costs O(log n) amortised. Nothing is ever taken out: whoever asks says which numbers are alive.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Keys, Numbers]] = []

    def add(self, keys: Keys, numbers: Numbers) -> None:
        order = np.argsort(keys, kind="stable")
        run = keys[order], numbers[order]
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            run = _merged(self._runs.pop(), run)
        if len(run[0]):
            self._runs.append(run)

    def has(self, keys: Keys, alive: Callable[[Numbers], Mask]) -> Mask:
        """Which keys (n,) belong to a number that is alive."""
        found = np.zeros(len(keys), bool)
        if NATIVE is not None and not NATIVE.anywhere([known for known, _ in self._runs], keys):
            return found  # as a rule: a suggestion is new
        for known, numbers in self._runs:
            first, last = np.searchsorted(known, keys), np.searchsorted(known, keys, side="right")
            for i in np.flatnonzero((last > first) & ~found):
                found[i] = alive(numbers[first[i] : last[i]]).any()
        return found

    def order(self, alive: Callable[[Numbers], Mask]) -> Numbers:
        """All numbers that are alive by key, those of equal keys by number."""
        keys = np.concatenate([keys for keys, _ in self._runs] or [np.empty(0, np.uint64)])
        numbers = np.concatenate([numbers for _, numbers in self._runs] or [np.empty(0, np.int64)])
        living = alive(numbers)
        return by_key(keys[living], numbers[living])[1]

    def between(self, start: int, stop: int) -> Numbers:
        """The numbers whose keys are in [start, stop)."""
        ends = np.array([start, stop], dtype=np.uint64)
        parts = [numbers[slice(*np.searchsorted(keys, ends))] for keys, numbers in self._runs]
        return np.concatenate([*parts, np.empty(0, np.int64)])

    def after(self, start: int, count: int, alive: Callable[[Numbers], Mask]) -> tuple[Keys, Numbers]:
        """The next ``count`` living keys (fewer if there are fewer) from ``start``, cyclically, and their numbers."""
        ahead = count
        while self._runs:
            parts, seen, whole = [], 2**64 - 1, True
            for keys, numbers in self._runs:
                at = int(np.searchsorted(keys, np.uint64(start)))
                rows: slice | Numbers = slice(at, at + ahead)
                if at + ahead > len(keys):
                    rows = (at + np.arange(min(ahead, len(keys)))) % len(keys)
                away = keys[rows] - np.uint64(start)  # modulo 2⁶⁴: how far ahead on the circle
                parts.append((away, numbers[rows]))
                if ahead < len(keys):
                    seen, whole = min(seen, int(away[-1])), False
            away, found = (np.concatenate(column) for column in zip(*parts, strict=True))
            living = alive(found)
            if not whole:
                living &= away < np.uint64(seen)  # from what was last seen of a run on, others may come first
            if whole or np.count_nonzero(living) >= count:
                away, found = by_key(away[living], found[living])
                return away[:count] + np.uint64(start), found[:count]
            ahead *= 2
        return np.empty(0, np.uint64), np.empty(0, np.int64)


def _merged(a: tuple[Keys, Numbers], b: tuple[Keys, Numbers]) -> tuple[Keys, Numbers]:
    keys = np.concatenate([a[0], b[0]])
    order = np.argsort(keys, kind="stable")  # finds the runs: linear
    return keys[order], np.concatenate([a[1], b[1]])[order]


def by_key(keys: Keys, numbers: Numbers) -> tuple[Keys, Numbers]:
    """Both in the order of the keys, those of equal keys by number."""
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], numbers[order]
    if (keys[1:] == keys[:-1]).any():
        order = np.lexsort((numbers, keys))
        keys, numbers = keys[order], numbers[order]
    return keys, numbers
