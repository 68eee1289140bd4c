"""Explaining a suggestion of a study: what was known when it was made, and what the model made of it."""

from __future__ import annotations

import copy

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from boke.data import Data
from boke.optimizer import Explanation
from boke.policies import Suggestion
from boke.space import Array


def as_it_was(study: Study, number: int) -> tuple[FrozenTrial, list[FrozenTrial]]:
    """A trial, and the study as it was when that trial began: what was not finished by then is running."""
    trials = study.get_trials(deepcopy=False)
    if not 0 <= number < len(trials):
        raise ValueError(f"The 'number' parameter must be one of the study's {len(trials)} trials. Got {number!r}.")
    asked = trials[number]
    known = []
    for trial in trials:
        if trial.number == number or trial.datetime_start is None or asked.datetime_start is None:
            continue
        if trial.datetime_complete is not None and trial.datetime_complete <= asked.datetime_start:
            known.append(trial)
        elif trial.number < number:
            running = copy.copy(trial)
            running.state = TrialState.RUNNING
            known.append(running)
    return asked, known


def explanation(suggestion: Suggestion, data: Data, x: Array) -> Explanation:
    """The suggestion's branch, and the terms and trials that spoke for the point x (1, d)."""
    if suggestion.model is None:
        return Explanation(suggestion.branch, 0.0, 0.0, 0.0, [])
    mean, density, *_ = suggestion.model.predict(x)
    bonus = suggestion.beta * (density[0] + suggestion.rho) ** -0.5 if suggestion.beta else 0.0
    trials = suggestion.shares(data, x)
    return Explanation(suggestion.branch, float(mean[0]), float(bonus), float(density[0]), trials)
