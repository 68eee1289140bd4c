"""The next point by a local model: a small Gaussian process on the nearest observations, inside a trust region."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from boke import clusters, gp, probe, warp
from boke.compiled import NATIVE
from boke.data import Data, features, nearest_rows
from boke.elementary import squared_distances
from boke.frame import Frame
from boke.keys import Lot, Numbers
from boke.quasirandom import sobol, sobol_integers
from boke.region import LARGEST_SIDE, Search, TrustRegion, box, replayed_from
from boke.shape import LEARNING, shaped
from boke.space import Array, Mask, Space
from boke.warp import unwarped

FEW, MANY = 64, 104  # observations of a local model, at most: in a short search, and in a long one
ROOM = 40  # trials asked for that make room for d more observations
SMOOTHED = 200  # observations of one that averages noise out
CANDIDATES, TOPS, EVALUATIONS = 256, 2, 20  # screened, climbed from, evaluations of each climb
CLIMBS = 7  # columns, all of them plain numbers, from which on half as many will do: climbing finds what they miss
CROWD, WIDER = 4, 4.0  # pending points that fill a region, and by how much the next one is larger
APART = 8  # of so many candidates for each the one farthest from pending points is looked at
DRAWN = 0.5  # share of the suggestions under noise that maximize a drawn function
LONELY = 3  # random points, the nearest observations of which a second search may begin with
NEARBY = 10  # of so many arms one is nearby, and so many at least
ARMS = 4096  # points of a finite set, those nearest to the incumbent, that are looked at
AROUND = 20  # observations of the box in which a gain is still looked for


@dataclass(frozen=True)
class Noise:
    """How a level of noise is met; the smoothed values, not the observed ones, then say which point is best.

    Attributes:
        share: Of noise in the signal's variance, from which on this holds.
        resolved: Observations that a region has: with fewer it cannot tell a slope from noise.
        margin: Improvement asked for, in standard deviations of the values: smaller ones are mostly luck.
    """

    share: float
    resolved: int
    margin: float


FAINT, LOUD = Noise(1e-2, 20, 0.5), Noise(1e-1, 40, 0.3)
LOUDER = (*gp.NOISES, 1.0)  # levels for the model that averages noise out
QUIET = tuple(noise for noise in gp.NOISES if noise < FAINT.share)  # levels where values come back
TURNS = 3  # times that the axes of a model may turn
EARLIEST = 24  # observations from which on they may, and no fewer than a metric has entries
RUGGED = 0.2  # side below which a region of a rugged function has settled


class LocalModel(NamedTuple):
    """A fitted model with what is needed to use it.

    Attributes:
        frame: The coordinates that it is in.
        center: The incumbent (d,), observed best or, under noise, smoothed best.
        best: The value to improve on, as the model sees it: that of the center, and a margin under noise.
        noise: The noise that the model found; None is none.
        X: The observations (n, d) that it is of.
        y: Their values (n,).
        version: Which version of the values it has chosen.
        rugged: Whether what looked like noise is none: values come back.
        unprobed: Whether that is not known yet.
    """

    model: Any
    frame: Frame
    center: Array
    best: float
    noise: Noise | None
    X: Array
    y: Array
    version: int
    rugged: bool = False
    unprobed: bool = False

    def z(self, features: Array) -> Array:
        return self.frame.z(features)


class Trials(NamedTuple):
    """What is known of trials without looking at them.

    Attributes:
        local: Which ones, by number (n,), were local suggestions if they were asked for.
        aside: Which of these are of the second search if the region has settled.
        number: That of the trial that is to be suggested.
        seen: The observations among which the second search finds its beginning, a sample of a long history.
    """

    local: Lot
    aside: Lot
    number: int
    seen: Callable[[], Data]


def suggest(data: Data, space: Space, region: TrustRegion, trials: Trials, rng: Generator) -> Array | None:
    """The point (d,) of the trust region with the largest expected improvement or, under noise, as often that with the
    largest value of a drawn function; None if all of it is taken.

    Args:
        data: What is known; at least one value.
        space: The decision set.
        region: How the trust region behaves.
        trials: Which trials are what.
        rng: Randomness of the candidates.
    """
    if (found := usual(data, space, region, trials, rng)) is not None:
        return _new(*found, data, space)
    return plain_suggest(data, space, region, trials, rng)


def usual(data: Data, space: Space, region: TrustRegion, trials: Trials, rng: Generator) -> tuple[Array, Array] | None:
    """What ``plain_suggest`` chooses from, by one compiled call instead of a dozen; None where anything is unusual."""
    if (
        NATIVE is None
        or type(data) is not Data
        or not space.smooth
        or len(data.silent)
        or len(data.numbers) < len(data)
    ):
        return None
    ours, aside = trials.local, trials.aside
    return _usual(space.dim, region, nearest(space.dim, data.answered)).suggest(  # type: ignore[no-any-return]
        data.X, data.y, data.numbers, data.asked, replayed_from(trials.number), ours.first, ours.salt, ours.least,
        aside.first, aside.salt, aside.least, trials.number, rng.bit_generator.capsule,
    )  # fmt: skip


@lru_cache(maxsize=32)
def _usual(d: int, region: TrustRegion, count: int) -> Any:
    assert NATIVE is not None
    n = screened(d, True)
    grids = gp.LENGTHS, gp.TRENDS, gp.NOISES, gp.START, warp.LENGTHS, warp.EARNED
    turns = TURNS, _least_to_turn(d)
    return NATIVE.Usual(
        sobol_integers(n, d), n // 2, _few(d), count, *grids, LEARNING, gp.STRETCHES, *turns, FAINT.share,
        clusters.DENSE, region.patient(d), region.rule, TOPS, EVALUATIONS,
    )  # fmt: skip


def plain_suggest(data: Data, space: Space, region: TrustRegion, trials: Trials, rng: Generator) -> Array | None:
    """The same, and its definition."""
    numbers, successes, values = data.outcomes(trials.local, replayed_from(trials.number))
    outcomes, aside = (successes, values, trials.aside(numbers)), trials.aside.has(trials.number)
    search = region.replay(*outcomes, space.dim)
    second = aside and search.side < region.settled
    if second and _quiet(data, space):
        fitted, side = _second(data, space, region, search, numbers, trials, rng)
    else:
        fitted, side = fit(data, space, data.best), search.side
        if fitted.unprobed and (x := _probe(fitted, data, space)) is not None:
            return x
        if fitted.rugged:  # it settles sooner, and what lies under the ruggedness may be better elsewhere
            rugged = replace(region, settled=max(region.settled, RUGGED))
            side = rugged.replay(*outcomes, space.dim).side
            if aside and side < rugged.settled:
                fitted = fit(data, space, data.best, average=True)
        elif second and fitted.noise is None:
            fitted, side = _second(data, space, region, search, numbers, trials, rng)
    if fitted.noise is not None:
        side = resolved(data, space, fitted.center, fitted.noise.resolved)
    if len(data.silent):  # trials that start at the same moment, unseen by each other, must not end in the same corner
        side *= rng.uniform(0.5, 1.0)
    low, high, crowded = _room(data.silent, fitted.center, side, space)
    if crowded:
        return _apart(fitted, data, low, high, space, rng)
    if fitted.noise is not None and rng.random() < DRAWN:
        X, values = _drawn(fitted, low, high, space, rng)
    else:
        X, values = _improvements(fitted, low, high, space, rng)
    return _new(X, values, data, space)


def _new(X: Array, values: Array, data: Data, space: Space) -> Array | None:
    """The point (d,) with the largest of values (n,) that is not taken, if there is one."""
    if NATIVE is None or space.ends is None or type(data) is not Data:
        return plain_new(X, values, data, space)
    row = NATIVE.untaken(X, values, *space.ends, data.X, data.silent)
    return np.array(X[row]) if row < len(X) else None


def plain_new(X: Array, values: Array, data: Data, space: Space) -> Array | None:
    """The same, and its definition."""
    taken = _taken(data, X, space)
    if np.count_nonzero(taken):
        X, values = X[~taken], values[~taken]
    return np.array(X[values.argmax()]) if len(X) else None


def suggest_arm(data: Data, space: Space, rng: Generator) -> Array | None:
    """The arm (d,) with the largest expected improvement or, under noise, as often that with the largest value of a
    drawn function; None if all are taken, and their values come back.

    All arms count or, every other time, those nearby; under noise those of a region, as long as there are fewer
    observations than arms. Whether an arm is worth another pull depends on whether its value would be another one;
    where the model finds noise, that is seen by pulling the best one again.
    """
    assert space.unit_arms is not None
    fitted = fit(data, space, data.best)
    noise, X = fitted.noise, space.unit_arms
    if noise is not None:
        again = values_come_back(data, space)
        if again is None and not len(data.silent):
            return data.best
        noise = None if again else noise
    X = X if len(X) <= ARMS else X[nearest_rows(X, fitted.center, ARMS, space)]
    if noise is None:
        X = X[~data.taken(X)]
        if rng.random() < 0.5:
            X = X[nearest_rows(X, fitted.center, max(NEARBY, len(X) // NEARBY), space)]
    elif len(space.unit_arms) > len(data):
        low, high = box(fitted.center, resolved(data, space, fitted.center, noise.resolved), space.spacing)
        X = X[((low <= X) & (high >= X)).all(axis=1)]
    if len(X) == 0:
        return None
    Z = np.ascontiguousarray(fitted.z(X))
    values = fitted.model.log_ei(Z, fitted.best)
    if noise is not None and rng.random() < DRAWN:
        some = np.argsort(-values, kind="stable")[: CANDIDATES // 2]
        X, values = X[some], fitted.model.draw(Z[some], rng.standard_normal(len(some)))
    return np.array(X[np.argmax(values)])


def values_come_back(data: Data, space: Space) -> bool | None:
    """Whether the value of an arm was always the same; None if none was pulled twice."""
    return probe.come_back(*data.nearest(data.best, SMOOTHED, space))


def _probe(fitted: LocalModel, data: Data, space: Space) -> Array | None:
    """A point beside the best one, to see whether its value comes back; None if one is being evaluated already."""
    x = probe.beside(data.best, fitted.frame.radius)
    pending = data.nearest_silent(x, 1, space)
    if len(pending) and np.abs(pending - x).max() < probe.CLOSE * fitted.frame.radius:
        return None
    return None if _taken(data, x[None], space)[0] else x


def _taken(data: Data, X: Array, space: Space) -> Mask:
    """Which points (n, d) are known, as a history would keep them: rounded."""
    return data.taken(space.encode(space.decode(X)))


def _room(pending: Array, center: Array, side: float, space: Space) -> tuple[Array, Array, bool]:
    """The box around the center; with CROWD points pending in it, a larger one with room for as many more, and True.

    The model says little about the next point of a large batch: it has been used up by the first few.
    """
    low, high = box(center, side, space.spacing)
    room = CROWD
    while len(pending) >= room and side < 2.0:
        inside = ((pending >= low) & (pending <= high))[:, ~space.categorical].all(axis=1)
        if np.count_nonzero(inside) < room:
            break
        room, side = room + CROWD, side * WIDER
        low, high = box(center, side, space.spacing)
    return low, high, room > CROWD


def _apart(fitted: LocalModel, data: Data, low: Array, high: Array, space: Space, rng: Generator) -> Array | None:
    """Of the candidates farthest from all pending points the one with the largest expected improvement."""
    U = sobol(CANDIDATES // 2, space.dim, rng)
    X = space.snap(np.where(space.categorical, U, low + (high - low) * U))
    gap = squared_distances(features(X, space), features(data.silent, space)).min(axis=1)
    X = X[np.argsort(-gap, kind="stable")[: len(X) // APART]]
    X = X[~data.taken(X)]
    if len(X) == 0:
        return None
    return np.array(X[np.argmax(fitted.model.log_ei(fitted.z(features(X, space)), fitted.best))])


def _least_to_turn(d: int) -> int:
    """How many observations it takes for axes of their own."""
    return max(EARLIEST, d * (d + 1) // 2)


def nearest(d: int, answered: int = 0) -> int:
    """How many observations a local model in d dimensions is of: 24 + 4 d in blocks of eight, as it computes.

    A search gathers around its best point, and what it asked for makes room for more: up to four for each coefficient
    of a quadratic.
    """
    return max(min(FEW, (d + 7) // 2 * 8), min(MANY, 2 * (d + 1) * (d + 2), answered * d // ROOM) // 8 * 8)


def expected_gain(data: Data, space: Space) -> float:
    """What the next local step may bring: the largest expected improvement, in units of y, in a box around the center.

    The box reaches the AROUND-th nearest observation: it is small where the search has settled, and does not depend on
    the policy.
    """
    fitted = fit(data, space, data.best)
    fitted = fitted._replace(best=fitted.best - (fitted.noise.margin if fitted.noise else 0.0))
    low, high = box(fitted.center, resolved(data, space, fitted.center, AROUND), space.spacing)
    _, values = _improvements(fitted, low, high, space, np.random.default_rng(0))
    return math.exp(float(values.max())) * _unit(fitted.y, fitted.version, fitted.best)


def _unit(y: Array, version: int, best: float) -> float:
    """What one unit of a version of y is at its best, where it is a line; infinite if y has no number for it."""
    low, high = unwarped(np.array([best - 1e-3, best]), y, version)
    return 1e3 * float(high - low)


def _improvements(fitted: LocalModel, low: Array, high: Array, space: Space, rng: Generator) -> tuple[Array, Array]:
    """Where the best candidates of the box climb to, these candidates, and log EI at all of these."""
    X, frame = candidates(fitted.center, low, high, space, rng), fitted.frame
    if space.smooth:
        there = (frame.origin, frame.scale, frame.turn, low, high)
        return fitted.model.improvements(X, fitted.best, *there, TOPS, EVALUATIONS)  # type: ignore[no-any-return]
    values = fitted.model.log_ei(fitted.z(features(X, space)), fitted.best)
    top = np.argsort(-values, kind="stable")[:TOPS]
    tops, better = _climb(fitted, X[top], low, high, space)
    return np.concatenate([tops, X[top]]), np.concatenate([better, values[top]])


def _drawn(fitted: LocalModel, low: Array, high: Array, space: Space, rng: Generator) -> tuple[Array, Array]:
    """Candidates of the box, and the values there of one function drawn from the posterior (Thompson sampling).

    Under noise the model stays unsure of where its maximum is, and expected improvement would ask the same question
    again and again.
    """
    X = candidates(fitted.center, low, high, space, rng)[::2]  # every other: a draw costs the cube of their number
    return X, fitted.model.draw(np.ascontiguousarray(fitted.z(features(X, space))), rng.standard_normal(len(X)))


def _second(
    data: Data, space: Space, region: TrustRegion, search: Search, numbers: Numbers, trials: Trials, rng: Generator
) -> tuple[LocalModel, float]:
    """A model for the second search, around its own best observation or where it begins, and the side of its region."""
    if search.at < 0:
        return _beside(data, space, _lonely(trials.seen(), space, rng)), region.start
    return _beside(data, space, data.point(int(numbers[search.at]))), search.second


def _lonely(data: Data, space: Space, rng: Generator) -> Array:
    """A good observation (d,) with nothing else around it: the best of those nearest to a few random points."""
    found = [data.nearest(x, 1, space) for x in space.snap(rng.random((LONELY, space.dim)))]
    return np.asarray(found[np.argmax([y[0] for _, y in found])][0][0])


def _beside(data: Data, space: Space, center: Array) -> LocalModel:
    """A model around an observation (d,) that is not the best one, to improve on what is known there."""
    there = fit(data, space, center)
    if there.noise is not None:
        return there
    # the best of its observations may belong to the first search; the nearest is the center itself
    return there._replace(center=center, best=float(there.model.y[0]))


def fit(data: Data, space: Space, center: Array, *, average: bool = False) -> LocalModel:
    """The model around an observation (d,); where it finds noise, another around the best of its smoothed values.

    Where the noise is loud the second one is larger. The search for its hyperparameters starts where that of the first
    ended, but without a trend: noise is easily taken for one. Where a probe has shown that values come back there is no
    noise, unless what looks like it is to be averaged out all the same.
    """
    count, noises, start, d = nearest(space.dim, data.answered), gp.NOISES, gp.START, space.dim
    shape: Frame | None = None  # a second model takes over stretch and turn of the first
    noise: Noise | None = None
    rugged = unprobed = False
    for last in (False, True):
        X, y = data.nearest(center, count, space)
        first = noises, start, shape
        model, frame = _shaped(X, y, center, space, *first, learns=not last)
        if not last and _noisy(model) and (others := clusters.clearer(X, y, data, space)) is not None:
            alone = _shaped(*others, center, space, *first)
            if not _noisy(alone[0]):
                (X, y), (model, frame) = others, alone
        share, version = model.hyperparameters[2], model.hyperparameters[-1]
        noise = None if share < FAINT.share else noise or (LOUD if share >= LOUD.share else FAINT)
        if noise is not None and space.smooth and not (last or average):
            known = probe.repeats(*data.nearest(center, SMOOTHED, space), frame.radius, _deviation(model, y))
            rugged, unprobed = known is True, known is None
            if rugged:
                noise, noises = None, QUIET
                start = (*model.at[:2], len(noises) - 1)
                model = gp.fit(model.Z, model.Y, model.jacobian, noises=noises, start=start)
                version = model.hyperparameters[-1]
        smooth = model.y if noise is None else model.fitted()
        chosen = int(smooth.argmax())
        if last or noise is None or (noise is FAINT and chosen == 0):
            break
        center, start, shape = X[chosen], (model.at[0], 0, model.at[2]), frame
        if noise is LOUD:
            count, noises = SMOOTHED, LOUDER
    if len(data.silent):
        silent = data.nearest_silent(center, nearest(d) // 2, space)
        observed = _with_silent(model, np.ascontiguousarray(frame.z(features(silent, space))))
        model = gp.fit(*observed, noises=noises, start=model.at)
    best = float(smooth[chosen]) + (noise.margin if noise else 0.0)
    return LocalModel(model, frame, X[chosen], best, noise, X, y, version, rugged, unprobed)


def _quiet(data: Data, space: Space) -> bool:
    """Whether a model around the best observation finds no noise: the first of ``fit``, before it takes shape."""
    X, y = data.nearest(data.best, nearest(space.dim, data.answered), space)
    if not _noisy(_shaped(X, y, data.best, space, learns=False)[0]):
        return True
    some = clusters.around_the_first(X, space)
    return some < len(X) and not _noisy(_shaped(X[:some], y[:some], data.best, space, learns=False)[0])


def _shaped(X: Array, y: Array, center: Array, space: Space, *first: Any, learns: bool = True) -> tuple[Any, Frame]:
    """A model of observations X (n, d) with values y (n,) and its frame; ``first`` is where they begin."""
    turns = TURNS if space.smooth and space.dim > 1 and len(X) >= _least_to_turn(space.dim) else 0
    origin = features(center[None], space)[0]
    return shaped(features(X, space), y, origin, *first, turns=turns, learns=learns)


def _noisy(model: Any) -> bool:
    return bool(model.hyperparameters[2] >= FAINT.share)


def _deviation(model: Any, y: Array) -> float:
    """The standard deviation of the noise that a model of a version of y (n,) has found, in units of y."""
    _, trend, share, signal, _, version = model.hyperparameters
    return math.sqrt(signal * share * (1.0 + trend)) * _unit(y, version, float(model.y.max()))


def resolved(data: Data, space: Space, center: Array, count: int) -> float:
    """Side of a region around the center that has ``count`` observations.

    Under noise a single failure says little, and the region must not shrink below what the noise lets it see.
    """
    return min(LARGEST_SIDE, 2.0 * data.reach(center, count, space))


def _with_silent(model: Any, S: Array) -> tuple[Array, Array, Array]:
    """Pending and failed points (s, d) join as observations of what is expected there, at most the median.

    The model is then sure of them and looks elsewhere. Only the version in use is kept.
    """
    y, version = model.y, model.hyperparameters[-1]
    expected = np.minimum(model.predict(S)[0], float(np.median(y)))
    return np.vstack([model.Z, S]), np.append(y, expected)[None], model.jacobian[version : version + 1]


def candidates(center: Array, low: Array, high: Array, space: Space, rng: Generator) -> Array:
    """Points of the region; half of them differ from the center in a few columns only."""
    if NATIVE is None or space.mixed:
        return space.snap(plain_candidates(center, low, high, space, rng))
    n, random = screened(space.dim, space.smooth), rng.bit_generator.capsule
    X = NATIVE.candidates(sobol_integers(n, space.dim), n // 2, _few(space.dim), center, low, high, random)
    return space.snap(X)


def screened(d: int, smooth: bool) -> int:
    """How many candidates there are."""
    return CANDIDATES // 2 if smooth and d >= CLIMBS else CANDIDATES


def _few(d: int) -> float:
    """The share of the columns that such a point changes."""
    return min(1.0, max(2.0 / d, 0.25))


def plain_candidates(center: Array, low: Array, high: Array, space: Space, rng: Generator) -> Array:
    """The same before they are snapped, and their definition."""
    n, d = screened(space.dim, space.smooth), space.dim
    U = sobol(n, d, rng)
    if space.mixed:
        U = np.where(space.categorical, np.where(rng.random((n, d)) < 1.0 / d, rng.random((n, d)), center), U)
        low, high = np.where(space.categorical, 0.0, low), np.where(space.categorical, 1.0, high)
    chance, column = rng.random((n // 2, d)), rng.integers(d, size=n // 2)
    within = plain_in_box if NATIVE is None else NATIVE.in_box
    return np.asarray(within(U, chance, column, _few(d), center, low, high))


def plain_in_box(
    U: Array, chance: Array, column: Numbers, share: float, center: Array, low: Array, high: Array
) -> Array:
    """Points of a box from U (n, d) of the cube; the first m of them stay at the center but in a few columns.

    These are the columns where ``chance`` (m, d) is below ``share``, and ``column`` (m,).
    """
    X, few = low + (high - low) * U, chance < share
    few[np.arange(len(few)), column] = True
    X[: len(few)] = np.where(few, X[: len(few)], center)
    return np.asarray(X)


def _climb(fitted: LocalModel, X: Array, low: Array, high: Array, space: Space) -> tuple[Array, Array]:
    """Climb from every row of X in the numeric columns, categories stay as they are: points and values."""
    frame = fitted.frame
    if not space.mixed:
        start, bottom, top = (frame.straight(x) for x in (X, low, high))
        tops, _ = fitted.model.climb(start, fitted.best, bottom, top, EVALUATIONS, frame.turn)
        tops = np.minimum(np.maximum(frame.back(tops), low), high)
    elif space.categorical.all():
        tops = X
    else:
        numeric, tops = ~space.categorical, X.copy()
        k = int(numeric.sum())
        for i, x in enumerate(X):
            z = fitted.z(features(x[None], space))
            bottom, ceiling = z[0].copy(), z[0].copy()
            bottom[:k] = (low[numeric] - frame.origin[:k]) / frame.scale[:k]
            ceiling[:k] = (high[numeric] - frame.origin[:k]) / frame.scale[:k]
            top, _ = fitted.model.climb(z, fitted.best, bottom, ceiling, EVALUATIONS)
            there = frame.origin[:k] + frame.scale[:k] * top[0, :k]
            tops[i, numeric] = np.minimum(np.maximum(there, low[numeric]), high[numeric])
    tops = space.snap(tops)
    return tops, fitted.model.log_ei(fitted.z(features(tops, space)), fitted.best)
