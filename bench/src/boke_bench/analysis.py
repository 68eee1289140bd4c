"""Numbers from trajectories: plain functions on arrays, tested against computations by hand.

Larger values are better, smaller regret and smaller scores are better. ``true`` is (..., T): values without noise of
the queried points, nan where an evaluation failed. A block is one problem with one seed; scores are (k, blocks), one
row for each optimizer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata, wilcoxon

from boke_bench.protocol import Array

SOLVED = 1e-8  # COCO's last target: regrets below it are equally good


class Interval(NamedTuple):
    """An estimate with the ends of its interval, all of one shape."""

    value: Array
    low: Array
    high: Array


# curves


def best_so_far(true: ArrayLike) -> Array:
    """Largest value up to each step (..., T); nan until the first success."""
    return np.asarray(np.fmax.accumulate(np.asarray(true, dtype=float), axis=-1))


def simple_regret(true: ArrayLike, optimum: ArrayLike) -> Array:
    """f* - max of the true values so far (..., T), never below zero; optimum has the shape of true without its last."""
    return np.maximum(np.asarray(optimum, dtype=float)[..., None] - best_so_far(true), 0.0)


def cumulative_regret(true: ArrayLike, optimum: ArrayLike) -> Array:
    """Σ f* - f(x_i) (..., T); a failed evaluation costs as much as the worst one of its run."""
    gaps = np.maximum(np.asarray(optimum, dtype=float)[..., None] - np.asarray(true, dtype=float), 0.0)
    known = np.where(np.isnan(gaps), -np.inf, gaps).max(axis=-1, keepdims=True)
    return np.asarray(np.cumsum(np.where(np.isnan(gaps), known, gaps), axis=-1))


def quartiles(curves: ArrayLike) -> Array:
    """First quartile, median and third quartile (3, T) of curves (n, T), nan only where no curve has a value."""
    curves = np.asarray(curves, dtype=float)
    some = ~np.isnan(curves).all(axis=0)
    result = np.full((3, curves.shape[-1]), np.nan)
    if some.any():
        result[:, some] = np.nanquantile(curves[:, some], (0.25, 0.5, 0.75), axis=0)
    return result


def time_grid(seconds: ArrayLike, n: int = 100) -> Array:
    """Times (n,), evenly spread on a log axis, at which cumulative seconds (runs, T) can be compared.

    From the first time at which every run has made a step to the median of the times at which the runs end.
    """
    seconds = np.asarray(seconds, dtype=float)
    last = max(float(np.median(seconds[:, -1])), 1e-9)
    first = min(max(float(seconds[:, 0].max()), 1e-9), last)
    return np.geomspace(first, last, n)


def against_time(curves: ArrayLike, seconds: ArrayLike, grid: ArrayLike) -> Array:
    """Curves (n, T) as functions of time (n, G): the value of the last step that was over by then.

    Args:
        curves: Values after each step.
        seconds: When each step was over, cumulative (n, T).
        grid: Times (G,). Before the first step a curve is nan, after its last step it stays where it is.
    """
    steps = np.array([np.searchsorted(row, grid, side="right") for row in np.asarray(seconds, dtype=float)]) - 1
    values = np.take_along_axis(np.asarray(curves, dtype=float), np.maximum(steps, 0), axis=1)
    return np.where(steps < 0, np.nan, values)


# comparisons


def score(regret: ArrayLike) -> Array:
    """log10 of the regret, with everything below ``SOLVED`` equal; what is compared and tested."""
    return np.asarray(np.log10(np.maximum(regret, SOLVED)), dtype=float)


def ranks(scores: ArrayLike) -> Array:
    """Ranks (k, blocks) from 1, the best; equal scores share the mean of their ranks."""
    return np.asarray(rankdata(np.asarray(scores, dtype=float), axis=0))


def mean_ranks(scores: ArrayLike, problems: ArrayLike, *, n_boot: int = 2000, rng: int = 0) -> Interval:
    """Mean rank (k,) with its 95 % bootstrap interval.

    Blocks are drawn again within each problem (blocks,); where every problem has one block only, among all of them.
    """
    R = ranks(scores)
    means = _resampled(R, np.asarray(problems), n_boot, rng)
    return Interval(R.mean(axis=1), *np.quantile(means, (0.025, 0.975), axis=0))


def win_rates(scores: ArrayLike, problems: ArrayLike, *, n_boot: int = 2000, rng: int = 0) -> Interval:
    """Share of blocks (k, k) in which the row is better than the column, ties half, with bootstrap intervals."""
    S = np.asarray(scores, dtype=float)
    k = len(S)
    wins = ((S[:, None] < S[None]) + 0.5 * (S[:, None] == S[None])).reshape(k * k, -1)
    means = _resampled(wins, np.asarray(problems), n_boot, rng)
    low, high = np.quantile(means, (0.025, 0.975), axis=0)
    return Interval(*(part.reshape(k, k) for part in (wins.mean(axis=1), low, high)))


def paired_tests(scores: ArrayLike) -> Array:
    """Holm-corrected p-values (k, k) of Wilcoxon's signed-rank test for each pair of rows; 1 on the diagonal.

    A run without a score (inf: it failed) is worse than every other by one unit.
    """
    S = np.asarray(scores, dtype=float)
    finite = S[np.isfinite(S)]
    S = np.where(np.isfinite(S), S, (finite.max() if finite.size else 0.0) + 1.0)
    k = len(S)
    rows, columns = np.triu_indices(k, 1)
    p = holm([_signed_rank(S[i] - S[j]) for i, j in zip(rows, columns, strict=True)])
    result = np.ones((k, k))
    result[rows, columns] = result[columns, rows] = p
    return result


def holm(p: ArrayLike) -> Array:
    """Holm's step-down correction: the i-th smallest of m p-values times m - i + 1, made monotone, at most 1."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return corrected


