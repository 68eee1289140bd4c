"""Pictures of a run: how it converged, what the model says, where the good trials lie.

Each picture is two functions: one that returns plain data and needs no matplotlib, and ``plot_*(source, ax=None)``
that draws them and returns the Axes. A source is an Optimizer or a result of ``minimize`` or ``maximize``.

Nothing is shown or saved. Without ``ax`` the picture gets a figure of its own outside pyplot, to be kept by
``ax.figure.savefig(path)``; to see it in a window pass ``ax=plt.gca()`` and call ``plt.show()``. Pictures of several
panels take and return an array of Axes. The figures of the paper are in ``boke.paper_figures``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from boke.axes import (
    BLUE,
    CYCLE,
    GRAY,
    INK,
    LIGHT_BLUE,
    RED,
    cell_edges,
    grid_values,
    literal,
    new_axes,
    parameter_axis,
    quiet,
    shading,
    ticks,
)
from boke.bandwidth import Bandwidth, LeastSquaresCV
from boke.history import State
from boke.model import KernelModel
from boke.optimizer import Optimizer
from boke.space import Array, Categorical, Float, Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def toy(x: ArrayLike) -> Array:
    """f(x) = -exp(-1.4 x) cos(3.5 π x) on [0, 1], larger is better (eq. test)."""
    x = np.asarray(x, dtype=float)
    return np.asarray(-np.exp(-1.4 * x) * np.cos(3.5 * np.pi * x))


# convergence


class Convergence(NamedTuple):
    """Values in the order in which they arrived and the best finite one so far, each (n,) or (runs, n)."""

    values: Array
    best: Array


def convergence(source: Any, *, maximize: bool = False) -> Convergence:
    """Best value so far after each evaluation.

    Args:
        source: An Optimizer, a result, or plain values: one run (n,) or several (runs, n).
        maximize: Whether larger is better in plain values; an Optimizer knows.
    """
    if _is_run(source):
        history = optimizer_of(source).history
        told = np.flatnonzero((history.told_at >= 0) & (history.states != State.REMOVED.value))
        values = history.values[told[np.argsort(history.told_at[told])]]
        maximize = optimizer_of(source).direction == "maximize"
    else:
        values = np.asarray(source, dtype=float)
    finite = np.where(np.isfinite(values), values, np.nan)
    return Convergence(values, (np.fmax if maximize else np.fmin).accumulate(finite, axis=-1))


def plot_convergence(
    sources: Any,
    *,
    maximize: bool = False,
    optimum: float | None = None,
    log: bool = False,
    value_label: str = "value",
    ax: Axes | None = None,
) -> Axes:
    """Best value so far against the number of evaluations.

    Single values are dots; evaluations that failed or were infinite are crosses on the lower edge.

    Args:
        sources: What ``convergence`` takes, or several of them: a list, or a dict whose keys go into the legend.
            Several runs in one array are drawn as their median and quartiles.
        maximize: Whether larger is better in plain values.
        optimum: The best possible value, where known; then the distance from it is drawn.
        log: Logarithmic values, which must be positive.
        value_label: Name of the value.
        ax: Where to draw.
    """
    ax = new_axes(ax=ax, size=(6.0, 3.6))
    runs = _labelled(sources)
    for i, (label, source) in enumerate(runs.items()):
        values, best = convergence(source, maximize=maximize)
        if optimum is not None:
            values, best = np.abs(values - optimum), np.abs(best - optimum)
        if log and not (best[~np.isnan(best)] > 0).all():
            raise ValueError(f"The 'log' parameter needs positive values. Got {np.nanmin(best):g}.")
        number, color = np.arange(1, values.shape[-1] + 1), CYCLE[i % len(CYCLE)]
        if values.ndim == 2:
            low, middle, high = np.quantile(best, (0.25, 0.5, 0.75), axis=0)
            ax.fill_between(number, low, high, step="post", color=color, alpha=0.2, linewidth=0)
            ax.step(number, middle, where="post", color=color, label=label)
            continue
        ok = np.isfinite(values)
        ax.plot(number[ok], values[ok], "o", color=color, alpha=0.4, markersize=3.5, markeredgewidth=0)
        edge = np.full(int((~ok).sum()), 0.025)
        ax.plot(number[~ok], edge, "x", color=color, markersize=5, transform=ax.get_xaxis_transform())
        ax.step(number, best, where="post", color=color, linewidth=1.8, label=label)
    if log:
        ax.set_yscale("log")
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("evaluations")
    ax.set_ylabel(value_label if optimum is None else f"distance of {value_label} from the optimum")
    if len(runs) > 1 or "" not in runs:
        ax.legend(frameon=False)
    return quiet(ax)


# slices


@dataclass(frozen=True)
class Slice:
    """The model along one or two parameters, the others held at a point.

    Attributes:
        names: The one or two parameters.
        parameters: What they are.
        grids: Native values along each; a category counts by its index.
        mean: The kernel mean in units of the objective, (n,) or (n_second, n_first).
        uncertainty: Its standard error, the same shape.
        point: Native coordinates of the point, (1,) or (2,).
        value: The mean there.
        observed: Native coordinates of the trials with a value (t, 1 or 2).
        values: Their values (t,).
        closeness: k between each trial and the point in the parameters that are held (t,), 1 on the slice.
        failed: Native coordinates of the failed trials.
        better: +1 where larger is better, -1 where smaller is.
    """

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    grids: tuple[Array, ...]
    mean: Array
    uncertainty: Array
    point: Array
    value: float
    observed: Array
    values: Array
    closeness: Array
    failed: Array
    better: int


def model_slice(
    source: Any,
    names: str | Sequence[str],
    *,
    at: Any = "best",
    bandwidth: Bandwidth | None = None,
    n: int = 121,
) -> Slice:
    """Cut through a kernel regression of all values.

    The standard error is s σ̂ with ρ = s²/v (eq. DE), s² the leave-one-out error and v the variance of the values:
    s over the root of the effective number of observations where there are some, √v where there are none.

    Args:
        source: An Optimizer or a result.
        names: One parameter or two; those of plain bounds are x0, x1, ...
        at: "best", "recommended" (best estimated) or a point of your own.
        bandwidth: Rule for ℓ; None predicts each value best from the others.
        n: Number of values along a continuous parameter.
    """
    optimizer = optimizer_of(source)
    space, history = optimizer.space, optimizer.history
    names = (names,) if isinstance(names, str) else tuple(names)
    known = list(space.parameters)
    if not 1 <= len(set(names)) == len(names) <= 2 or not set(names) <= set(known):
        raise ValueError(f"The 'names' parameter must be one or two of {known}. Got {list(names)}.")
    center = _point(optimizer, at)
    columns, parameters = [known.index(name) for name in names], tuple(space.parameters[name] for name in names)
    data = history.data(1.0)
    unit = max(float(np.abs(data.y).max(initial=0.0)), 1e-300)  # squares of values near 1e200 must not overflow
    y, rule = data.y / unit, bandwidth or LeastSquaresCV()
    model = KernelModel(data.X, y, bandwidth=rule, categorical=space.categorical)

    grids = tuple(grid_values(p, n) for p in parameters)
    mesh = np.meshgrid(*(p.encode(grid) for p, grid in zip(parameters, grids, strict=True)))
    query = np.tile(center, (mesh[0].size, 1))
    query[:, columns] = np.column_stack([m.ravel() for m in mesh])
    variance = float(np.var(y))
    error = variance if len(y) < 3 else float(np.mean((y - model.leave_one_out()) ** 2))
    error = min(max(error, 1e-9 * variance), variance)
    sigma = math.sqrt(error) * model.uncertainty(query, error / variance) if error > 0 else np.zeros(len(query))

    on_slice = data.X.copy()
    on_slice[:, columns] = center[columns]
    held = KernelModel(center[None], [0.0], bandwidth=model.bandwidth, categorical=space.categorical)
    return Slice(
        names,
        parameters,
        grids,
        unit * model.mean(query).reshape(mesh[0].shape),
        unit * sigma.reshape(mesh[0].shape),
        np.array([float(p.decode(center[j : j + 1])[0]) for j, p in zip(columns, parameters, strict=True)]),
        unit * float(model.mean(center[None])[0]),
        history.native[data.numbers][:, columns],
        data.y,
        held.density(on_slice),
        history.native[history.states == State.FAILED.value][:, columns],
        1 if optimizer.direction == "maximize" else -1,
    )


def plot_slice(
    source: Any,
    names: str | Sequence[str] = (),
    *,
    at: Any = "best",
    bandwidth: Bandwidth | None = None,
    value_label: str = "value",
    ax: Axes | None = None,
) -> Axes:
    """The model along one parameter or over two, the others held at a point.

    One parameter: the mean and its standard error on both sides. Two: the mean as colour, better is darker and
    unknown is paler. Dots are trials, stronger the closer they are to the slice; crosses are failures, the diamond
    is the point.

    Args:
        source: An Optimizer, a result or a ``Slice``.
        names: One parameter or two; those of plain bounds are x0, x1, ... A ``Slice`` has its own.
        at: "best", "recommended" (best estimated) or a point of your own.
        bandwidth: Rule for ℓ; None predicts each value best from the others.
        value_label: Name of the value.
        ax: Where to draw.
    """
    cut = source if isinstance(source, Slice) else model_slice(source, names, at=at, bandwidth=bandwidth)
    ax = new_axes(ax=ax, size=(5.0, 3.8))
    (_line_slice if len(cut.names) == 1 else _plane_slice)(ax, cut, value_label)
    return quiet(ax)


def _line_slice(ax: Axes, cut: Slice, value_label: str) -> None:
    (grid,), parameter, band = cut.grids, cut.parameters[0], cut.uncertainty
    if isinstance(parameter, Categorical):
        ax.bar(grid, 2.0 * band, 0.5, cut.mean - band, color=LIGHT_BLUE)
        ax.hlines(cut.mean, grid - 0.25, grid + 0.25, color=BLUE, linewidth=1.8, zorder=2)
    else:
        ax.fill_between(grid, cut.mean - band, cut.mean + band, color=LIGHT_BLUE, linewidth=0)
        ax.plot(grid, cut.mean, ".-" if 0 < parameter.cells <= 40 else "-", color=BLUE, linewidth=1.8, zorder=2)
    _dots(ax, cut.observed[:, 0], cut.values, cut.closeness, color=GRAY, edgecolors="white")
    edge = np.full(len(cut.failed), 0.025)
    ax.plot(cut.failed[:, 0], edge, "x", color=GRAY, markersize=5, transform=ax.get_xaxis_transform())
    ax.plot(cut.point, [cut.value], "D", color=RED, markeredgecolor="white", markersize=7, zorder=4, clip_on=False)
    parameter_axis(ax, "x", cut.names[0], parameter)
    ax.set_ylabel(value_label)


def _plane_slice(ax: Axes, cut: Slice, value_label: str) -> None:
    edges = [cell_edges(p, grid) for p, grid in zip(cut.parameters, cut.grids, strict=True)]
    known: Any = 1.0 - 0.8 * cut.uncertainty / max(float(cut.uncertainty.max()), 1e-300)
    shades = shading(cut.better)
    mesh = ax.pcolormesh(*edges, cut.mean, cmap=shades, alpha=known, rasterized=True)
    first, second = cut.observed.T
    _dots(ax, first, second, cut.closeness, c=cut.values, cmap=shades, norm=mesh.norm, edgecolors=INK)
    ax.plot(*cut.failed.T, "x", color=GRAY, markersize=5)
    ax.plot(*cut.point[:, None], "D", color=RED, markeredgecolor="white", markersize=7, zorder=4, clip_on=False)
    for which, name, parameter in zip("xy", cut.names, cut.parameters, strict=True):
        parameter_axis(ax, which, name, parameter)
    bar = ax.figure.colorbar(mesh, ax=ax, label=value_label)
    bar.outline.set_visible(False)


def _dots(ax: Axes, x: Array, y: Array, closeness: Array, **how: Any) -> None:
    alpha: Any = 0.3 + 0.7 * closeness
    ax.scatter(x, y, s=20, alpha=alpha, linewidths=0.6, zorder=3, clip_on=False, **how)


# parallel coordinates


class Parallel(NamedTuple):
    """All finished trials in order: unit coordinates (n, d), values (n,) with nan for failures, the best one's row."""

    parameters: dict[str, Parameter]
    x: Array
    values: Array
    best: int | None
    better: int


