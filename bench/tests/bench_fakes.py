"""Problems and optimizers that do what a test wants; worker processes import them by name."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Bowl:
    """-|x - 1/3|², with manners: sleep (seconds), noise (standard deviation), fails ("nan", "raise"), hidden optimum.

    With ``env`` its name is the value of that environment variable.
    """

    def __init__(self, spec: Mapping[str, Any], seed: int) -> None:
        self.spec, self.dim = spec, int(spec.get("dim", 2))
        self.name = os.environ.get(spec["env"], "unset") if "env" in spec else str(spec.get("name", "bowl"))
        self.optimum = None if spec.get("hidden") else 0.0
        self.rng = np.random.default_rng(seed)

    def true(self, x: np.ndarray) -> float:
        return -float(((x - 1 / 3) ** 2).sum())

    def __call__(self, x: np.ndarray) -> float:
        time.sleep(self.spec.get("sleep", 0.0))
        if self.spec.get("fails") == "raise":
            raise RuntimeError("no water in the bowl")
        if self.spec.get("fails") == "nan" and x[0] < 0.5:
            return float("nan")
        return self.true(x) + float(self.spec.get("spread", 0.0) * self.rng.standard_normal())


class Uniform:
    """Random points, with manners: ``at`` step number ``at`` it does what ``does`` says."""

    def __init__(
        self, name: str, dim: int, seed: int, X0: np.ndarray, budget: int, log: str = "", at: int = -1, does: str = ""
    ) -> None:
        self.X0, self.dim, self.at, self.does = X0, dim, at, does
        self.rng, self.t = np.random.default_rng(seed), 0
        if log:
            with Path(log).open("a") as file:
                file.write(f"{name} {seed} {os.getpid()}\n")

    def ask(self) -> np.ndarray:
        self.t += 1
        if self.t - 1 == self.at:
            if self.does == "raise":
                raise ValueError('I have lost my <head> & "hat"')
            if self.does == "exit":
                os._exit(7)
            if self.does == "hang":
                time.sleep(600)
            if self.does == "outside":
                return np.full(self.dim, 1.5)
        return self.X0[self.t - 1] if self.t <= len(self.X0) else self.rng.random(self.dim)

    def tell(self, x: np.ndarray, y: float | None) -> None:
        pass


class Slow(Uniform):
    """Like Uniform, but each suggestion keeps the processor busy for two milliseconds, and is worse."""

    def ask(self) -> np.ndarray:
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass
        return 0.5 + 0.5 * super().ask()