def data_profile(regret: ArrayLike, targets: ArrayLike) -> Array:
    """Share (T,) of (run, target) pairs that were reached by each evaluation, as COCO draws it, without restarts.

    Args:
        regret: Simple regret (n, T).
        targets: (m,) for all runs or (n, m), one row for each.
    """
    regret = np.asarray(regret, dtype=float)
    targets = np.broadcast_to(np.atleast_2d(targets), (len(regret), np.shape(targets)[-1]))
    return np.asarray((regret[:, None, :] <= targets[:, :, None]).mean(axis=(0, 1)))


def coco_targets(n: int = 51) -> Array:
    """Regrets 10^2, ..., 10^-8, evenly spread on a log axis."""
    return np.logspace(2, np.log10(SOLVED), n)


def relative_targets(first: ArrayLike, n: int = 51, decades: float = 4.0) -> Array:
    """Targets (runs, n) from the regret after the initial design (runs,) down by some powers of ten."""
    start: Array = np.maximum(np.asarray(first, dtype=float), SOLVED)
    return start[:, None] * np.logspace(0.0, -decades, n)


# time


class Growth(NamedTuple):
    """Time of an iteration as a power of the number of observations: ms(t) ~ t^exponent.

    Attributes:
        exponent: Slope on log-log axes.
        low: Lower end of its 95 % interval over runs; nan for one run.
        high: Upper end.
        first: Observations at which the fit begins.
        last: Observations at which it ends.
        milliseconds: Fitted time of the last iteration.
    """

    exponent: float
    low: float
    high: float
    first: int
    last: int
    milliseconds: float


def growth(seconds: ArrayLike, first: int, *, n_bins: int = 12, n_boot: int = 1000, rng: int = 0) -> Growth:
    """Fit a power of t to seconds of each iteration (n, T), from iteration ``first`` on.

    Single iterations are disturbed by whatever else the machine does, always upwards. So the medians within bins that
    are evenly spread in log t are fitted, not the iterations.
    """
    times: Array = np.maximum(np.asarray(seconds, dtype=float), 1e-9)
    n, T = times.shape
    first = min(first, T - 2)
    edges = np.unique(np.geomspace(first, T, n_bins + 1).round().astype(int))
    t = np.array([np.log(np.arange(a, b) + 1.0).mean() for a, b in pairwise(edges)])
    bins = np.array([np.median(times[:, a:b], axis=1) for a, b in pairwise(edges)]).T
    slope, level = np.polyfit(t, np.log(np.median(bins, axis=0)), 1)
    low = high = float("nan")
    if n > 1:
        drawn = np.random.default_rng(rng).integers(n, size=(n_boot, n))
        slopes = np.polyfit(t, np.log(np.median(bins[drawn], axis=1)).T, 1)[0]
        low, high = (float(end) for end in np.quantile(slopes, (0.025, 0.975)))
    milliseconds = 1e3 * float(np.exp(level + slope * np.log(T)))
    return Growth(float(slope), low, high, first, T, milliseconds)


def _resampled(values: Array, problems: Array, n_boot: int, rng: int) -> Array:
    """Means (n_boot, k) of values (k, blocks) when the blocks of each problem are drawn with replacement."""
    generator = np.random.default_rng(rng)
    if len(np.unique(problems)) == len(problems):
        problems = np.zeros_like(problems)
    totals = np.zeros((n_boot, len(values)))
    for problem in np.unique(problems):
        mine = values[:, problems == problem]
        m = mine.shape[1]
        counts = generator.multinomial(m, np.full(m, 1.0 / m), size=n_boot)
        totals += counts @ mine.T
    return np.asarray(totals / values.shape[1])


def _signed_rank(differences: Array) -> float:
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, zero_method="zsplit").pvalue)  # exact for few pairs without ties
