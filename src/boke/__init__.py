"""Bayesian optimization by kernel regression and density-based exploration."""

from boke import bandwidth, design, model, policies
from boke.engine import config as _config
from boke.engine import set_threads
from boke.history import State, Trial
from boke.loop import maximize, minimize
from boke.optimizer import Explanation, Optimizer, Recommendation
from boke.space import Categorical, Float, Int, Space

__version__ = "0.1.0"

__all__ = [
    "Categorical",
    "Explanation",
    "Float",
    "Int",
    "Optimizer",
    "Recommendation",
    "Space",
    "State",
    "Trial",
    "bandwidth",
    "design",
    "maximize",
    "minimize",
    "model",
    "policies",
    "set_threads",
    "show_config",
]


def show_config() -> None:
    """Print the versions in use and which engine computes the kernel sums."""
    print("boke", __version__)
    for name, what in _config().items():
        print(f"  {name:8} {what}")
