"""Tables of a study, and how they look in Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

import numpy as np

from boke_bench import analysis
from boke_bench.labels import label
from boke_bench.protocol import Array
from boke_bench.study import Cell, Study, View


@dataclass(frozen=True)
class Table:
    """Cells are plain text; ``best`` holds the (row, column) of those to be set in bold."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""
    best: set[tuple[int, int]] = field(default_factory=set)


# contents


def final_table(study: Study) -> Table:
    """Median and quartiles of each panel after the whole budget, over the seeds that all with that budget have."""
    names = study.optimizers
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for view in study.views:
        ends = _ends(view)
        medians = {name: float(np.nanmedian(values)) for name, values in ends.items()}
        eligible = {name: medians[name] for name in medians if view.cells[name].budget == view.budget}
        smaller = study.is_design or view.shows_regret
        winner = (min if smaller else max)(eligible, key=lambda name: eligible[name])
        row = [view.panel.title]
        for column, name in enumerate(names, start=1):
            cell = view.cells.get(name)
            if cell is not None and medians[name] == medians[winner] and name in eligible:
                best.add((len(rows), column))
            row.append("–" if cell is None else _median(ends[name]) + _short(cell, view.budget))
        rows.append(row)
    note = f"{study.subtitle}. Median over the seeds that all have, quartiles in brackets; @n: after n evaluations."
    return Table(
        f"{study.quantity[0].upper()}{study.quantity[1:]} at the end", ["", *map(label, names)], rows, note, best
    )


def rank_tables(study: Study, at: int | None = None) -> list[Table]:
    """Mean ranks with their intervals, one table for each set of optimizers that can be compared."""
    tables = []
    for compared in study.comparisons(at):
        names, _, scores, problems = compared
        ranks = analysis.mean_ranks(scores, problems)
        rows = [
            [label(names[i]), f"{ranks.value[i]:.2f}", f"{ranks.low[i]:.2f} to {ranks.high[i]:.2f}"]
            for i in np.argsort(ranks.value, kind="stable")
        ]
        tables.append(
            Table(
                f"Mean rank {compared.when}",
                ["", "mean rank", "95 % interval"],
                rows,
                f"{scores.shape[1]} blocks (problem and seed), {len(set(problems.tolist()))} problems. 1 is best. "
                "Bootstrap of the blocks within each problem, or of all blocks where there is one seed.",
            )
        )
    return tables


def win_tables(study: Study, at: int | None = None) -> list[Table]:
    """Share of blocks in which the row beats the column, with stars for what is more than chance."""
    tables = []
    for compared in study.comparisons(at):
        names, _, scores, problems = compared
        wins, p = analysis.win_rates(scores, problems), analysis.paired_tests(scores)
        rows = [
            [label(name)]
            + [
                "–" if i == j else f"{value:.2f}{_stars(p[i, j])} [{low:.2f}, {high:.2f}]"
                for j, (value, low, high) in enumerate(zip(*(part[i] for part in wins), strict=True))
            ]
            for i, name in enumerate(names)
        ]
        tables.append(
            Table(
                f"Win rate of the row against the column {compared.when}",
                ["", *map(label, names)],
                rows,
                f"{scores.shape[1]} blocks; ties count half; 95 % bootstrap interval. Wilcoxon signed-rank test of the "
                "paired scores with Holm's correction for all pairs: * p < 0.05, ** p < 0.01, *** p < 0.001.",
            )
        )
    return tables


def runtime_table(study: Study) -> Table:
    """Seconds of the optimizer in a whole run, the objective's time left out (table 'runtime')."""

    def entry(cell: Cell, full: int) -> str:
        totals = cell.optimizer_s.sum(axis=1)
        return _mean_sd(totals) + _short(cell, full)

    return _by_panel(study, "Seconds of the optimizer in a run", entry, "Mean ± standard deviation over runs")


def step_table(study: Study) -> Table:
    """Milliseconds of one suggestion: the mean over the steps after the initial design."""

    def entry(cell: Cell, full: int) -> str:
        return _mean_sd(1e3 * cell.optimizer_s[:, cell.n_init :].mean(axis=1))

    return _by_panel(study, "Milliseconds of the optimizer in a step", entry, "Mean ± standard deviation over runs")


