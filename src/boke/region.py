"""The trust region around the incumbent: its size, replayed from the outcomes of past local suggestions.

Nothing is stored: the same trials in the order of their numbers give the same region, after any resume, in any
process. Trials that were told unasked and those of the exploring branch are data, not outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from boke.compiled import NATIVE
from boke.space import Array, Mask

LARGEST_SIDE, SMALLEST_SIDE = 0.8, 1e-7
REPLAYED = 1000  # outcomes that count; older ones have long been forgotten by a side that is bounded on both ends


@dataclass(frozen=True)
class TrustRegion:
    """How the side of the box follows success and failure; below SMALLEST_SIDE it starts anew.

    Args:
        start: The first side.
        grow: Factor of the side after a success.
        shrink: Factor after ``patience`` failures in a row.
        patience: See there. None is 3 in up to three dimensions, where there is time to look around, and 2 above.
        settled: Below this side every other trial looks elsewhere, where a success moves the region to.
    """

    start: float = 0.4
    grow: float = 1.6
    shrink: float = 0.6
    patience: int | None = None
    settled: float = 0.01

    def side(self, successes: Mask, aside: Mask, dim: int) -> float:
        """The side after these outcomes (n,); ``aside`` are trials that looked elsewhere if the region had settled."""
        patience = self.patience or (3 if dim <= 3 else 2)
        if NATIVE is None:
            return self.plain_side(successes, aside, patience)
        rule = [self.start, self.grow, self.shrink, self.settled, LARGEST_SIDE, SMALLEST_SIDE]
        return float(NATIVE.side(np.ascontiguousarray(successes), np.ascontiguousarray(aside), patience, rule))

    def plain_side(self, successes: Mask, aside: Mask, patience: int) -> float:
        """The same, and its definition."""
        side, failures = self.start, 0
        for success, away in zip(successes.tolist(), aside.tolist(), strict=True):
            if away and side < self.settled:
                if success:
                    side, failures = self.start, 0
            elif success:
                side, failures = min(LARGEST_SIDE, side * self.grow), 0
            else:
                failures += 1
                if failures >= patience:
                    side, failures = side * self.shrink, 0
                    if side < SMALLEST_SIDE:
                        side = self.start
        return side


def box(center: Array, side: float, spacing: Array) -> tuple[Array, Array]:
    """Corners (d,) of the region inside the unit cube; a gridded column reaches the next cell at least."""
    half = np.maximum(0.5 * side, spacing)
    return np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)
