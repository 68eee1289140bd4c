"""What a column of a space can be: a real number, an integer or a choice.

A grid of n values divides [0, 1] into n equal cells and each value sits in the middle of its cell, so a uniform point
of the cube is a uniform choice of value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from boke.elementary import exp, log

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

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
        return 0 if self.step is None else _steps(self.low, self.high, self.step) + 1

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
            return np.array([self._grid(i) for i in cell(unit, self.cells).ravel().tolist()]).reshape(unit.shape)
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
        assert self.step is not None
        return _on_grid(self.low, self.step, int(index))


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
        return self.low + self.step * cell(unit, self.cells).astype(float)


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
        return cell(unit, self.cells).astype(float)


def cell(unit: Array, cells: int) -> NDArray[np.int64]:
    """Which of so many equal cells each point of [0, 1] is in."""
    index = np.floor(np.asarray(unit) * cells).astype(np.int64)
    return np.minimum(np.maximum(index, 0), cells - 1)


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


def _store(parameter: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(parameter, name, value)


# not kept in the parameter: hosts look for changes of what they were given
@lru_cache(maxsize=1 << 10)
def _steps(low: float, high: float, step: float) -> int:
    return int((_exact(high) - _exact(low)) / _exact(step))


@lru_cache(maxsize=1 << 14)
def _on_grid(low: float, step: float, index: int) -> float:
    # decimal arithmetic: the grid of Float(0, 1, step=0.1) contains 0.3, not 0.30000000000000004
    return float(_exact(low) + index * _exact(step))


def _exact(value: float) -> Decimal:
    return Decimal(repr(value))
