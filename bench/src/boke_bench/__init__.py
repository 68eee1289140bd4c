"""Measures boke against other optimizers and reproduces the experiments of its paper."""

__version__ = "0.1.0"
