"""BOKESampler beside Optuna's own samplers where one objective in a box is not all: python scripts/beside_optuna.py

Constrained, multi-objective and conditional problems from the literature, 100 trials, medians over seeds. Writes
results/beside_optuna.json and the table of docs/beside-optuna.md. The rules of the sampler were chosen on these
problems, with other seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
import pages
from optuna._hypervolume import compute_hypervolume
from optuna.samplers import NSGAIISampler, TPESampler

from boke.integrations.optuna import BOKESampler

HERE = Path(__file__).parents[1]
SAMPLERS: dict[str, Callable[..., optuna.samplers.BaseSampler]] = {
    "BOKESampler": BOKESampler,
    "TPE": TPESampler,
    "TPE, multivariate": lambda **k: TPESampler(multivariate=True, group=True, **k),
    "NSGA-II": lambda **k: NSGAIISampler(population_size=20, **k),
}


def floats(trial, n, low, high):
    return np.array([trial.suggest_float(f"x{i}", low, high) for i in range(n)])


def bounded(trial, value, *constraints):
    trial.set_user_attr("constraints", [float(c) for c in constraints])
    return float(value)


# constrained: value, constraints at most 0


def disc(t):
    x = floats(t, 2, -2, 2)
    return bounded(t, x.sum(), x @ x - 1)


def gramacy(t):
    x = floats(t, 2, 0, 1)
    wave = 1.5 - x[0] - 2 * x[1] - 0.5 * np.sin(2 * np.pi * (x[0] ** 2 - 2 * x[1]))
    return bounded(t, x.sum(), wave, x @ x - 1.5)


def rosenbrock_disc(t):
    x = floats(t, 2, -1.5, 1.5)
    return bounded(t, 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, x @ x - 2)


def spring(t):
    d, D, n = t.suggest_float("d", 0.05, 2), t.suggest_float("D", 0.25, 1.3), t.suggest_float("N", 2, 15)
    shear = (4 * D * D - d * D) / (12566 * (D * d**3 - d**4) + 1e-12) + 1 / (5108 * d * d) - 1
    limits = (1 - D**3 * n / (71785 * d**4), shear, 1 - 140.45 * d / (D * D * n), (d + D) / 1.5 - 1)
    return bounded(t, (n + 2) * D * d * d, *limits)


def welded_beam(trial):
    h, length = trial.suggest_float("h", 0.125, 10), trial.suggest_float("l", 0.1, 10)
    t, b = trial.suggest_float("t", 0.1, 10), trial.suggest_float("b", 0.1, 10)
    P, L, E, G = 6000, 14, 30e6, 12e6
    arm = np.sqrt(length**2 / 4 + ((h + t) / 2) ** 2)
    inertia = 2 * np.sqrt(2) * h * length * (length**2 / 12 + ((h + t) / 2) ** 2)
    direct, bending = P / (np.sqrt(2) * h * length), P * (L + length / 2) * arm / inertia
    shear = np.sqrt(direct**2 + direct * bending * length / arm + bending**2)
    stress, deflection = 6 * P * L / (b * t * t), 4 * P * L**3 / (E * t**3 * b)
    load = 4.013 * E * np.sqrt(t * t * b**6 / 36) / L**2 * (1 - t / (2 * L) * np.sqrt(E / (4 * G)))
    limits = (shear / 13600 - 1, stress / 30000 - 1, h - b, deflection / 0.25 - 1, 1 - load / 6000)
    return bounded(trial, 1.10471 * h * h * length + 0.04811 * t * b * (14 + length), *limits)


def ackley_5(t):
    x = floats(t, 5, -5, 10)
    value = -20 * np.exp(-0.2 * np.sqrt((x @ x) / 5)) - np.exp(np.cos(2 * np.pi * x).mean()) + 20 + np.e
    return bounded(t, value, x.sum(), np.sqrt(x @ x) - 5)


def g4(t):
    low, high = (78, 33, 27, 27, 27), (102, 45, 45, 45, 45)
    a, b, c, d, e = (t.suggest_float(f"x{i}", low[i], high[i]) for i in range(5))
    u = 85.334407 + 0.0056858 * b * e + 0.0006262 * a * d - 0.0022053 * c * e
    v = 80.51249 + 0.0071317 * b * e + 0.0029955 * a * b + 0.0021813 * c**2
    w = 9.300961 + 0.0047026 * c * e + 0.0012547 * a * c + 0.0019085 * c * d
    value = 5.3578547 * c**2 + 0.8356891 * a * e + 37.293239 * a - 40792.141
    return bounded(t, value, u - 92, -u, v - 110, 90 - v, w - 25, 20 - w)


# several objectives


def zdt(kind):
    def objectives(t):
        x = floats(t, 5, 0, 1)
        g = 1 + 9 * x[1:].mean()
        shape = {
            1: 1 - np.sqrt(x[0] / g),
            2: 1 - (x[0] / g) ** 2,
            3: 1 - np.sqrt(x[0] / g) - x[0] / g * np.sin(10 * np.pi * x[0]),
        }
        return float(x[0]), float(g * shape[kind])

    return objectives


def dtlz2(t):
    x = floats(t, 6, 0, 1)
    g, a = 1 + ((x[2:] - 0.5) ** 2).sum(), x[:2] * np.pi / 2
    return tuple(float(g * v) for v in (np.cos(a[0]) * np.cos(a[1]), np.cos(a[0]) * np.sin(a[1]), np.sin(a[0])))


def two_spheres(t):
    x = floats(t, 5, -2, 2)
    return float(((x - 1) ** 2).sum()), float(((x + 1) ** 2).sum())


def branin_currin(t):
    x = floats(t, 2, 0, 1)
    a, b = 15 * x[0] - 5, 15 * x[1]
    branin = (b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6) ** 2
    branin += 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10
    top = 2300 * x[0] ** 3 + 1900 * x[0] ** 2 + 2092 * x[0] + 60
    currin = (1 - np.exp(-1 / (2 * x[1] + 1e-9))) * top / (100 * x[0] ** 3 + 500 * x[0] ** 2 + 4 * x[0] + 20)
    return float(branin), float(currin)


# conditional


def three_models(t):
    """What is found first is the worst of them: two others are better once their parameters are right."""
    kind = t.suggest_categorical("kind", ["three", "four", "easy"])
    if kind == "three":
        return float(((np.array([t.suggest_float(f"a{i}", -5, 5) for i in range(3)]) - 1.3) ** 2).sum() + 0.5)
    if kind == "four":
        return float(((np.array([t.suggest_float(f"b{i}", -5, 5) for i in range(4)]) + 2) ** 2 * [1, 2, 3, 4]).sum())
    return 3 + abs(t.suggest_float("c", 1e-4, 1, log=True) - 0.01)


def layers(t):
    shift, n = t.suggest_float("shift", -2, 2), t.suggest_int("n", 1, 4)
    x = np.array([t.suggest_float(f"layer{i}", 0, 1) for i in range(n)])
    return float((shift - 0.5) ** 2 + ((x - 0.3) ** 2).sum() + 0.3 * abs(n - 3))


def training(t):
    kind, rate = t.suggest_categorical("optimizer", ["sgd", "adam"]), t.suggest_float("rate", 1e-5, 1, log=True)
    value = (np.log10(rate) + (1.5 if kind == "sgd" else 3)) ** 2
    if kind == "sgd":
        value += 4 * (t.suggest_float("momentum", 0, 1) - 0.9) ** 2 + 0.2
    else:
        value += 10 * (t.suggest_float("b1", 0.5, 1) - 0.9) ** 2 + 10 * (t.suggest_float("b2", 0.8, 1) - 0.99) ** 2
    return float(value + ((t.suggest_float("strength", 0, 1) - 0.4) ** 2 if t.suggest_int("augment", 0, 1) else 0.3))


def nested(t):
    model = t.suggest_categorical("model", ["linear", "tree", "net"])
    if model == "linear":
        return float(1 + (np.log10(t.suggest_float("penalty", 1e-6, 1e2, log=True)) + 1) ** 2 / 10)
    if model == "tree":
        depth, rate = t.suggest_int("depth", 1, 12), t.suggest_float("rate", 1e-3, 1, log=True)
        return float(0.4 + 0.05 * abs(depth - 6) + (np.log10(rate) + 1.3) ** 2 / 2)
    kind, rate = t.suggest_categorical("optimizer", ["sgd", "adam"]), t.suggest_float("lr", 1e-5, 1, log=True)
    width = t.suggest_int("width", 4, 256, log=True)
    value = (np.log10(rate) + (1.3 if kind == "sgd" else 3)) ** 2 / 2 + 0.1 * (np.log2(width) - 6) ** 2
    return float(value + (0.5 * (t.suggest_float("momentum", 0, 1) - 0.9) ** 2 + 0.1 if kind == "sgd" else 0.2))


# kind -> name -> (objective, best value or reference point of the hypervolume)
PROBLEMS = {
    "constrained": {
        "linear in a disc, 2-D": (disc, -(2**0.5)),
        "Gramacy's, 2-D": (gramacy, 0.5998),
        "Rosenbrock in a disc, 2-D": (rosenbrock_disc, 0.0),
        "spring, 3-D": (spring, 0.012665),
        "welded beam, 4-D": (welded_beam, 1.7248),
        "Ackley, 5-D": (ackley_5, 0.0),
        "G4, 5-D": (g4, -30665.539),
    },
    "objectives": {
        "ZDT1, 5-D": (zdt(1), (1.1, 1.1)),
        "ZDT2, 5-D": (zdt(2), (1.1, 1.1)),
        "ZDT3, 5-D": (zdt(3), (1.1, 1.1)),
        "DTLZ2, 6-D, 3 objectives": (dtlz2, (1.1, 1.1, 1.1)),
        "two spheres, 5-D": (two_spheres, (20.0, 20.0)),
        "Branin and Currin, 2-D": (branin_currin, (18.0, 6.0)),
    },
    "conditional": {
        "three models": (three_models, 0.0),
        "layers": (layers, 0.0),
        "training": (training, 0.0),
        "nested": (nested, 0.1),
    },
}


def constraints(trial):
    return trial.user_attrs["constraints"]


def score(job):
    """Regret of the best (feasible) trial, or the hypervolume that the trials dominate."""
    kind, name, sampler, seed, trials = job
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    objective, target = PROBLEMS[kind][name]
    options = {"constraints_func": constraints} if kind == "constrained" else {}
    directions = ["minimize"] * (len(target) if kind == "objectives" else 1)
    study = optuna.create_study(directions=directions, sampler=SAMPLERS[sampler](seed=seed, **options))
    study.optimize(objective, n_trials=trials)
    if kind == "objectives":
        values = np.array([trial.values for trial in study.trials])
        inside = values[(values < target).all(axis=1)]
        return float(compute_hypervolume(inside, np.array(target))) if len(inside) else 0.0
    good = [t.value for t in study.trials if kind != "constrained" or max(constraints(t)) <= 0]
    return min(good, default=float("inf")) - target


def table(result):
    lines = [f"| | {' | '.join(SAMPLERS)} |", "|---" * (1 + len(SAMPLERS)) + "|"]
    titles = {
        "constrained": "**constrained**: regret of the best feasible trial",
        "objectives": "**several objectives**: hypervolume, larger is better",
        "conditional": "**conditional**: regret",
    }
    for kind, problems in PROBLEMS.items():
        lines.append(f"| {titles[kind]} |{' |' * len(SAMPLERS)}")
        for name in problems:
            medians = [float(np.median(result["scores"][kind][name][sampler])) for sampler in SAMPLERS]
            best = max(medians) if kind == "objectives" else min(medians)
            cells = ["none feasible" if v == float("inf") else f"{max(v, 0.0):.2g}" for v in medians]
            if kind == "objectives":
                cells = [f"{v:.3g}" for v in medians]
            cells = [f"**{cell}**" if v == best else cell for v, cell in zip(medians, cells, strict=True)]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=100)
    given = parser.parse_args()
    jobs = [
        (kind, name, sampler, seed, given.trials)
        for kind, problems in PROBLEMS.items()
        for name in problems
        for sampler in SAMPLERS
        for seed in range(100, 100 + given.seeds)  # the rules were chosen with seeds from 0 on
    ]
    scores: dict = {kind: {name: {s: [] for s in SAMPLERS} for name in problems} for kind, problems in PROBLEMS.items()}
    with ProcessPoolExecutor(2) as pool:
        for (kind, name, sampler, *_), found in zip(jobs, pool.map(score, jobs), strict=True):
            scores[kind][name][sampler].append(float(f"{found:.6g}"))
    result = {
        "command": "python scripts/beside_optuna.py",
        "trials": given.trials,
        "seeds": given.seeds,
        "versions": {"optuna": optuna.__version__},
        "scores": scores,
    }
    (HERE / "results" / "beside_optuna.json").write_text(json.dumps(result, indent=1) + "\n")
    pages.put(table(result), "beside-optuna.md")


if __name__ == "__main__":
    main()
