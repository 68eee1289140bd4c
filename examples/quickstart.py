"""Minimize a function of two variables: python examples/quickstart.py"""

from math import cos, exp, pi, sqrt

import boke


def ackley(x):
    """A bowl full of holes; the deepest one is at (0, 0)."""
    radius, ripple = sqrt((x[0] ** 2 + x[1] ** 2) / 2), (cos(2 * pi * x[0]) + cos(2 * pi * x[1])) / 2
    return 20 + exp(1) - 20 * exp(-0.2 * radius) - exp(ripple)


result = boke.minimize(ackley, bounds=[(-5, 10), (-5, 10)], n_trials=100, rng=0)
print(f"best of {result.nfev} evaluations: {result.fun:.4f} at {result.x.round(3)}")
print("the last suggestion, explained:", result.optimizer.explain(result.nfev - 1), sep="\n")

try:
    from boke import plotting

    plotting.plot_convergence(result).figure.savefig("quickstart.png")
    print("wrote quickstart.png")
except ImportError as missing:
    print(missing)
