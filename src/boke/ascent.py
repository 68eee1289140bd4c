"""Projected BFGS: the way up from a point of a box, for functions of few variables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from boke.space import Array

PROMISING, COLUMNS = 3, 7  # evaluations after which a gain must show, one less from so many columns on


def ascend(
    value: Callable[[Array], tuple[float, Array]],
    x: Array,
    low: Array,
    high: Array,
    evaluations: int,
    enough: float,
    least: float = -math.inf,
) -> tuple[Array, float]:
    """A local maximum of a function with slopes inside [low, high] (d,), from x (d,), and its value there.

    Projected BFGS with backtracking; it ends when a step straight up gains less than ``enough``, and is given up if it
    has not gained ``least`` after two or three evaluations.
    """
    f, g = value(x)
    start = f
    width, used, fresh = float((high - low).max()), 1, True
    promising = PROMISING - (len(x) >= COLUMNS)
    H = np.eye(len(x))
    while used < evaluations and (used < promising or f >= start + least):
        h = np.where(((x <= low) & (g < 0.0)) | ((x >= high) & (g > 0.0)), 0.0, g)
        norm = float(np.abs(h).max())
        if not 1e-10 < norm < math.inf:
            break
        if fresh:
            H = np.eye(len(x)) * (0.1 * width / norm)
        p = np.where(h != 0.0, np.einsum("ij,j->i", H, h), 0.0)
        if not float((p * h).sum()) > 0.0:
            if fresh:
                break
            fresh = True
            continue
        before, step = f, 1.0
        while used < evaluations and step > 1e-5:
            trial = np.minimum(np.maximum(x + step * p, low), high)
            if np.abs(trial - x).max() < 1e-12 * width:
                break
            there, slope = value(trial)
            used += 1
            if there > f + 1e-4 * float(((trial - x) * g).sum()) and there > f:
                H = _bfgs(H, trial - x, g - slope)
                x, f, g = trial, there, slope
                break
            step *= 0.25
        if fresh and not f > before + enough:
            break
        fresh = not f > before + enough
    return x, float(f)


def _bfgs(H: Array, s: Array, r: Array) -> Array:
    """The inverse Hessian of -f after a step s that changed the gradient of -f by r."""
    sr = float((s * r).sum())
    if not sr > 1e-14:
        return H
    Hr = np.einsum("ij,j->i", H, r)
    a = (1.0 + float((r * Hr).sum()) / sr) / sr
    return np.asarray(H + a * np.outer(s, s) - (np.outer(Hr, s) + np.outer(s, Hr)) / sr)
