"""Tune gradient boosting on the diabetes data, compare with random search, draw a summary: python examples/demo.py

Writes demo.jsonl (the state, after every trial), demo-random.jsonl (the comparison) and demo.png. Run it again and it
continues where it stopped. Without state or pictures the whole demo is one line:

    boke.minimize(rmse, SPACE, n_trials=50, rng=0, progress=True)
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # 442 rows: more threads only wait for each other

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_score

import boke
from boke.plotting import plot_convergence, plot_parallel, plot_slice
from boke.progress import Progress

SPACE = {
    "learning_rate": boke.Float(1e-3, 1.0, log=True),
    "max_iter": boke.Int(10, 200, log=True),
    "max_leaf_nodes": boke.Int(2, 64, log=True),
    "min_samples_leaf": boke.Int(1, 100, log=True),
    "l2_regularization": boke.Float(1e-3, 1e3, log=True),
    "loss": boke.Categorical(["squared_error", "absolute_error", "gamma", "poisson"]),
}
RANDOM_RUNS = 3
X, y = load_diabetes(return_X_y=True)
FOLDS = KFold(5, shuffle=True, random_state=0)


def rmse(params: dict[str, Any]) -> float:
    """Root mean squared error in 5-fold cross-validation."""
    model = HistGradientBoostingRegressor(**params, early_stopping=False, random_state=0)
    return float(-cross_val_score(model, X, y, cv=FOLDS, scoring="neg_root_mean_squared_error").mean())


def load(path: Path, seed: int) -> boke.Optimizer:
    """The optimizer of an earlier run, or a new one."""
    if not path.exists():
        return boke.Optimizer(SPACE, rng=seed)
    optimizer = boke.Optimizer.load(path)
    if optimizer.space != boke.Space.of(SPACE):
        raise SystemExit(f"{path} belongs to another search space: move it away and run again.")
    return optimizer


def tune(optimizer: boke.Optimizer, path: Path, total: int) -> None:
    """Ask, evaluate, tell, save: a trial that was interrupted is simply asked for again."""
    with Progress(total - len(optimizer.history), show=True) as bar:
        while len(optimizer.history) < total:
            trial = optimizer.ask()
            optimizer.tell(trial, rmse(trial.params))
            optimizer.save(path)
            bar.update(optimizer.best.value)


def search_randomly(told: boke.Optimizer, path: Path, total: int, seed: int) -> None:
    """Random search with several seeds, in turn; the Optimizer only keeps the books."""
    with Progress(RANDOM_RUNS * total - len(told.history), show=True) as bar:
        while (number := len(told.history)) < RANDOM_RUNS * total:
            step, run = divmod(number, RANDOM_RUNS)
            unit = np.random.default_rng((seed + run, step)).random((1, told.space.dim))
            params = told.space.to_params(told.space.decode(unit)[0])
            told.tell(params, rmse(params))
            told.save(path)
            bar.update(told.best.value)


def report(optimizer: boke.Optimizer, random: np.ndarray, default: float) -> None:
    best, estimate = optimizer.best, optimizer.recommend()
    rows = {name: (_text(value), _text(estimate.params[name])) for name, value in best.params.items()}
    rows["RMSE"] = f"{best.value:.2f}", f"{estimate.value:.2f}"
    rows["evidence"] = f"trial {best.number}", f"{estimate.support:.1f} trials"
    print(f"\n{'':22}{'best observed':>18}{'best estimated':>18}")
    for name, cells in rows.items():
        print(f"  {name:20}{cells[0]:>18}{cells[1]:>18}")
    reached = ", ".join(f"{value:.2f}" for value in random.min(axis=1))
    print(f"\n  Random search, {random.shape[1]} trials each: {reached}. Default settings: {default:.2f}.")


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def draw(optimizer: boke.Optimizer, random: np.ndarray, path: Path) -> None:
    figure = Figure(figsize=(12.0, 7.6), layout="constrained")
    axes = figure.subplot_mosaic("AB;CC")
    runs = {"boke": optimizer, f"random search, {len(random)} runs": random}
    plot_convergence(runs, value_label="RMSE", ax=axes["A"]).set_ylim(top=65.0)  # the worst are off the picture
    plot_slice(optimizer, ("learning_rate", "max_iter"), value_label="RMSE", ax=axes["B"])
    plot_parallel(optimizer, value_label="RMSE", ax=axes["C"])
    titles = ("Best error so far", "The model around the best trial", "All trials, the best in red")
    for letter, title in zip("ABC", titles, strict=True):
        axes[letter].set_title(title, loc="left", fontsize="medium")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50, help="trials to add")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("."), help="where the files go")
    args = parser.parse_args()
    state, compared, picture = (args.folder / name for name in ("demo.jsonl", "demo-random.jsonl", "demo.png"))

    optimizer, random = load(state, args.seed), load(compared, args.seed)
    done, compared_to = len(optimizer.history), len(random.history) // RANDOM_RUNS
    # after an interruption: the rest of what was begun, otherwise as much again
    total = max(done, (min(done, compared_to) // args.trials + 1) * args.trials)
    print(f"Gradient boosting on the diabetes data: 5-fold RMSE over {len(SPACE)} parameters.")
    if done:
        print(
            f"Continuing {state}: {done} trials so far, best {optimizer.best.value:.2f}; {total - done} more to come."
        )
    try:
        if done < total:
            print("boke")
            tune(optimizer, state, total)
        print(f"random search, {RANDOM_RUNS} runs of the same length")
        search_randomly(random, compared, total, args.seed)
        values = random.history.values[: RANDOM_RUNS * total].reshape(total, RANDOM_RUNS).T
        report(optimizer, values, rmse({}))
        draw(optimizer, values, picture)
    except KeyboardInterrupt:
        print(f"\nStopped. Nothing is lost: {state} holds every finished trial, and the next run continues there.")
    else:
        print(f"  Summary in {picture}, state in {state}: run again to add {args.trials} trials.")


if __name__ == "__main__":
    main()
