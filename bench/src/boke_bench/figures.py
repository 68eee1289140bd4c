"""Figures of a study as PNG files: panels as in the paper, one row for each function, one column for each dimension."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from string import ascii_letters
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from PIL import Image
from scipy.spatial.distance import cdist

from boke_bench import analysis
from boke_bench.labels import colour, dashed, label
from boke_bench.protocol import Array
from boke_bench.study import Cell, Study, View

INK, GRID = "#2a2e35", "#e3e5e8"


class Curve(NamedTuple):
    """Quartiles (3, T) over x (T,) of one optimizer."""

    x: Array
    quartiles: Array


def curves(study: Study, view: View, what: str) -> dict[str, Curve]:
    """Curves of a panel.

    Args:
        study: The study of the panel.
        view: The panel.
        what: "evaluations" and "seconds": regret, value or fill distance on that axis; "cumulative": sum of the
            regrets after the initial design, which is the same for all; "step": milliseconds of the optimizer in a
            step.
    """
    found = {}
    left_out = study.experiment.figure.get("without_in_seconds", []) if what == "seconds" else []
    for name, cell in view.cells.items():
        if name not in left_out and (curve := _curve(cell, what)) is not None:
            found[name] = curve
    return found


def profiles(study: Study) -> dict[str, dict[str, Curve]]:
    """Data profiles over evaluations, one for each column of the figure; quartiles hold the same row thrice.

    Targets are COCO's absolute ones for BBOB, and relative to the regret after the initial design elsewhere. Only
    panels whose optimum is known can take part, and only optimizers that were on all of them: a share of easier
    problems would be a larger one.
    """
    views = [view for view in study.views if view.knows_optimum and not study.is_design]
    columns = list(dict.fromkeys(view.panel.column for view in views))
    found = {}
    for column in columns:
        mine = [view for view in views if view.panel.column == column]
        everywhere = [name for name in study.optimizers if all(name in view.cells for view in mine)]
        if everywhere:
            found[column or "all problems"] = {name: _profile(mine, name) for name in everywhere}
    return found


def draw_panels(study: Study, what: str) -> Figure:
    """All panels of a study in their grid."""
    rows, columns = grid(study)
    width, height = max(3.3 * len(columns) + 0.6, 6.4), 2.35 * len(rows) + 1.5
    figure = Figure(figsize=(width, max(height, 4.2)), layout="constrained", dpi=110)
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for ax in axes.flat:
        ax.set_visible(False)
    where = places(study, rows, columns)
    mixed = len({y_label(study, view, what) for view in study.views}) > 1
    for letter, view, (i, j) in zip(_letters(), study.views, where, strict=False):
        ax = axes[i, j]
        ax.set_visible(True)
        for name, curve in curves(study, view, what).items():
            _draw(ax, name, curve)
        _scales(ax, study, view, what)
        title = "" if rows[i] and i else view.panel.column if rows[i] else view.panel.title
        ax.set_title(f"{letter}   {title}", loc="left", fontsize="medium")
        if j == len(columns) - 1 and rows[i]:
            ax.annotate(rows[i], (1.02, 0.5), xycoords="axes fraction", rotation=270, va="center", ha="left")
        if i == max(row for row, column in where if column == j):
            ax.set_xlabel(x_label(study, what))
        if j == 0 or mixed:
            ax.set_ylabel(y_label(study, view, what))
    _headed(figure, study, study.optimizers)
    return figure


def draw_single(study: Study) -> Figure:
    """The one panel of a study against evaluations and beside it against seconds, as the paper shows the sprinkler."""
    figure = Figure(figsize=(8.6, 4.2), layout="constrained", dpi=110)
    (view,) = study.views
    for letter, what, ax in zip("AB", ("evaluations", "seconds"), figure.subplots(1, 2, sharey=True), strict=True):
        for name, curve in curves(study, view, what).items():
            _draw(ax, name, curve)
        _scales(ax, study, view, what)
        ax.set_title(f"{letter}   {view.panel.title}", loc="left", fontsize="medium")
        ax.set_xlabel(x_label(study, what))
        if what == "evaluations":
            ax.set_ylabel(y_label(study, view, what))
    _headed(figure, study, study.optimizers)
    return figure


def draw_profiles(study: Study) -> Figure:
    """Data profiles, a panel for each column."""
    found = profiles(study)
    figure = Figure(figsize=(3.3 * max(len(found), 2) + 0.6, 4.0), layout="constrained", dpi=110)
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for letter, ax, (column, shown) in zip(_letters(), axes, found.items(), strict=False):
        for name, curve in shown.items():
            _draw(ax, name, curve, band=False)
            ax.plot(curve.x[-1], curve.quartiles[1, -1], "x", color=colour(name), markersize=5)
        ax.set_title(f"{letter}   {column}", loc="left", fontsize="medium")
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("evaluations")
        _dress(ax)
    axes[0].set_ylabel("share of targets reached")
    _headed(figure, study, [name for name in study.optimizers if any(name in shown for shown in found.values())])
    return figure


def draw_ranks(study: Study) -> Figure:
    """Mean ranks with their intervals, one panel for each comparison."""
    compared = study.comparisons()
    tallest = max(len(part.optimizers) for part in compared)
    figure = Figure(figsize=(4.0 * len(compared) + 0.5, 0.27 * tallest + 1.7), layout="constrained", dpi=110)
    for ax, part in zip(figure.subplots(1, len(compared), squeeze=False)[0], compared, strict=True):
        ranks = analysis.mean_ranks(part.scores, part.problems)
        order = np.argsort(ranks.value, kind="stable")
        for y, i in enumerate(order):
            ax.plot([ranks.low[i], ranks.high[i]], [y, y], color=colour(part.optimizers[i]), linewidth=3, alpha=0.4)
            ax.plot(ranks.value[i], y, "o", color=colour(part.optimizers[i]), markersize=5)
        ax.set_yticks(range(len(order)), [label(part.optimizers[i]) for i in order])
        ax.invert_yaxis()
        ax.set_xlabel("mean rank")
        blocks = part.scores.shape[1]
        ax.set_title(f"{part.when}, {blocks} blocks", fontsize="medium", loc="left")
        _dress(ax)
    _headed(figure, study, [])
    return figure


def kinds(study: Study) -> list[str]:
    """What can be drawn in the panels of a study."""
    if not study.views:
        return []
    if study.is_design:
        return ["evaluations"]
    if study.experiment.timed:
        return ["step"]
    known = all(view.knows_optimum for view in study.views)
    return ["evaluations", "seconds", *(["cumulative"] if known else [])]


def pictures(study: Study) -> dict[str, Callable[[], Figure]]:
    """The figures of a study, by the end of their file names; the first one is that of the paper."""
    found: dict[str, Callable[[], Figure]] = {}
    if not study.views:
        return found
    for i, what in enumerate(kinds(study)):
        found[f"_{what}" if i else ""] = partial(draw_panels, study, what)
    if len(study.views) == 1 and "_seconds" in found:
        del found["_seconds"]
        found[""] = partial(draw_single, study)
    if not study.experiment.timed and profiles(study):
        found["_profile"] = partial(draw_profiles, study)
    if not study.experiment.timed and study.comparisons():
        found["_ranks"] = partial(draw_ranks, study)
    return found


def save(study: Study, folder: Path) -> list[Path]:
    """Write all figures of a study; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for end, draw in pictures(study).items():
        path = folder / f"{study.name}{end}.png"
        _save_small(draw(), path)
        paths.append(path)
    return paths