def growth_table(study: Study) -> Table:
    """Fitted exponent of the time of an iteration (table 'computational complexity', measured)."""

    def entry(cell: Cell, full: int) -> str:
        if cell.budget < 2 * cell.n_init + 10:
            return "–"
        fit = analysis.growth(cell.optimizer_s, max(cell.n_init, cell.budget // 4))
        spread = f" [{fit.low:.2f}, {fit.high:.2f}]" if np.isfinite(fit.low) else ""
        return f"{round(fit.exponent, 2) + 0.0:.2f}{spread}, {_digits(fit.milliseconds)} ms @{fit.last}"

    return _by_panel(
        study,
        "Growth of the time of a step: exponent of t",
        entry,
        "Slope of log time in log t over the last three quarters of the run (medians in bins), its 95 % bootstrap "
        "interval over runs, and the fitted time of the last step",
    )


def tables(study: Study) -> list[Table]:
    """Everything that is worth a table in this study."""
    if not study.views:
        return []
    if study.is_design:
        return [final_table(study)]
    if study.experiment.timed:
        return [runtime_table(study), step_table(study), growth_table(study)]
    return [final_table(study), *rank_tables(study), *win_tables(study), runtime_table(study)]


# formats


def to_markdown(table: Table) -> str:
    """A table for GitHub, with its title and its note."""
    rows = _formatted(table, _markdown, "**{}**")
    header = [_markdown(text) for text in table.header]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"**{_markdown(table.title)}**\n\n{body}\n" + (f"\n{_markdown(table.note)}\n" if table.note else "")


def to_latex(table: Table) -> str:
    """A table environment with booktabs rules."""
    rows = _formatted(table, _latex, r"\textbf{{{}}}")
    lines = [" & ".join(row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_latex(table.title)}. {_latex(table.note)}}}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
            r"\toprule",
            " & ".join(map(_latex, table.header)) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_html(table: Table) -> str:
    """A figure-like block with a scrollable table in it."""
    head = "".join(f"<th>{escape(text)}</th>" for text in table.header)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<{tag}{' class=best' if (i, j) in table.best else ''}>{_two_lines(escape(text))}</{tag}>"
            for j, text in enumerate(row)
            for tag in ("th" if j == 0 else "td",)
        )
        + "</tr>"
        for i, row in enumerate(table.rows)
    )
    note = f"<p class=note>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<div class=table><h3>{escape(table.title)}</h3><div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{note}</div>"
    )


def to_csv(table: Table) -> str:
    """The cells, separated by commas."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "html": to_html,
    "csv": to_csv,
}


def _by_panel(study: Study, title: str, entry: Callable[[Cell, int], str], note: str) -> Table:
    """Optimizers down, panels across, as the paper sets its runtime table."""
    full = [view.budget for view in study.views]
    rows = [
        [label(name)]
        + [entry(view.cells[name], n) if name in view.cells else "–" for view, n in zip(study.views, full, strict=True)]
        for name in study.optimizers
    ]
    budgets = ", ".join(map(str, sorted(set(full))))
    cells = [cell for view in study.views for cell in view.cells.values()]
    stretch = sum(cell.wall_s.sum() for cell in cells) / max(sum(cell.optimizer_s.sum() for cell in cells), 1e-9)
    note = (
        f"{note}; {budgets} evaluations, or n where @n is written. {study.subtitle}. Processor time of one thread; "
        f"wall time was {stretch:.2f} times as long."
    )
    return Table(title, ["", *(view.panel.title for view in study.views)], rows, note)


def _ends(view: View) -> dict[str, Array]:
    """The last values of each optimizer's runs; where some have more seeds than others, only the common ones.

    Each seed may have an instance of its own, so medians over different seeds cannot be compared. Optimizers with
    smaller budgets, which nobody can compare either, keep theirs.
    """
    full = [cell for cell in view.cells.values() if cell.budget == view.budget]
    common = list(set.intersection(*(set(cell.seeds.tolist()) for cell in full)))
    ends = {}
    for name, cell in view.cells.items():
        kept = np.isin(cell.seeds, common) if common and cell.budget == view.budget else np.full(len(cell.seeds), True)
        ends[name] = cell.curve[kept, -1]
    return ends


def _median(values: Array) -> str:
    low, middle, high = (_digits(value) for value in np.nanquantile(values, (0.25, 0.5, 0.75)))
    return middle + (f" [{low}, {high}]" if len(values) > 1 else "")


def _short(cell: Cell, full: int) -> str:
    """Says that the budget was smaller than the others' in its place."""
    return f" @{cell.budget}" if cell.budget != full else ""


def _mean_sd(values: Array) -> str:
    sd = f" ± {_digits(float(values.std(ddof=1)))}" if len(values) > 1 else ""
    return f"{_digits(float(values.mean()))}{sd}"


def _digits(value: float) -> str:
    """Three significant digits, without an exponent where that is readable."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    if 1e-3 <= abs(value) < 1e5:
        decimals = max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:.{decimals}f}"
    return f"{value:.1e}"


def _stars(p: float) -> str:
    return "*" * sum(p < bound for bound in (0.05, 0.01, 0.001))


def _formatted(table: Table, escaped: Callable[[str], str], bold: str) -> list[list[str]]:
    return [
        [bold.format(escaped(text)) if (i, j) in table.best else escaped(text) for j, text in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]


def _two_lines(text: str) -> str:
    """An interval goes below its value, in small print."""
    return re.sub(r" (\[[^\]]*\])", r"<small>\1</small>", text)


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_<>`])", r"\\\1", text)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "×": r"$\times$", "–": "--", "<": "$<$",
    ">": "$>$",
}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
