"""Named parameters and the unit cube.

Three views of one point, and the only functions that go between them:

    params  {"lr": 1e-3, "depth": 4, "loss": "huber"}    what the user sees (dict)
    native  [1e-3, 4.0, 1.0]                              exact numbers, choices by index (d,)
    unit    [0.5, 0.58, 0.75]                             where the model lives, in [0, 1] (d,)

``native -> unit -> native`` is bit-exact for every value a parameter can take on a grid (stepped floats,
integers, categories) and for the end points of continuous ranges. A grid of n values divides [0, 1] into n equal
cells and each value sits in the middle of its cell, so a uniform point of the cube is a uniform choice of value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boke.elementary import exp, log

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MISMATCH = 0.5  # distance between two categories: that between the two cells of a two-valued integer

# beyond these the doubles in [0, 1] are too few to give every value of the grid its own
LARGEST_INT = 2**50
LARGEST_LOG_INT = 2**45


class Parameter(Protocol):
    """One column of a space. ``cells`` is the number of grid values, 0 for a continuous column."""

    @property
    def cells(self) -> int: ...
    def to_native(self, value: Any) -> float: ...
    def from_native(self, native: float) -> Any: ...
    def encode(self, native: Array) -> Array: ...
    def decode(self, unit: Array) -> Array: ...


@dataclass(frozen=True)
class Float:
    """A real number in [low, high], optionally on a log scale or on the grid low, low + step, ..."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _store(self, low=_number(self.low, "low", "Float"), high=_number(self.high, "high", "Float"))
        _check_range(self)
        if self.step is not None:
            _store(self, step=_number(self.step, "step", "Float"))
            if self.log:
                raise ValueError(f"The 'step' parameter of Float must be None when log=True. Got step={self.step}.")
            if not self.step > 0:
                raise ValueError(f"The 'step' parameter of Float must be positive. Got step={self.step}.")
            spacing = math.ulp(max(abs(self.low), abs(self.high)))
            if self.low < self.high and (self.step < 8 * spacing or math.isinf(self.high - self.low)):
                raise ValueError(
                    f"The 'step' parameter of Float must be so wide that doubles keep its values apart. "
                    f"Got step={self.step} for low={self.low}, high={self.high}."
                )

    @property
    def cells(self) -> int:
        if self.low == self.high:
            return 1
        return 0 if self.step is None else int((_exact(self.high) - _exact(self.low)) / _exact(self.step)) + 1

    @property
    def plain(self) -> bool:
        """Whether it is an interval without log or step, not too wide for its length to be a double."""
        return not self.log and self.step is None and self.low < self.high and math.isfinite(self.high - self.low)

    def to_native(self, value: Any) -> float:
        number = _number(value, "value", "Float")
        if not self.low <= number <= self.high:
            raise ValueError(f"must be in [{self.low}, {self.high}]. Got {number!r}.")
        if self.step is None:
            return number
        on_grid = self._grid(min(round((number - self.low) / self.step), self.cells - 1))
        if abs(on_grid - number) > 1e-9 * self.step + 2 * math.ulp(number):  # 0.1 + 0.2 is meant to be 0.3
            raise ValueError(f"must be {self.low} plus a multiple of {self.step}. Got {number!r}.")
        return on_grid

    def from_native(self, native: float) -> float:
        return float(native)

    def encode(self, native: Array) -> Array:
        if self.cells == 1:
            return np.full(native.shape, 0.5)
        if self.step is not None:
            return (np.rint((native - self.low) / self.step) + 0.5) / self.cells
        low, high = (math.log(self.low), math.log(self.high)) if self._logarithmic else (self.low, self.high)
        at = log(native) if self._logarithmic else native
        if math.isinf(high - low):  # a range such as [-1e308, 1e308]: halve before subtracting
            low, high, at = low / 2, high / 2, at / 2
        inner = np.clip((at - low) / (high - low), 0.0, 1.0)
        return np.where(native <= self.low, 0.0, np.where(native >= self.high, 1.0, inner))

    def decode(self, unit: Array) -> Array:
        if self.cells == 1:
            return np.full(unit.shape, self.low)
        if self.step is not None:
            return np.array([self._grid(i) for i in _cell(unit, self.cells).ravel().tolist()]).reshape(unit.shape)
        if self._logarithmic:
            inner = exp(math.log(self.low) * (1 - unit) + math.log(self.high) * unit)
        else:
            inner = self.low * (1 - unit) + self.high * unit
        inner = np.where(unit <= 0, self.low, np.where(unit >= 1, self.high, inner))
        return np.clip(inner, self.low, self.high)

    @property
    def _logarithmic(self) -> bool:
        # a range of a few doubles, such as [1e10, 1e10 + 2e-6], has no length on the log axis: there it is linear
        return self.log and math.log(self.low) < math.log(self.high)

    def _grid(self, index: int) -> float:
        # decimal arithmetic: the grid of Float(0, 1, step=0.1) contains 0.3, not 0.30000000000000004
        return float(_exact(self.low) + int(index) * _exact(self.step))


