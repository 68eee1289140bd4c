"""Tune on a local Ray cluster: python examples/ray_tune.py

On a real cluster nothing changes but ray.init(address="auto").
"""

import math
from pathlib import Path

import ray
from ray import tune

from boke.integrations.ray import BOKESearch


def train(config):
    """Pretend to train: the loss is best at lr = 0.01 and eight layers."""
    for step in range(1, 4):
        loss = abs(math.log10(config["lr"]) + 2) + abs(config["net"]["layers"] - 8) / 8 + 1 / step
        tune.report({"loss": loss})


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-5, 1.0), "net": {"layers": tune.randint(1, 17)}},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=16,
            max_concurrent_trials=2,
            reuse_actors=True,  # a process serves one trial after another
            search_alg=BOKESearch(seed=0),
        ),
        run_config=tune.RunConfig(storage_path=str(Path("ray_results").absolute()), verbose=0),
    )
    best = tuner.fit().get_best_result()
    print(f"best loss {best.metrics['loss']:.3f} with {best.config}")
