"""GP-EI and GP-UCB by BoTorch: a Gaussian process fitted anew at every step.

SingleTaskGP with BoTorch's own Gaussian kernel (one length for each coordinate, dimension-scaled prior), standardized
values, noise inferred. The acquisition budget is about 1024 evaluations: 512 quasi-random ones and 8 L-BFGS-B runs of
at most 64.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from contextlib import suppress

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from boke_bench.baselines.base import Baseline
from boke_bench.protocol import Array


class GaussianProcess(Baseline):
    """Fit, maximize the acquisition, repeat; torch's global generator is left as it was found."""

    def suggest(self) -> Array:
        points, values = self.data()
        if len(points) < 2:
            return self.rng.random(self.dim)
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # BoTorch warns of every fit that needed a second try
            torch.manual_seed(int(self.rng.integers(2**63)))
            X, y = torch.as_tensor(points), torch.as_tensor(values)[:, None]
            model = SingleTaskGP(X, y, outcome_transform=Standardize(m=1))
            with suppress(ModelFittingError):  # after five tries: go on with where the last one ended
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            cube = torch.tensor([[0.0] * self.dim, [1.0] * self.dim], dtype=torch.double)
            x, _ = optimize_acqf(
                self.acquisition(model, y),
                cube,
                q=1,
                num_restarts=8,
                raw_samples=512,
                options={"maxfun": 64, "maxiter": 64},
            )
        return np.asarray(x.detach().numpy()[0], dtype=float)

    @abstractmethod
    def acquisition(self, model: SingleTaskGP, y: torch.Tensor) -> AcquisitionFunction:
        """The function to maximize, given the fitted model and the values (t, 1)."""


class GPEI(GaussianProcess):
    """Expected improvement over the best observation, as its logarithm (LogEI)."""

    def acquisition(self, model: SingleTaskGP, y: torch.Tensor) -> AcquisitionFunction:
        return LogExpectedImprovement(model, best_f=y.max())


class GPUCB(GaussianProcess):
    """Mean plus β_t standard deviations, β_t = c (1 + √(d ln(t + 1))).

    Args:
        c: The constant of β_t.
    """

    def __init__(self, X0: Array, seed: int, *, c: float = 0.3) -> None:
        super().__init__(X0, seed)
        self.c = c

    def acquisition(self, model: SingleTaskGP, y: torch.Tensor) -> AcquisitionFunction:
        beta = self.c * (1.0 + math.sqrt(self.dim * math.log(len(y) + 1)))
        return UpperConfidenceBound(model, beta=beta**2)  # BoTorch takes the square
