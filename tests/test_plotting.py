"""Pictures: what they show is what the data functions say, and they draw in every situation, headless."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.figure import Figure
from scipy.integrate import trapezoid
from scipy.optimize import Bounds
from scipy.stats import beta

import boke
from boke import paper_figures, plotting
from boke.axes import ticks
from boke.bandwidth import LeastSquaresCV
from boke.model import KernelModel
from boke.policies import BOKE

MIXED = {
    "rate": boke.Float(1e-4, 1.0, log=True),
    "width": boke.Int(1, 200, log=True),
    "layers": boke.Int(1, 5),
    "share": boke.Float(0.0, 1.0, step=0.25),
    "drop": boke.Float(-1.0, 1.0),
    "kind": boke.Categorical(["relu", None, "a very long name of a choice"]),
}


@pytest.fixture(scope="module")
def mixed():
    """A short run with failures, an infinite value and a pending trial."""
    optimizer = boke.Optimizer(MIXED, direction="maximize", rng=0)
    for i in range(24):
        trial = optimizer.ask()
        value = (
            -((math.log10(trial.params["rate"]) + 2) ** 2) + 0.1 * trial.params["layers"] + 0.01 * trial.params["drop"]
        )
        optimizer.tell(trial, None if i % 7 == 3 else -math.inf if i == 5 else value)
    optimizer.ask()
    return optimizer


@pytest.fixture(scope="module")
def plain():
    return boke.minimize(lambda x: float(((x - 0.3) ** 2).sum()), [(0, 1), (0, 1)], n_trials=12, rng=0)


def draw(ax, layout="none"):
    """Render: many mistakes only show when a figure is drawn. Constrained layout takes most of the time."""
    figure = np.ravel(np.asarray(ax, dtype=object))[0].figure
    figure.set_layout_engine(layout)
    figure.draw_without_rendering()
    return ax


def texts(ax):
    return [text.get_text() for text in ax.texts]


def told(space, values, direction="minimize"):
    optimizer = boke.Optimizer(space, direction=direction, rng=0)
    for value in values:
        optimizer.tell(optimizer.ask(), value)
    return optimizer


def test_toy_is_the_papers_function():
    assert plotting.toy(0.0) == -1.0
    np.testing.assert_allclose(plotting.toy([0.5, 1.0]), [-np.exp(-0.7) * np.cos(1.75 * np.pi), 0.0], atol=1e-15)


# convergence


@pytest.mark.parametrize(
    ("direction", "best"), [("minimize", [np.nan, 3, 3, 3, 1]), ("maximize", [np.nan, 3, 3, 5, 5])]
)
def test_convergence_keeps_the_best_finite_value(direction, best):
    seen = plotting.convergence(told([(0, 1)], [None, 3.0, math.inf, 5.0, 1.0], direction))
    np.testing.assert_array_equal(seen.values, [np.nan, 3.0, np.inf, 5.0, 1.0])
    np.testing.assert_array_equal(seen.best, best)


def test_convergence_follows_the_order_of_arrival_and_skips_removed_and_pending():
    optimizer = boke.Optimizer([(0, 1)], rng=0)
    trials = optimizer.ask(4)
    for i, value in ((2, 1.0), (0, 2.0), (1, 0.5)):
        optimizer.tell(trials[i], value)
    optimizer.remove(trials[0])
    np.testing.assert_array_equal(plotting.convergence(optimizer).values, [1.0, 0.5])


def test_plot_convergence_draws_dots_line_and_failures():
    source = told([(0, 1)], [None, 3.0, math.inf, 5.0, 1.0])
    ax = draw(plotting.plot_convergence(source, value_label="loss"))
    dots, crosses, line = ax.lines
    np.testing.assert_array_equal(dots.get_xydata(), [[2, 3], [4, 5], [5, 1]])
    np.testing.assert_array_equal(crosses.get_xdata(), [1, 3])
    np.testing.assert_array_equal(line.get_ydata(), plotting.convergence(source).best)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_legend()) == ("evaluations", "loss", None)
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


def test_plot_convergence_compares(plain):
    many = np.random.default_rng(0).random((5, 9))
    ax = draw(plotting.plot_convergence({"boke": plain, "random": many, "list": [3, 2.5, None]}))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["boke", "random", "list"]
    middle = np.median(np.minimum.accumulate(many, axis=1), axis=0)
    assert any(np.array_equal(line.get_ydata(), middle) for line in ax.lines)
    ax = plotting.plot_convergence([plain, plain.optimizer])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["run 1", "run 2"]


def test_plot_convergence_on_a_log_scale(plain):
    ax = draw(plotting.plot_convergence(plain, log=True))
    assert ax.get_yscale() == "log"
    ax = plotting.plot_convergence([3.0, 1.0, -1.0], optimum=-2.0, log=True)
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), [5.0, 3.0, 1.0])
    with pytest.raises(ValueError, match=r"positive values. Got -1"):
        plotting.plot_convergence([3.0, 1.0, -1.0], log=True)


@pytest.mark.parametrize("plot", [plotting.plot_convergence, plotting.plot_parallel, paper_figures.plot_acquisition])
def test_nothing_is_cut_off(mixed, plot):
    ax = draw(plot(mixed) if plot.__module__ == "boke.plotting" else plot(), layout="constrained")
    figure = np.ravel(np.asarray(ax, dtype=object))[0].figure
    outside = figure.get_tightbbox().padded(-0.01)
    assert min(outside.x0, outside.y0) >= 0
    assert outside.x1 <= figure.get_figwidth()
    assert outside.y1 <= figure.get_figheight()


def test_plot_convergence_of_plain_values_to_maximize():
    ax = plotting.plot_convergence([1.0, 3.0, 2.0], maximize=True)
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), [1.0, 3.0, 3.0])


# slices


def test_slice_is_the_kernel_mean_through_the_point(plain):
    cut = plotting.model_slice(plain, "x1", at="best", n=7)
    data = plain.optimizer.history.data(1.0)
    model = KernelModel(data.X, data.y, bandwidth=LeastSquaresCV())
    query = np.column_stack([np.full(7, plain.x[0]), np.linspace(0, 1, 7)])
    np.testing.assert_allclose(cut.grids[0], query[:, 1])
    np.testing.assert_allclose(cut.mean, model.mean(query))
    np.testing.assert_allclose(cut.point, plain.x[1:])
    np.testing.assert_allclose(cut.value, model.mean(plain.x[None])[0])
    np.testing.assert_array_equal(np.sort(cut.values), np.sort(plain.func_vals))


def test_uncertainty_is_between_that_of_the_data_and_that_of_ignorance():
    rng = np.random.default_rng(0)
    optimizer = boke.Optimizer([(0, 1)])
    x = 0.2 * rng.random(200)
    optimizer.tell_many(x[:, None], np.sin(30 * x) + rng.normal(0, 0.1, 200))
    cut = plotting.model_slice(optimizer, "x0")
    spread = np.std(optimizer.history.values)
    assert cut.uncertainty[-1] == pytest.approx(spread, rel=0.01)
    assert cut.uncertainty[10] < 0.5 * 0.1
    assert (cut.uncertainty <= spread * (1 + 1e-9)).all()


def test_closeness_is_one_on_the_slice_and_falls_beside_it():
    optimizer = boke.Optimizer([(0, 1), (0, 1)])
    optimizer.tell_many(np.array([[0.5, 0.5], [0.9, 0.5], [0.5, 0.9], [0.1, 0.2]]), [1.0, 2.0, 3.0, 4.0])
    cut = plotting.model_slice(optimizer, "x0", at=[0.5, 0.5])
    close = dict(zip(cut.values, cut.closeness, strict=True))
    assert close[1.0] == close[2.0] == 1.0
    assert 1.0 > close[4.0] > close[3.0]


@pytest.mark.parametrize("name", MIXED)
def test_plot_slice_over_every_kind_of_parameter(mixed, name):
    ax = draw(plotting.plot_slice(mixed, name, at="best"))
    cut, parameter = plotting.model_slice(mixed, name, at="best"), MIXED[name]
    assert ax.get_xlabel() == name
    assert ax.get_xscale() == ("log" if getattr(parameter, "log", False) else "linear")
    scatter = ax.collections[-1].get_offsets()
    np.testing.assert_array_equal(scatter, np.column_stack([cut.observed[:, 0], cut.values]))
    if isinstance(parameter, boke.Categorical):
        assert [label.get_text() for label in ax.get_xticklabels()] == ["relu", "None", "a very long name of…"]
    else:
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), cut.mean)
    assert len(cut.failed) == int((mixed.history.states == boke.State.FAILED.value).sum())


@pytest.mark.parametrize("names", [("rate", "width"), ("kind", "drop"), ("layers", "share"), ("kind", "layers")])
def test_plot_slice_over_two_parameters(mixed, names):
    cut = plotting.model_slice(mixed, names, n=20)
    ax = draw(plotting.plot_slice(cut, value_label="score"))
    (mesh,) = (artist for artist in ax.collections if isinstance(artist, QuadMesh))
    np.testing.assert_array_equal(mesh.get_array(), cut.mean)
    assert cut.mean.shape == cut.uncertainty.shape == (len(cut.grids[1]), len(cut.grids[0]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == names
    assert ax.figure.axes[-1].get_ylabel() == "score"
    darkest = mesh.cmap(mesh.norm(cut.mean.max()))
    assert sum(darkest[:3]) < sum(mesh.cmap(mesh.norm(cut.mean.min()))[:3])  # larger is better here


def test_plot_slice_takes_what_model_slice_returns(mixed):
    cut = plotting.model_slice(mixed, "rate", at=mixed.best.params)
    ax = plotting.plot_slice(cut)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), cut.mean)


def test_slice_says_what_is_wrong(mixed, plain):
    for names in ("depth", ("rate", "rate"), ("rate", "width", "drop"), ()):
        with pytest.raises(ValueError, match=r"must be one or two of \['rate'"):
            plotting.model_slice(mixed, names)
    with pytest.raises(ValueError, match=r"'recommended', 'best' or a point. Got 'worst'"):
        plotting.model_slice(plain, "x0", at="worst")
    with pytest.raises(TypeError, match=r"must be an Optimizer or a result"):
        plotting.plot_slice([1.0, 2.0], "x0")
    with pytest.raises(ValueError, match=r"no best trial|no .*value"):
        plotting.plot_slice(boke.Optimizer([(0, 1)]), "x0", at="best")


# parallel coordinates


def test_parallel_holds_all_finished_trials(mixed):
    seen = plotting.parallel(mixed)
    assert len(seen.values) == 24
    assert np.isnan(seen.values).sum() == 4  # three failures and an infinity
    np.testing.assert_array_equal(seen.x, mixed.history.x[:24])
    assert seen.best == mixed.best.number


def test_plot_parallel_labels_axes_and_marks_the_best(mixed):
    ax = draw(plotting.plot_parallel(mixed, value_label="score"))
    seen = plotting.parallel(mixed)
    assert [label.get_text() for label in ax.get_xticklabels()] == [*MIXED, "score"]
    assert {"$10^{-4}$", "$10^{0}$", "relu", "None", "0.25", "1", "100"} <= set(texts(ax))
    failed, good, best = (artist for artist in ax.collections if isinstance(artist, LineCollection))
    assert (len(failed.get_segments()), len(good.get_segments()), len(best.get_segments())) == (4, 20, 1)
    np.testing.assert_array_equal(best.get_segments()[0][:-1, 1], seen.x[seen.best])
    assert best.get_segments()[0][-1, 1] == 1.0
    np.testing.assert_array_equal(good.get_segments()[-1], best.get_segments()[0])  # drawn last
    assert matplotlib.colors.to_hex(best.get_color()[0]) == plotting.RED


def test_a_parameter_may_be_called_like_the_value():
    ax = draw(plotting.plot_parallel(told({"value": boke.Float(0, 1)}, [1.0, 2.0])))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["value", "value"]


# ticks


@pytest.mark.parametrize(
    ("parameter", "labels"),
    [
        (boke.Float(0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (boke.Float(-3.0, 250.0), ["0", "50", "100", "150", "200", "250"]),
        (boke.Float(1e-3, 1.0, log=True), ["0.001", "0.01", "0.1", "1"]),
        (boke.Float(1e-8, 1.0, log=True), ["$10^{-8}$", "$10^{-6}$", "$10^{-4}$", "$10^{-2}$", "$10^{0}$"]),
        (boke.Float(2e-5, 3e-5, log=True), [r"$2\cdot 10^{-5}$", r"$3\cdot 10^{-5}$"]),
        (boke.Int(1, 64, log=True), ["1", "2", "5", "10", "20", "50"]),
        (boke.Int(1, 4), ["1", "2", "3", "4"]),
        (boke.Int(0, 100, step=25), ["0", "25", "50", "75", "100"]),
        (boke.Int(5, 5), ["5"]),
        (boke.Float(2.0, 2.0), ["2"]),
        (boke.Categorical(["a", 1, None]), ["a", "1", "None"]),
    ],
)
def test_ticks_are_few_round_and_inside(parameter, labels):
    positions, shown = ticks(parameter)
    assert shown == labels
    unit = parameter.encode(positions)
    assert ((unit >= 0) & (unit <= 1)).all()


@pytest.mark.parametrize("span", [1e-300, 1e-9, 0.7, 12.0, 1e12, 1.7e308])
@pytest.mark.parametrize("low", [0.0, -0.3, 5.0])
def test_ticks_of_any_range_are_between_two_and_ten(low, span):
    if low + span > low:
        positions, labels = ticks(boke.Float(low, low + span))
        assert 2 <= len(positions) <= 10
        assert len(set(labels)) == len(labels)


# every picture, in every situation

SITUATIONS = {
    "one trial": lambda: told([(0, 1)], [1.0]),
    "two trials": lambda: told({"a": boke.Float(0, 1)}, [1.0, 2.0]),
    "constant": lambda: told([(0, 1), (-1, 1)], [2.0] * 8),
    "one dimension": lambda: told({"k": boke.Int(1, 3)}, [1.0, 2.0, 3.0, 2.0, 1.0, 0.5]),
    "huge": lambda: told([(0, 1)], [-1e300, 1e300, 0.0, 1.0, 2.0, 3.0]),
    "infinite": lambda: told([(0, 1)], [math.inf, -math.inf, 1.0, 2.0]),
    "only infinite": lambda: told([(0, 1)], [math.inf, math.inf]),
    "failures": lambda: told([(0, 1)], [None, 1.0, None, 2.0, 3.0]),
    "fixed parameter": lambda: told(
        {"a": boke.Float(2, 2), "b": boke.Int(3, 3), "c": boke.Float(0, 1)}, [1.0, 2.0, 3.0]
    ),
    "bounds": lambda: told(Bounds([0, 0], [1, 2]), [1.0, 2.0, 3.0]),
    "arms": lambda: told(boke.Space.from_arms([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), [1.0, 2.0, 3.0, 2.0]),
    "one choice": lambda: told({"c": boke.Categorical(["only"]), "x": boke.Float(0, 1)}, [1.0, 2.0, 0.0]),
    "odd names": lambda: told({"$a$b": boke.Categorical(["$\\x$", "%"])}, [1.0, 2.0, 3.0]),
    "wide integers": lambda: told({"n": boke.Int(0, 10**6)}, [1.0, 2.0, 0.0, 4.0]),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_picture_draws(situation):
    source = SITUATIONS[situation]()
    names = list(source.space.parameters)
    draw(plotting.plot_convergence(source))
    draw(plotting.plot_parallel(source))
    for name in names:
        draw(plotting.plot_slice(source, name))
    if len(names) > 1:
        draw(plotting.plot_slice(plotting.model_slice(source, names[:2], at="best", n=20)))


def test_pictures_without_any_value():
    source = told([(0, 1)], [None, None])
    draw(plotting.plot_convergence(source))
    draw(plotting.plot_parallel(source))
    draw(plotting.plot_convergence(boke.Optimizer([(0, 1)])))
    draw(plotting.plot_parallel(boke.Optimizer([(0, 1)])))


@pytest.mark.parametrize(
    "plot",
    [plotting.plot_convergence, plotting.plot_parallel, lambda s, ax=None: plotting.plot_slice(s, "x0", ax=ax)],
)
def test_pictures_draw_where_they_are_told_to(plain, plot, tmp_path):
    figure = Figure()
    ax = figure.subplots()
    assert plot(plain, ax=ax) is ax
    own = plot(plain)
    assert isinstance(own, Axes)
    assert own.figure is not figure
    own.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_pyplot_is_left_alone(plain):
    import matplotlib.pyplot as plt

    before, figures = dict(matplotlib.rcParams), plt.get_fignums()
    plotting.plot_convergence(plain)
    plotting.plot_slice(plain, ("x0", "x1"), at="best")
    plotting.plot_parallel(plain)
    paper_figures.plot_acquisition()
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == figures


def test_a_missing_matplotlib_says_how_to_get_it(plain, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for plot in (
        lambda: plotting.plot_convergence(plain),
        lambda: plotting.plot_parallel(plain),
        lambda: plotting.plot_slice(plain, "x0"),
        paper_figures.plot_kernel_regression,
        paper_figures.plot_iterations,
    ):
        with pytest.raises(ImportError, match=r"pip install 'bokeopt\[plot\]'"):
            plot()
    assert len(plotting.convergence(plain).values) == 12  # data need no matplotlib


# the paper's figures


def test_figure_kr_smooths_too_little_right_and_too_much():
    data = paper_figures.regression_sample()
    assert len(data.X) == len(data.y) == 10
    assert (np.diff(data.bandwidths) > 0).all()
    chosen = KernelModel(data.X[:, None], data.y, bandwidth=LeastSquaresCV()).bandwidth[0]
    assert data.bandwidths[1] == pytest.approx(chosen)
    nearest = np.abs(data.x[:, None] - data.X).argmin(axis=1)
    assert np.mean(np.isclose(data.estimates[0], data.y[nearest], atol=1e-3)) > 0.95  # proposition 'degenerate KR'
    assert np.ptp(data.estimates[2]) < 0.5 * np.ptp(data.estimates[1])
    axes = draw(paper_figures.plot_kernel_regression(data))
    assert axes.shape == (3,)
    assert [ax.get_title(loc="left") for ax in axes] == ["A", "B", "C"]
    for ax, estimate in zip(axes, data.estimates, strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), plotting.toy(data.x))
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), estimate)


def test_figure_kde_shows_densities():
    data = paper_figures.density_sample()
    assert len(data.X) == 20
    np.testing.assert_allclose(data.truth, 0.7 * beta.pdf(data.x, 3, 8) + 0.3 * beta.pdf(data.x, 10, 2))
    by_hand = np.exp(-0.5 * ((data.x[:, None] - data.X) / data.bandwidths[1]) ** 2).sum(axis=1)
    np.testing.assert_allclose(data.estimates[1], by_hand / (math.sqrt(2 * math.pi) * data.bandwidths[1] * 20))
    assert trapezoid(data.estimates[0], data.x) == pytest.approx(1.0, abs=0.01)
    axes = draw(paper_figures.plot_kernel_density(data))
    assert axes.shape == (3,)
    np.testing.assert_array_equal(axes[2].lines[1].get_ydata(), data.estimates[2])


def test_figure_acquisition_marks_the_maximizer():
    (step,) = paper_figures.steps()
    assert len(step.X) == 5  # the sixth query
    np.testing.assert_allclose(step.acquisition, step.mean + step.bonus)
    assert np.interp(step.query, step.x, step.acquisition) == pytest.approx(step.acquisition.max(), abs=1e-3)
    axes = draw(paper_figures.plot_acquisition(step))
    assert axes.shape == (2,)
    assert axes[0].lines[0].get_linestyle() == "--"
    np.testing.assert_array_equal(axes[0].lines[1].get_ydata(), step.mean)
    assert float(axes[1].lines[0].get_xdata()[0]) == step.query


def test_figure_iteration_starts_both_from_the_same_points():
    boke_steps = paper_figures.steps(paper_figures.ILLUSTRATED, 4)
    plus_steps = paper_figures.steps(paper_figures.ILLUSTRATED_PLUS, 4)
    np.testing.assert_array_equal(boke_steps[0].X, plus_steps[0].X)
    np.testing.assert_array_equal(boke_steps[0].y, plus_steps[0].y)
    assert {step.branch for step in boke_steps} == {"explore"}
    assert {step.branch for step in plus_steps} == {"explore", "exploit"}
    for before, after in pairwise(plus_steps):
        assert (after.X[-1], after.y[-1]) == (before.query, before.value)
        wanted = before.mean if before.branch == "exploit" else before.mean + before.bonus
        np.testing.assert_allclose(before.acquisition, wanted)
    axes = draw(paper_figures.plot_iterations(boke_steps, plus_steps, shown=(1, 4)))
    assert axes.shape == (4, 2)
    assert "BOKE iteration 1" in axes[0, 0].get_title()
    assert "BOKE+ iteration 4" in axes[2, 1].get_title()


def test_figures_draw_where_they_are_told_to():
    axes = Figure().subplots(1, 3)
    assert paper_figures.plot_kernel_regression(axes=axes) is axes
    axes = Figure().subplots(4, 2)
    assert paper_figures.plot_iterations(shown=(1, 2), axes=axes) is axes


def test_steps_of_another_policy():
    policy = BOKE(y_scale="none", n_init=0)
    assert [len(step.X) for step in paper_figures.steps(policy, 3, n_init=7)] == [7, 8, 9]
