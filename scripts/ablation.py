"""What each part of the default policy is worth: the same runs without it, or with something simpler in its place.

    OMP_NUM_THREADS=1 python scripts/ablation.py run [NAME ...]    # adds to results/ablation.jsonl what is missing
    python scripts/ablation.py table                               # writes docs/results/ablation.md from what is there

A run is 200 evaluations of one of the 24 BBOB functions, of which 20 are the initial design, without noise, with noise
of 5 % of the signal's variance, or with columns beside those of the function that have no effect. Regret is the
smallest true one of the points that were evaluated. All variants see the same problems, designs and noise, on an
instance that no constant was chosen on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ioh
import numpy as np
from rows import Row, fill, stored

from boke import Optimizer, gp, local, probe, quasirandom, shape, warp
from boke.design import sobol
from boke.policies import BOKELocal
from boke.region import TrustRegion
from boke.space import Array

STORE, TABLE = Path("results/ablation.jsonl"), Path("docs/results/ablation.md")
INSTANCES, BUDGETS, N_INIT = (6,), (50, 100, 200), 20
SETTINGS = {  # title: columns, how many of them matter, share of noise
    "none": [(2, 2, 0.0), (5, 5, 0.0), (10, 10, 0.0)],
    "5%": [(2, 2, 0.05), (5, 5, 0.05), (10, 10, 0.05)],
    "none, 2 of 8 columns": [(8, 2, 0.0)],
}
FLOOR = 1e-8  # of regrets: below it they are equal


MODULES = {"gp": gp, "local": local, "probe": probe, "shape": shape, "warp": warp}


class Patched:
    """A policy whose parts are changed while it suggests; its answers are those of a policy without that part.

    Where a part is compiled into a larger one, that is replaced by its definition, which calls the part.
    """

    def __init__(self, policy: BOKELocal, **changes: object) -> None:
        self.policy, self.changes = policy, {"local__usual": lambda *_: None, **changes}

    @contextmanager
    def active(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name, value in self.changes.items():
                module, _, attribute = name.partition("__")
                stack.enter_context(patch.object(MODULES[module], attribute, value))
            yield


def _unwarped(y: Array) -> tuple[Array, Array]:
    """The values as they are, standardized: one version."""
    sd = float(np.std(y)) or 1.0
    return np.ascontiguousarray(((y - y.mean()) / sd)[None]), np.zeros(1)


def _fitted_with(**grid: tuple[float, ...]) -> Callable[..., Any]:
    """``gp.fit`` over a smaller grid, from its middle."""
    fit = gp.fit

    def narrow(Z: Array, Y: Array, jacobian: Array, **options: Any) -> Any:
        options |= grid
        sizes = [
            len(options.get(name, full))
            for name, full in (("lengths", gp.LENGTHS), ("trends", gp.TRENDS), ("noises", gp.NOISES))
        ]
        start = tuple(min(s, n - 1) for s, n in zip(options.pop("start", gp.START), sizes, strict=True))
        return fit(Z, Y, jacobian, **options, start=start)

    return narrow


def _box_only(center: Array, low: Array, high: Array, space: Any, rng: np.random.Generator) -> Array:
    n = local.screened(space.dim, space.smooth)
    return np.asarray(space.snap(low + (high - low) * quasirandom.sobol(n, space.dim, rng)))


def _posterior_mean(fitted: Any, low: Array, high: Array, space: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """The best posterior mean instead of the expected improvement."""
    X = local.candidates(fitted.center, low, high, space, rng)
    return X, fitted.model.predict(np.ascontiguousarray(fitted.z(X)))[0]


def _times(factor: float) -> Callable[..., int]:
    """Another number of observations of a local model."""
    usual = local.nearest
    return lambda *of: round(factor * usual(*of))


def _always(count: int) -> Callable[..., int]:
    return lambda *_: count


PLAIN: dict[str, object] = {"local__shaped": shape.plain_shaped}
QUIET = local.Noise(math.inf, 0, 0.0)
WHOLE = TrustRegion(start=0.8, grow=1.0, shrink=1.0)
VARIANTS: dict[str, tuple[str, Patched]] = {
    "default": ("the default policy", Patched(BOKELocal(n_init=0))),
    "q0": ("hardly ever explores, q = 1e-9", Patched(BOKELocal(n_init=0, q=1e-9))),
    "q20": ("explores more, q = 0.2", Patched(BOKELocal(n_init=0, q=0.2))),
    "region": ("no trust region: a box of side 0.8", Patched(BOKELocal(n_init=0, region=WHOLE))),
    "second": ("no second search", Patched(BOKELocal(n_init=0, region=TrustRegion(settled=0.0)))),
    "stretch": (
        "all columns matter alike",
        Patched(BOKELocal(n_init=0), gp__stretch=lambda *_: None, gp__turn=lambda *_: None, **PLAIN),
    ),
    "turn": ("axes do not turn", Patched(BOKELocal(n_init=0), gp__turn=lambda *_: None, local__TURNS=1, **PLAIN)),
    "probe": ("noise is believed without a probe", Patched(BOKELocal(n_init=0), probe__repeats=lambda *_: False)),
    "rugged": ("rugged functions are never averaged", Patched(BOKELocal(n_init=0), local__RUGGED=0.0)),
    "trend": ("no quadratic trend", Patched(BOKELocal(n_init=0), gp__fit=_fitted_with(trends=(0.0,)), **PLAIN)),
    "warp": ("values as they are, no warp", Patched(BOKELocal(n_init=0), shape__warped=_unwarped, **PLAIN)),
    "earned": ("warps need no better likelihood", Patched(BOKELocal(n_init=0), warp__EARNED=[0.0] * 4)),
    "length": ("one length scale", Patched(BOKELocal(n_init=0), gp__fit=_fitted_with(lengths=(1.2,)), **PLAIN)),
    "nearest": ("half of the nearest observations", Patched(BOKELocal(n_init=0), local__nearest=_times(0.5))),
    "more": ("twice as many nearest observations", Patched(BOKELocal(n_init=0), local__nearest=_times(2.0))),
    "as_many": ("48 nearest observations in all dimensions", Patched(BOKELocal(n_init=0), local__nearest=_always(48))),
    "columns": ("all candidates differ in all columns", Patched(BOKELocal(n_init=0), local__candidates=_box_only)),
    "climb": ("candidates only, no climb", Patched(BOKELocal(n_init=0), local__EVALUATIONS=1)),
    "drawn": ("no drawn functions under noise", Patched(BOKELocal(n_init=0), local__DRAWN=0.0)),
    "mean": ("posterior mean instead of EI", Patched(BOKELocal(n_init=0), local___improvements=_posterior_mean)),
    "noise": (
        "noise is fitted, but met like none",
        Patched(BOKELocal(n_init=0), local__FAINT=QUIET, local__LOUD=QUIET),
    ),
    "loud": ("loud noise is met like faint noise", Patched(BOKELocal(n_init=0), local__LOUD=QUIET)),
}


def run(name: str, function: int, d: int, matter: int, share: float, instance: int) -> Row:
    problem = ioh.get_problem(function, instance=instance, dimension=matter, problem_class=ioh.ProblemClass.BBOB)
    lowest = float(problem.optimum.y)

    def regret(x: Array) -> float:
        return float(problem((10.0 * x[:matter] - 5.0).tolist())) - lowest

    sigma = float(np.sqrt(share * np.var([regret(x) for x in sobol(1024, d, rng=0)])))
    noise = np.random.default_rng((instance, function, d)).standard_normal(max(BUDGETS))
    variant = VARIANTS[name][1]
    optimizer = Optimizer([(0.0, 1.0)] * d, policy=variant.policy, rng=1000 * instance + function)
    first = sobol(N_INIT, d, rng=instance)
    regrets = []
    with variant.active():
        for t in range(max(BUDGETS)):
            trial = first[t] if t < N_INIT else optimizer.ask()  # points told unasked are data only
            regrets.append(regret(trial if t < N_INIT else trial.x))
            optimizer.tell(trial, regrets[-1] + sigma * float(noise[t]))
    reached = {str(t): max(min(regrets[:t]), FLOOR) for t in BUDGETS}
    return {
        "variant": name, "function": function, "d": d, "matter": matter, "noise": share, "instance": instance,
        "regret": reached,
    }  # fmt: skip


def study(names: list[str]) -> None:
    jobs = [
        (name, f, *setting, i)
        for name in names or VARIANTS
        for i in INSTANCES
        for settings in SETTINGS.values()
        for setting in settings
        for f in range(1, 25)
    ]
    done = {(r["variant"], r["function"], r["d"], r["matter"], r["noise"], r["instance"]) for r in stored(STORE)}
    fill(STORE, run, [job for job in jobs if job not in done])


def table() -> None:
    rows = stored(STORE)
    regrets: dict[str, dict[tuple[Any, ...], dict[str, float]]] = {}
    for r in rows:
        key = (r["d"], r["matter"], r["noise"]), r["function"], r["instance"]
        regrets.setdefault(r["variant"], {})[key] = r["regret"]
    full = regrets["default"]
    text = [
        "# What the parts of the default policy are worth",
        "",
        "Written by `python scripts/ablation.py table` from `results/ablation.jsonl`. The default policy against",
        "itself without one of its parts: the 24 BBOB functions, d = 2, 5 and 10, an instance on which nothing was",
        "tuned, 72 runs of each variant without noise, 72 with noise of 5 % of the signal's variance and 24 of the",
        "functions of two variables with six columns that have no effect. The share of runs that the default wins,",
        "with 95 % intervals, and by how much the variant's log10 regret is larger after 200 evaluations (mean). Above",
        "50 % and above 0 the part is worth having.",
        "",
        "| variant | noise | " + " | ".join(f"after {t}" for t in BUDGETS) + " | log10 regret |",
        "|---|---|" + "---|" * (len(BUDGETS) + 1),
    ]
    for name, (title, _) in VARIANTS.items():
        if name == "default" or name not in regrets:
            continue
        for noise, settings in SETTINGS.items():
            keys = sorted(k for k in regrets[name].keys() & full.keys() if k[0] in settings)
            cells = []
            for t in BUDGETS:
                ours, theirs = (np.array([side[k][str(t)] for k in keys]) for side in (full, regrets[name]))
                won = np.where(ours == theirs, 0.5, ours < theirs)
                cells.append(f"{won.mean():.0%} ± {1.96 * won.std() / math.sqrt(len(won)):.0%}")
            last = str(max(BUDGETS))
            lost = np.mean([math.log10(regrets[name][k][last] / full[k][last]) for k in keys])
            text.append(f"| {title} | {noise} | {' | '.join(cells)} | {lost:+.2f} |")
    TABLE.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("names", nargs="*", choices=[*VARIANTS, []], help="variants to run; all of them by default")
    given = parser.parse_args()
    study(given.names) if given.what == "run" else table()
