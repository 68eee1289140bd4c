"""Write the pictures of the documentation: python examples/figures.py [folder]"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import boke
from boke import paper_figures, plotting
from boke.axes import new_axes

SPACE = {
    "temperature": boke.Float(20.0, 90.0),
    "catalyst": boke.Float(1e-4, 1e-1, log=True),
    "cycles": boke.Int(1, 64, log=True),
    "stages": boke.Int(1, 8),
    "solvent": boke.Categorical(["water", "ethanol", "toluene"]),
}


def reactor(params: dict[str, float | str]) -> float:
    """The yield of an invented reactor, in percent; toluene boils over when it is hot."""
    heat, load = float(params["temperature"]), float(params["catalyst"])
    cycles, stages = float(params["cycles"]), float(params["stages"])
    if params["solvent"] == "toluene" and heat > 80.0:
        raise RuntimeError("the reactor boiled over")
    loss = ((heat - 62.0) / 25.0) ** 2 + (np.log10(load) + 2.4) ** 2 + 0.4 * np.log2(cycles / 12.0) ** 2
    loss += 0.15 * (stages - 5.0) ** 2 / 4.0 + {"water": 0.8, "ethanol": 0.0, "toluene": 0.3}[str(params["solvent"])]
    return float(94.0 / (1.0 + 0.5 * loss))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str, ax: plotting.Axs) -> None:
        np.ravel(ax)[0].figure.savefig(folder / f"{name}.png", dpi=160)
        print(folder / f"{name}.png")

    save("kr", paper_figures.plot_kernel_regression())
    save("kde", paper_figures.plot_kernel_density())
    save("acquisition", paper_figures.plot_acquisition())
    save("iteration", paper_figures.plot_iterations())

    result = boke.maximize(reactor, SPACE, n_trials=80, rng=0)
    space, rng = result.optimizer.space, np.random.default_rng(0)
    random = boke.Optimizer(space, direction="maximize")
    for row in space.decode(rng.random((80, space.dim))):
        params = space.to_params(row)
        try:
            random.tell(params, reactor(params))
        except RuntimeError as error:
            random.tell(params, None, reason=str(error))
    save("convergence", plotting.plot_convergence({"boke": result, "random search": random}, value_label="yield / %"))
    axes = new_axes(1, 3, size=(12.0, 3.4))
    for ax, names in zip(axes, ("temperature", "solvent", ("catalyst", "cycles")), strict=True):
        plotting.plot_slice(result, names, value_label="yield / %", ax=ax)
    save("slice", axes)
    save("parallel", plotting.plot_parallel(result, value_label="yield / %"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
