"""The record of ``boke_bench.speed`` as a figure and as tables, with its goals and whether they are met."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

from matplotlib.figure import Figure

from boke_bench.labels import colour, dashed, label
from boke_bench.tables import Table

Record = dict[str, Any]
Goal = tuple[str, str, bool]  # what was aimed at, what was measured, whether it was reached
GRID = "#e3e5e8"
PARTS = (
    "bulk", "sequential", "sums", "paper", "batches", "catalogue", "policies", "long_history", "quality", "import_s",
)  # fmt: skip


def draw(record: Record) -> Figure:
    """Median cost of ask + tell against the number of observations; the band reaches the 99th percentile."""
    rows = record["bulk"]
    dims = sorted({row["d"] for row in rows})
    figure = Figure(figsize=(3.3 * len(dims) + 0.6, 3.6), layout="constrained", dpi=110)
    for ax, d in zip(figure.subplots(1, len(dims), sharey=True, squeeze=False)[0], dims, strict=True):
        for name in dict.fromkeys(row["optimizer"] for row in rows):
            mine = [row for row in rows if row["optimizer"] == name and row["d"] == d]
            t, median, top = ([row[key] for row in mine] for key in ("t", "median_ms", "p99_ms"))
            style = {"color": colour(name), "linestyle": "dashed" if dashed(name) else "solid"}
            ax.plot(t, median, marker="o", markersize=3, label=_name(name), **style)
            ax.fill_between(t, median, top, color=colour(name), alpha=0.12, linewidth=0)
        ax.set(xscale="log", yscale="log", title=f"d = {d}", xlabel="observations")
        ax.grid(color=GRID)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("ask + tell, milliseconds")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _name(name: str) -> str:
    return {"default": "boke", "skopt": "scikit-optimize"}.get(name) or label(name)


def goals(record: Record) -> Iterator[Goal]:
    """All of them, part by part of the record."""
    for part in (_of_steps, _of_runs, _of_growth, _of_sums, _of_batches, _of_the_rest):
        yield from part(record)


def _of_steps(record: Record) -> Iterator[Goal]:
    cost = {(r["optimizer"], r["t"], r["d"]): r["median_ms"] for r in record["bulk"]}
    for other, t, share in (("tpe", 100, 10), ("tpe", 1000, 30), ("turbo-enn", 10_000, 1), ("turbo-enn", 100_000, 20)):
        for d in sorted({row["d"] for row in record["bulk"]}):
            if (other, t, d) in cost:
                ratio = cost[other, t, d] / cost["default", t, d]
                aim = f"{_name(other)} takes at least {share} times as long, t = {t:,}, d = {d}"
                yield aim, f"{ratio:.1f} times", ratio >= share


def _of_runs(record: Record) -> Iterator[Goal]:
    runs = {(r["optimizer"], r["evaluations"]): r["seconds"] for r in record["sequential"]}
    shorter = sorted({n for name, n in runs if name == "tpe"})[:-1]
    for other, share in (("tpe", 10), ("turbo-enn", 3), ("gp-ei", 500)):
        for n, seconds in ((n, seconds) for (name, n), seconds in runs.items() if name == other):
            ratio, least = seconds / runs["default", n], 3 if n in shorter else share
            aim = f"{_name(other)} takes at least {least} times as long, run of {n}, d = 10"
            yield aim, f"{ratio:.1f} times", ratio >= least
    for (_, n), seconds in ((run, seconds) for run, seconds in runs.items() if run[0] == "gp-ei"):
        for more in shorter:
            ratio = seconds / runs["default", more]
            aim = f"{n} evaluations of GP-EI take at least 100 times as long as {more}, d = 10"
            yield aim, f"{ratio:.1f} times", ratio >= 100
    for row in record["paper"]:
        ratio = row["faithful_numpy_s"] / row["compiled_s"]
        aim = f"BOKE, T = {row['evaluations']}, 5 times as fast as in NumPy, d = {row['d']}"
        yield aim, f"{ratio:.1f} times", ratio >= 5


def _of_growth(record: Record) -> Iterator[Goal]:
    for what in ("median", "mean"):
        slope = record[f"exponent_of_{what}"]
        if slope is not None:
            yield f"exponent of the {what} cost in t, 1,000 to 1,000,000, at most 0.3", f"{slope:.2f}", slope <= 0.3
    for row in record["bulk"]:
        if row["optimizer"] == "default":
            ratio = row["p99_ms"] / row["median_ms"]
            yield f"p99 at most 5 medians, t = {row['t']:,}, d = {row['d']}", f"{ratio:.1f}", ratio <= 5.0


def _of_sums(record: Record) -> Iterator[Goal]:
    for row in record["sums"]:
        for precision, key in (("double", "ratio"), ("single", "single_ratio")):
            if key in row:
                aim = f"a kernel evaluation in {precision} precision at most 2 exponentials, d = {row['d']}"
                yield aim, f"{row[key]:.1f}", row[key] <= 2.0


def _of_batches(record: Record) -> Iterator[Goal]:
    ours = {(r["d"], r["n"]): r for r in record["batches"] if r["optimizer"] == "default"}
    for row in record["batches"]:
        if row["optimizer"] == "tpe":
            mine = ours[row["d"], row["n"]]
            aim = f"a batch of {row['n']} as spread as TPE's, no duplicates, d = {row['d']}"
            measured = f"mean gap {mine['mean_gap']:.3g} beside {row['mean_gap']:.3g}"
            yield aim, measured, mine["mean_gap"] >= row["mean_gap"] and mine["duplicates"] == 0
    for d in sorted({key[0] for key in ours}):
        sizes = sorted(n for found, n in ours if found == d)
        first, last = (ours[d, n]["ms_per_point"] for n in (sizes[0], sizes[-1]))
        measured = f"{first:.2f} ms a point at n = {sizes[0]}, {last:.2f} at {sizes[-1]}"
        yield f"cost of a batch linear in n, d = {d}", measured, last <= 1.1 * first


def _of_the_rest(record: Record) -> Iterator[Goal]:
    long = record["long_history"]
    beside = long["bytes_per_observation"] - long["bytes_of_the_data"]
    yield "at most 100 bytes an observation beside the data", f"{beside:.0f}", beside <= 100.0
    yield "import in 0.3 s", f"{record['import_s']:.2f} s", record["import_s"] <= 0.3
    # so many standard errors that all of them together stay within by chance in 19 of 20 records
    within = NormalDist().inv_cdf(1.0 - 0.025 / max(1, len(record["quality"])))
    for row in record["quality"]:
        near = abs(row["mean_difference"]) <= within * row["standard_error"]
        change = f"log10 regret {row['mean_difference']:+.2f} ± {row['standard_error']:.2f}"
        yield f"regret as without the index and the sample, BBOB f{row['function']}, d = {row['d']}", change, near


def tables(record: Record) -> list[Table]:
    """All figures, and the goals."""
    aims = list(goals(record))
    found = [
        Table(
            "Goals",
            ["goal", "measured", "reached"],
            [[aim, measured, "yes" if reached else "no"] for aim, measured, reached in aims],
            best={(i, 2) for i, (_, _, reached) in enumerate(aims) if not reached},
        ),
        Table(
            "ask + tell after t observations told at once, ms",
            ["d", "t", "optimizer", "median", "p99", "steps", "loading, s"],
            [
                [str(r["d"]), f"{r['t']:,}", _name(r["optimizer"]), _ms(r["median_ms"]), _ms(r["p99_ms"]),
                 str(r["steps"]), f"{r['loading_s']:.2f}"]
                for r in record["bulk"]
            ],
        ),
        Table(
            "Whole runs from nothing, d = 10",
            ["optimizer", "evaluations", "seconds"],
            [[_name(r["optimizer"]), str(r["evaluations"]), f"{r['seconds']:.2f}"] for r in record["sequential"]],
        ),
        Table(
            "The paper's runtimes, seconds",
            ["d", "evaluations", "the paper's BOKE", "BOKE in NumPy, word for word", "boke's BOKE by NumPy",
             "boke's BOKE, compiled", "boke's default"],
            [
                [str(r["d"]), str(r["evaluations"]), f"{r['paper_s']:.2f}",
                 *(f"{r[key]:.2f}" for key in ("faithful_numpy_s", "same_policy_numpy_s", "compiled_s", "default_s"))]
                for r in record["paper"]
            ],
        ),
        Table(
            "Kernel sums, ns",
            ["d", "kernel evaluation", "in single precision", "exponential by NumPy"],
            [
                [str(r["d"]), f"{r['kernel_ns']:.2f}", f"{r['single_ns']:.2f}" if "single_ns" in r else "",
                 f"{r['exp_ns']:.2f}"]
                for r in record["sums"]
            ],
        ),
        Table(
            "Batches after 200 observations",
            ["d", "n", "optimizer", "ms a point", "mean gap", "duplicates"],
            [
                [str(r["d"]), str(r["n"]), _name(r["optimizer"]), f"{r['ms_per_point']:.2f}", f"{r['mean_gap']:.3g}",
                 str(r["duplicates"])]
                for r in record["batches"]
            ],
        ),
        Table(
            "ask + tell of BOKE over a finite set of points, d = 5, ms",
            ["points", "observations", "sums kept", "sums made afresh", "the first, kept"],
            [
                [f"{r['points']:,}", f"{r['t']:,}", _ms(r["kept_ms"]), _ms(r["afresh_ms"]), _ms(r["kept_first_ms"])]
                for r in record["catalogue"]
            ],
        ),
        Table(
            "ask + tell of every policy after t observations told at once, ms",
            ["d", "t", "policy", "median", "p99", "the first"],
            [
                [str(r["d"]), f"{r['t']:,}", r["policy"], *(_ms(r[key]) for key in ("median_ms", "p99_ms", "first_ms"))]
                for r in record["policies"]
            ],
        ),
    ]  # fmt: skip
    long = record["long_history"]
    rows = [[key, f"{value:.3g}" if isinstance(value, float) else f"{value:,}"] for key, value in long.items()]
    return [*found, Table("A long history", ["what", "measured"], rows)]


def _ms(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