def parallel(source: Any) -> Parallel:
    """What parallel coordinates show."""
    optimizer = optimizer_of(source)
    history = optimizer.history
    done = np.isin(history.states, (State.COMPLETE.value, State.FAILED.value))
    values, better = history.values[done], 1 if optimizer.direction == "maximize" else -1
    values = np.where(np.isfinite(values), values, np.nan)
    best = int(np.nanargmax(better * values)) if np.isfinite(values).any() else None
    return Parallel(dict(optimizer.space.parameters), history.x[done], values, best, better)


def plot_parallel(source: Any, *, value_label: str = "value", ax: Axes | None = None) -> Axes:
    """Every trial as a line over one axis for each parameter, the value last.

    Better trials are darker, by rank; the best one is red, failures are dotted. Axes are spaced as the model sees
    them: logarithmic parameters by their logarithm, categories evenly.

    Args:
        source: An Optimizer, a result or a ``Parallel``.
        value_label: Name of the value.
        ax: Where to draw.
    """
    columns, x, values, best, better = source if isinstance(source, Parallel) else parallel(source)
    d, ok = len(columns), np.isfinite(values)
    ax = new_axes(ax=ax, size=(1.5 * (d + 1), 3.8))
    _polylines(ax, x[~ok], colors=GRAY, linestyles=":", linewidths=0.9, zorder=1)
    axes = list(columns.items())
    if best is not None:
        axes.append((value_label, Float(values[ok].min(), values[ok].max())))
        lines = np.column_stack([x, axes[-1][1].encode(values)])
        order = np.flatnonzero(ok)[np.argsort(-better * values[ok], kind="stable")[::-1]]  # the best is drawn last
        colors = shading(1)((np.arange(len(order)) + 0.5) / len(order))
        _polylines(ax, lines[order], colors=colors, linewidths=1.0, zorder=2)
        _polylines(ax, lines[[best]], colors=RED, linewidths=2.2, zorder=3)
    for j, (_, parameter) in enumerate(axes):
        _upright_axis(ax, j, parameter, outward=j == d)
    ax.set_xticks(range(len(axes)), [literal(name) for name, _ in axes])
    ax.set(xlim=(-0.4, len(axes) - 0.7), ylim=(-0.03, 1.03))
    ax.tick_params(length=0)
    ax.yaxis.set_visible(False)
    ax.spines[:].set_visible(False)
    return ax


