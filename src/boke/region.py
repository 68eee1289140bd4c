"""The trust region around the incumbent: its size, replayed from the outcomes of past local suggestions.

Nothing is stored: the same trials in the order of their numbers give the same region, after any resume, in any
process. Trials that were told unasked and those of the exploring branch are data, not outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from boke.compiled import NATIVE
from boke.space import Array, Mask

LARGEST_SIDE, SMALLEST_SIDE = 0.8, 1e-7
REPLAYED = 1000  # trials that are replayed at least, twice as many at most; a side that is bounded forgets older ones


class Search(NamedTuple):
    """How far a search has come.

    Attributes:
        side: Of the region around the incumbent.
        at: Which outcome is the best one of the second search; -1 if that begins anew.
        second: Side of the region around it.
    """

    side: float
    at: int = -1
    second: float = 0.0


@dataclass(frozen=True)
class TrustRegion:
    """How the side of the box follows success and failure; below SMALLEST_SIDE it starts anew.

    Args:
        start: The first side.
        grow: Factor of the side after a success.
        shrink: Factor after ``patience`` failures in a row.
        patience: See there. None is 3 in up to three dimensions, where there is time to look around, and 2 above.
        settled: Below this side every other trial is of a second search. It starts elsewhere, follows its own best
            observation in a region of its own, without patience, and starts again when that has settled. If it finds
            a new best, the first search goes on from there.
    """

    start: float = 0.4
    grow: float = 1.6
    shrink: float = 0.6
    patience: int | None = None
    settled: float = 0.01

    def replay(self, successes: Mask, values: Array, aside: Mask, dim: int) -> Search:
        """The search after these outcomes (n,); ``aside`` are those of the second one if the region had settled."""
        if NATIVE is None:
            return self.plain_replay(successes, values, aside, self.patient(dim))
        return Search(*NATIVE.replay(successes, values, aside, self.patient(dim), self.rule))

    def patient(self, dim: int) -> int:
        """The patience in so many dimensions."""
        return self.patience or (3 if dim <= 3 else 2)

    @property
    def rule(self) -> list[float]:
        """What the compiled twin needs beside the patience."""
        return [self.start, self.grow, self.shrink, self.settled, LARGEST_SIDE, SMALLEST_SIDE]

    def plain_replay(self, successes: Mask, values: Array, aside: Mask, patience: int) -> Search:
        """The same, and its definition."""
        side, failures = self.start, 0
        at, second = -1, 0.0
        for i, (success, away) in enumerate(zip(successes.tolist(), aside.tolist(), strict=True)):
            if away and side < self.settled:
                if success:
                    side, failures, at = self.start, 0, -1
                elif at < 0:
                    at, second = i, self.start
                elif values[i] > values[at]:
                    at, second = i, min(LARGEST_SIDE, second * self.grow)
                else:
                    second *= self.shrink
                    at = at if second >= self.settled else -1
            elif success:
                side, failures = min(LARGEST_SIDE, side * self.grow), 0
            else:
                failures += 1
                if failures >= patience:
                    side, failures = side * self.shrink, 0
                    side = side if side >= SMALLEST_SIDE else self.start
        return Search(side, at, second)


def replayed_from(number: int) -> int:
    """The first trial whose outcome counts for a later one. It moves in long steps: if it followed from trial to trial,
    a search that fails all the time would always be where it was.
    """
    return max(0, (number // REPLAYED - 1) * REPLAYED)


def box(center: Array, side: float, spacing: Array) -> tuple[Array, Array]:
    """Corners (d,) of the region inside the unit cube; a gridded column reaches the next cell at least."""
    half = np.maximum(0.5 * side, spacing)
    return np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)
