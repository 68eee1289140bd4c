"""A local model in coordinates that it has learned: which columns matter, and along which axes."""

from __future__ import annotations

from typing import Any

from boke import gp, warp
from boke.compiled import NATIVE
from boke.frame import Frame, around, change
from boke.space import Array
from boke.warp import warped

SURE = 1e-5  # share of noise below which the axes of a model may turn
LEARNING = [gp.SPREAD, gp.MOST, gp.SLIGHT, gp.WORTH, gp.TURN_WORTH, SURE]  # as the compiled twin takes them


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

    The last few are kept where it is compiled: the suggestions of a batch begin with the same one.

    Args:
        noises: Levels of noise.
        start: Where on the grid the search for hyperparameters starts.
        shape: Whose stretch and turn the coordinates begin with; None is none.
        turns: How often the axes may turn.
        learns: Whether stretch and turn are learned at all.
    """
    if NATIVE is None:
        return plain_shaped(points, y, origin, noises, start, shape, turns=turns, learns=learns)
    first = (None, None) if shape is None else (shape.stretch, shape.turn)
    grid = gp.LENGTHS, gp.TRENDS, noises, start, warp.LENGTHS, warp.EARNED
    model, *frame = NATIVE.shaped(points, y, origin, *first, *grid, LEARNING, gp.STRETCHES, turns, learns)
    return model, Frame(origin, *frame)


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
