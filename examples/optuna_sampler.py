"""Tune a model with Optuna and boke, in a SQLite file: python examples/optuna_sampler.py [file.db]

Run it again to go on; open the file with `optuna-dashboard sqlite:///optuna.db`.
"""

import sys

import optuna
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score

from boke.integrations.optuna import BOKESampler

X, y = load_diabetes(return_X_y=True)


def objective(trial):
    """Mean R² of one of two kinds of model, each with parameters of its own."""
    if trial.suggest_categorical("model", ["ridge", "boosting"]) == "ridge":
        model = Ridge(alpha=trial.suggest_float("alpha", 1e-4, 10, log=True))
    else:
        model = GradientBoostingRegressor(
            learning_rate=trial.suggest_float("learning_rate", 0.01, 0.5, log=True),
            max_depth=trial.suggest_int("max_depth", 1, 4),
            n_estimators=50,
            random_state=0,
        )
    return cross_val_score(model, X, y, cv=3).mean()


if __name__ == "__main__":
    file = sys.argv[1] if len(sys.argv) > 1 else "optuna.db"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name="diabetes",
        storage=f"sqlite:///{file}",
        direction="maximize",
        sampler=BOKESampler(seed=0),
        load_if_exists=True,
    )
    study.optimize(objective, n_trials=30)
    print(f"best of {len(study.trials)} trials: R² {study.best_value:.3f} with {study.best_params}")
