"""BOKESearchCV: scikit-learn's search over hyper-parameters, with boke in the place of chance."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from scipy.optimize import OptimizeResult
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from boke.history import Trial
from boke.integrations._spaces import space_of
from boke.optimizer import Optimizer, Recommendation
from boke.policies import Policy
from boke.space import Space

Results = Mapping[str, Any]
Evaluate = Callable[[Sequence[Mapping[str, Any]]], Results]


class BOKESearchCV(BaseSearchCV):
    """Search for the best hyper-parameters by cross-validation, each try informed by those before.

    It is used like ``RandomizedSearchCV`` and has its attributes. With several metrics the search follows the one
    named by ``refit``, or the first.

    Args:
        estimator: What is tuned: an estimator, also a pipeline or another meta-estimator.
        param_distributions: Name -> Float, Int, Categorical, a list of choices, (low, high), (low, high,
            "log-uniform"), or one of scipy.stats' uniform, loguniform and randint. Or a list of such dicts, which are
            searched in turn.
        n_iter: Number of candidates.
        scoring: A scorer, its name, or several, as in scikit-learn.
        n_jobs: Number of jobs in parallel; None is 1, -1 all processors.
        refit: Whether to fit the best candidate to all data, the metric to choose it by, or a callable.
        cv: Number of folds, a splitter, or an iterable of splits.
        verbose: Verbosity.
        pre_dispatch: How many jobs are dispatched ahead.
        random_state: Seed of the search.
        error_score: Score of a candidate whose fit raises, or "raise".
        return_train_score: Whether ``cv_results_`` has training scores.
        batch_size: Candidates suggested at a time; None is as many as ``n_jobs`` can fit at once.
        policy: What chooses the next candidate; None is the best measured policy.
        callback: Called with an OptimizeResult after each batch (x and fun are the best parameters and score, nfev
            the number of candidates, cv_results all of them); True or StopIteration ends the search.

    Attributes:
        recommended_params_: The best estimated parameters: where the smoothed score is best, not the luckiest.
        recommended_score_: The score that is estimated there.
        recommended_interval_: Where the true score is, in 9 of 10 cases; None after too few candidates.
        recommended_support_: How many candidates, counted by nearness, stand behind the estimate.
    """

    _required_parameters: ClassVar[list[str]] = ["estimator", "param_distributions"]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSearchCV._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "policy": [HasMethods("suggest"), None],
        "callback": [callable, None],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 50,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        batch_size: int | None = None,
        policy: Policy | None = None,
        callback: Callable[[OptimizeResult], Any] | None = None,
    ) -> None:
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.random_state = random_state
        self.batch_size = batch_size
        self.policy = policy
        self.callback = callback
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    @property
    def optimizer_(self) -> Optimizer:
        """A boke Optimizer that knows all candidates; for several dicts of parameters, those of the best one's."""
        check_is_fitted(self, "cv_results_")
        spaces = self._spaces()
        scores = self.cv_results_[self._metric(self.cv_results_)]
        best = self.cv_results_["params"][int(np.nanargmax(scores))]
        space = next(space for space in spaces if set(space.parameters) == set(best))
        optimizer = Optimizer(space, direction="maximize", policy=self.policy, rng=0)
        for params, score in zip(self.cv_results_["params"], scores, strict=True):
            if set(params) == set(space.parameters):
                optimizer.tell(params, score)
        return optimizer

    def __sklearn_tags__(self) -> Any:
        """X and y are handed on as they are."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.target_tags.multi_output = inner.target_tags.multi_output
        return tags

    def _run_search(self, evaluate_candidates: Evaluate) -> None:
        spaces = self._spaces()
        seed = int(check_random_state(self.random_state).randint(2**31))
        optimizers = [
            Optimizer(space, direction="maximize", policy=self.policy, rng=seed + i) for i, space in enumerate(spaces)
        ]
        search = _Search(self, optimizers, evaluate_candidates)
        search.run(_affordable(self.n_iter, spaces), self._batch())
        recommended = search.recommend()
        self.recommended_params_ = recommended.params
        self.recommended_score_ = recommended.value
        self.recommended_interval_ = recommended.interval
        self.recommended_support_ = recommended.support

    def _spaces(self) -> list[Space]:
        given = self.param_distributions
        dicts = list(given) if isinstance(given, list) else [given]
        if not dicts or not all(isinstance(d, Mapping) and d for d in dicts):
            raise ValueError(
                f"The 'param_distributions' parameter of BOKESearchCV must be a dict or a list of them. Got {given!r}."
            )
        return [space_of(d, "BOKESearchCV") for d in dicts]

    def _batch(self) -> int:
        if self.batch_size is not None:
            return int(self.batch_size)
        return max(1, -(-int(effective_n_jobs(self.n_jobs)) // _splits(self.cv)))

    def _metric(self, results: Results) -> str:
        """The column of ``cv_results_`` that the search follows."""
        if isinstance(self.refit, str) and f"mean_test_{self.refit}" in results:
            return f"mean_test_{self.refit}"
        return next(key for key in results if key.startswith("mean_test_"))


class _Search:
    """One run: asks for batches, has them evaluated, tells the scores."""

    def __init__(self, owner: BOKESearchCV, optimizers: list[Optimizer], evaluate: Evaluate) -> None:
        self.owner = owner
        self.optimizers = optimizers
        self.evaluate = evaluate
        self.results: Results | None = None
        self.failed: list[dict[str, Any]] = []  # in batches of which no fit succeeded
        self.error: ValueError | None = None

    def run(self, n_iter: int, batch: int) -> None:
        turns = [self.optimizers[i % len(self.optimizers)] for i in range(n_iter)]
        for start in range(0, n_iter, batch):
            asked = [(optimizer, optimizer.ask()) for optimizer in turns[start : start + batch]]
            self._evaluate(asked)
            if self._wants_to_stop():
                break
        if self.results is None:
            assert self.error is not None
            raise self.error
        if self.failed:
            # scikit-learn refuses to record a batch in which everything failed, so it is given one that did not
            self.results = self.evaluate([self._best(), *self.failed])

    def _evaluate(self, asked: list[tuple[Optimizer, Trial]]) -> None:
        try:
            self.results = self.evaluate([trial.params for _, trial in asked])
            scores = self.results[self.owner._metric(self.results)][-len(asked) :]
        except ValueError as error:
            if not str(error).startswith("\nAll the"):
                raise
            self.error, scores = error, np.full(len(asked), np.nan)
            self.failed += [trial.params for _, trial in asked]
        for (optimizer, trial), score in zip(asked, scores, strict=True):
            optimizer.tell(trial, score)

    def _best(self) -> dict[str, Any]:
        assert self.results is not None
        scores = np.asarray(self.results[self.owner._metric(self.results)], dtype=float)
        at = int(np.nanargmax(scores)) if not np.isnan(scores).all() else 0
        return dict(self.results["params"][at])

    def _wants_to_stop(self) -> bool:
        if self.owner.callback is None or self.results is None:
            return False
        scores = self.results[self.owner._metric(self.results)]
        fun = math.nan if np.isnan(scores).all() else float(np.nanmax(scores))
        progress = OptimizeResult(x=self._best(), fun=fun, nfev=len(scores) + len(self.failed), cv_results=self.results)
        try:
            return self.owner.callback(progress) is True
        except StopIteration:
            return True

    def recommend(self) -> Recommendation:
        found = [o.recommend() for o in self.optimizers if not np.isnan(o.history.values).all()]
        if not found:  # every score is nan, although fits succeeded
            return Recommendation(self._best(), np.empty(0), math.nan, 0.0, [])
        return max(found, key=lambda recommendation: recommendation.value)


def _splits(cv: Any) -> int:
    """Number of folds, as far as it can be known before the data are: older scikit-learns tell it only afterwards."""
    if cv is None or isinstance(cv, Integral):
        return 5 if cv is None else int(cv)
    try:
        return int(cv.get_n_splits() if hasattr(cv, "get_n_splits") else len(cv))
    except (TypeError, ValueError):  # leave-one-out, groups, a generator: many, or who knows
        return 5


def _affordable(n_iter: int, spaces: list[Space]) -> int:
    """No more candidates than there are."""
    if not all(all(space.cells) for space in spaces):
        return n_iter
    total = sum(math.prod(space.cells) for space in spaces)
    if len(spaces) == 1 and total < n_iter:
        warnings.warn(
            f"The total space of parameters {total} is smaller than n_iter={n_iter}. Running {total} iterations. "
            "For exhaustive searches, use GridSearchCV.",
            stacklevel=2,
        )
        return total
    return n_iter
