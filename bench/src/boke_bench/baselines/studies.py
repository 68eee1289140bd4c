"""Optuna's samplers behind the protocol: TPE and, as an extra, its Gaussian process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler
from optuna.samplers._tpe import _truncnorm
from optuna.samplers._tpe.probability_distributions import _MixtureOfProductDistribution as Mixture
from optuna.trial import TrialState, create_trial
from scipy.special import erf, log_ndtr

from boke_bench.baselines.base import CANDIDATES, Baseline
from boke_bench.protocol import Array


class OptunaStudy(Baseline):
    """Trials that the study asked for are told to it; all other points are added as finished trials.

    A failure is a failed trial: Optuna's samplers look past it.

    Args:
        sampler: Any sampler of Optuna.
        around: What to do around each suggestion.
    """

    def __init__(
        self,
        X0: Array,
        seed: int,
        *,
        sampler: BaseSampler,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(X0, seed)
        self._around = around
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.axes: dict[str, BaseDistribution] = {f"x{j}": FloatDistribution(0.0, 1.0) for j in range(self.dim)}
        self._pending: dict[bytes, optuna.Trial] = {}

    def suggest(self) -> Array:
        with self._around():
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


def tpe(X0: Array, seed: int, *, quick: bool = False) -> OptunaStudy:
    """The univariate TPE of the paper's time: one Parzen estimator for each coordinate, nothing assumed of neighbours.

    Optuna 5 would choose the multivariate one and add lies for pending trials.

    Args:
        quick: The same points in a third of the time, for studies of regret; tables of seconds take Optuna as it is.
    """
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=1, n_ei_candidates=CANDIDATES, multivariate=False, constant_liar=False, seed=seed % 2**32
    )
    return OptunaStudy(X0, seed, sampler=sampler, around=_hurried if quick else nullcontext)


@contextmanager
def _hurried() -> Iterator[None]:
    """Three functions that take most of a suggestion: Optuna, which does without SciPy here, interprets erf and log Φ
    point by point, and its mixture density, written for any number of columns, makes a dozen passes over arrays.
    """
    with (
        patch.object(_truncnorm, "_log_ndtr", log_ndtr),
        patch.object(_truncnorm, "erf", erf),
        patch.object(Mixture, "log_pdf", _log_pdf),
    ):
        yield


def _log_pdf(mixture: Any, x: Array) -> Array:
    """Log density (n,) of a mixture of truncated normals at x (n, 1), step by step in the order of Optuna's formula."""
    (part,) = mixture.distributions  # a univariate estimator of a continuous parameter
    assert part.step == 0.0 and not part.is_log
    low, high = (part.adapted_low - part.mu) / part.sigma, (part.adapted_high - part.mu) / part.sigma
    z = (x - part.mu) / part.sigma
    outside = (z < low) | (z > high)
    z *= z
    z /= -2.0
    z -= _truncnorm._norm_pdf_logC
    z -= _truncnorm._log_gauss_mass(low, high)
    z -= np.log(part.sigma)
    z[outside] = -np.inf
    z += np.log(mixture.weights)
    largest = z.max(axis=1)
    largest[np.isneginf(largest)] = 0.0
    z -= largest[:, None]
    np.exp(z, out=z)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(z.sum(axis=1)) + largest)


def optuna_gp(X0: Array, seed: int) -> OptunaStudy:
    """Optuna's Gaussian process with its LogEI, all settings Optuna's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return OptunaStudy(X0, seed, sampler=optuna.samplers.GPSampler(n_startup_trials=1, seed=seed % 2**32))
