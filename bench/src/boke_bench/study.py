"""A study: an experiment with the results that the store has of it, as arrays that figures and tables read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from boke_bench import analysis, designs
from boke_bench.experiment import Experiment, Panel, described
from boke_bench.labels import label, sorted_names
from boke_bench.protocol import Array
from boke_bench.store import Record, Store

ENOUGH = 3  # blocks; ranks of fewer say nothing


@dataclass(frozen=True)
class Cell:
    """The finished runs of one optimizer on one panel, in the order of their seeds; n runs of T evaluations.

    Attributes:
        x: Evaluations 1, ..., T, or the sizes of the designs (T,).
        seeds: (n,).
        true: Values without noise (n, T); fill distances for designs.
        optimizer_s: Processor seconds of the optimizer in each step (n, T).
        wall_s: Wall seconds of the optimizer in each run (n,).
        optimum: (n,), nan where unknown.
        n_init: Points of the initial design.
        planned: How many runs there should be.
        failed: Seeds whose runs failed.
        is_design: Whether ``true`` holds fill distances.
        as_value: Whether figures show values although the optimum is known.
    """

    optimizer: str
    x: Array
    seeds: Array
    true: Array
    optimizer_s: Array
    wall_s: Array
    optimum: Array
    n_init: int
    planned: int
    failed: list[int]
    is_design: bool = False
    as_value: bool = False

    @property
    def budget(self) -> int:
        return int(self.x[-1])

    @property
    def knows_optimum(self) -> bool:
        return bool(np.isfinite(self.optimum).all())

    @property
    def shows_regret(self) -> bool:
        return self.knows_optimum and not self.as_value

    def of(self, seeds: Sequence[str]) -> Cell:
        """The runs of some seeds, those that were done."""
        kept = np.isin(np.asarray(self.seeds).astype(str), seeds)
        columns = ("seeds", "true", "optimizer_s", "wall_s", "optimum")
        return replace(self, **{name: getattr(self, name)[kept] for name in columns})

    @cached_property
    def regret(self) -> Array:
        """Simple regret (n, T)."""
        return analysis.simple_regret(self.true, self.optimum)

    @cached_property
    def curve(self) -> Array:
        """What the figure shows (n, T): simple regret where it can be known, otherwise the best value so far."""
        if self.is_design:
            return self.true
        return self.regret if self.shows_regret else analysis.best_so_far(self.true)


@dataclass(frozen=True)
class View:
    """A panel with its cells, in the order of the legend."""

    panel: Panel
    cells: Mapping[str, Cell]

    @property
    def budget(self) -> int:
        """The largest that an optimizer had here."""
        return max(cell.budget for cell in self.cells.values())

    @property
    def knows_optimum(self) -> bool:
        return all(cell.knows_optimum for cell in self.cells.values())

    @property
    def shows_regret(self) -> bool:
        return all(cell.shows_regret for cell in self.cells.values())


class Comparison(NamedTuple):
    """Scores (k, blocks) of optimizers after the same number of evaluations, on the blocks that all of them have.

    Attributes:
        optimizers: (k,).
        evaluations: After how many the problems are compared, if not all after the same number.
        scores: Smaller is better.
        problems: Which problem a block belongs to (blocks,).
    """

    optimizers: list[str]
    evaluations: list[int]
    scores: Array
    problems: Array

    @property
    def when(self) -> str:
        """after 300 evaluations"""
        return f"after {' or '.join(map(str, self.evaluations))} evaluations"


@dataclass(frozen=True)
class Study:
    """An experiment and what is known about it.

    Attributes:
        experiment: The plan.
        views: One for each panel that has results.
        done: Finished runs.
        failed: Failed runs.
        planned: All runs of the optimizers that have any.
        environments: Different environments of the runs.
        errors: One line for each failed run.
    """

    experiment: Experiment
    views: list[View]
    done: int
    failed: int
    planned: int
    environments: list[Mapping[str, Any]]
    errors: list[str]

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def subtitle(self) -> str:
        """How much was run, and what is missing."""
        text = described(self.experiment, self.optimizers)
        extras = self.experiment.definition.get("extras", [])
        if missing := [name for name in self.experiment.optimizers if name not in [*self.optimizers, *extras]]:
            text += f"; without {', '.join(map(label, missing))}"
        if self.done < self.planned:
            text += f"; so far {self._seeds_done()}" + (f"; {self.failed} runs failed" if self.failed else "")
        return text

    def _seeds_done(self) -> str:
        """Finished seeds of the optimizers: '10 seeds of CMA-ES, 1 to 2 seeds of BORE, LFBO'."""
        groups: dict[tuple[int, int], list[str]] = {}
        for name in self.optimizers:
            counts = [len(view.cells[name].seeds) for view in self.views if name in view.cells]
            groups.setdefault((min(counts), max(counts)), []).append(label(name))
        parts = []
        for (low, high), names in sorted(groups.items(), reverse=True):
            number = str(low) if low == high else f"{low} to {high}"
            parts.append(f"{number} seed{'s' * (high > 1)} of {', '.join(names)}")
        return ", ".join(parts)

    @property
    def optimizers(self) -> list[str]:
        return sorted_names(list({name for view in self.views for name in view.cells}))

    @property
    def is_design(self) -> bool:
        return self.experiment.kind == "design"

    @property
    def quantity(self) -> str:
        """Name of the y axis of its curves."""
        if self.is_design:
            return "fill distance"
        shown = {"simple regret" if view.shows_regret else "best value" for view in self.views}
        return shown.pop() if len(shown) == 1 else "simple regret, or best value where the optimum is unknown,"

    def comparisons(self, at: int | None = None) -> list[Comparison]:
        """All optimizers after the smallest budget among them, and those with the full budget after that.

        Args:
            at: Compare after this many evaluations at most.
        """
        if self.is_design:
            return []
        complete = [
            name
            for name in self.optimizers
            if all(view.cells[name].budget == view.budget for view in self.views if name in view.cells)
        ]
        found = {tuple(names): self._compare(names, at) for names in (self.optimizers, complete) if len(names) > 1}
        return [part for part in found.values() if part.scores.shape[1] >= ENOUGH]

    def _compare(self, names: list[str], at: int | None) -> Comparison:
        columns, problems, evaluations = [], [], set()
        for i, view in enumerate(self.views):
            if not all(name in view.cells for name in names):
                continue
            n = min(at or view.budget, *(view.cells[name].budget for name in names))
            scores = {name: _scores(view.cells[name], n) for name in names}
            if not view.knows_optimum:
                scores = _standardised(scores)
            for seed in sorted(set.intersection(*(set(known) for known in scores.values()))):
                columns.append([scores[name][seed] for name in names])
                problems.append(i)
                evaluations.add(n)
        table = np.array(columns).reshape(-1, len(names)).T
        return Comparison(names, sorted(evaluations), table, np.array(problems))


def pooled(studies: Sequence[Study], where: Mapping[str, Any], only: Sequence[str] | None = None) -> Study:
    """Several studies as one, to compare optimizers over more problems than one figure has.

    Args:
        studies: At least one.
        where: Values that the spec of a problem or the "seed" must have, several with commas between them.
        only: The optimizers to compare; all by default.
    """
    where = dict(where)
    seed = where.pop("seed", None)
    views = []
    for view in (view for study in studies for view in study.views):
        if any(str(view.panel.problem.get(key)) not in str(value).split(",") for key, value in where.items()):
            continue
        cells = {name: cell for name, cell in view.cells.items() if only is None or name in only}
        if seed is not None:
            cells = {name: some for name, cell in cells.items() if len((some := cell.of(str(seed).split(","))).seeds)}
        if cells:
            views.append(View(view.panel, cells))
    return replace(studies[0], views=views)


def load_study(experiment: Experiment, store: Store) -> Study:
    """Read what the store has."""
    runs = experiment.runs()
    records = store.records(run.id for run in runs)
    cells: dict[tuple[int, str], list[tuple[int, Record | None]]] = {}
    for run in runs:
        cells.setdefault((run.panel, run.optimizer), []).append((run.seed, records.get(run.id)))
    views, as_value = [], experiment.figure.get("show") == "value"
    for i, panel in enumerate(experiment.panels):
        mine = {name: _cell(name, found, as_value) for (j, name), found in cells.items() if j == i}
        named = {name: cell for name in sorted_names(list(mine)) if (cell := mine[name]) is not None}
        if named:
            views.append(View(panel, named))
    texts = {str(record.environment): record.environment for record in records.values() if record.environment}
    failed = sum(record.failed for record in records.values())
    begun = {record.spec["optimizer"] for record in records.values()}
    planned = sum(run.optimizer in begun for run in runs)
    errors = [
        f"{label(run.optimizer)} on {experiment.panels[run.panel].title}, seed {run.seed}: {_last_line(record.error)}"
        for run in runs
        if (record := records.get(run.id)) is not None and record.failed
    ]
    return Study(experiment, views, len(records) - failed, failed, planned, list(texts.values()), errors)


def _cell(optimizer: str, found: list[tuple[int, Record | None]], as_value: bool) -> Cell | None:
    """A cell, if there is at least one result."""
    good = [(seed, record) for seed, record in found if record is not None and not record.failed]
    if not good:
        return None
    spec = good[0][1].spec
    is_design = spec["kind"] == "design"
    steps = designs.sizes(spec["budget"]) if is_design else range(1, spec["budget"] + 1)
    return Cell(
        optimizer=optimizer,
        x=np.array(steps, dtype=float),
        seeds=np.array([seed for seed, _ in good]),
        true=np.array([record.true for _, record in good]),
        optimizer_s=np.array([record.optimizer_s for _, record in good]),
        wall_s=np.array([record.wall_s for _, record in good]),
        optimum=np.array([np.nan if record.optimum is None else record.optimum for _, record in good]),
        n_init=int(spec["n_init"]),
        planned=len(found),
        failed=[seed for seed, record in found if record is not None and record.failed],
        is_design=is_design,
        as_value=as_value,
    )


def _scores(cell: Cell, evaluations: int) -> dict[int, float]:
    """Score of each seed, smaller is better; a failed run is worse than all others."""
    if cell.knows_optimum:
        scores = analysis.score(cell.regret[:, evaluations - 1])
    else:
        scores = -analysis.best_so_far(cell.true)[:, evaluations - 1]
    known = {int(seed): float(value) for seed, value in zip(cell.seeds, scores, strict=True)}
    known = {seed: value if np.isfinite(value) else np.inf for seed, value in known.items()}
    return known | dict.fromkeys(cell.failed, np.inf)


def _standardised(scores: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Values without a known optimum in units of their spread, so that problems can be put together."""
    values = np.array([value for known in scores.values() for value in known.values() if np.isfinite(value)])
    spread = float(values.std()) if values.size and values.std() > 0 else 1.0
    return {name: {seed: value / spread for seed, value in known.items()} for name, known in scores.items()}


def _last_line(error: str) -> str:
    lines = [line for line in error.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
