"""An Optuna sampler: ``optuna.create_study(sampler=BOKESampler(seed=0))``."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as Names
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from optuna.samplers import BaseSampler
    from optuna.trial import TrialState
except ImportError as error:
    raise ImportError("boke.integrations.optuna needs Optuna: pip install 'bokeopt[optuna]'") from error

from boke.data import Data
from boke.integrations._columns import draw
from boke.integrations._explain import as_it_was, explanation
from boke.integrations._outcomes import outcomes
from boke.integrations._reader import MEANT, Branch, Reader, Table
from boke.optimizer import Explanation, Optimizer
from boke.policies import Key, Policy, Suggestion
from boke.space import Array

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

UNDER_WAY = 1000  # trials whose parameters are remembered until they are told
DIRECTION, BRANCH = 1, 2  # tell the generators of scalarisations and of branches from those of the policy
EXPLORED = 0.25  # share of the trials that take the branch with the fewest
ENOUGH = 3  # trials of a branch from which on it is modelled as a whole

Decision = tuple[Table, Data, Suggestion]
ConstraintsFunc = Callable[["FrozenTrial"], Sequence[float]]


class BOKESampler(BaseSampler):
    """Sampler by kernel regression and density-based exploration, for one or several objectives.

    Running trials, of this process or another, count as density without a value, failed ones as no better than the
    worst. Pruned trials count with their last intermediate value. Infeasible trials, whether by
    ``Trial.set_constraint`` or by ``constraints_func``, are worse than the best feasible one, by how much they violate.
    Parameters that always occur together are chosen together, and so are all parameters of a branch of a conditional
    space. Several objectives are searched along their Pareto front by random scalarisations.

    A suggestion depends on the study's trials, the seed and the trial's number, and on nothing else: workers may use
    the same seed, and a study that is resumed goes on as if it had not been interrupted.

    Args:
        policy: What chooses the next point; None is the best measured one.
        seed: Seed of all randomness; None draws one.
        constraints_func: Returns the constraint values of a finished trial; values above 0 are violations.

    Example:
        >>> import optuna
        >>> from boke.integrations.optuna import BOKESampler
        >>> study = optuna.create_study(sampler=BOKESampler(seed=0))
        >>> study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=20)
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        seed: int | None = None,
        constraints_func: ConstraintsFunc | None = None,
    ) -> None:
        if constraints_func is not None and not callable(constraints_func):
            raise TypeError(f"The 'constraints_func' parameter must be callable. Got {constraints_func!r}.")
        model = Optimizer([(0, 1)], policy=policy, rng=seed)  # checks both, and knows the default policy
        self._policy, self._seed = model.policy, model.seed
        self._constraints_func = constraints_func
        self._readers: dict[Any, Reader] = {}
        self._study: tuple[Any, int] | None = None
        self._read_for: tuple[int, int] | None = None
        self._meant: dict[int, dict[str, Any]] = {}  # trial id -> parameters of trials that are under way
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"]
        return state | {"_readers": {}, "_study": None, "_read_for": None, "_meant": {}}  # all of it is in the study

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def reseed_rng(self) -> None:
        """Nothing to do: randomness is keyed by trial number, so copies of a sampler never repeat each other."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        with self._lock:
            return self._reader(study, trial, fresh=True).search_space()

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        with self._lock:
            params, _ = self._choose(self._reader(study, trial), trial, search_space)
            self._remember(trial, params)
            return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        with self._lock:
            reader = self._reader(study, trial)
            if param_name in reader.distributions:  # its range has changed, or it depends on another parameter
                table = reader.table({param_name: param_distribution})
                if len(table.X):
                    return _params(self._suggest(reader, trial, {param_name: param_distribution}))[param_name]
            rng = np.random.default_rng((seed_for(self._seed, (param_name,)), trial.number))
            return draw(param_distribution, rng)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._leave_behind(study, trial, state)
        if self._constraints_func is None or state not in (TrialState.COMPLETE, TrialState.PRUNED):
            return
        constraints = None
        try:
            constraints = tuple(float(value) for value in self._constraints_func(trial))
            if np.isnan(constraints).any():
                raise ValueError(f"The constraint values must not be nan. Got {constraints}.")
        finally:
            study._storage.set_trial_system_attr(trial._trial_id, "constraints", constraints)

    def _remember(self, trial: FrozenTrial, params: dict[str, Any]) -> None:
        with self._lock:
            self._meant[trial._trial_id] = params
            while len(self._meant) > UNDER_WAY:
                del self._meant[next(iter(self._meant))]

    def _leave_behind(self, study: Study, trial: FrozenTrial, state: TrialState) -> None:
        """Record the whole point of a trial that failed before it had asked for all of its parameters."""
        with self._lock:
            meant = self._meant.pop(trial._trial_id, {})
        if state is TrialState.FAIL and not meant.keys() <= trial.params.keys():
            study._storage.set_trial_system_attr(trial._trial_id, MEANT, meant)

    def explain(self, study: Study, number: int) -> Explanation | None:
        """Why a trial got its parameters: the past trials that argued for them, and how much was exploration.

        A suggestion is a pure function of what was known, so it is made again. None where another point comes out:
        for trials that were enqueued or added, that came before the space or their branch of it was known, or that
        another sampler, another seed or another policy chose.
        """
        trial, known = as_it_was(study, number)
        reader = Reader(study)
        reader.take(known)
        params, decision = self._choose(reader, trial, reader.search_space())
        if decision is None:
            return None
        table, data, suggestion = decision
        x = table.encode([trial.params])
        if len(x) == 0 or not np.allclose(suggestion.x, x[0], rtol=0.0, atol=1e-6):
            return None
        elsewhere = trial.params.keys() & params.keys() - table.columns.distributions.keys()
        if any(trial.params[name] != params[name] for name in elsewhere):
            return None
        return explanation(suggestion, data, x)

    def _reader(self, study: Study, trial: FrozenTrial, fresh: bool = False) -> Reader:
        """The study as it was when this trial first asked: one reading serves all of a trial's parameters."""
        if self._study is None or self._study[0] is not study._storage or self._study[1] != study._study_id:
            self._study, self._readers, self._read_for = (study._storage, study._study_id), {}, None
        bracket = getattr(study, "_bracket_id", None)  # a Hyperband pruner shows each bracket its own trials
        now = (trial._trial_id, threading.get_ident())
        if bracket not in self._readers or fresh or self._read_for != now:
            reader = self._readers.setdefault(bracket, Reader(study))
            if not reader.read(study):  # the study was deleted and made anew
                reader = self._readers[bracket] = Reader(study)
                reader.read(study)
            self._read_for = now
        return self._readers[bracket]

    def _choose(
        self, reader: Reader, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> tuple[dict[str, Any], Decision | None]:
        """Parameters of a trial, and the decision behind them, if it was one.

        Groups choose the way through a study's ifs. How good the point at its end is depends on all parameters there,
        so these are then chosen anew, together, from the trials that went the same way.
        """
        groups = [[name for name in group if name in search_space] for group in reader.groups]
        known = {name for group in groups for name in group}
        groups.append(sorted(name for name in search_space if name not in known))
        params: dict[str, Any] = {}
        decisions = []
        for group in filter(None, groups):
            decisions.append(self._suggest(reader, trial, {name: search_space[name] for name in group}))
            params |= _params(decisions[-1])
        branch = self._branch(reader, trial.number, search_space.keys(), params)
        if branch is None:
            return params, decisions[0] if len(decisions) == 1 else None
        params |= {name: value for name, value in branch.way.items() if name in search_space}
        together = {name: search_space[name] for name in branch.names - branch.way.keys() if name in search_space}
        if len(reader.table(together, branch.names).X) < ENOUGH:
            return params, None
        decision = self._suggest(reader, trial, together, branch.names)
        return params | _params(decision), decision

    def _branch(self, reader: Reader, number: int, names: Names[str], params: dict[str, Any]) -> Branch | None:
        """The branch that these parameters lead to, or now and then the one that was tried least."""
        found = [b for b in reader.branches if b.way.keys() & names and (b.names - b.way.keys()) & names]
        if len(found) > 1 and np.random.default_rng((self._seed, number, BRANCH)).random() < EXPLORED:
            return min(found, key=lambda branch: branch.count)
        there = [b for b in found if all(params[name] == b.way[name] for name in b.way.keys() & names)]
        return max(there, key=lambda branch: len(branch.way), default=None)

    def _suggest(
        self,
        reader: Reader,
        trial: FrozenTrial,
        distributions: Mapping[str, BaseDistribution],
        branch: frozenset[str] | None = None,
    ) -> Decision:
        table = reader.table(distributions, branch)
        return table, *self._decide(table, self._pending(reader, trial, table), trial.number)

    def _pending(self, reader: Reader, trial: FrozenTrial, table: Table) -> list[dict[str, Any]]:
        """Points of the other running trials.

        A trial that another worker has just started has no parameters yet. It will get those that are suggested here
        for its number: the same function of the same study.
        """
        pending = reader.pending(trial)
        for number in reader.starting(trial, table.columns.distributions.keys()):
            _, suggestion = self._decide(table, pending, number)
            pending = [*pending, table.columns.params(suggestion.x)]
        return pending

    def _decide(self, table: Table, pending: list[dict[str, Any]], number: int) -> tuple[Data, Suggestion]:
        # groups of one size would share their random numbers without the names, and move in step
        key = Key(seed_for(self._seed, tuple(table.columns.distributions)), number)
        data = self._data(table, pending, number)
        return data, self._policy.suggest(data, table.columns.space, key)

    def _data(self, table: Table, pending: list[dict[str, Any]], number: int) -> Data:
        several = len(table.signs) > 1
        direction = self._direction(number, len(table.signs)) if several else None
        y = outcomes(table.values, direction, table.violations, table.pruned, table.failed)
        told = ~np.isnan(y)
        # with several objectives each trial has its own optimum: what others reached says nothing about its region
        asked = np.zeros(int(told.sum()), dtype=bool) if several else None
        silent = table.encode(pending)
        if told.all():
            return Data(table.X, y, silent, table.numbers, asked)
        return Data(table.X[told], y[told], np.vstack([table.X[~told], silent]), table.numbers[told], asked)

    def _direction(self, number: int, m: int) -> Array:
        """Where on the Pareto front a trial looks: the same for all of its groups."""
        return np.random.default_rng((self._seed, number, DIRECTION)).dirichlet(np.ones(m))


def _params(decision: Decision) -> dict[str, Any]:
    table, _, suggestion = decision
    return table.columns.params(suggestion.x)


@lru_cache(maxsize=256)
def seed_for(seed: int, names: tuple[str, ...]) -> int:
    """A seed for these parameters; crc32 because Python's hash of a string is another one in every process."""
    words = [zlib.crc32(name.encode(errors="surrogatepass")) for name in names]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0])