@dataclass(frozen=True)
class Int:
    """An integer in [low, high], optionally on a log scale or in steps."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        _store(
            self,
            low=_integer(self.low, "low", "Int"),
            high=_integer(self.high, "high", "Int"),
            step=_integer(self.step, "step", "Int"),
        )
        _check_range(self)
        if self.step < 1:
            raise ValueError(f"The 'step' parameter of Int must be at least 1. Got step={self.step}.")
        if self.log and self.step != 1:
            raise ValueError(f"The 'step' parameter of Int must be 1 when log=True. Got step={self.step}.")
        limit = LARGEST_LOG_INT if self.log else LARGEST_INT
        for name, bound in (("low", self.low), ("high", self.high)):
            if abs(bound) > limit:
                where = f"±2**{limit.bit_length() - 1}" + " when log=True" * self.log
                raise ValueError(f"The '{name}' parameter of Int must be within {where}. Got {name}={bound}.")

    @property
    def cells(self) -> int:
        return (self.high - self.low) // self.step + 1

    def to_native(self, value: Any) -> float:
        number = _integer(value, "value", "Int")
        if not self.low <= number <= self.high:
            raise ValueError(f"must be in [{self.low}, {self.high}]. Got {number!r}.")
        if (number - self.low) % self.step:
            raise ValueError(f"must be {self.low} plus a multiple of {self.step}. Got {number!r}.")
        return float(number)

    def from_native(self, native: float) -> int:
        return int(native)

    def encode(self, native: Array) -> Array:
        if self.log:  # every integer owns [v - 1/2, v + 1/2] on the log axis
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return np.asarray((log(native) - low) / (high - low))
        return ((native - self.low) // self.step + 0.5) / self.cells

    def decode(self, unit: Array) -> Array:
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return np.asarray(np.clip(np.rint(exp(low + unit * (high - low))), self.low, self.high))
        return self.low + self.step * _cell(unit, self.cells).astype(float)


@dataclass(frozen=True)
class Categorical:
    """One of several choices without order; two different choices are equally unlike."""

    choices: tuple[Any, ...]

    def __init__(self, choices: Sequence[Any]) -> None:
        if isinstance(choices, (str, bytes)) or not isinstance(choices, Sequence | np.ndarray | range):
            raise TypeError(f"The 'choices' parameter of Categorical must be a list or tuple. Got {choices!r}.")
        object.__setattr__(self, "choices", tuple(choices))
        if not self.choices:
            raise ValueError("The 'choices' parameter of Categorical must not be empty.")
        for i, choice in enumerate(self.choices):
            if any(_same(choice, other) for other in self.choices[:i]):
                raise ValueError(f"The 'choices' parameter of Categorical must be distinct. Got {choice!r} twice.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Categorical)
            and self.cells == other.cells
            and all(map(_same, self.choices, other.choices))  # [True, False] is not [1, 0]
        )

    def __hash__(self) -> int:
        return hash(self.cells)  # choices need not be hashable

    @property
    def cells(self) -> int:
        return len(self.choices)

    def to_native(self, value: Any) -> float:
        for i, choice in enumerate(self.choices):
            if _same(choice, value):
                return float(i)
        raise ValueError(f"must be one of {list(self.choices)}. Got {value!r}.")

    def from_native(self, native: float) -> Any:
        return self.choices[int(native)]

    def encode(self, native: Array) -> Array:
        return (native + 0.5) / self.cells

    def decode(self, unit: Array) -> Array:
        return _cell(unit, self.cells).astype(float)


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
        self._plain = slice(None) if len(plain) == self.dim else np.array(list(plain), dtype=int)
        self._low, self._high = (np.array([getattr(p, end) for p in plain.values()]) for end in ("low", "high"))
        self._others = [(j, p) for j, p in enumerate(self.parameters.values()) if j not in plain]
        self.arms = arms
        self.unit_arms = None if arms is None else self.encode(arms)

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
        return {name: p.from_native(native[j]) for j, (name, p) in enumerate(self.parameters.items())}

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
        unit = np.empty(native.shape)
        at = native[:, self._plain]
        unit[:, self._plain] = np.minimum(np.maximum((at - self._low) / (self._high - self._low), 0.0), 1.0)
        for j, p in self._others:
            unit[:, j] = p.encode(native[:, j])
        return unit

    def decode(self, unit: Array) -> Array:
        """Map points of the unit cube (n, d) to native values inside the bounds, on the grid."""
        if self.arms is not None:
            assert self.unit_arms is not None
            nearest = [int(((self.unit_arms - u) ** 2).sum(axis=1).argmin()) for u in unit]
            return self.arms[nearest]
        native = np.empty(unit.shape)
        at = unit[:, self._plain]
        inner = self._low * (1 - at) + self._high * at  # at 0 and 1 exactly an end
        native[:, self._plain] = np.minimum(np.maximum(inner, self._low), self._high)
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
                    snapped[:, j] = (_cell(unit[:, j], p.cells) + 0.5) / p.cells
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


def _cell(unit: Array, cells: int) -> NDArray[np.int64]:
    index = np.floor(np.asarray(unit) * cells).astype(np.int64)
    return np.clip(index, 0, cells - 1)


def _same(a: Any, b: Any) -> bool:
    """Equality of choices: 1, 1.0 and True are three choices, nan equals itself, NumPy scalars their Python twins."""
    a, b = (value.item() if isinstance(value, np.generic) else value for value in (a, b))
    if type(a) is not type(b):
        return False
    try:
        return bool(a is b or a == b or (a != a and b != b))
    except (TypeError, ValueError):  # objects whose comparison has no truth value, such as arrays
        return False


def _number(value: Any, name: str, owner: str) -> float:
    if isinstance(value, str | bytes | bool | np.bool_ | complex | np.complexfloating) or value is None:
        raise TypeError(f"The '{name}' parameter of {owner} must be a real number. Got {value!r}.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"The '{name}' parameter of {owner} must be a real number. Got {value!r}.") from None
    if not math.isfinite(number):
        raise ValueError(f"The '{name}' parameter of {owner} must be finite. Got {number}.")
    return number


def _integer(value: Any, name: str, owner: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"The '{name}' parameter of {owner} must be an integer. Got {value!r}.")
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise ValueError(f"The '{name}' parameter of {owner} must be finite. Got {value}.")
        if float(value).is_integer():
            return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"The '{name}' parameter of {owner} must be an integer. Got {value!r}.") from None


def _check_range(parameter: Float | Int) -> None:
    owner, low, high = type(parameter).__name__, parameter.low, parameter.high
    if low > high:
        raise ValueError(
            f"The 'low' parameter of {owner} must be less than 'high', or equal to it for a fixed value. "
            f"Got low={low}, high={high}."
        )
    if parameter.log and low <= 0:
        raise ValueError(f"The 'low' parameter of {owner} must be positive when log=True. Got low={low}.")


def _range(column: Array) -> tuple[float, float]:
    return float(column.min()), float(column.max())


def _store(parameter: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(parameter, name, value)


def _exact(value: float | None) -> Decimal:
    return Decimal(repr(value))


def _or_empty(arms: Array | None) -> Array:
    return np.empty((0, 0)) if arms is None else arms


def _list(values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"A list, tuple or array was expected. Got {values!r}.") from None
