"""Optuna's distributions as columns of a boke space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from boke.space import Array, Categorical, Float, Int, Parameter, Space


@dataclass(frozen=True)
class Column:
    """A distribution and the parameter that stands for it; categories travel by their index."""

    distribution: BaseDistribution
    parameter: Parameter

    def native(self, value: Any) -> float | None:
        """The number of a value, or None when it does not belong to this distribution (its range has changed)."""
        try:
            number = float(self.distribution.to_internal_repr(value))
        except (TypeError, ValueError):
            return None
        if isinstance(self.distribution, FloatDistribution | IntDistribution):
            inside = self.distribution.low <= number <= self.distribution.high
        else:
            inside = True  # a category without an index was refused above
        return number if inside else None

    def value(self, native: float) -> Any:
        """The value that Optuna hands to the objective: a plain int or float, or the user's own category."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices[int(native)]
        if isinstance(self.distribution, IntDistribution):
            return int(_on_grid(round(native), self.distribution))
        assert isinstance(self.distribution, FloatDistribution)
        coarse = self.distribution.step is None or self.parameter.cells  # already on the grid, if there is one
        return float(native if coarse else _on_grid(native, self.distribution))


def _on_grid(value: float, distribution: FloatDistribution | IntDistribution) -> float:
    low, high, step = distribution.low, distribution.high, distribution.step or 1
    return min(max(low + step * round((value - low) / step), low), high)


def column(distribution: BaseDistribution) -> Column:
    """The column of a distribution.

    A grid so fine that doubles cannot tell its values apart in the unit cube becomes a continuous column, whose values
    are rounded.
    """
    if isinstance(distribution, CategoricalDistribution):
        return Column(distribution, Categorical(range(len(distribution.choices))))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, log, step = distribution.low, distribution.high, distribution.log, distribution.step
    parameter: Parameter
    try:
        if isinstance(distribution, IntDistribution):
            parameter = Int(int(low), int(high), log=log, step=distribution.step)
        else:
            parameter = Float(low, high, log=log, step=step)
    except ValueError:
        parameter = Float(low, high, log=log)
    return Column(distribution, parameter)


class Columns:
    """Several distributions as one space, ordered by name: dictionaries of different storages differ in order."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(sorted(distributions.items()))
        self._columns = {name: column(distribution) for name, distribution in self.distributions.items()}
        self.space = Space({name: found.parameter for name, found in self._columns.items()})

    def natives(self, points: Sequence[Mapping[str, Any]]) -> tuple[Array, list[int]]:
        """Numbers (n, d) of those points that have all columns inside their ranges, and which ones these are."""
        rows, kept = [], []
        for i, params in enumerate(points):
            row = [found.native(params[name]) if name in params else None for name, found in self._columns.items()]
            if None not in row:
                rows.append(row)
                kept.append(i)
        return np.array(rows, dtype=float).reshape(-1, self.space.dim), kept

    def encode(self, natives: Array) -> Array:
        return self.space.encode(natives)

    def params(self, x: Array) -> dict[str, Any]:
        """The values at a point (d,) of the unit cube."""
        natives = self.space.decode(x[None])[0].tolist()
        return {name: found.value(v) for (name, found), v in zip(self._columns.items(), natives, strict=True)}


def draw(distribution: BaseDistribution, rng: np.random.Generator) -> Any:
    """A random value, uniform on the distribution's own scale."""
    found = column(distribution)
    return found.value(float(found.parameter.decode(rng.random(1))[0]))
