"""Named parameters and the unit cube.

Three views of one point, and the only functions that go between them:

    params  {"lr": 1e-3, "depth": 4, "loss": "huber"}    what the user sees (dict)
    native  [1e-3, 4.0, 1.0]                              exact numbers, choices by index (d,)
    unit    [0.5, 0.58, 0.75]                             where the model lives, in [0, 1] (d,)

``native -> unit -> native`` is bit-exact for every value a parameter can take on a grid (stepped floats,
integers, categories) and for the end points of continuous ranges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from boke.compiled import NATIVE
from boke.parameters import Array, Categorical, Float, Int, Mask, Parameter, cell

__all__ = ["MISMATCH", "Array", "Categorical", "Float", "Int", "Mask", "Parameter", "Space"]

MISMATCH = 0.5  # distance between two categories: that between the two cells of a two-valued integer


class Space:
    """The decision set: named columns of a unit cube, or a finite list of points in it.

    Args:
        parameters: Name -> Float, Int or Categorical.
        named: Whether a point is shown to the user as a dict; otherwise as an array in order.
        arms: Native values of the only admissible points (M, d), or None for the whole product.
    """

    def __init__(self, parameters: Mapping[str, Parameter], *, named: bool = True, arms: Array | None = None) -> None:
        if not parameters:
            raise ValueError("The space must have at least one parameter. Got none.")
        for name, parameter in parameters.items():
            if not isinstance(name, str):
                raise TypeError(f"A parameter's name must be a string. Got {name!r}.")
            if not isinstance(parameter, Float | Int | Categorical):
                raise TypeError(
                    f"The parameter {name!r} of the space must be a Float, an Int or a Categorical. Got {parameter!r}."
                )
        self.parameters = dict(parameters)
        self.named = named
        self.dim = len(self.parameters)
        self.categorical: Mask = np.array([isinstance(p, Categorical) for p in self.parameters.values()])
        self.cells = [p.cells for p in self.parameters.values()]
        self.continuous: Mask = np.array([c == 0 for c in self.cells])
        self.spacing: Array = np.array([1.0 / c if c else 0.0 for c in self.cells])  # of a gridded column's cells
        self.mixed, self.smooth = bool(self.categorical.any()), bool(self.continuous.all())
        # plain intervals, by far the most common columns, are mapped all at once
        plain = {j: p for j, p in enumerate(self.parameters.values()) if isinstance(p, Float) and p.plain}
        self._plain = np.array(list(plain), dtype=int)
        self._low, self._high = (np.array([getattr(p, end) for p in plain.values()]) for end in ("low", "high"))
        self._others = [(j, p) for j, p in enumerate(self.parameters.values()) if j not in plain]
        self.ends = (
            None if self._others or arms is not None else (self._low, self._high)
        )  # where all are plain intervals
        self.arms = arms
        self.unit_arms = None if arms is None else self.encode(arms)
        if self.unit_arms is not None:
            self.unit_arms.flags.writeable = False  # who knows them need not look again

    def __repr__(self) -> str:
        arms = "" if self.arms is None else f", arms={len(self.arms)}"
        return f"Space({self.parameters}{arms})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Space)
            and list(self.parameters.items()) == list(other.parameters.items())
            and self.named == other.named
            and np.array_equal(_or_empty(self.arms), _or_empty(other.arms))
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, bounds: Any) -> Space:
        """Read what users write: a Space, a dict of parameters, a list of (low, high), or scipy Bounds."""
        if isinstance(bounds, Space):
            return bounds
        if isinstance(bounds, Mapping):
            return cls(bounds)
        if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # scipy.optimize.Bounds
            bounds = list(zip(np.atleast_1d(bounds.lb).tolist(), np.atleast_1d(bounds.ub).tolist(), strict=True))
        columns = {}
        for i, pair in enumerate(_list(bounds)):
            if isinstance(pair, Float | Int | Categorical):
                columns[f"x{i}"] = pair
                continue
            try:
                low, high = pair
            except (TypeError, ValueError):
                raise ValueError(f"The 'bounds' parameter must hold (low, high) pairs. Got {pair!r} at {i}.") from None
            try:
                columns[f"x{i}"] = Float(low, high)
            except (TypeError, ValueError) as error:
                raise type(error)(f"The 'bounds' parameter is wrong at position {i}: {error}") from None
        return cls(columns, named=False)

    @classmethod
    def from_arms(cls, points: ArrayLike) -> Space:
        """A finite decision set: the rows of ``points`` (M, d) are the only admissible points (appendix B)."""
        try:
            arms = np.array(points, dtype=float)
        except (TypeError, ValueError):
            arms = np.empty(0)
        if arms.ndim == 1:
            arms = arms[:, None]
        if arms.ndim != 2 or arms.size == 0 or not np.isfinite(arms).all():
            raise ValueError(f"The 'points' parameter of from_arms must be a finite (M, d) array. Got {points!r}.")
        if len(np.unique(arms, axis=0)) != len(arms):
            raise ValueError("The 'points' parameter of from_arms must be distinct. Got repeated rows.")
        return cls({f"x{j}": Float(*_range(arms[:, j])) for j in range(arms.shape[1])}, named=False, arms=arms)

    # params <-> native

    def to_native(self, params: Any) -> Array:
        """Check a point given by the user and return its exact numbers (d,)."""
        if isinstance(params, Mapping):
            if unknown := [name for name in params if name not in self.parameters]:
                raise ValueError(f"The point has unknown parameters {unknown}. The space has {list(self.parameters)}.")
            if missing := [name for name in self.parameters if name not in params]:
                raise ValueError(f"The point lacks the parameters {missing}. Got {dict(params)}.")
            values = [params[name] for name in self.parameters]
        elif self.named:
            raise TypeError(f"The point must be a dict with the keys {list(self.parameters)}. Got {params!r}.")
        else:
            values = _list(params)
            if len(values) != self.dim:
                raise ValueError(f"The point must have {self.dim} coordinates. Got {len(values)}: {params!r}.")
        native = np.empty(self.dim)
        for j, (name, parameter) in enumerate(self.parameters.items()):
            try:
                native[j] = parameter.to_native(values[j])
            except (TypeError, ValueError) as error:
                text = str(error) if str(error).startswith("must") else f"is wrong: {error}"
                raise type(error)(f"The value of {name!r} {text}") from None
        if self.arms is not None and not (self.arms == native).all(axis=1).any():
            raise ValueError(f"The point must be one of the {len(self.arms)} arms. Got {params!r}.")
        return native

    def check_native(self, rows: ArrayLike) -> Array:
        """Check many points (n, d) given as numbers at once; for a space without categories."""
        native = np.array(rows, dtype=float)
        if native.ndim != 2 or native.shape[1] != self.dim:
            raise ValueError(f"The points must be an (n, {self.dim}) array. Got shape {native.shape}.")
        suspect = ~np.isfinite(native)
        for j, p in enumerate(self.parameters.values()):
            assert isinstance(p, Float | Int)
            with np.errstate(invalid="ignore"):
                suspect[:, j] |= (native[:, j] < p.low) | (native[:, j] > p.high)
                if p.cells:
                    on_grid = p.decode(np.where(suspect[:, j], 0.5, p.encode(np.clip(native[:, j], p.low, p.high))))
                    suspect[:, j] |= on_grid != native[:, j]
        if self.arms is not None:
            suspect[:] = True
        for i in np.flatnonzero(suspect.any(axis=1)):
            native[i] = self.to_native(dict(zip(self.parameters, native[i].tolist(), strict=True)))
        return native

    def to_params(self, native: Array) -> dict[str, Any]:
        values = native.tolist()
        for j, p in self._others:
            values[j] = p.from_native(values[j])
        return dict(zip(self.parameters, values, strict=True))

    def to_user(self, native: Array) -> Any:
        """What an objective receives: a dict for named spaces, an array for plain bounds."""
        if self.named:
            return self.to_params(native)
        if self.mixed:
            return [p.from_native(native[j]) for j, p in enumerate(self.parameters.values())]
        return np.array(native)

    # native <-> unit cube, many points at once

    def encode(self, native: Array) -> Array:
        """Map native points (n, d) into the unit cube."""
        if not self._others:
            return inside(native, self._low, self._high)
        unit = np.empty(native.shape)
        unit[:, self._plain] = inside(native[:, self._plain], self._low, self._high)
        for j, p in self._others:
            unit[:, j] = p.encode(native[:, j])
        return unit

    def decode(self, unit: Array) -> Array:
        """Map points of the unit cube (n, d) to native values inside the bounds, on the grid."""
        if self.arms is not None:
            assert self.unit_arms is not None
            return self.arms[[_nearest(self.unit_arms, u) for u in unit]]
        if not self._others:
            return between(unit, self._low, self._high)
        native = np.empty(unit.shape)
        native[:, self._plain] = between(unit[:, self._plain], self._low, self._high)
        for j, p in self._others:
            native[:, j] = p.decode(unit[:, j])
        return native

    def snap(self, unit: Array) -> Array:
        """Move points of the cube (n, d) to the middle of their cell on every gridded column."""
        if self.smooth:
            return unit
        snapped = unit.copy()
        for j, p in enumerate(self.parameters.values()):
            if not self.continuous[j]:
                if isinstance(p, Int) and p.log:  # unequal cells; the others need no detour over native values
                    snapped[:, j] = p.encode(p.decode(unit[:, j]))
                else:
                    snapped[:, j] = (cell(unit[:, j], p.cells) + 0.5) / p.cells
        return snapped

    @property
    def size(self) -> float:
        """The number of points, infinite if a column is continuous."""
        if self.arms is not None:
            return len(self.arms)
        return math.prod(self.cells) if all(self.cells) else math.inf

    def enumerate(self, limit: int) -> Array | None:
        """Every point of the decision set in the unit cube (M, d), or None when there are more than ``limit``."""
        if self.unit_arms is not None:
            return self.unit_arms
        if not all(self.cells) or math.prod(self.cells) > limit:
            return None
        axes = [self._axis(p) for p in self.parameters.values()]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)

    @staticmethod
    def _axis(parameter: Parameter) -> Array:
        middles = (np.arange(parameter.cells) + 0.5) / parameter.cells
        if isinstance(parameter, Int) and parameter.log:
            return parameter.encode(np.arange(parameter.low, parameter.high + 1.0))
        return middles


def inside(native: Array, low: Array, high: Array) -> Array:
    """Where in the unit cube points (n, d) of the box between two corners (d,) are."""
    if NATIVE is not None:
        return np.asarray(NATIVE.inside(native, low, high))
    return plain_inside(native, low, high)


def plain_inside(native: Array, low: Array, high: Array) -> Array:
    """The same, and its definition."""
    return np.asarray(np.minimum(np.maximum((native - low) / (high - low), 0.0), 1.0))


def between(unit: Array, low: Array, high: Array) -> Array:
    """Where between the two corners points (n, d) of the unit cube are; at 0 and 1 exactly in one."""
    if NATIVE is not None:
        return np.asarray(NATIVE.between(unit, low, high))
    return plain_between(unit, low, high)


def plain_between(unit: Array, low: Array, high: Array) -> Array:
    """The same, and its definition."""
    return np.asarray(np.minimum(np.maximum(low * (1 - unit) + high * unit, low), high))


def _nearest(arms: Array, u: Array) -> int:
    """Which arm (M, d) is nearest to u (d,); as a rule it is one of them."""
    alike = np.flatnonzero(arms[:, 0] == u[0])
    same = alike[(arms[alike] == u).all(axis=1)]
    if len(same):
        return int(same[0])
    away = arms - u
    return int(np.einsum("md,md->m", away, away).argmin())


def _range(column: Array) -> tuple[float, float]:
    return float(column.min()), float(column.max())


def _or_empty(arms: Array | None) -> Array:
    return np.empty((0, 0)) if arms is None else arms


def _list(values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"A list, tuple or array was expected. Got {values!r}.") from None
