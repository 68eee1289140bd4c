"""An Optuna sampler: ``optuna.create_study(sampler=BOKESampler(seed=0))``."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from optuna.samplers import BaseSampler
    from optuna.trial import TrialState
except ImportError as error:
    raise ImportError("boke.integrations.optuna needs Optuna: pip install 'bokeopt[optuna]'") from error

from boke.history import Data
from boke.integrations._columns import draw
from boke.integrations._outcomes import outcomes
from boke.integrations._reader import Reader, Table
from boke.optimizer import Optimizer
from boke.policies import Key, Policy

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

WEIGHTS = 1  # tells the generator of scalarisation weights from those of the policy

ConstraintsFunc = Callable[["FrozenTrial"], Sequence[float]]


class BOKESampler(BaseSampler):
    """Sampler by kernel regression and density-based exploration, for one or several objectives.

    Running trials, of this process or another, and failed ones count as density without a value. Pruned trials count
    with their last intermediate value. Infeasible trials, whether by ``Trial.set_constraint`` or by
    ``constraints_func``, are worse than all feasible ones. Parameters that always occur together are chosen together;
    conditional ones form groups of their own. Several objectives are searched along their Pareto front by random
    scalarisations.

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
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"]
        return state | {"_readers": {}, "_study": None, "_read_for": None}  # all of it is in the study

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
            reader = self._reader(study, trial)
            groups = [[name for name in group if name in search_space] for group in reader.groups]
            known = {name for group in groups for name in group}
            groups.append(sorted(name for name in search_space if name not in known))
            params: dict[str, Any] = {}
            for group in filter(None, groups):
                params |= self._suggest(reader, trial, {name: search_space[name] for name in group})
            return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        with self._lock:
            reader = self._reader(study, trial)
            if param_name in reader.distributions:  # its range has changed, or it depends on another parameter
                table = reader.table({param_name: param_distribution})
                if len(table.X):
                    return self._suggest(reader, trial, {param_name: param_distribution})[param_name]
            rng = np.random.default_rng((_mix(self._seed, (param_name,)), trial.number))
            return draw(param_distribution, rng)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        if self._constraints_func is None or state not in (TrialState.COMPLETE, TrialState.PRUNED):
            return
        constraints = None
        try:
            constraints = tuple(float(value) for value in self._constraints_func(trial))
            if np.isnan(constraints).any():
                raise ValueError(f"The constraint values must not be nan. Got {constraints}.")
        finally:
            study._storage.set_trial_system_attr(trial._trial_id, "constraints", constraints)

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

    def _suggest(
        self, reader: Reader, trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        table = reader.table(distributions)
        # groups of one size would else share their random numbers, and move in step
        key = Key(_mix(self._seed, tuple(table.columns.distributions)), trial.number)
        data = self._data(table, reader.pending(trial), trial.number)
        return table.columns.params(self._policy.suggest(data, table.columns.space, key).x)

    def _data(self, table: Table, pending: list[dict[str, Any]], number: int) -> Data:
        rng = np.random.default_rng((self._seed, number, WEIGHTS))  # one draw of weights for all groups of a trial
        y = outcomes(table.values, table.violation, table.pruned, rng)
        told = ~np.isnan(y)
        silent = table.encode(pending)
        if told.all():
            return Data(table.X, y, silent, table.numbers)
        return Data(table.X[told], y[told], np.vstack([table.X[~told], silent]), table.numbers[told])


@lru_cache(maxsize=256)
def _mix(seed: int, names: tuple[str, ...]) -> int:
    """A seed for these parameters; crc32 because Python's hash of a string is another one in every process."""
    words = [zlib.crc32(name.encode(errors="surrogatepass")) for name in names]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0])
