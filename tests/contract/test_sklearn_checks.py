"""scikit-learn's own checks of estimators."""

import pytest

pytest.importorskip("sklearn")

from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import boke
from boke.integrations.sklearn import BOKESearchCV, KernelRegressor
from boke.policies import BOKEPlus

# what scikit-learn warns about in its own checks
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore:Scoring failed:UserWarning"),
    pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite:UserWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:The least populated class:UserWarning"),
]

QUICK = {"n_iter": 3, "cv": 2, "random_state": 0, "policy": BOKEPlus(n_acq=32), "error_score": "raise"}


@parametrize_with_checks(
    [
        KernelRegressor(),
        KernelRegressor(degree=1, kernel="epanechnikov", bandwidth=0.5),
        KernelRegressor(degree=1, bandwidth="silverman"),
        BOKESearchCV(Ridge(), {"alpha": boke.Float(0.1, 10.0, log=True)}, **QUICK),
        BOKESearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": boke.Int(1, 12)}, **QUICK),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
