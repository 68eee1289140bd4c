"""The paper's algorithms. A policy is a frozen, stateless object: data, space and a key -> the next point.

The same data, whatever the order they came in, and the same (seed, trial number) give the same point, in any
process. Inside, larger is better and points live in the unit cube.

    BOKE                 argmax m + β_t σ̂                        algorithm BOKE
    BOKEPlus             BOKE with probability q, else argmax m   algorithm BOKE+
    BOKELocal            BOKE with probability q, else a local model in a trust region: beyond the paper
    DensityExploration   argmin W                                 eq. min KDE
    KRUCB                arm selection and progressive widening   algorithm KR-UCB
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import numpy as np
import scipy
from numpy.random import Generator

from boke import local
from boke.acquisition import Acquisition, Beta, Mean, PaperBeta, Sparsity, UpperConfidenceBound, kr_ucb
from boke.argmax import argmax, first_fresh, polish
from boke.bandwidth import Bandwidth, Silverman, by_count
from boke.compiled import NATIVE
from boke.data import Data
from boke.density import doubling
from boke.design import DESIGNS
from boke.elementary import exp, log
from boke.kernels import Gaussian, Kernel, get_kernel
from boke.keys import Lot, Numbers, row_keys
from boke.model import KernelModel
from boke.pool import WITHIN
from boke.quasirandom import sobol
from boke.region import TrustRegion
from boke.scores import SCALES, scaled
from boke.seeds import generator
from boke.space import Array, Space
from boke.window import Window

CORNERS, CELLS = 64, 256  # corners of Voronoi cells with candidates in them, in the plane; of that many cells at most
CENTERS = 256  # observations near which candidates are placed, at most
STEADY = 1024  # trials with much the same sample of the observations of a finite set
BEST = 64  # neighbours of the best observation that every sample has
KEPT = 4096  # points from which on candidates, and what is known at them, are kept from one trial to the next
STRIDE, SPARSE = 4, 2000  # so many are new each time; where more points than this would count at one, they all are
NEAR, STEPS = 256, 8  # of those of lowest density the best is polished by its neighbours, in so many steps


@dataclass(frozen=True)
class Key:
    """Where all randomness of a suggestion comes from."""

    seed: int
    number: int

    def generator(self) -> Generator:
        return generator(self.seed, self.number)

    def start(self) -> int:
        """Where among the 64-bit keys of the observations a sample of them begins."""
        return int(np.random.SeedSequence((self.seed, self.number), spawn_key=(1,)).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Suggestion:
    """A point (d,) of the unit cube and why: the branch that chose it and the exploration weight it used.

    Attributes:
        source: The kernel model behind it, or how to make it where the branch did without one.
        seen: The data of that model, or how to make them; None is all that was known.
    """

    x: Array
    branch: str
    source: KernelModel | Callable[[], KernelModel] | None = None
    beta: float = 0.0
    rho: float = 0.0
    seen: Data | Callable[[], Data] | None = None

    @property
    def model(self) -> KernelModel | None:
        return self.source() if callable(self.source) else self.source

    def shares(self, data: Data, x: Array) -> list[tuple[int, float]]:
        """(trial number, share in the mean at x (1, d)), largest first, where the model is one of the told trials."""
        seen = self.seen() if callable(self.seen) else self.seen
        numbers = (data if seen is None else seen).numbers
        shares = np.empty(0) if self.model is None else self.model.shares(x)
        return by_share(numbers, shares) if len(shares) == len(numbers) else []


class Policy(Protocol):
    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion: ...


@dataclass(frozen=True)
class BOKE:
    """Maximize IKR-UCB: the kernel mean plus β_t times the density-based uncertainty (algorithm BOKE).

    The paper leaves the constants of ℓ_t and β_t and the scale of y open: docs/constants.md measures the defaults.

    Args:
        kernel: Kernel of mean and density.
        bandwidth: Rule for ℓ_t.
        beta: Rule for β_t.
        rho: ρ of σ̂ = (W + ρ)^(-1/2).
        y_scale: "rank" replaces values by their normal scores, "standardize" shifts and scales, "none" keeps them.
        n_init: Size of the initial design; None is 2 (d + 1), at least 5 and at most 12.
        init: "lhs", "middle" (which a Latin hypercube follows), "sobol" or "uniform".
        n_acq: Evaluations of the acquisition function for one suggestion.
        max_points: From more observations than this the model takes a random sample, a new one for each suggestion,
            and the best one with its neighbours: a suggestion's cost then no longer grows with the history.
    """

    kernel: str | Kernel = "gaussian"
    bandwidth: Bandwidth = Silverman(0.1)
    beta: Beta = PaperBeta(0.003)
    rho: float = 1e-4
    y_scale: str = "rank"
    n_init: int | None = None
    init: str = "lhs"
    n_acq: int = 1024
    max_points: int = 2048

    def __post_init__(self) -> None:
        _check(self)

    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        if (first := initial(self, data, space, key)) is not None:
            return first
        return self._explore(data, space, key, key.generator())

    def _seen(self, data: Data, space: Space, key: Key) -> Data:
        """What the model looks at."""
        if len(data) <= self.max_points:
            return data
        # the sample of a finite set stays much the same for a while, and with it what the pool knows
        by = key if space.arms is None else Key(key.seed, key.number // STEADY * STEADY)
        return data.sample(self.max_points, by.start(), BEST, space)

    def _fit(self, data: Data, space: Space) -> KernelModel:
        return kernel_model(self, data, space)

    def _explore(self, data: Data, space: Space, key: Key, rng: Generator) -> Suggestion:
        seen = self._seen(data, space, key)
        model = self._fit(seen, space)
        beta = self.beta(len(data) + len(data.silent), space.dim)
        rim = model.kernel.reach(self.rho) if self.rho < 1.0 else 1.0
        f = UpperConfidenceBound(model, beta, self.rho)
        plane = space.dim == 2 and not space.mixed and len(model.X) <= CELLS
        x = self._argmax(f, rim, f.corners(CORNERS) if plane else None, model, data, space, key, rng)
        return Suggestion(x, "explore", model, beta, self.rho, seen)

    def _exploit(self, data: Data, space: Space, key: Key, rng: Generator) -> Suggestion:
        seen = self._seen(data, space, key)
        model = self._fit(seen, space)
        x = self._argmax(Mean(model), 0.0, None, model, data, space, key, rng)
        return Suggestion(x, "exploit", model, seen=seen)

    def _argmax(
        self,
        f: Acquisition,
        rim: float,
        extra: Array | None,
        model: KernelModel,
        data: Data,
        space: Space,
        key: Key,
        rng: Generator,
    ) -> Array:
        stay = standing(model, data, space, key, self.n_acq)
        return argmax(
            f,
            space,
            self.n_acq,
            rng,
            bandwidth=model.bandwidth,
            centers=incumbents(model),
            taken=data.taken,
            rim=rim,
            extra=extra,
            repeat=self._repeats(data, space),
            standing=stay,
            pool=data.pool if stay is not None or space.arms is not None else None,
        )

    def _repeats(self, data: Data, space: Space) -> bool:
        """Whether a point may be suggested again."""
        return space.arms is not None


@dataclass(frozen=True)
class BOKEPlus(BOKE):
    """With probability q maximize IKR-UCB, otherwise the kernel mean alone (algorithm BOKE+)."""

    q: float = 0.5

    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        if (first := initial(self, data, space, key)) is not None:
            return first
        rng = key.generator()
        branch = self._explore if rng.random() < self.q else self._exploit
        return branch(data, space, key, rng)


@dataclass(frozen=True)
class BOKELocal(BOKE):
    """With probability q maximize IKR-UCB, otherwise the expected improvement of a local model in a trust region.

    The exploring share keeps the consistency of BOKE+: whatever the other trials do, those of the exploring branch
    alone make the fill distance go to zero. docs/local.md says how the local model works. Over a finite set of arms it
    looks at all of them; small grids are left to IKR-UCB and the kernel mean.

    Args:
        q: Probability of exploring.
        region: How the trust region follows success and failure.
        init: See BOKE; from the middle it is not so far to anywhere.
        n_acq: See BOKE; fewer, because the few trials that explore should not be much slower than the others.
        max_points: See BOKE; fewer for the same reason.
    """

    init: str = "middle"
    n_acq: int = 512
    max_points: int = 256
    q: float = 0.05
    region: TrustRegion = TrustRegion()

    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        if (first := initial(self, data, space, key)) is not None:
            return first
        rng = key.generator()
        explores = not chance(key.seed, self.q).has(key.number)
        if not explores and (space.arms is not None or space.enumerate(self.n_acq) is None):
            seen = partial(self._seen, data, space, key)
            if space.arms is not None:
                x = local.suggest_arm(data, space, rng)
            else:
                x = local.suggest(data, space, self.region, self._trials(space, key, seen), rng)
            if x is not None:
                return Suggestion(x, "local", lambda: self._fit(seen(), space), seen=seen)
        branch = self._explore if explores else self._exploit
        return branch(data, space, key, rng)

    def _repeats(self, data: Data, space: Space) -> bool:
        return space.arms is not None and not local.values_come_back(data, space)

    def _trials(self, space: Space, key: Key, seen: Callable[[], Data]) -> local.Trials:
        ours = chance(key.seed, self.q, design_size(self, space))
        aside = chance(key.seed, 0.5 * (1.0 + self.q))  # the upper half of those that do not explore
        return local.Trials(ours, aside, key.number, seen)


@lru_cache(maxsize=8)
def chance(seed: int, least: float, first: int = 0) -> Lot:
    """The trials from ``first`` on whose number in [0, 1), by which each is given to a branch, is ``least`` or more."""
    return Lot(first, (seed * 0xD1342543DE82EF95 + (seed >> 64) + 1) % 2**64, least)


@dataclass(frozen=True)
class DensityExploration:
    """Go where the kernel density is lowest (eq. min KDE): a space-filling design that heeds what is there.

    Among many points the density at the candidates is kept from one trial to the next, if the kernel is gaussian and
    the bandwidth depends on the number of observations alone.
    """

    kernel: str | Kernel = "gaussian"
    bandwidth: Bandwidth = Silverman(0.5)
    n_acq: int = 1024

    def __post_init__(self) -> None:
        _check(self)

    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        t = len(data) + len(data.silent)
        if t == 0:
            return Suggestion(space.snap(key.generator().random((1, space.dim)))[0], "initial")
        if t > KEPT and (ell := self._length(len(data), space)) is not None:
            return self._from_window(data, space, Window(key.seed, self.n_acq, key.number), ell)
        model = self._fit(data.points, space, self.bandwidth)
        x = argmax(
            Sparsity(model),
            space,
            self.n_acq,
            key.generator(),
            bandwidth=model.bandwidth,
            centers=model.X[:0],
            taken=data.taken,
        )
        return Suggestion(x, "density", model, math.inf, 0.0)

    def _fit(self, points: Array, space: Space, bandwidth: Bandwidth | float) -> KernelModel:
        zero = np.zeros(len(points))
        return KernelModel(points, zero, kernel=self.kernel, bandwidth=bandwidth, categorical=space.categorical)

    def _length(self, t: int, space: Space) -> float | None:
        """ℓ where the density can be kept: the same until there are twice as many observations."""
        if not may_stay(get_kernel(self.kernel), space, self.n_acq):
            return None
        return by_count(self.bandwidth, doubling(t), space.dim)

    def _from_window(self, data: Data, space: Space, window: Window, ell: float) -> Suggestion:
        X, log_W = data.log_density(window, ell, space)
        if len(data.silent):
            log_W = np.logaddexp(log_W, self._fit(data.silent, space, ell).predict(X).log_density)
        x = X[first_fresh(X, -log_W, data.taken, 1)]
        around = [data.nearest(x[0], NEAR, space)[0], data.nearest_silent(x[0], NEAR, space)]
        near = self._fit(np.vstack(around), space, ell)
        polished = space.snap(polish(Sparsity(near), x, near.bandwidth * space.continuous, STEPS)[0])
        if not data.taken(polished)[0]:
            x = polished
        return Suggestion(x[0], "density", lambda: self._fit(data.points, space, ell), math.inf, 0.0)


@dataclass(frozen=True)
class KRUCB:
    """Pick the most optimistic observation; re-evaluate it or widen near it (algorithm KR-UCB, appendix A).

    The number of arms M is the number of distinct points. While t^η < M the chosen arm is evaluated again, otherwise
    a new arm is placed where the density is lowest within k(x, arm) > κ.

    From more than ``max_points`` observations it looks at a sample, as BOKE does.
    """

    kernel: str | Kernel = "gaussian"
    bandwidth: Bandwidth = Silverman(0.1)
    C: float = 1.0
    kappa: float = 0.1
    eta: float = 1.0
    y_scale: str = "rank"
    n_init: int | None = None
    init: str = "lhs"
    n_acq: int = 1024
    max_points: int = 2048

    def __post_init__(self) -> None:
        _check(self)

    def suggest(self, data: Data, space: Space, key: Key) -> Suggestion:
        if (first := initial(self, data, space, key)) is not None:
            return first
        seen = data if len(data) <= self.max_points else data.sample(self.max_points, key.start(), BEST, space)
        model = kernel_model(self, seen, space)
        arm = model.X[np.argmax(kr_ucb(model, self.C))]
        if self.eta < 1.0 and (len(data) + len(data.silent)) ** self.eta < data.distinct:  # with 1.0 it never is
            return Suggestion(arm, "repeat", model, seen=seen)
        return Suggestion(self._widen(arm, model, space, key.generator()), "widen", model, seen=seen)

    def _widen(self, arm: Array, model: KernelModel, space: Space, rng: Generator) -> Array:
        """argmin W over the neighbourhood k(x, arm) > κ (eq. min KR-UCB widen)."""
        X = space.unit_arms if space.unit_arms is not None else self._ball(arm, model, space, rng)
        only_arm = KernelModel(
            arm[None], np.zeros(1), kernel=self.kernel, bandwidth=model.bandwidth, categorical=space.categorical
        )
        X = X[only_arm.density(X) > self.kappa]
        if len(X) == 0:
            return arm
        return np.array(X[np.argmin(model.predict(X).log_density)])

    def _ball(self, arm: Array, model: KernelModel, space: Space, rng: Generator) -> Array:
        """Quasi-random points of the ball of radius ℓ Ψ⁻¹(κ) around the arm, clipped into the cube."""
        U = sobol(self.n_acq, space.dim + 1, rng)
        direction = scipy.special.ndtri(U[:, :-1])
        direction /= np.linalg.norm(direction, axis=1)[:, None]
        radius = get_kernel(self.kernel).reach(self.kappa) * exp(log(U[:, -1:]) / space.dim)
        X = arm + direction * radius * model.bandwidth
        X = np.where(space.categorical, np.where(rng.random(X.shape) < 0.5, arm, rng.random(X.shape)), X)
        return space.snap(np.clip(X, 0.0, 1.0))


def kernel_model(policy: BOKE | KRUCB, data: Data, space: Space) -> KernelModel:
    """The model of a policy, of the values on its scale."""
    return KernelModel.of(
        data.X,
        scaled(data.y, policy.y_scale),
        kernel=policy.kernel,
        bandwidth=policy.bandwidth,
        silent=data.silent,
        categorical=space.categorical,
    )


def standing(model: KernelModel, data: Data, space: Space, key: Key, n_acq: int) -> Array | None:
    """Candidates all over the cube that stay for a while, where that pays; None where they are drawn anew.

    It pays where sums at them may be kept: of all observations, as a sample is a new one each time, if these are many,
    and the kernel is so narrow that few of them count at a place.
    """
    n, ell = len(model.y), float(model.bandwidth[0])
    if NATIVE is None or not KEPT < n == len(data) or not may_stay(model.kernel, space, n_acq):
        return None
    d = space.dim
    ball = 0.5 * d * math.log(math.pi * WITHIN) - math.lgamma(0.5 * d + 1.0) + d * math.log(ell)
    if (model.bandwidth != ell).any() or math.log(n) + ball > math.log(SPARSE):
        return None
    window = Window(key.seed, n_acq // 4, key.number, STRIDE)
    return window.points(window.places, space)


def may_stay(kernel: Kernel, space: Space, n_acq: int) -> bool:
    """Whether candidates may be a window and what is known at them kept: in a box, with the gaussian kernel."""
    box = space.unit_arms is None and not space.mixed and space.enumerate(n_acq) is None
    return box and isinstance(kernel, Gaussian)


def incumbents(model: KernelModel) -> Array:
    """Centers for candidates, the best first: half of them the best observations, half spread over all ranks."""
    if NATIVE is None:
        return plain_incumbents(model.X, model.y, CENTERS)
    return np.asarray(NATIVE.incumbents(np.ascontiguousarray(model.X), np.ascontiguousarray(model.y), CENTERS))


def plain_incumbents(X: Array, y: Array, most: int) -> Array:
    """The same, and its definition."""
    order, half = np.argsort(-y, kind="stable"), most // 2
    spread = np.arange(half) * (len(order) - 1) // (half - 1)
    return np.asarray(X[np.concatenate([order[:half], order[spread[spread >= half]]])])


def by_share(numbers: Numbers, shares: Array) -> list[tuple[int, float]]:
    """(trial number, share), largest first, without those that hardly count."""
    kept = shares > 1e-6
    pairs = zip(numbers[kept].tolist(), shares[kept].tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def design_size(policy: BOKE | KRUCB, space: Space) -> int:
    """How many trials are of the initial design."""
    return min(12, max(5, 2 * (space.dim + 1))) if policy.n_init is None else policy.n_init  # see results/initial.md


def initial(policy: BOKE | KRUCB, data: Data, space: Space, key: Key) -> Suggestion | None:
    """The initial design by trial number; density exploration as long as nothing has a value; then None."""
    n = design_size(policy, space)
    if key.number < n:
        design = np.random.default_rng((key.seed, n))
        if space.unit_arms is not None:
            order = design.permutation(len(space.unit_arms))
            return Suggestion(space.unit_arms[order[key.number % len(order)]], "initial")
        X = DESIGNS[policy.init](n, space.dim, rng=design)
        if policy.init == "middle":  # categories have none
            X[0] = np.where(space.categorical, design.random(space.dim), X[0])
        return Suggestion(different(space.snap(X), space, design)[key.number], "initial")
    if len(data) == 0:
        return DensityExploration(n_acq=policy.n_acq).suggest(data, space, key)
    return None


def different(X: Array, space: Space, rng: Generator) -> Array:
    """A design (n, d) in which no point repeats another one, as gridded ones may, if there are as many points."""
    if space.smooth or space.size < len(X):
        return X
    every = space.enumerate(4 * len(X))  # of few points the last ones would be hard to hit
    while len(again := np.setdiff1d(np.arange(len(X)), np.unique(row_keys(X), return_index=True)[1])):
        if every is None:
            X[again] = space.snap(rng.random((len(again), space.dim)))
        else:
            others = every[~np.isin(row_keys(every), row_keys(X))]
            X[again] = others[rng.permutation(len(others))[: len(again)]]
    return X


def _check(policy: BOKE | DensityExploration | KRUCB) -> None:
    """Validate the fields that the policies share."""
    owner = type(policy).__name__
    get_kernel(policy.kernel)
    limits = {"rho": (0.0, math.inf), "q": (0.0, 1.0), "C": (0.0, math.inf), "kappa": (0.0, 1.0), "eta": (0.0, 1.0)}
    for name, (low, high) in limits.items():
        value = getattr(policy, name, None)
        if value is not None and not (isinstance(value, int | float) and low < value <= high):
            raise ValueError(f"The '{name}' parameter of {owner} must be in ({low:g}, {high:g}]. Got {value!r}.")
    for name, least in (("n_acq", 4), ("n_init", 0), ("max_points", 1)):
        value = getattr(policy, name, None)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ValueError(f"The '{name}' parameter of {owner} must be an integer, at least {least}. Got {value!r}.")
    for name, known in (("init", tuple(DESIGNS)), ("y_scale", SCALES)):
        value = getattr(policy, name, None)
        if value is not None and value not in known:
            raise ValueError(f"The '{name}' parameter of {owner} must be one of {list(known)}. Got {value!r}.")
    for name in ("bandwidth", "beta"):
        value = getattr(policy, name, None)
        if value is not None and not callable(value):
            raise TypeError(f"The '{name}' parameter of {owner} must be a rule, such as Fixed(0.1). Got {value!r}.")
