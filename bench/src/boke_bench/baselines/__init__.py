"""Every optimizer that is measured, by name, behind one protocol.

    rs cma gp-ei gp-ucb tpe bore lfbo kr-ucb pseudo-bo boke boke+     the paper's
    default                                                           what boke.Optimizer does unasked
    turbo-enn optuna-gp hebo smac glis                                beyond the paper, extras

An adapter is imported when it is made, so that a missing extra costs nothing but itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from boke_bench.protocol import Array, Optimizer


@dataclass(frozen=True)
class Entry:
    """Where an optimizer lives, what the legend calls it and which packages it needs."""

    label: str
    factory: str  # module:attribute below this package
    needs: tuple[str, ...] = ()
    install: str = "pip install 'boke-bench'"
    options: Mapping[str, Any] = field(default_factory=dict)
    plans: bool = False  # wants to know the budget

    @property
    def missing(self) -> str | None:
        """None if it can be used here, otherwise what to install."""
        absent = [package for package in self.needs if find_spec(package) is None]
        return f"{self.label} needs {' and '.join(absent)}: {self.install}" if absent else None


GP = "pip install 'boke-bench[gp]'"

OPTIMIZERS: dict[str, Entry] = {
    "rs": Entry("Random search", "base:RandomSearch"),
    "cma": Entry("CMA-ES", "cmaes:CMAES", ("cma",)),
    "gp-ei": Entry("GP-EI", "gp:GPEI", ("torch", "botorch"), GP),
    "gp-ucb": Entry("GP-UCB", "gp:GPUCB", ("torch", "botorch"), GP),
    "tpe": Entry("TPE", "studies:tpe", ("optuna",)),
    "bore": Entry("BORE", "ratio:BORE", ("xgboost",)),
    "lfbo": Entry("LFBO", "ratio:LFBO", ("xgboost",)),
    "kr-ucb": Entry("KR-UCB", "kernel:Boke", options={"policy": "kr-ucb"}),
    "pseudo-bo": Entry("PseudoBO", "pseudo:PseudoBO"),
    "boke": Entry("BOKE", "kernel:Boke", options={"policy": "boke"}),
    "boke+": Entry("BOKE+", "kernel:Boke", options={"policy": "boke+"}),
    "default": Entry("boke default", "kernel:Boke"),
    "turbo-enn": Entry("TuRBO-ENN", "turbo:TurboENN", ("enn",), "pip install 'boke-bench[enn]'"),
    "optuna-gp": Entry("Optuna GP", "studies:optuna_gp", ("optuna", "torch"), GP),
    "hebo": Entry("HEBO", "hebo:Hebo", ("hebo",), "by hand, see boke_bench/baselines/hebo.py"),
    "smac": Entry("SMAC3", "smac:Smac", ("smac",), "pip install 'boke-bench[smac]'", plans=True),
    "glis": Entry("GLIS", "glis:Glis", ("glis",), "pip install 'boke-bench[glis]'"),
}

LABELS: dict[str, str] = {name: entry.label for name, entry in OPTIMIZERS.items()}


def available() -> dict[str, str | None]:
    """Every known name; None if it can be used here, otherwise a message that says what to install."""
    return {name: entry.missing for name, entry in OPTIMIZERS.items()}


def make_optimizer(name: str, dim: int, seed: int, X0: Array, budget: int, **options: Any) -> Optimizer:
    """Make an optimizer that maximizes over the unit cube.

    Args:
        name: A key of LABELS.
        dim: Number of coordinates.
        seed: Seed of all its randomness.
        X0: The initial design (n0, d) that all optimizers share; the first n0 asks return its rows.
        budget: How many evaluations are planned, the initial ones included, for methods that plan ahead.
        options: Settings of the method, by the names in its class.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"The 'name' parameter must be one of {list(OPTIMIZERS)}. Got {name!r}.")
    entry = OPTIMIZERS[name]
    if entry.missing is not None:
        raise ImportError(entry.missing)
    X0 = np.asarray(X0, dtype=float)
    if X0.ndim != 2 or X0.shape[1] != dim or not ((X0 >= 0.0) & (X0 <= 1.0)).all():
        raise ValueError(f"The 'X0' parameter must be points (n, {dim}) of the unit cube. Got shape {X0.shape}.")
    module, attribute = entry.factory.split(":")
    factory = getattr(import_module(f"{__name__}.{module}"), attribute)
    planned = {"budget": budget} if entry.plans else {}
    return cast(Optimizer, factory(X0, seed, **entry.options, **planned, **options))