def _polylines(ax: Axes, rows: Array, **how: Any) -> None:
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection([np.column_stack([np.arange(len(row)), row]) for row in rows], **how))


def _upright_axis(ax: Axes, at: float, parameter: Parameter, outward: bool) -> None:
    from matplotlib.patheffects import withStroke

    ax.plot([at, at], [0, 1], color=INK, linewidth=0.8, zorder=4)
    positions, labels = ticks(parameter)
    side, align = (1, "left") if outward else (-1, "right")
    for y, label in zip(parameter.encode(positions), labels, strict=True):
        ax.plot([at, at + 0.03 * side], [y, y], color=INK, linewidth=0.8, zorder=4)
        halo = [withStroke(linewidth=2.5, foreground="white")]
        ax.text(at + 0.06 * side, y, label, ha=align, va="center", fontsize="small", path_effects=halo, zorder=5)


# helpers


def optimizer_of(source: Any) -> Optimizer:
    """The optimizer behind a result, or the source itself."""
    optimizer = source if isinstance(source, Optimizer) else getattr(source, "optimizer", None)
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"The source must be an Optimizer or a result of minimize or maximize. Got {source!r:.200}.")
    return optimizer


def _is_run(source: Any) -> bool:
    return isinstance(source, Optimizer) or hasattr(source, "optimizer")


def _labelled(sources: Any) -> dict[str, Any]:
    if isinstance(sources, Mapping) and not _is_run(sources):
        return {str(label): source for label, source in sources.items()}
    if isinstance(sources, list | tuple) and len(sources) and not isinstance(sources[0], int | float | None):
        return {f"run {i + 1}": source for i, source in enumerate(sources)}
    return {"": sources}


def _point(optimizer: Optimizer, at: Any) -> Array:
    """Unit coordinates (d,) of the point that ``at`` means."""
    if isinstance(at, str) and at == "recommended":
        return optimizer.recommend().x
    if isinstance(at, str) and at == "best":
        return optimizer.best.x
    if isinstance(at, str):
        raise ValueError(f"The 'at' parameter must be 'recommended', 'best' or a point. Got {at!r}.")
    unit: Array = optimizer.space.encode(optimizer.space.to_native(at)[None])[0]
    return unit
