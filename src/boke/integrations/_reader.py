"""Reading a study: only what is new at each trial, kept as columns in the unit cube.

A ``Reader`` watches one study. It hands every finished trial, once, to its ``Table``s, one for each set of parameters
that is modelled together. Rows are ordered by content, so sums over them don't depend on who finished first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as Names
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from boke.history import HORIZON, oldest
from boke.integrations._columns import Columns
from boke.keys import row_keys
from boke.space import Array, Mask

PENDING = 100  # running trials that count, the newest ones
STARTING = 16  # trial numbers among which those without parameters are taken for just started, not for dead
MEANT = "boke:params"  # attribute of failed trials: parameters that were suggested and not asked for
COMPLETE, PRUNED, FAILED, LOST = range(4)  # kinds of finished trials


class Table:
    """The finished trials that have certain parameters, as columns."""

    def __init__(self, distributions: Mapping[str, BaseDistribution], signs: Array) -> None:
        self.columns = Columns(distributions)
        self.signs = signs
        self.keys: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self.X: Array = np.empty((0, self.columns.space.dim))
        self._rest: Array = np.empty((0, len(signs) + 2))  # in one array, because every array costs an insertion
        self._violations: dict[str, Array] = {}  # constraint -> column

    @property
    def values(self) -> Array:
        return self._rest[:, :-2]

    @property
    def violations(self) -> Array:
        columns = [column for _, column in sorted(self._violations.items())]
        return np.column_stack(columns) if columns else np.empty((len(self.X), 0))

    @property
    def pruned(self) -> Mask:
        return np.asarray(self._rest[:, -2] == PRUNED)

    @property
    def failed(self) -> Mask:
        return np.asarray(self._rest[:, -2] == FAILED)

    @property
    def numbers(self) -> NDArray[np.int64]:
        return self._rest[:, -1].astype(np.int64)

    def add(self, trials: list[FrozenTrial]) -> None:
        natives, kept = self.columns.natives([_point(trial) for trial in trials])
        if not kept:
            return
        X = self.columns.encode(natives)
        rest = np.array([self._row(trials[i]) for i in kept])
        violations = [_violations(trials[i]) for i in kept]
        total = np.array([sum(sorted(each.values())) for each in violations])
        keys = row_keys(np.column_stack([X, rest[:, :-1], total]))
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(self.keys, keys[order])
        before = len(self.keys)
        self.keys = np.insert(self.keys, at, keys[order])
        self.X = np.insert(self.X, at, X[order], axis=0)
        self._rest = np.insert(self._rest, at, rest[order], axis=0)
        for name in {*self._violations, *(name for each in violations for name in each)}:
            new = np.array([each.get(name, 0.0) for each in violations])
            self._violations[name] = np.insert(self._violations.get(name, np.zeros(before)), at, new[order])

    def _row(self, trial: FrozenTrial) -> list[float]:
        values = [
            sign * value for sign, value in zip(self.signs.tolist(), _values(trial, len(self.signs)), strict=True)
        ]
        return [*values, _kind(trial), float(trial.number)]

    def encode(self, points: list[dict[str, Any]]) -> Array:
        """Points that have all the parameters, in the unit cube, ordered by content."""
        natives, kept = self.columns.natives(points)
        if not kept:
            return self.X[:0]
        X = self.columns.encode(natives)
        return X[np.argsort(row_keys(X), kind="stable")]


@dataclass
class Branch:
    """The trials with one set of parameters, where a study has several: those that take the same way through its ifs.

    Attributes:
        names: The parameters.
        way: Values that lead there: discrete parameters that are the same in all of these trials.
        count: How many there are.
    """

    names: frozenset[str]
    way: dict[str, Any]
    count: int = 0

    @classmethod
    def of(cls, trial: FrozenTrial) -> Branch:
        found = trial.distributions
        way = {name: value for name, value in trial.params.items() if not isinstance(found[name], FloatDistribution)}
        return cls(frozenset(found), way)

    def add(self, trial: FrozenTrial) -> None:
        self.count += 1
        self.way = {name: value for name, value in self.way.items() if trial.params[name] == value}


class Reader:
    """What is known of a study, or of one bracket of a Hyperband pruner."""

    def __init__(self, study: Study) -> None:
        self.signs = np.array([1.0 if d is StudyDirection.MAXIMIZE else -1.0 for d in study.directions])
        self.finished: list[FrozenTrial] = []
        self.distributions: dict[str, BaseDistribution] = {}  # as the newest trial has them
        self._newest: dict[str, int] = {}
        self._branches: dict[frozenset[str], Branch] = {}
        self._failed_sets: set[frozenset[str]] = set()
        self._seen = 0
        self._last: tuple[int, int] | None = None
        self._open: list[int] = []  # positions of unfinished trials
        self._running: list[FrozenTrial] = []
        self._told = bytearray()  # by number, whether it is finished
        self._tables: dict[tuple[tuple[str, ...], frozenset[str] | None], Table] = {}
        self._groups: list[tuple[str, ...]] | None = None
        self._space: dict[str, BaseDistribution] | None = None

    def read(self, study: Study) -> bool:
        """Take in what is new; False when the study's past is not the one that was read before."""
        return self.take(study.get_trials(deepcopy=False))

    def take(self, trials: list[FrozenTrial]) -> bool:
        if self._last is not None:
            at = self._seen - 1
            if len(trials) <= at or (trials[at].number, trials[at]._trial_id) != self._last:
                return False
        candidates = [*self._open, *range(self._seen, len(trials))]
        new = [trials[i] for i in candidates if trials[i].state.is_finished()]
        self._open = [i for i in candidates if not trials[i].state.is_finished()]
        self._running = [trials[i] for i in self._open if trials[i].state is TrialState.RUNNING]
        self._seen = len(trials)
        self._last = (trials[-1].number, trials[-1]._trial_id) if trials else None
        for trial in new:
            self._learn(trial)
            self._told.extend(bytes(max(0, trial.number + 1 - len(self._told))))
            self._told[trial.number] = True
        self.finished.extend(new)
        for (_, branch), table in self._tables.items():
            if new:
                table.add(_of(new, branch))
        return True

    def _learn(self, trial: FrozenTrial) -> None:
        names = frozenset(trial.distributions)
        failed = trial.state is TrialState.FAIL
        if names and names not in (self._failed_sets if failed else self._branches):
            self._groups = self._space = None
        if names and failed:
            self._failed_sets.add(names)
        elif names:
            self._branches.setdefault(names, Branch.of(trial)).add(trial)
        for name, distribution in trial.distributions.items():
            if trial.number >= self._newest.get(name, -1):
                self._newest[name] = trial.number
                if self.distributions.get(name) != distribution:
                    self.distributions[name] = distribution
                    self._space = None

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Parameters that always come together, a group each: a partition of all names seen.

        Trials that failed may have stopped halfway through their parameters, so they are heard only as long as
        there are no others.
        """
        if self._groups is None:
            sets = sorted(sorted(names) for names in self._branches or self._failed_sets)
            together: dict[tuple[int, ...], list[str]] = {}
            for name in sorted({name for names in sets for name in names}):
                together.setdefault(tuple(i for i, names in enumerate(sets) if name in names), []).append(name)
            self._groups = [tuple(names) for names in together.values()]
        return self._groups

    def search_space(self) -> dict[str, BaseDistribution]:
        """The distributions of all groups, where there is something to choose."""
        if self._space is None:
            names = sorted(name for group in self.groups for name in group)
            self._space = {name: self.distributions[name] for name in names if not self.distributions[name].single()}
        return dict(self._space)

    @property
    def branches(self) -> list[Branch]:
        """All branches, ordered by their names; none if all trials have the same parameters.

        A parameter that no other branch has does not lead to one, even if it has had one value only.
        """
        if len(self._branches) < 2:
            return []
        occurs = Counter(name for names in self._branches for name in names)
        return [
            replace(branch, way={name: value for name, value in branch.way.items() if occurs[name] > 1})
            for branch in sorted(self._branches.values(), key=lambda branch: sorted(branch.names))
        ]

    def table(self, distributions: Mapping[str, BaseDistribution], branch: frozenset[str] | None = None) -> Table:
        """The finished trials with these parameters, kept from call to call while the distributions stay.

        With ``branch``, only those that have exactly the parameters of that branch.
        """
        key = tuple(sorted(distributions)), branch
        table = self._tables.get(key)
        if table is None or table.columns.distributions != dict(distributions):
            table = self._tables[key] = Table(distributions, self.signs)
            table.add(_of(self.finished, branch))
        return table

    def pending(self, trial: FrozenTrial) -> list[dict[str, Any]]:
        """Parameters of the other running trials, as far as they are not taken for dead."""
        others = {other.number: other.params for other in self._running if other.number != trial.number}
        first = max(0, trial.number - HORIZON)
        out, back = np.zeros((2, max([trial.number, len(self._told), *others]) + 1 - first), dtype=bool)
        out[[number - first for number in others if number >= first]] = True
        told = np.frombuffer(self._told[first:], dtype=bool)
        back[: len(told)] = told
        start = first + oldest(out, back)
        alive = [others[number] for number in sorted(others, reverse=True) if number >= start]
        return [params for params in alive if params][:PENDING]

    def starting(self, trial: FrozenTrial, names: Names[str]) -> list[int]:
        """Numbers of the trials just before this one that are being given these parameters at this moment."""
        return sorted(
            other.number
            for other in self._running
            if trial.number - STARTING <= other.number < trial.number
            and not names <= other.params.keys()
            and (not other.params or names & other.params.keys())
        )


def _of(trials: list[FrozenTrial], branch: frozenset[str] | None) -> list[FrozenTrial]:
    return trials if branch is None else [trial for trial in trials if trial.distributions.keys() == branch]


def _point(trial: FrozenTrial) -> dict[str, Any]:
    return trial.system_attrs.get(MEANT, {}) | trial.params if trial.state is TrialState.FAIL else trial.params


def _kind(trial: FrozenTrial) -> float:
    """A lost trial was interrupted or killed from outside, which says nothing about its point."""
    if trial.state is TrialState.FAIL:
        return LOST if trial.user_attrs.get("lost") or "fail_reason" in trial.system_attrs else FAILED
    return PRUNED if trial.state is TrialState.PRUNED else COMPLETE


def _values(trial: FrozenTrial, m: int) -> list[float]:
    nothing = [math.nan] * m
    if trial.state is TrialState.COMPLETE:
        return list(trial.values) if trial.values is not None and len(trial.values) == m else nothing
    if trial.state is TrialState.PRUNED and m == 1 and trial.last_step is not None:
        return [float(trial.intermediate_values[trial.last_step])]
    return nothing


def _violations(trial: FrozenTrial) -> dict[str, float]:
    """The positive constraint values, as ``set_constraint`` or a ``constraints_func`` has left them."""
    if not trial.system_attrs:
        return {}
    values = {str(i): value for i, value in enumerate(trial.system_attrs.get("constraints") or ())}
    values |= {key: value for key, value in trial.system_attrs.items() if key.startswith("constraints:")}
    return {name: float(value) for name, value in values.items() if float(value) > 0.0}
