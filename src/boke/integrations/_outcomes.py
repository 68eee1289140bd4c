"""What a finished trial is worth: one number for a policy, larger is better, from objectives, constraints and pruning.

Everything is computed anew for each suggestion, from columns:

    values      (n, m)  objectives, larger is better, nan where there is none
    violations  (n, k)  how far each constraint is missed, 0 where it holds
    pruned      (n,)    stopped early: the value is the last intermediate one
    failed      (n,)    crashed: as bad as the worst that did not
"""

from __future__ import annotations

import numpy as np

from boke.space import Array, Mask

AUGMENTATION = 0.05  # ρ of the augmented Chebyshev scalarisation, as in ParEGO
STEEPEST = 0.01  # least component of a direction: the ends of the front, and no infinite weights
STRICTNESS = 2.0  # what a trial that misses the constraints by the usual amount pays, in units of best minus median


def outcomes(values: Array, direction: Array | None, violations: Array, pruned: Mask, failed: Mask) -> Array:
    """One finite value (n,) for each trial, nan for those that have none.

    Several objectives become one along a direction (m,): a search with a new one at every trial goes along the whole
    Pareto front.
    """
    feasible = np.asarray(~violations.any(axis=1))
    y = clipped(values[:, 0]) if direction is None else chebyshev(values, direction, feasible)
    if pruned.any():
        y = cautious(y, pruned)
    if not feasible.all():
        y = penalized(y, violations)
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


def chebyshev(values: Array, direction: Array, feasible: Mask) -> Array:
    """-(max_j r_j / λ_j + ρ Σ_j r_j / λ_j) with r_j the regret in objective j and λ the direction (m,).

    Regrets are in units of the extent of the Pareto front that is known, so the optimum lies where the ray λ from the
    ideal point meets the front, whatever the objectives are measured in.
    """
    columns = np.column_stack([clipped(column) for column in values.T])
    known = ~np.isnan(columns).any(axis=1)
    if not known.any():
        return np.asarray(columns[:, 0])
    halves = 0.5 * columns  # the difference of 1e308 and -1e308 is infinite
    front = nondominated(halves[known & feasible] if (known & feasible).any() else halves[known])
    best, extent = front.max(axis=0), np.ptp(front, axis=0)
    usual = np.abs(best - np.median(halves[known], axis=0))
    unit = np.maximum(np.where(extent > 0.0, extent, usual), 1e-300)
    regret = np.clip((best - halves) / unit, -1e300, 1e300) / np.maximum(direction, STEEPEST)
    return np.asarray(-(regret.max(axis=1) + AUGMENTATION * regret.sum(axis=1)))


def nondominated(values: Array) -> Array:
    """The rows that no other row beats in all columns, each once."""
    rest = values[np.argsort(-(values / values.shape[1]).sum(axis=1), kind="stable")]
    chosen = []
    while len(rest):  # whatever beats the first row everywhere would have a larger sum
        chosen.append(rest[0])
        rest = rest[(rest > rest[0]).any(axis=1)]
    return np.array(chosen)


def cautious(y: Array, pruned: Mask) -> Array:
    """A pruned trial counts with its last value, but as no better than the median of those that ran to the end.

    A pruner stops what is worse than others at the same step; the value of an early step, taken at its word, may look
    better than final ones all the same, where curves rise before they fall.
    """
    whole = y[~pruned & ~np.isnan(y)]
    return y if len(whole) == 0 else np.where(pruned, np.minimum(y, np.median(whole)), y)


def penalized(y: Array, violations: Array) -> Array:
    """An infeasible trial is worse than the best feasible one, the more so the more it violates.

    Its own value counts up to that of the best feasible trial. So what is just outside looks almost as good as what is
    just inside, and the model sees a ridge at the border, where constrained optima often are, instead of a cliff that
    it would keep away from. While nothing is feasible the violation alone counts.
    """
    miss = missed(violations)
    wrong = miss > 0.0
    feasible = y[~wrong & ~np.isnan(y)]
    if len(feasible) == 0:
        return np.where(np.isnan(y), np.nan, -miss)
    best = float(feasible.max())
    below = np.abs(0.5 * best - 0.5 * y[~np.isnan(y)])  # halves: the difference may be infinite
    unit = 2.0 * min(float(np.median(0.5 * best - 0.5 * feasible) or np.median(below)), 1e300) or 1.0
    return np.where(wrong, clipped(np.minimum(y, best) - STRICTNESS * unit * miss), y)


def missed(violations: Array) -> Array:
    """Sum of all violations (n,), each in units of its own median, in units of the median sum.

    Constraints have scales of their own, and the scale of all becomes smaller as the search closes in on the border.
    """
    total = np.zeros(len(violations))
    for column in np.minimum(violations, 1e300).T:
        if column.any():
            unit = max(float(np.median(column[column > 0.0])), 1e-300)
            total += np.minimum(column, 1e6 * unit) / unit
    return total / np.median(total[total > 0.0]) if total.any() else total


def discouraged(y: Array, failed: Mask) -> Array:
    """A failed trial is as bad as the worst of the others.

    As density alone it keeps the search from its own place only, and exploitation, which looks at the mean, would go
    on failing all around it. With a value the mean is one that expects a failure in proportion to their share there.
    """
    known = y[~np.isnan(y)]
    return y if len(known) == 0 else np.where(failed, known.min(), y)
