"""What random search reaches on the demo's study: python random_search.py [trials]."""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import optuna
from model import rmse

from boke.cli.config import read


def main(trials: int) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = read(Path(__file__).with_name("study.toml")).space
    points = [study.ask(space).params for _ in range(trials)]
    with ProcessPoolExecutor(2) as pool:
        best = min(pool.map(rmse, points))
    print(f"random search, {trials} trials: best {best:.5g}")


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
