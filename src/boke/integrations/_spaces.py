"""Spaces as users of other tuners write them: lists, tuples, scipy.stats distributions, or boke's own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from boke.space import Categorical, Float, Int, Parameter, Space

PRIORS = ("uniform", "log-uniform")


def space_of(distributions: Mapping[str, Any], owner: str) -> Space:
    """One space from name -> whatever ``parameter_of`` understands."""
    return Space({name: parameter_of(given, name, owner) for name, given in distributions.items()})


def parameter_of(given: Any, name: str, owner: str) -> Parameter:
    """A parameter from what a user wrote for it.

    A list or array holds choices; a tuple is a range (low, high), of integers if both are, with an optional prior
    "uniform" or "log-uniform"; ``scipy.stats`` has ``uniform``, ``loguniform`` and ``randint``.
    """
    if isinstance(given, Float | Int | Categorical):
        return given
    try:
        if isinstance(given, tuple) and len(given) in (2, 3) and _numbers(given[:2]):
            return _range(*given)
        if isinstance(given, list | tuple | np.ndarray | range):
            return Categorical(list(given))
        if hasattr(given, "dist") and hasattr(given, "support"):
            return _scipy(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"The parameter {name!r} of {owner} is wrong: {error}") from None
    raise TypeError(
        f"The parameter {name!r} of {owner} must be a Float, an Int or a Categorical, a list of choices, a tuple "
        f"(low, high) or one of scipy.stats' uniform, loguniform and randint. Got {given!r}."
    )


def _numbers(pair: tuple[Any, ...]) -> bool:
    return all(isinstance(v, int | float | np.integer | np.floating) and not isinstance(v, bool) for v in pair)


def _range(low: Any, high: Any, prior: str = "uniform") -> Parameter:
    if prior not in PRIORS:
        raise ValueError(f"the prior of a range must be one of {list(PRIORS)}. Got {prior!r}.")
    kind = Int if isinstance(low, int | np.integer) and isinstance(high, int | np.integer) else Float
    return kind(low, high, log=prior == "log-uniform")


def _scipy(frozen: Any) -> Parameter:
    name = frozen.dist.name
    low, high = frozen.support()
    if name == "uniform":
        return Float(low, high)
    if name in ("loguniform", "reciprocal"):
        return Float(low, high, log=True)
    if name == "randint":
        return Int(int(low), int(high))
    raise ValueError(
        f"there is no parameter for scipy.stats.{name}: give its range, as in Float(low, high), and let the search "
        "find out where in it to look."
    )
