"""Candidates of the unit cube that stay from one trial to the next: a window that slides along a random sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from boke.keys import Numbers, uniform
from boke.space import Array, Space


@dataclass(frozen=True)
class Window:
    """Candidates (count, d): ``count`` elements of a random sequence, the next ``stride`` of it with each trial.

    So they are always as many and never used up, and which ones they are depends on the seed and the trial alone.

    Attributes:
        seed: What the sequence is made of.
        count: How many candidates there are.
        number: That of the trial.
        stride: How many of them are new with each trial.
    """

    seed: int
    count: int
    number: int
    stride: int = 1

    @property
    def places(self) -> Numbers:
        """Which elements (count,) of the sequence are in the window; each keeps its row as long as it is."""
        start, rows = self.number * self.stride, np.arange(self.count)
        return start + self.count - (start - rows) % self.count

    def points(self, places: Numbers, space: Space) -> Array:
        """Elements (n, d) of the sequence."""
        salt = (self.seed * 0xD1342543DE82EF95 + (self.seed >> 64) + 3) % 2**64
        d = space.dim
        return space.snap(uniform((places[:, None] * d + np.arange(d)).ravel(), salt).reshape(len(places), d))
