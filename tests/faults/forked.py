"""What children of a process do, whether forked or spawned: a module that both can import."""

from boke import Optimizer
from boke.policies import BOKEPlus

SQUARE = [(0.0, 1.0)] * 2
QUICK = BOKEPlus(n_acq=64)

FORK = Optimizer(SQUARE, policy=QUICK, rng=7)


def in_a_child(seed):
    optimizer = FORK if seed is None else Optimizer(SQUARE, policy=QUICK, rng=seed)
    trial = optimizer.ask()
    optimizer.tell(trial, 1.0)
    return trial.x.tolist()
