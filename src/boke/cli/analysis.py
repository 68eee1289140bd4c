"""What boke says about a study: the recommended point, why trials were suggested, and which parameters matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from boke.bandwidth import LeastSquaresCV
from boke.cli.config import Distributions
from boke.cli.errors import Problem
from boke.cli.store import seed_of, space_of
from boke.data import Data
from boke.history import State
from boke.integrations._columns import Columns
from boke.integrations.optuna import BOKESampler
from boke.model import KernelModel
from boke.optimizer import Explanation, Optimizer, Recommendation
from boke.posterior import PosteriorMean
from boke.quasirandom import sobol
from boke.recommend import Estimate
from boke.scores import scaled
from boke.space import Categorical, Space

SAMPLES = 512  # pairs of points over which importances are averaged
STATES = {TrialState.COMPLETE: State.COMPLETE, TrialState.FAIL: State.FAILED, TrialState.RUNNING: State.PENDING}


def optimizer_of(study: Study) -> Optimizer:
    """A boke Optimizer with the study's trials, row n is trial n: for its recommendation and for pictures."""
    if len(study.directions) != 1:
        raise Problem("The study has several objectives: there is no single best point. `boke best` shows the front.")
    columns = Columns(modelled(space_of(study)))
    direction: Literal["minimize", "maximize"] = "minimize"
    if study.directions[0] is StudyDirection.MAXIMIZE:
        direction = "maximize"
    optimizer = Optimizer(_readable(columns), direction=direction, rng=0)
    trials = study.get_trials(deepcopy=False)
    if trials:
        _fill(optimizer, columns, trials)
    return optimizer


def modelled(space: Distributions) -> Distributions:
    """Parameters with a choice, as the sampler sees them."""
    free = {name: found for name, found in space.items() if not found.single()}
    if not free:
        raise Problem("The space has no parameter with more than one value: there is nothing to optimize.")
    return free


def _readable(columns: Columns) -> Space:
    """The columns' space, with the user's choices instead of their indices."""
    parameters: dict[str, Any] = {}
    for name, parameter in columns.space.parameters.items():
        choices = getattr(columns.distributions[name], "choices", None)
        parameters[name] = parameter if choices is None else Categorical(choices)
    return Space(parameters)


def _fill(optimizer: Optimizer, columns: Columns, trials: list[FrozenTrial]) -> None:
    natives, kept = columns.natives([trial.params for trial in trials])
    rows = np.tile(columns.space.decode(np.full((1, columns.space.dim), 0.5)), (len(trials), 1))
    rows[kept] = natives
    states = np.full(len(trials), State.REMOVED.value, dtype=np.uint8)
    values = np.full(len(trials), math.nan)
    reasons = {}
    for i in kept:
        state = STATES.get(trials[i].state, State.REMOVED)
        states[i] = state.value
        if state is State.COMPLETE and trials[i].values:
            values[i] = trials[i].values[0]
        if "reason" in trials[i].user_attrs:
            reasons[i] = str(trials[i].user_attrs["reason"])
    never = np.full(len(trials), -1, dtype=np.int64)
    optimizer.history.restore(rows, values, states, _arrivals(trials), never, reasons)


def _arrivals(trials: list[FrozenTrial]) -> NDArray[np.int64]:
    """Rank of each result among all results, -1 for trials without."""
    done = [(trial.datetime_complete, i) for i, trial in enumerate(trials) if trial.datetime_complete is not None]
    told = np.full(len(trials), -1, dtype=np.int64)
    for rank, (_, i) in enumerate(sorted(done)):
        told[i] = rank
    return told


@dataclass(frozen=True)
class At:
    """The rule that always recommends the same trial: for the value to expect of it."""

    number: int

    def recommend(self, data: Data, space: Space) -> Estimate:
        return PosteriorMean().at(data, space, int(np.flatnonzero(data.numbers == self.number)[0]))


def recommended(optimizer: Optimizer) -> Recommendation:
    """The best estimated point."""
    try:
        return optimizer.recommend()
    except ValueError as error:
        raise Problem(str(error)) from None


def explanations(study: Study, most: int) -> list[tuple[int, Explanation]]:
    """Why the last trials were suggested, newest first."""
    sampler = BOKESampler(seed=seed_of(study))
    found: list[tuple[int, Explanation]] = []
    for number in range(len(study.get_trials(deepcopy=False)) - 1, -1, -1):
        why = sampler.explain(study, number)
        if why is not None:
            found.append((number, why))
        if len(found) == most:
            break
    return found


def importance(optimizer: Optimizer) -> dict[str, float]:
    """Share of each parameter in what the kernel mean does over the whole space, largest first.

    Total Sobol indices by Jansen's estimator, E (m(x) - m(x'))² / 2 V over pairs x, x' that differ in one parameter
    only, of the mean of ranked values; divided by their sum.
    """
    data, space = optimizer.history.data(1.0), optimizer.space
    if len(data.y) < 3:
        raise Problem(f"Importances need three complete trials. There are {len(data.y)}.")
    y = scaled(data.y, "rank")
    model = KernelModel(data.X, y, bandwidth=LeastSquaresCV(), categorical=space.categorical)
    both = sobol(SAMPLES, 2 * space.dim, np.random.default_rng(0))
    A, B = space.snap(both[:, : space.dim]), space.snap(both[:, space.dim :])
    base = model.mean(A)
    effects = []
    for j in range(space.dim):
        changed = A.copy()
        changed[:, j] = B[:, j]
        effects.append(float(np.square(model.mean(changed) - base).mean()))
    total = sum(effects) or 1.0
    pairs = zip(space.parameters, effects, strict=True)
    return dict(sorted(((name, effect / total) for name, effect in pairs), key=lambda pair: -pair[1]))
