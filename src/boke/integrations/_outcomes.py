"""What a finished trial is worth: one number for a policy, larger is better, from objectives, constraints and pruning.

Everything is computed anew for each suggestion, from columns:

    values     (n, m)  objectives, larger is better, nan where there is none
    violation  (n,)    how far the constraints are missed in sum, 0 when feasible
    pruned     (n,)    stopped early: the value is the last intermediate one
    failed     (n,)    crashed: as bad as the worst that did not
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from boke.space import Array, Mask

AUGMENTATION = 0.05  # ρ of the augmented Chebyshev scalarisation, as in ParEGO


def outcomes(values: Array, violation: Array, pruned: Mask, failed: Mask, rng: Generator) -> Array:
    """One finite value (n,) for each trial, nan for those that have none.

    Several objectives become one by random weights, so that a search with new weights at every trial goes along the
    whole Pareto front.
    """
    y = clipped(values[:, 0]) if values.shape[1] == 1 else chebyshev(values, rng.dirichlet(np.ones(values.shape[1])))
    if pruned.any():
        y = cautious(y, pruned)
    if violation.any():
        y = penalized(y, violation)
    if failed.any():
        y = discouraged(y, failed)
    return y


def clipped(y: Array) -> Array:
    """Infinite values become the best or worst finite one; alone, they become 1 and -1."""
    if not np.isinf(y).any():
        return y
    finite = y[np.isfinite(y)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 1.0)
    return np.clip(y, low, high)


def chebyshev(values: Array, weights: Array) -> Array:
    """-(max_j w_j r_j + ρ Σ_j w_j r_j) with r_j the regret in objective j, in units of best minus median."""
    columns = np.column_stack([clipped(column) for column in values.T])
    if np.isnan(columns).all():
        return np.asarray(columns[:, 0])
    best, middle = np.nanmax(columns, axis=0), np.nanmedian(columns, axis=0)
    unit = np.maximum(0.5 * best - 0.5 * middle, 1e-300)  # halves: the difference of 1e308 and -1e308 is infinite
    regret = np.minimum((0.5 * best - 0.5 * columns) / unit, 1e300) * weights
    return np.asarray(-(regret.max(axis=1) + AUGMENTATION * regret.sum(axis=1)))


def cautious(y: Array, pruned: Mask) -> Array:
    """A pruned trial counts with its last value, but as no better than the median of those that ran to the end.

    A pruner stops what is worse than others at the same step; the value of an early step, taken at its word, may look
    better than final ones all the same, where curves rise before they fall.
    """
    whole = y[~pruned & ~np.isnan(y)]
    return y if len(whole) == 0 else np.where(pruned, np.minimum(y, np.median(whole)), y)


def penalized(y: Array, violation: Array) -> Array:
    """An infeasible trial is worse than every feasible one, the more so the more it violates.

    Its own value does not count: there would be no order in which a great value makes up for a small violation. The
    least violation is half the feasible range below the worst feasible value, the greatest one and a half.
    """
    wrong = violation > 0.0
    feasible = y[~wrong & ~np.isnan(y)]
    _, place = np.unique(np.minimum(violation[wrong], np.finfo(float).max), return_inverse=True)
    depth = 0.5 + place / max(int(place.max()), 1)
    low, high = (float(feasible.min()), float(feasible.max())) if len(feasible) else (0.0, 0.0)
    span = min(high - low, 1e300) or 1.0
    out = y.copy()
    out[wrong] = np.where(np.isnan(y[wrong]), np.nan, low - span * depth)
    return clipped(out)


def discouraged(y: Array, failed: Mask) -> Array:
    """A failed trial is as bad as the worst of the others.

    As density alone it keeps the search from its own place only, and exploitation, which looks at the mean, would go
    on failing all around it. With a value the mean is one that expects a failure in proportion to their share there.
    """
    known = y[~np.isnan(y)]
    return y if len(known) == 0 else np.where(failed, known.min(), y)
