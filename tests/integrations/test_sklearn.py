"""BOKESearchCV and KernelRegressor: what scikit-learn's checks (tests/contract) do not ask."""

import math
import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, ShuffleSplit, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import boke
from boke import bandwidth
from boke.integrations._spaces import parameter_of
from boke.integrations.sklearn import BOKESearchCV, KernelRegressor
from boke.policies import BOKEPlus

X, Y = make_regression(60, 4, noise=20.0, random_state=0)
ALPHA = {"alpha": boke.Float(1e-3, 1e3, log=True)}
QUICK = {"cv": 3, "random_state": 0, "policy": BOKEPlus(n_acq=64)}


class Picky(ClassifierMixin, BaseEstimator):
    """Scores are a known function of the parameter, and it cannot be fitted with some of them."""

    def __init__(self, a=0.5, limit=2.0):
        self.a = a
        self.limit = limit

    def fit(self, X, y):
        if self.a > self.limit:
            raise RuntimeError("too large")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y):
        return -((self.a - 0.3) ** 2)


def picky(n_iter=20, limit=2.0, **kwargs):
    labels = np.arange(12) % 2
    search = BOKESearchCV(Picky(limit=limit), {"a": (0.0, 1.0)}, n_iter=n_iter, **(QUICK | {"cv": 2} | kwargs))
    return search.fit(np.zeros((12, 1)), labels)


def test_it_is_used_like_randomized_search():
    search = BOKESearchCV(Ridge(), ALPHA, n_iter=15, return_train_score=True, **QUICK).fit(X, Y)
    assert len(search.cv_results_["params"]) == 15
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    assert search.predict(X).shape == (60,) and search.best_estimator_.alpha == search.best_params_["alpha"]
    assert "mean_train_score" in search.cv_results_
    assert search.n_splits_ == 3


def test_it_finds_the_best_parameters_and_recommends_some():
    search = picky(30)
    assert abs(search.best_params_["a"] - 0.3) < 0.01
    assert abs(search.recommended_params_["a"] - 0.3) < 0.1
    assert search.recommended_score_ <= 0 and search.recommended_support_ > 0


def test_the_optimizer_behind_it_can_be_asked():
    search = picky(12)
    optimizer = search.optimizer_
    assert len(optimizer.history) == 12 and optimizer.best.params == search.best_params_
    assert 0 <= optimizer.ask().params["a"] <= 1


def test_the_same_random_state_gives_the_same_search():
    a, b, c = (picky(14, random_state=s).cv_results_["params"] for s in (1, 1, 2))
    assert a == b != c


def test_batches_follow_the_jobs():
    sizes = []
    picky(10, batch_size=4, callback=lambda r: sizes.append(r.nfev))
    assert sizes == [4, 8, 10]
    sizes.clear()
    picky(4, callback=lambda r: sizes.append(r.nfev))
    assert sizes == [1, 2, 3, 4]
    for cv, batch in ((ShuffleSplit(1), 2), (2, 1), (None, 1), (LeaveOneOut(), 1), ([([0], [1])], 2)):
        assert BOKESearchCV(Ridge(), ALPHA, n_jobs=2, cv=cv)._batch() == batch


def test_jobs_in_processes_give_the_same_candidates():
    searches = [
        BOKESearchCV(Ridge(), ALPHA, n_iter=6, n_jobs=n, batch_size=2, **QUICK).fit(X, Y).cv_results_["params"]
        for n in (1, 2)
    ]
    assert searches[0] == searches[1]


def test_a_callback_stops_the_search():
    assert len(picky(50, callback=lambda r: r.nfev >= 5).cv_results_["params"]) == 5

    def good_enough(result):
        assert result.fun == -((result.x["a"] - 0.3) ** 2)
        if result.fun > -0.01:
            raise StopIteration

    assert len(picky(50, callback=good_enough).cv_results_["params"]) < 50


def test_a_candidate_that_cannot_be_fitted_is_nan_and_the_others_go_on():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", "One or more of the test scores")
        search = picky(20, limit=0.6)
    scores = search.cv_results_["mean_test_score"]
    bad = np.array([p["a"] > 0.6 for p in search.cv_results_["params"]])
    assert bad.any() and np.isnan(scores[bad]).all() and np.isfinite(scores[~bad]).all()
    assert len({p["a"] for p in search.cv_results_["params"]}) == 20
    assert bad.sum() < 8  # failures are avoided


