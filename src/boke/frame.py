"""The coordinates of a local model: where they begin, how columns are stretched, and to what axes they turn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from boke.rotations import turned
from boke.space import Array


@dataclass(frozen=True)
class Frame:
    """z = (features - origin) / scale, column by column, times ``turn``, a matrix (d, d); None is no turn.

    Attributes:
        origin: The center of a neighbourhood (d,).
        radius: Of the neighbourhood: root mean square distance of its observations from the origin.
        stretch: Factors (d,) of the columns.
        turn: See above.
    """

    origin: Array
    radius: float
    stretch: Array
    turn: Array | None = None

    @cached_property
    def scale(self) -> Array:
        return np.asarray(self.radius / self.stretch)

    def straight(self, features: Array) -> Array:
        """The coordinates before the turn: a box is one in these."""
        return np.asarray((features - self.origin) / self.scale)

    def back(self, straight: Array) -> Array:
        return np.asarray(self.origin + self.scale * straight)

    def z(self, features: Array) -> Array:
        z = self.straight(features)
        return z if self.turn is None else turned(z, self.turn)

    def changed(self, by: Array) -> Frame:
        """The frame in which what was at z is at ``change(z, by)``."""
        if by.ndim == 1 and self.turn is None:
            return Frame(self.origin, self.radius, self.stretch * by)
        turn = by if self.turn is None else change(self.turn, by)
        return Frame(self.origin, self.radius, self.stretch, turn)


def around(origin: Array, points: Array, shape: Frame | None = None) -> Frame:
    """The frame of a neighbourhood (n, d) of the origin (d,), with the stretch and turn of another one."""
    away = points - origin
    radius = math.sqrt(float(np.einsum("nd,nd->", away, away)) / len(points)) or 1.0
    if shape is None:
        return Frame(origin, radius, np.ones(len(origin)))
    return Frame(origin, radius, shape.stretch, shape.turn)


def change(Z: Array, by: Array) -> Array:
    """Z (n, d) times factors of its columns (d,), or times a matrix (d, d)."""
    return Z * by if by.ndim == 1 else turned(Z, by)
