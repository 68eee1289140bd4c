"""Tuning of a random forest (5-D) and of XGBoost (7-D): the 5-fold R² on California Housing or Wine Quality.

The paper names the parameters, not their ranges; ours are below. Integers are rounded from the real line, as in the
paper. Folds are shuffled once with a fixed seed (the tables are ordered, plain folds would measure extrapolation) and
the models have a fixed seed, too: the value is a function of the point.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from boke_bench.problems.data import load
from boke_bench.protocol import Array

FOLDS = 5


@dataclass(frozen=True)
class Range:
    """A parameter's interval, linear or logarithmic, rounded to integers or not."""

    low: float
    high: float
    integer: bool = False
    log: bool = False

    def at(self, u: float) -> float | int:
        """The value at u of [0, 1]."""
        value = self.low * (self.high / self.low) ** u if self.log else self.low + u * (self.high - self.low)
        value = min(max(value, self.low), self.high)
        return round(value) if self.integer else float(value)


RANGES: dict[str, dict[str, Range]] = {
    "rf": {
        "n_estimators": Range(10, 100, integer=True),
        "max_depth": Range(2, 30, integer=True),
        "min_samples_split": Range(2, 30, integer=True),
        "max_features": Range(0.1, 1.0),
        "min_impurity_decrease": Range(0.0, 0.02),
    },
    "xgb": {
        "n_estimators": Range(10, 200, integer=True),
        "max_depth": Range(2, 10, integer=True),
        "learning_rate": Range(0.01, 0.5, log=True),
        "subsample": Range(0.3, 1.0),
        "colsample_bytree": Range(0.3, 1.0),
        "gamma": Range(0.0, 2.0),
        "min_child_weight": Range(1.0, 20.0),
    },
}
MODELS = {"rf": "Random forest", "xgb": "XGBoost"}
DATA = {"california": "California Housing", "wine": "Wine Quality"}


class Tuning:
    """The mean R² over five folds.

    Args:
        model: "rf" or "xgb".
        data: "california" or "wine".
        folder: Folder of the data files; see ``data.load``.
        rows: Size of a fixed subsample of the rows; None takes all.
    """

    optimum: float | None = None

    def __init__(
        self, model: str, data: str, *, folder: str | os.PathLike[str] | None = None, rows: int | None = None
    ) -> None:
        if model not in RANGES:
            raise ValueError(f"The 'model' parameter of Tuning must be one of {list(RANGES)}. Got {model!r}.")
        self.model, self.ranges, self.dim = model, RANGES[model], len(RANGES[model])
        self.X, self.y = load(data, folder, rows)
        self.name = f"{MODELS[model]} on {DATA[data]}" + (f" ({rows} rows)" if rows else "")

    def parameters(self, x: Array) -> dict[str, Any]:
        """The model's arguments at a point (d,) of the cube."""
        return {name: span.at(float(u)) for (name, span), u in zip(self.ranges.items(), x, strict=True)}

    def __call__(self, x: Array) -> float:
        return self.true(x)

    def true(self, x: Array) -> float:
        from sklearn.model_selection import KFold, cross_val_score

        folds = KFold(FOLDS, shuffle=True, random_state=0)
        return float(np.mean(cross_val_score(self._regressor(x), self.X, self.y, cv=folds, scoring="r2")))

    def _regressor(self, x: Array) -> Any:
        if self.model == "rf":
            from sklearn.ensemble import RandomForestRegressor

            return RandomForestRegressor(**self.parameters(x), random_state=0, n_jobs=1)
        from xgboost import XGBRegressor

        return XGBRegressor(**self.parameters(x), random_state=0, n_jobs=1)
