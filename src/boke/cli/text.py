"""Numbers and points as people read them."""

from __future__ import annotations

from typing import Any


def number(value: float) -> str:
    return f"{value:.5g}"


def shown(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def params(point: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in point.items())


def interval(ends: tuple[float, float] | None) -> str:
    return "too few trials for an interval" if ends is None else f"90 %: {number(ends[0])} to {number(ends[1])}"


def best_line(answer: dict[str, Any]) -> str:
    """A trial as ``runner.point`` gives it."""
    value = answer["value"]
    values = ", ".join(number(v) for v in (value if isinstance(value, list) else [value]))
    return f"best {values} in trial {answer['trial']}: {params(answer['params'])}"
