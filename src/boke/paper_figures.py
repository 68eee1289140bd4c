"""The paper's illustrations in one dimension: figures 'kr', 'kde', 'acquisition' and 'iteration'.

As in ``boke.plotting``: data functions without matplotlib, and ``plot_*(data=None, axes=None)`` that returns the array
of Axes in the shape in which the panels stand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import beta

from boke.acquisition import PaperBeta
from boke.axes import BLUE, GRAY, INK, LIGHT_BLUE, RED, SAND, Axs, new_axes, quiet
from boke.bandwidth import LeastSquaresCV, MaximumLikelihoodCV, Silverman
from boke.data import Data
from boke.design import latin_hypercube
from boke.model import KernelModel
from boke.plotting import toy
from boke.policies import BOKE, BOKEPlus, Key
from boke.space import Array, Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOISE = 0.1  # standard deviation of ε ~ N(0, 0.01)


class Smoothing(NamedTuple):
    """One sample smoothed with several bandwidths.

    Attributes:
        x: Grid (n,).
        truth: What is estimated (n,).
        X: Sample points (t,).
        y: Sample values (t,), empty for a density.
        bandwidths: Rising (3,); the middle one was chosen by cross-validation.
        estimates: One row for each bandwidth (3, n).
    """

    x: Array
    truth: Array
    X: Array
    y: Array
    bandwidths: Array
    estimates: Array


def regression_sample(n: int = 10, factors: Sequence[float] = (0.1, 1.0, 4.0), rng: int = 0) -> Smoothing:
    """Kernel regression of noisy values of ``toy``, too narrow, cross-validated (least squares) and too wide."""
    x, generator = np.linspace(0.0, 1.0, 501), np.random.default_rng(rng)
    X = latin_hypercube(n, 1, rng=generator)
    y = toy(X[:, 0]) + generator.normal(0.0, NOISE, n)
    chosen = KernelModel(X, y, bandwidth=LeastSquaresCV()).bandwidth[0]
    bandwidths = chosen * np.asarray(factors)
    estimates = np.array([KernelModel(X, y, bandwidth=ell).mean(x[:, None]) for ell in bandwidths])
    return Smoothing(x, toy(x), X[:, 0], y, bandwidths, estimates)


def density_sample(n: int = 20, factors: Sequence[float] = (0.1, 1.0, 3.0), rng: int = 0) -> Smoothing:
    """Kernel density of a beta mixture, p̂(x) = W(x) / (√(2π) ℓ t), the middle ℓ by maximum likelihood."""
    x, generator = np.linspace(0.0, 1.0, 501), np.random.default_rng(rng)
    first = generator.random(n) < 0.7
    X = np.where(first, generator.beta(3, 8, n), generator.beta(10, 2, n))[:, None]
    chosen = KernelModel(X, np.zeros(n), bandwidth=MaximumLikelihoodCV()).bandwidth[0]
    bandwidths = chosen * np.asarray(factors)
    W = np.array([KernelModel(X, np.zeros(n), bandwidth=ell).density(x[:, None]) for ell in bandwidths])
    truth = 0.7 * beta.pdf(x, 3, 8) + 0.3 * beta.pdf(x, 10, 2)
    return Smoothing(x, truth, X[:, 0], np.empty(0), bandwidths, W / (math.sqrt(2 * math.pi) * bandwidths[:, None] * n))


class Step(NamedTuple):
    """What a policy saw and did in one iteration.

    Attributes:
        x: Grid (n,).
        X: Points evaluated so far (t,).
        y: Their noisy values (t,).
        mean: m_t on the grid.
        bonus: β_t σ̂_t on the grid, also where the policy did not use it.
        acquisition: What was maximized, on the grid.
        query: Where the next evaluation is.
        value: What it gave.
        branch: "explore" or "exploit".
    """

    x: Array
    X: Array
    y: Array
    mean: Array
    bonus: Array
    acquisition: Array
    query: float
    value: float
    branch: str


# large enough a bandwidth and β_t to be seen; the defaults of the policies are chosen for speed of convergence
ILLUSTRATED = BOKE(bandwidth=Silverman(0.4), beta=PaperBeta(0.4), y_scale="none", n_init=0)
ILLUSTRATED_PLUS = BOKEPlus(bandwidth=Silverman(0.4), beta=PaperBeta(0.4), y_scale="none", n_init=0)


def steps(policy: BOKE = ILLUSTRATED, n: int = 1, n_init: int = 5, rng: int = 9) -> list[Step]:
    """Run a policy on noisy values of ``toy`` from ``n_init`` points that depend on ``rng`` only."""
    x, generator, space = np.linspace(0.0, 1.0, 501), np.random.default_rng(rng), Space.of([(0.0, 1.0)])
    X = latin_hypercube(n_init, 1, rng=generator)
    noise = generator.normal(0.0, NOISE, n_init + n)
    y = toy(X[:, 0]) + noise[:n_init]
    done = []
    for t in range(n_init, n_init + n):
        chosen = policy.suggest(Data(X, y, np.empty((0, 1))), space, Key(rng, t))
        assert chosen.model is not None
        mean, sigma = chosen.model.mean(x[:, None]), chosen.model.uncertainty(x[:, None], policy.rho)
        query, value = float(chosen.x[0]), float(toy(chosen.x[0]) + noise[t])
        bonus, acquisition = policy.beta(t, 1) * sigma, mean + chosen.beta * sigma
        done.append(Step(x, X[:, 0], y, mean, bonus, acquisition, query, value, chosen.branch))
        X, y = np.vstack([X, chosen.x]), np.append(y, value)
    return done


def plot_kernel_regression(data: Smoothing | None = None, *, axes: Axs | None = None) -> Axs:
    """Figure 'kr': kernel regression too narrow, right and too wide, in three panels (3,)."""
    data = data or regression_sample()
    axes = _three_panels(data, axes, sharey=True)
    for ax in axes:
        ax.plot(data.X, data.y, "o", color=INK, markersize=4.5, label="samples")
    axes[0].set_ylabel("$f(x)$")
    axes[0].legend(["objective", "kernel regression", "samples"], frameon=False, fontsize="small")
    return axes


def plot_kernel_density(data: Smoothing | None = None, *, axes: Axs | None = None) -> Axs:
    """Figure 'kde': kernel density too narrow, right and too wide, in three panels (3,)."""
    data = data or density_sample()
    axes = _three_panels(data, axes)
    for ax in axes:
        ax.set_ylim(bottom=-0.09 * ax.get_ylim()[1])  # room for the samples
        ax.plot(data.X, np.full(len(data.X), 0.04), "|", color=INK, markersize=8, transform=ax.get_xaxis_transform())
    axes[0].set_ylabel("density")
    axes[0].legend(["true density", "kernel density", "samples"], frameon=False, fontsize="small")
    return axes


def plot_acquisition(step: Step | None = None, *, axes: Axs | None = None) -> Axs:
    """Figure 'acquisition': regression with its uncertainty above, IKR-UCB below (2,)."""
    step = step or steps()[0]
    axes = new_axes(2, ax=axes, size=(6.2, 4.4), sharex=True, height_ratios=(2.2, 1))
    _draw_step(axes[0], axes[1], step)
    band = axes[0].fill_between(step.x, step.mean, step.mean + step.bonus, color=LIGHT_BLUE, linewidth=0, zorder=0)
    band.set_label(r"$\beta_t\hat\sigma_t$")
    for ax in axes:
        ax.axvline(step.query, color=RED, linewidth=0.8, linestyle=":", zorder=1)
    axes[0].legend(frameon=False, fontsize="small", ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axes[0].set_ylabel("$f(x)$")
    axes[1].set(xlabel="$x$", ylabel="$a_t(x)$")
    return axes


def plot_iterations(
    boke: Sequence[Step] | None = None,
    plus: Sequence[Step] | None = None,
    *,
    shown: Sequence[int] = (1, 2, 3, 4, 5),
    axes: Axs | None = None,
) -> Axs:
    """Figure 'iteration': BOKE in the upper two rows, BOKE+ in the lower two, an iteration in each column (4, n).

    Triangles are the maximizers of the acquisition functions, red circles the values found there.
    """
    boke, plus = boke or steps(ILLUSTRATED, max(shown)), plus or steps(ILLUSTRATED_PLUS, max(shown))
    how = {"squeeze": False, "sharex": True, "height_ratios": (2, 1, 2, 1)}
    axes = new_axes(4, len(shown), ax=axes, size=(2.2 * len(shown), 6.2), **how)
    for row, name, run in ((0, "BOKE", boke), (2, "BOKE+", plus)):
        for column, iteration in enumerate(shown):
            top, bottom = axes[row, column], axes[row + 1, column]
            _draw_step(top, bottom, run[iteration - 1])
            top.set_ylim(-1.3, 1.1)
            bottom.set_yticks([])  # m_t and IKR-UCB have different scales; only the shape matters
            if column:
                top.tick_params(labelleft=False)
            top.set_title(f"{name} iteration {iteration} ({run[iteration - 1].branch})", fontsize="small")
        axes[row, 0].set_ylabel("$f(x)$")
        axes[row + 1, 0].set_ylabel("$a_t(x)$")
    for ax in axes[-1]:
        ax.set(xlabel="$x$", xticks=(0, 0.5, 1))
    return axes


def _three_panels(data: Smoothing, axes: Axs | None, **how: Any) -> Axs:
    axes = new_axes(1, 3, ax=axes, size=(9.0, 2.9), sharex=True, **how)
    for letter, ax, ell, estimate in zip("ABC", axes, data.bandwidths, data.estimates, strict=True):
        ax.plot(data.x, data.truth, "--", color=GRAY, linewidth=1.2)
        ax.plot(data.x, estimate, color=BLUE, linewidth=1.8)
        ax.set_title(letter, loc="left", fontweight="bold", fontsize="medium")
        ax.set_title(rf"$\ell = {ell:.2g}$", fontsize="medium")
        ax.set_xlabel("$x$")
        quiet(ax)
    return axes


def _draw_step(top: Axes, bottom: Axes, step: Step) -> None:
    top.plot(step.x, toy(step.x), "--", color=GRAY, linewidth=1.2, label="objective")
    top.plot(step.x, step.mean, color=BLUE, linewidth=1.8, label="$m_t$")
    top.plot(step.X, step.y, "o", color=INK, markersize=4, label="samples", zorder=3)
    top.plot(step.query, step.value, "o", color=RED, markersize=5.5, label="next query", zorder=4, clip_on=False)
    base = float(step.acquisition.min()) - 0.15 * float(np.ptp(step.acquisition))
    bottom.fill_between(step.x, base, step.acquisition, color=SAND, alpha=0.4, linewidth=0)
    peak = np.interp(step.query, step.x, step.acquisition)
    bottom.plot(step.query, peak + 0.12 * (peak - base), "v", color=RED, markersize=6, clip_on=False)
    bottom.set_ylim(bottom=base)
    quiet(top)
    quiet(bottom)
