"""Bayesian optimization by kernel regression and density-based exploration."""

from boke import bandwidth, design, model, policies
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
]
