"""The objective of the demo: gradient boosting on the diabetes data."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # 442 rows: more threads only wait for each other

from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_score

X, y = load_diabetes(return_X_y=True)
FOLDS = KFold(5, shuffle=True, random_state=0)


def rmse(params):
    """Root mean squared error in 5-fold cross-validation."""
    model = HistGradientBoostingRegressor(**params, early_stopping=False, random_state=0)
    return -cross_val_score(model, X, y, cv=FOLDS, scoring="neg_root_mean_squared_error").mean()
