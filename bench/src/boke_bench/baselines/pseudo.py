"""PseudoBO: kernel regression, the uncertainty of a randomized prior, expected improvement.

A reconstruction. Chen and Lam (arXiv 2310.09766) name the three parts; law, number and scale of the prior functions
are ours. Each prior function p_b is a random Fourier path of a unit-variance Gaussian-kernel process,

    p_b(x) = √(2/J) Σ_j a_j cos(w_j·x / ℓ_p + φ_j),     a_j, w_j standard normal, φ_j uniform on [0, 2π].

With S_t the kernel smoother, the spread at x is what S_t gets wrong on them: σ²(x) = mean_b (p_b - S_t[p_b])²(x).
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr, softmax

from boke.bandwidth import Silverman
from boke.kernels import get_kernel
from boke.scores import scaled
from boke_bench.baselines.base import Screening
from boke_bench.protocol import Array


class PseudoBO(Screening):
    """Maximizes the expected improvement over the largest kernel mean at the data, on standardized values.

    Args:
        bandwidth: The constant of Silverman's rule.
        priors: B, the number of prior functions.
        features: J, the cosines in each.
        prior_length: ℓ_p, the length over which they vary.
        local: See Screening.
    """

    def __init__(
        self,
        X0: Array,
        seed: int,
        *,
        bandwidth: float = 0.15,
        priors: int = 10,
        features: int = 100,
        prior_length: float = 0.25,
        local: float = 0.0,
    ) -> None:
        super().__init__(X0, seed, local=local)
        self.rule = Silverman(bandwidth)
        self.amplitude = self.rng.standard_normal((priors, features)) * np.sqrt(2.0 / features)
        # single precision: a million cosines for each suggestion take a twentieth of the time
        self.frequency = (self.rng.standard_normal((self.dim, priors * features)) / prior_length).astype(np.float32)
        self.phase = self.rng.uniform(0.0, 2.0 * np.pi, priors * features).astype(np.float32)
        self._known = np.empty((0, priors))  # the prior functions at the points told

    def suggest(self) -> Array:
        C = self.candidates()
        X, y = self.data()
        if not len(X):
            return self.rng.random(self.dim)
        y = scaled(y, "standardize")
        smoother = self._smoother(C, X)  # (n, t)
        sigma = np.sqrt(np.mean(np.square(self._prior(C) - smoother @ self._known), axis=1))
        best = float((self._smoother(X, X) @ y).max())
        return np.array(C[np.argmax(expected_improvement(smoother @ y, sigma, best))])

    def learn(self, x: Array, y: float) -> None:
        self._known = np.vstack([self._known, self._prior(x[None])])

    def _prior(self, X: Array) -> Array:
        """The prior functions at X (n, d): (n, B)."""
        waves = np.cos(X.astype(np.float32) @ self.frequency + self.phase).reshape(len(X), *self.amplitude.shape)
        return np.asarray(np.einsum("nbj,bj->nb", waves, self.amplitude))

    def _smoother(self, Q: Array, X: Array) -> Array:
        """Weights with which the observations make up the kernel mean at Q; they sum to one in each row."""
        none = np.zeros(self.dim, dtype=bool)
        length = self.rule(X, np.zeros(len(X)), kernel=get_kernel("gaussian"), categorical=none)
        return np.asarray(softmax(-0.5 * cdist(Q / length, X / length, "sqeuclidean"), axis=1))


def expected_improvement(mean: Array, sigma: Array, best: float) -> Array:
    """E max(N(mean, sigma²) - best, 0)."""
    sigma = np.maximum(sigma, 1e-12)
    z = (mean - best) / sigma
    return np.asarray((mean - best) * ndtr(z) + sigma * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))