def _save_small(figure: Figure, path: Path) -> None:
    """A PNG whose palette is its 256 most frequent colours: a third of the size.

    Lines, bands and markers keep their colours; only the softened edges between them are rounded.
    """
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="png")
        pixels = np.asarray(Image.open(buffer).convert("RGB"))
    colours, where, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-counts, kind="stable")[:256]]
    nearest = cdist(colours, palette).argmin(axis=1).astype(np.uint8)
    picture = Image.fromarray(nearest[where].reshape(pixels.shape[:2]))
    picture.putpalette(palette.ravel().tolist())
    picture.save(path, optimize=True)


def _curve(cell: Cell, what: str) -> Curve | None:
    start = 0 if cell.is_design else min(cell.n_init, cell.budget) - 1
    if what == "evaluations":
        return Curve(cell.x[start:], analysis.quartiles(cell.curve)[:, start:])
    if what == "cumulative":
        if not cell.knows_optimum:
            return None
        later = analysis.cumulative_regret(cell.true[:, start + 1 :], cell.optimum)
        return Curve(cell.x[start + 1 :], analysis.quartiles(later)) if later.shape[1] else None
    if what == "step":
        return _step_curve(cell)
    seconds = np.cumsum(cell.optimizer_s, axis=1)[:, start:]
    grid = analysis.time_grid(seconds)
    return Curve(grid, analysis.quartiles(analysis.against_time(cell.curve[:, start:], seconds, grid)))


def _step_curve(cell: Cell, n_bins: int = 40) -> Curve | None:
    """Milliseconds of a step over t, after the initial design, medians within bins first."""
    first, last = cell.n_init, cell.budget
    if last - first < 2:
        return None
    edges = np.unique(np.geomspace(first + 1, last + 1, n_bins + 1).round().astype(int)) - 1
    pairs = list(pairwise(edges))
    medians = np.array([np.median(cell.optimizer_s[:, a:b], axis=1) for a, b in pairs]).T
    x = np.array([cell.x[a:b].mean() for a, b in pairs])
    return Curve(x, 1e3 * np.maximum(analysis.quartiles(medians), 1e-7))