def test_when_nothing_can_be_fitted_it_says_so_once_at_the_end():
    with pytest.raises(ValueError, match="All the 2 fits failed"):
        picky(5, limit=-1.0)
    with pytest.raises(RuntimeError, match="too large"):
        picky(5, limit=-1.0, error_score="raise")


def test_pipelines_steps_and_nested_names():
    pipe = Pipeline([("scale", StandardScaler()), ("model", Ridge())])
    search = BOKESearchCV(
        pipe,
        {"scale": [StandardScaler(), MinMaxScaler(), "passthrough"], "model__alpha": (1e-3, 10.0, "log-uniform")},
        n_iter=8,
        **QUICK,
    ).fit(X, Y)
    assert set(search.best_params_) == {"scale", "model__alpha"}
    assert set(search.recommended_params_) == {"scale", "model__alpha"}


def test_a_list_of_dicts_is_searched_in_turn():
    spaces = [{"alpha": (1e-3, 1.0)}, {"alpha": (0.1, 10.0), "solver": ["svd", "cholesky"]}]
    search = BOKESearchCV(Ridge(), spaces, n_iter=8, **QUICK).fit(X, Y)
    assert [("solver" in p) for p in search.cv_results_["params"]] == [False, True] * 4
    assert len(search.optimizer_.history) == 4


def test_several_metrics_follow_the_one_of_refit():
    a, b = make_classification(80, random_state=0)
    search = BOKESearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": boke.Int(1, 8)},
        n_iter=6,
        scoring=["accuracy", "roc_auc"],
        refit="roc_auc",
        **QUICK,
    ).fit(a, b)
    assert search.best_score_ == search.cv_results_["mean_test_roc_auc"].max()
    search = clone(search).set_params(refit=False).fit(a, b)
    assert not hasattr(search, "best_estimator_") and search.recommended_params_
    search = search.set_params(refit=lambda results: 0).fit(a, b)
    assert search.best_index_ == 0


def test_pickling_and_cloning():
    search = BOKESearchCV(Ridge(), ALPHA, n_iter=4, **QUICK)
    copy = clone(search)
    assert copy.get_params()["n_iter"] == 4 and not hasattr(copy, "cv_results_")
    search.fit(X, Y)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert again.optimizer_.best.params == search.best_params_


def test_more_candidates_than_there_are():
    with pytest.warns(UserWarning, match="total space of parameters 3 is smaller than n_iter=10"):
        search = BOKESearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, n_iter=10, **QUICK).fit(X, Y)
    assert sorted(p["alpha"] for p in search.cv_results_["params"]) == [0.1, 1.0, 10.0]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (boke.Int(1, 5), boke.Int(1, 5)),
        ((1, 5), boke.Int(1, 5)),
        ((1.0, 5), boke.Float(1, 5)),
        ((1e-3, 1.0, "log-uniform"), boke.Float(1e-3, 1, log=True)),
        ((1, 100, "log-uniform"), boke.Int(1, 100, log=True)),
        (["a", "b"], boke.Categorical(["a", "b"])),
        (("a", "b", "c"), boke.Categorical(["a", "b", "c"])),
        ((True, False), boke.Categorical([True, False])),
        (np.array([1, 2, 4]), boke.Categorical([1, 2, 4])),
        (stats.uniform(1, 2), boke.Float(1, 3)),
        (stats.loguniform(1e-3, 1), boke.Float(1e-3, 1, log=True)),
        (stats.randint(1, 5), boke.Int(1, 4)),
    ],
)
def test_spaces_as_users_write_them(given, meant):
    assert parameter_of(given, "p", "search") == meant


@pytest.mark.parametrize(
    "wrong", [stats.norm(), 3, (5, 1), (0.0, 1.0, "log-uniform"), (1, 2, "cubic"), [], "abc", None]
)
def test_wrong_spaces_name_the_parameter(wrong):
    with pytest.raises((TypeError, ValueError), match="'p' of search"):
        parameter_of(wrong, "p", "search")


def test_wrong_arguments_are_found_at_fit():
    for wrong in ({"n_iter": 0}, {"policy": 3}, {"callback": 3}, {"batch_size": 0}, {"param_distributions": []}):
        search = BOKESearchCV(Ridge(), ALPHA).set_params(**wrong)
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            search.fit(X, Y)


# KernelRegressor


