"""Reasons to stop, as a dict of what has been reached. Nobody stops because of them who was not asked to."""

from __future__ import annotations

from typing import Any

import numpy as np

from boke import local
from boke.history import History, State, as_value
from boke.keys import row_keys

ENOUGH = 20  # observations from which on the model's expectation is worth a reason


def reasons(history: History, sign: float, budget: Any, target: Any, gain: Any) -> dict[str, float]:
    """What ``Optimizer.stop`` returns; ``sign`` makes larger values better."""
    enough, good, worth = _limit("budget", budget), _limit("target", target), _limit("gain", gain)
    found: dict[str, float] = {}
    tried = (history.states == State.COMPLETE.value) | (history.states == State.FAILED.value)
    evaluations, data = int(tried.sum()), history.data(sign)
    if enough is not None and evaluations >= enough:
        found["budget"] = evaluations
    if good is not None and len(data.y) and (best := float(np.nanmax(sign * history.values))) >= sign * good:
        found["target"] = sign * best
    if worth is not None and len(data.y) >= ENOUGH:
        expected = local.expected_gain(data, history.space)
        if expected <= worth:
            found["gain"] = expected
    if history.space.size <= evaluations and len(np.unique(row_keys(history.x[tried]))) >= history.space.size:
        found["space"] = history.space.size
    return found


def _limit(name: str, value: Any) -> float | None:
    """A threshold that the user has given, checked."""
    try:
        number = None if value is None else as_value(value)
    except TypeError:
        number = None
    if value is not None and (number is None or (number < 0 and name != "target")):
        kind = "a number" if name == "target" else "a number, at least 0"
        raise ValueError(f"The '{name}' parameter of stop must be {kind}. Got {value!r}.")
    return number
