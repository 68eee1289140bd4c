"""SMAC3 with its random forest: the hyperparameter-optimization facade through its own ask and tell."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref

import numpy as np
from ConfigSpace import Configuration, ConfigurationSpace
from smac import HyperparameterOptimizationFacade as Facade
from smac import Scenario
from smac.runhistory.dataclasses import TrialInfo, TrialValue

from boke_bench.baselines.base import Baseline
from boke_bench.protocol import Array


class Smac(Baseline):
    """Settings are SMAC's own, among them a forest that is refitted after every eighth trial.

    Every point is evaluated once. SMAC insists on a folder; it gets a temporary one and writes no history there.

    Args:
        budget: Planned number of evaluations.
    """

    def __init__(self, X0: Array, seed: int, *, budget: int) -> None:
        super().__init__(X0, seed)
        seed %= 2**31
        self.names = [f"x{j}" for j in range(self.dim)]
        self.space = ConfigurationSpace(dict.fromkeys(self.names, (0.0, 1.0)), seed=seed)
        folder = tempfile.mkdtemp(prefix="smac-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        scenario = Scenario(self.space, n_trials=budget, deterministic=True, seed=seed, output_directory=folder)
        first = [self._configuration(x) for x in self.design]
        self._inner = Facade(
            scenario,
            lambda config, seed=0: 0.0,  # never called
            initial_design=Facade.get_initial_design(scenario, n_configs=0 if first else 1, additional_configs=first),
            intensifier=Facade.get_intensifier(scenario, max_config_calls=1),
            overwrite=True,
            logging_level=logging.ERROR,
        )

    def suggest(self) -> Array:
        configuration = self._inner.ask().config
        return np.array([configuration[name] for name in self.names], dtype=float)

    def learn(self, x: Array, y: float) -> None:
        cost = -float(self.data()[1][-1])  # failures as the worst value so far
        self._inner.tell(TrialInfo(self._configuration(x), seed=0), TrialValue(cost=cost), save=False)

    def _configuration(self, x: Array) -> Configuration:
        return Configuration(self.space, values=dict(zip(self.names, x.tolist(), strict=True)))