def by_hand(X, y, x, ell, degree, value):
    """One query, by a loop over the data and a least-squares fit of its own."""
    k = np.array([value(sum(((a - b) / ell) ** 2 for a, b in zip(p, x, strict=True))) for p in X])
    if degree == 0:
        return sum(k * y) / sum(k)
    D = np.column_stack([np.ones(len(X)), X - x]) * np.sqrt(k)[:, None]
    return np.linalg.lstsq(D, y * np.sqrt(k), rcond=None)[0][0]


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "value"),
    [("gaussian", lambda s: math.exp(-s / 2)), ("epanechnikov", lambda s: max(1 - s, 0.0))],
)
def test_predictions_are_those_of_the_formula(degree, kernel, value):
    rng = np.random.default_rng(0)
    P, q = rng.random((40, 2)), rng.random((7, 2))
    P[0], P[1] = 0.0, 1.0  # the data fill [0, 1], so bandwidths are not rescaled
    y = np.sin(5 * P[:, 0]) + P[:, 1]
    model = KernelRegressor(degree=degree, kernel=kernel, bandwidth=0.6).fit(P, y)
    expected = [by_hand(P, y, x, 0.6, degree, value) for x in q]
    np.testing.assert_allclose(model.predict(q), expected, rtol=1e-4)


def test_local_lines_are_exact_for_a_plane():
    rng = np.random.default_rng(1)
    P = rng.random((50, 3)) * [1, 100, 1e-3] + [5, -7, 0]
    plane = 3 + P @ np.array([1.0, -0.2, 1e3])
    q = rng.random((10, 3)) * [1, 100, 1e-3] + [5, -7, 0]
    np.testing.assert_allclose(
        KernelRegressor(degree=1, bandwidth=0.3).fit(P, plane).predict(q), 3 + q @ [1, -0.2, 1e3], rtol=1e-4
    )


def test_far_from_all_data_predictions_stay_finite():
    P, y = np.arange(10.0)[:, None], np.arange(10.0)
    far = np.array([[-1e6], [1e6]])
    for degree in (0, 1):
        for kernel in ("gaussian", "quartic"):
            model = KernelRegressor(degree=degree, kernel=kernel, bandwidth=0.05).fit(P, y)
            assert np.isfinite(model.predict(far)).all()
    np.testing.assert_allclose(KernelRegressor(kernel="quartic", bandwidth=0.05).fit(P, y).predict(far), 4.5)
    np.testing.assert_allclose(KernelRegressor(bandwidth=0.05).fit(P, y).predict(far), [0, 9], atol=1e-12)


@pytest.mark.parametrize(
    "rule",
    ["cv", "silverman", "scott", 0.2, [0.2, 0.3, 0.2, 0.2], bandwidth.Scott(0.5), bandwidth.LeastSquaresCV(True)],
)
def test_any_bandwidth_rule(rule):
    model = KernelRegressor(bandwidth=rule).fit(X, Y)
    assert model.bandwidth_.shape == (4,) and (model.bandwidth_ > 0).all()
    assert model.score(X, Y) > 0


def test_cross_validation_of_lines_leaves_one_out():
    rng = np.random.default_rng(2)
    P = rng.random((25, 2))
    y = np.sin(4 * P[:, 0]) + rng.normal(scale=0.1, size=25)
    model = KernelRegressor(degree=1).fit(P, y)
    errors = []
    for i in range(25):
        rest = KernelRegressor(degree=1, bandwidth=0.4).fit(P, y)  # scaled by all 25
        rest.X_fit_, rest.y_fit_ = np.delete(rest.X_fit_, i, axis=0), np.delete(rest.y_fit_, i)
        errors.append(y[i] - rest.predict(P[i : i + 1])[0])
    assert model._loo_error(0.4) == pytest.approx(np.mean(np.square(errors)), rel=1e-3)


def test_lines_are_better_than_means_on_a_slope():
    scores = [cross_val_score(KernelRegressor(degree=d), X, Y, cv=3).mean() for d in (0, 1)]
    assert scores[1] > scores[0]


def test_a_regressor_in_a_pipeline_in_a_search():
    pipe = make_pipeline(StandardScaler(), KernelRegressor(degree=1))
    space = {"kernelregressor__bandwidth": (0.1, 2.0), "kernelregressor__kernel": ["gaussian", "quartic"]}
    assert BOKESearchCV(pipe, space, n_iter=10, **QUICK).fit(X, Y).best_score_ > 0.5


def test_wrong_parameters_of_the_regressor():
    for wrong in ({"degree": 2}, {"kernel": "cosine"}, {"bandwidth": -1.0}, {"bandwidth": "auto"}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            KernelRegressor(**wrong).fit(X, Y)
