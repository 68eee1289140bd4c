"""Ray Tune's domains as boke parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ray.tune.search import sample as tune

from boke.space import Categorical, Float, Int, Parameter


def column(domain: Any, name: str) -> Parameter:
    """The parameter of a domain, categories by value."""
    if isinstance(domain, Float | Int | Categorical):
        return domain
    sampler = domain.get_sampler() if isinstance(domain, tune.Domain) else None
    step = None
    if isinstance(sampler, tune.Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
    if isinstance(domain, tune.Categorical):
        return Categorical(list(domain.categories))
    log = isinstance(sampler, tune.LogUniform)
    if isinstance(sampler, tune.Uniform | tune.LogUniform) and isinstance(domain, tune.Float | tune.Integer):
        if isinstance(domain, tune.Integer):
            if step is not None and int(step) != 1:
                return _stepped(domain, int(step), log)
            return Int(domain.lower, domain.upper - (step is None), log=log)  # upper is left out, unless quantized
        return _float(domain, step, log)
    raise ValueError(
        f"The parameter {name!r} must be uniform, loguniform, quniform, randint, lograndint, qrandint or choice. "
        f"Got {domain!r}."
    )


def _stepped(domain: Any, step: int, log: bool) -> Parameter:
    """Multiples of the step within the bounds; on a log scale they are an ordered choice no more, so steps win."""
    low, high = -(-domain.lower // step) * step, domain.upper // step * step
    return Int(low, high, step=step)


def _float(domain: Any, step: float | None, log: bool) -> Parameter:
    if step is None or log:
        return Float(domain.lower, domain.upper, log=log)
    low, high = -(-domain.lower // step) * step, domain.upper // step * step
    return Float(low, high, step=step)


def parameter(found: Parameter) -> Parameter:
    """What the optimizer works with: categories by index, because a saved state holds numbers and no objects."""
    return Categorical(range(found.cells)) if isinstance(found, Categorical) else found


def native(found: Parameter, value: Any, name: str) -> Any:
    """A user's value for ``parameter(found)``."""
    try:
        return int(found.to_native(value)) if isinstance(found, Categorical) else value
    except ValueError as error:
        raise ValueError(f"The value of {name!r} {error}") from None


def dump_columns(columns: Mapping[str, Parameter]) -> list[list[Any]]:
    """Columns as JSON; choices that are not plain data are left out."""
    dumped = []
    for name, found in columns.items():
        if isinstance(found, Categorical):
            choices = list(found.choices)
            dumped.append([name, "Categorical", {"choices": choices if _plain(choices) else None}])
        else:
            dumped.append([name, type(found).__name__, asdict(found)])  # type: ignore[call-overload]
    return dumped


def load_columns(dumped: list[list[Any]], where: str) -> dict[str, Parameter]:
    kinds: dict[str, Any] = {"Float": Float, "Int": Int, "Categorical": Categorical}
    columns = {}
    for name, kind, settings in dumped:
        if kind == "Categorical" and settings["choices"] is None:
            raise ValueError(
                f"{where!r} does not hold the choices of {name!r}, because they are not plain data. Give the space to "
                "BOKESearch itself, not only to the Tuner."
            )
        columns[name] = kinds[kind](**settings)
    return columns


def _plain(choices: list[Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(choices)) == choices)
    except (TypeError, ValueError):
        return False
