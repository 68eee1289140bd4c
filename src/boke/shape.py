"""A local model in coordinates that it has learned: which columns matter, and along which axes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from boke import gp, warp
from boke.compiled import NATIVE
from boke.frame import Frame, around, change
from boke.space import Array
from boke.warp import warped

SURE = 1e-5  # share of noise below which the axes of a model may turn


def shaped(
    points: Array,
    y: Array,
    origin: Array,
    noises: tuple[float, ...] = gp.NOISES,
    start: tuple[int, int, int] = gp.START,
    shape: Frame | None = None,
    *,
    turns: int = 0,
    learns: bool = True,
) -> tuple[Any, Frame]:
    """A LocalGP of the values y (n,) of points (n, d) around an origin (d,), and the frame that it is in.

    The last few are kept: the suggestions of a batch begin with the same one.

    Args:
        noises: Levels of noise.
        start: Where on the grid the search for hyperparameters starts.
        shape: Whose stretch and turn the coordinates begin with; None is none.
        turns: How often the axes may turn.
        learns: Whether stretch and turn are learned at all.
    """
    first = (None, None) if shape is None else (shape.stretch.tobytes(), _bytes(shape.turn))
    return _shaped(points.tobytes(), y.tobytes(), origin.tobytes(), noises, start, *first, turns, learns)


def _bytes(turn: Array | None) -> bytes | None:
    return None if turn is None else turn.tobytes()


@lru_cache(maxsize=8)
def _shaped(
    points: bytes,
    y: bytes,
    origin: bytes,
    noises: tuple[float, ...],
    start: tuple[int, int, int],
    stretch: bytes | None,
    turn: bytes | None,
    turns: int,
    learns: bool,
) -> tuple[Any, Frame]:
    X, values, center = np.frombuffer(points).reshape(len(y) // 8, -1), np.frombuffer(y), np.frombuffer(origin)
    factors = None if stretch is None else np.frombuffer(stretch)
    axes = None if turn is None else np.frombuffer(turn).reshape(len(center), -1)
    if NATIVE is None:
        shape = None if factors is None else Frame(center, 1.0, factors, axes)
        return plain_shaped(X, values, center, noises, start, shape, turns=turns, learns=learns)
    grid = gp.LENGTHS, gp.TRENDS, noises, start, warp.LENGTHS, warp.EARNED
    rule = [gp.SPREAD, gp.MOST, gp.SLIGHT, gp.WORTH, gp.TURN_WORTH, SURE]
    model, *frame = NATIVE.shaped(X, values, center, factors, axes, *grid, rule, gp.STRETCHES, turns, learns)
    return model, Frame(center, *frame)


def plain_shaped(
    points: Array,
    y: Array,
    origin: Array,
    noises: tuple[float, ...] = gp.NOISES,
    start: tuple[int, int, int] = gp.START,
    shape: Frame | None = None,
    *,
    turns: int = 0,
    learns: bool = True,
) -> tuple[Any, Frame]:
    """The same, and its definition."""
    d, frame = points.shape[1], around(origin, points, shape)
    Z = frame.z(points)
    Y, jacobian = warped(y)
    model = gp.fit(Z, Y, jacobian, noises=noises, start=start)
    for _ in range(0 if not learns else turns if turns and _sure(model) else 1):
        by = gp.turn(model, d) if turns and _sure(model) else None
        by = gp.stretch(model, d) if by is None else by
        if by is None:
            break
        frame, Z = frame.changed(by), change(Z, by)
        model = gp.fit(Z, Y, jacobian, noises=noises, start=model.at)
    return model, frame


def _sure(model: Any) -> bool:
    return bool(model.hyperparameters[2] < SURE)