def _profile(views: Sequence[View], name: str) -> Curve:
    """One optimizer over some panels, up to the smallest of its budgets."""
    last = min(view.cells[name].budget for view in views)
    shares = [analysis.data_profile(view.cells[name].regret, _targets(view, view.cells[name]))[:last] for view in views]
    return Curve(np.arange(1.0, last + 1.0), np.tile(np.mean(shares, axis=0), (3, 1)))


def _targets(view: View, cell: Cell) -> Array:
    if view.panel.problem.get("kind") == "bbob":
        return analysis.coco_targets()
    start = min(cell.n_init, cell.budget) - 1
    shared = np.nanmedian(np.concatenate([other.regret[:, start] for other in view.cells.values()]))
    return analysis.relative_targets(np.full(len(cell.seeds), shared))


def _draw(ax: Axes, name: str, curve: Curve, band: bool = True) -> None:
    low, middle, high = curve.quartiles
    order = 3.0 if name in ("boke", "boke+", "default", "de") else 2.0
    line = (0, (4, 1.5)) if dashed(name) else "solid"
    ax.plot(curve.x, middle, color=colour(name), linewidth=1.5, linestyle=line, zorder=order)
    if band:
        ax.fill_between(curve.x, low, high, color=colour(name), alpha=0.10, linewidth=0, zorder=order - 1)


def _scales(ax: Axes, study: Study, view: View, what: str) -> None:
    if what in ("seconds", "step") or study.is_design:
        ax.set_xscale("log")
        _log_ticks(ax.xaxis, *ax.get_xlim())
    if what == "step" or study.is_design or what == "cumulative" or view.shows_regret:
        ax.set_yscale("log")
        _not_below_solved(ax, what)
        _log_ticks(ax.yaxis, *ax.get_ylim())
    elif lines := ax.get_lines():
        # values without a known optimum: the last quarter of the climb is what differs
        values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in lines])
        values = values[np.isfinite(values)]
        low, high = np.quantile(values, 0.03), values.max()
        ax.set_ylim(low - 0.02 * (high - low), high + 0.06 * (high - low))
    _dress(ax)


def _not_below_solved(ax: Axes, what: str) -> None:
    if what in ("evaluations", "seconds") and ax.get_ylim()[0] < analysis.SOLVED / 10:
        ax.set_ylim(bottom=analysis.SOLVED / 10)


def _log_ticks(axis: Axis, low: float, high: float) -> None:
    """Few labels, none on top of another: powers of ten over long ranges, plain numbers over short ones."""
    decades = np.log10(high / low)
    if decades > 2:
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_minor_formatter(NullFormatter())
        return
    subs = (1.0, 2.0, 5.0) if decades > 0.6 else (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12) if decades > 0.25 else MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.set_minor_locator(NullLocator())


def _dress(ax: Axes) -> None:
    ax.grid(True, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", labelsize="small")


def grid(study: Study) -> tuple[list[str], list[str]]:
    """Names of the rows and columns of the figure; without names where the panels do not fill a table."""
    rows = list(dict.fromkeys(view.panel.row for view in study.views))
    columns = list(dict.fromkeys(view.panel.column for view in study.views))
    if len(rows) > 1 and len(columns) > 1 and len(rows) * len(columns) == len(study.views):
        return rows, columns
    width = min(2 if len(study.views) == 4 else 3, len(study.views))
    return [""] * -(-len(study.views) // width), [""] * width


def places(study: Study, rows: list[str], columns: list[str]) -> list[tuple[int, int]]:
    """Row and column of each panel."""
    if any(rows):
        return [(rows.index(view.panel.row), columns.index(view.panel.column)) for view in study.views]
    return [divmod(k, len(columns)) for k in range(len(study.views))]


def x_label(study: Study, what: str) -> str:
    if study.is_design:
        return "points"
    return {"seconds": "seconds of the optimizer", "step": "observations t"}.get(what, "evaluations")


def y_label(study: Study, view: View, what: str) -> str:
    if what == "cumulative":
        return "cumulative regret"
    if what == "step":
        return "ms per step"
    return "fill distance" if study.is_design else "simple regret" if view.shows_regret else "best value"


def _letters() -> Iterator[str]:
    """A, B, ..., Z, a, b, ..., as panels are called in the text."""
    return iter(ascii_letters[26:] + ascii_letters[:26])


def _headed(figure: Figure, study: Study, names: Iterable[str]) -> None:
    """Title, what was run, and a legend below."""
    below = fill(study.subtitle, max(40, int(figure.get_figwidth() * 13)), break_on_hyphens=False)
    figure.suptitle(f"{study.experiment.title}\n{below}", fontsize="medium", color=INK)
    handles = [
        Line2D([], [], color=colour(name), linestyle=(0, (4, 1.5)) if dashed(name) else "solid", label=label(name))
        for name in names
    ]
    if handles:
        width = max(1, int(figure.get_figwidth() / 1.25))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(len(handles), width), frameon=False, fontsize="small"
        )
