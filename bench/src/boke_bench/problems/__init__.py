"""Every problem that is measured, by specification.

    {"kind": "bbob", "function": 8, "dim": 5, "instance": 1}
    {"kind": "sprinkler", "output": "range"}                     or "speed", "consumption"
    {"kind": "tuning", "model": "rf", "data": "california"}      also "folder", "rows"
    {"kind": "surrogate", "model": "xgb", "data": "wine"}
    {"kind": "classic", "function": "ackley", "dim": 10}
    {"kind": "lander"}
    {"kind": "toy"}

Further keys lay wrappers over it, from the inside to the outside: shift (and shift_instance), levels, noise,
failures, seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from boke_bench.problems import wrappers
from boke_bench.problems.bbob import BBOB
from boke_bench.problems.classic import make_classic, toy
from boke_bench.problems.lander import Lander
from boke_bench.problems.sprinkler import Sprinkler
from boke_bench.problems.surrogate import Surrogate
from boke_bench.problems.tuning import Tuning
from boke_bench.protocol import Problem

KINDS: dict[str, Callable[..., Problem]] = {
    "bbob": BBOB,
    "sprinkler": Sprinkler,
    "tuning": Tuning,
    "surrogate": Surrogate,
    "classic": make_classic,
    "lander": Lander,
    "toy": toy,
}
LAYERS = ("shift", "shift_instance", "levels", "noise", "failures", "seconds")
SEEDED = {"lander"}  # noisy by themselves


def make_problem(spec: Mapping[str, Any], seed: int) -> Problem:
    """Build a problem.

    Args:
        spec: "kind", the arguments of that kind, and the keys of the wrappers.
        seed: Seed of noise, failures and evaluation times, and of nothing else.
    """
    arguments = dict(spec)
    kind = arguments.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"The 'kind' of a problem must be one of {list(KINDS)}. Got {kind!r}.")
    layers = {key: arguments.pop(key, None) for key in LAYERS}
    if kind in SEEDED:
        arguments["seed"] = seed
    try:
        problem = KINDS[kind](**arguments)
    except TypeError as error:
        raise TypeError(f"The specification {dict(spec)} does not fit the kind {kind!r}: {error}") from error
    if layers["shift"]:
        problem = wrappers.Shifted(problem, layers["shift"], layers["shift_instance"] or 0)
    if layers["levels"]:
        problem = wrappers.Gridded(problem, layers["levels"])
    if layers["noise"]:
        problem = wrappers.Noisy(problem, layers["noise"], seed)
    if layers["failures"]:
        problem = wrappers.Failing(problem, layers["failures"], seed)
    if layers["seconds"]:
        problem = wrappers.Slow(problem, layers["seconds"], seed)
    return problem
