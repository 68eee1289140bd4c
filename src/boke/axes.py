"""How the pictures look: colours, fresh axes, and the axis of a parameter in its own values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boke.space import Array, Categorical, Float, Int, Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

BLUE, LIGHT_BLUE, RED, INK, GRAY, SAND = "#2b6ca3", "#cfe1f2", "#c8402f", "#2a2e35", "#8a8f98", "#d9a441"
CYCLE = (BLUE, GRAY, SAND, "#4f8f6f", "#7d5ba6", RED)
SHADES = ("#ecd3a0", "#c3c8b4", "#7fabc2", "#2b6ca3", "#123a5e")  # worst to best; neither end is pale, unknown is

Axs = NDArray[np.object_]


def new_axes(*shape: int, ax: Any = None, size: tuple[float, float], **how: Any) -> Any:
    """The Axes that were handed in, or those of a new figure outside pyplot; the one ImportError of this package."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'bokeopt[plot]'") from None
    if ax is not None:
        return ax
    return Figure(figsize=size, layout="constrained").subplots(*shape, **how)


def quiet(ax: Axes) -> Axes:
    """The house style: two spines, small ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")
    return ax


def parameter_axis(ax: Axes, which: str, name: str, parameter: Parameter) -> None:
    """Name, scale, ticks and limits of a parameter on the x or y axis, in native values."""
    edges = cell_edges(parameter, grid_values(parameter, 121))
    positions, labels = ticks(parameter)
    if isinstance(parameter, Float | Int) and parameter.log:
        ax.set(**{f"{which}scale": "log"})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks(positions, labels)
    axis.set_ticks([], minor=True)
    ax.set(**{f"{which}label": literal(name), f"{which}lim": (edges[0], edges[-1])})


def ticks(parameter: Parameter, most: int = 6) -> tuple[Array, list[str]]:
    """Native positions and labels of a few round values of a parameter, all categories included."""
    if isinstance(parameter, Categorical):
        labels = [literal(str(choice)) for choice in parameter.choices]
        return np.arange(len(labels), dtype=float), labels
    assert isinstance(parameter, Float | Int)
    low, high = float(parameter.low), float(parameter.high)
    if low == high:
        return np.array([low]), [f"{low:g}"]
    if parameter.log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        for heads in ((1, 2, 5), (1, 3), (1,)):
            round_values = np.array([h * 10.0**k for k in range(first, last + 1) for h in heads])
            round_values = round_values[(round_values >= low * (1 - 1e-9)) & (round_values <= high * (1 + 1e-9))]
            if len(round_values) <= most:
                break
        round_values = round_values[:: -(-len(round_values) // most)]
        if len(round_values) < 2:
            round_values = np.array([low, high])
        plain = isinstance(parameter, Int) or (low >= 1e-3 and high <= 1e4)
        return round_values, [f"{v:g}" if plain else _power(v) for v in round_values]
    if parameter.cells and (parameter.step != 1 or parameter.cells <= 10):
        indices = np.arange(0, parameter.cells, -(-parameter.cells // (most + 4)))
        grid = parameter.decode((indices + 0.5) / parameter.cells)
        return grid, [f"{v:g}" for v in grid]
    width = 10.0 ** math.floor(math.log10(high / most - low / most))
    step = next(width * h for h in (1, 2, 5, 10) if (high / width - low / width) / h <= most)
    step = max(1.0, step) if isinstance(parameter, Int) else step
    round_values = np.float64(step) * np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    digits = max(6, 1 + math.ceil(math.log10(max(abs(low), abs(high)) / step)))
    return round_values, [f"{v:.{digits}g}" for v in round_values]


def grid_values(parameter: Parameter, n: int) -> Array:
    """Native values to draw a parameter at: all of a small grid, otherwise n."""
    cells = parameter.cells
    if isinstance(parameter, Int) and parameter.log and cells <= n:
        return np.arange(parameter.low, parameter.high + 1.0)
    unit = (np.arange(cells) + 0.5) / cells if 0 < cells <= n else np.linspace(0.0, 1.0, n)
    return np.asarray(np.unique(parameter.decode(unit)))


def cell_edges(parameter: Parameter, grid: Array) -> Array:
    """Borders of the cells around the values of a grid, inside the bounds of a continuous parameter."""
    if len(grid) == 1:
        return np.array([grid[0] - 0.5, grid[0] + 0.5])
    log = isinstance(parameter, Float) and parameter.log
    at: Array = np.log(grid) if log else grid
    middle = (at[1:] + at[:-1]) / 2.0
    ends = (at[0], at[-1]) if parameter.cells == 0 else (at[0] - (middle[0] - at[0]), at[-1] + (at[-1] - middle[-1]))
    edges = np.concatenate([[ends[0]], middle, [ends[1]]])
    return np.asarray(np.exp(edges) if log else edges)


def shading(better: int) -> Colormap:
    """Colours from the worst value to the best, for larger values that are better (1) or worse (-1)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("boke", SHADES if better > 0 else SHADES[::-1])


def literal(text: str) -> str:
    """A name as matplotlib should print it: not too long, and a dollar is a dollar."""
    return (text if len(text) <= 20 else text[:19] + "…").replace("$", r"\$")


def _power(value: float) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    head = f"{value / 10.0**exponent:.3g}"
    return f"$10^{{{exponent}}}$" if head == "1" else rf"${head}\cdot 10^{{{exponent}}}$"
