"""Optuna's samplers behind the protocol: TPE and, as an extra, its Gaussian process."""

from __future__ import annotations

import warnings

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler
from optuna.trial import TrialState, create_trial

from boke_bench.baselines.base import CANDIDATES, Baseline
from boke_bench.protocol import Array


class OptunaStudy(Baseline):
    """Trials that the study asked for are told to it; all other points are added as finished trials.

    A failure is a failed trial: Optuna's samplers look past it.

    Args:
        sampler: Any sampler of Optuna.
    """

    def __init__(self, X0: Array, seed: int, *, sampler: BaseSampler) -> None:
        super().__init__(X0, seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.axes: dict[str, BaseDistribution] = {f"x{j}": FloatDistribution(0.0, 1.0) for j in range(self.dim)}
        self._pending: dict[bytes, optuna.Trial] = {}

    def suggest(self) -> Array:
        trial = self.study.ask(self.axes)
        x = np.array([trial.params[name] for name in self.axes])
        self._pending[x.tobytes()] = trial
        return x

    def learn(self, x: Array, y: float) -> None:
        failed = bool(np.isnan(y))
        if (trial := self._pending.pop(x.tobytes(), None)) is not None:
            self.study.tell(trial, None if failed else y, state=TrialState.FAIL if failed else TrialState.COMPLETE)
            return
        params = dict(zip(self.axes, np.clip(x, 0.0, 1.0).tolist(), strict=True))
        if failed:
            self.study.add_trial(create_trial(state=TrialState.FAIL, params=params, distributions=self.axes))
        else:
            self.study.add_trial(create_trial(value=y, params=params, distributions=self.axes))


def tpe(X0: Array, seed: int) -> OptunaStudy:
    """The univariate TPE of the paper's time: one Parzen estimator for each coordinate, nothing assumed of neighbours.

    Optuna 5 would choose the multivariate one and add lies for pending trials.
    """
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=1, n_ei_candidates=CANDIDATES, multivariate=False, constant_liar=False, seed=seed % 2**32
    )
    return OptunaStudy(X0, seed, sampler=sampler)


def optuna_gp(X0: Array, seed: int) -> OptunaStudy:
    """Optuna's Gaussian process with its LogEI, all settings Optuna's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return OptunaStudy(X0, seed, sampler=optuna.samplers.GPSampler(n_startup_trials=1, seed=seed % 2**32))
