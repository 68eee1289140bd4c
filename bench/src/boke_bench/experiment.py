"""Experiments: a TOML file is a grid of problems, optimizers and seeds; here it becomes panels and runs.

    title = "..."                      what the figure is called
    kind = "optimize"                  or "design": fill distance instead of optimization
    timed = false                      true: seconds are the result, so nothing else runs at the same time
    optimizers = ["rs", "boke"]        names of the bench, or "package.module:factory"
    extras = ["turbo-enn"]             only with --extras
    seeds = 10                         0, 1, ..., 9
    budget = 300                       evaluations, n_init included
    n_init = 20                        points of the shared Latin hypercube
    full = { seeds = 50, budget = 500 }                      the paper's scale, for --scale full

    [[problems]]
    spec = { kind = "bbob", function = [1, 8], dim = [2, 5], instance = "seed" }
    label = "..."                      optional: name of the panel, if it has no row and column
    budget = 100                       optional, as are seeds, n_init, optimizers, full: for this table only

    [[overrides]]                      for some optimizers; --scale full knows only their options
    optimizers = ["gp-ei"]
    seeds = 3
    only = { function = [8] }          no other problems
    options = { }                      handed to the optimizer

    [figure]
    rows = "function"                  keys of spec that become the rows and columns of the figure
    columns = "dim"
    names = { function = { 1 = "Sphere", 8 = "Rosenbrock" } }
    show = "value"                     instead of the regret
    without_in_seconds = ["rs"]        not drawn against seconds

A list in ``spec`` stands for each of its values; "seed" as a value stands for the seed plus one. A file with nothing
but ``title`` and ``include = ["name", ...]`` is a collection of experiments.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

Spec = dict[str, Any]
Scale = float | str  # a number, or "full"

_SETTINGS = {"seeds", "budget", "n_init"}
_TOP = {"title", "paper", "note", "kind", "timed", "optimizers", "extras", "full", "problems", "overrides", "figure"}
_FIGURE = {"rows", "columns", "names", "show", "without_in_seconds"}


class ExperimentError(ValueError):
    """An experiment that cannot be found, read or understood."""


@dataclass(frozen=True)
class Run:
    """One optimizer on one problem with one seed; ``spec`` says everything that its result depends on."""

    spec: Spec
    panel: int

    @property
    def id(self) -> str:
        """The same for the same spec, whichever experiment asks for it."""
        return sha256(canonical(self.spec).encode()).hexdigest()[:20]

    @property
    def optimizer(self) -> str:
        return str(self.spec["optimizer"])

    @property
    def seed(self) -> int:
        return int(self.spec["seed"])

    @property
    def budget(self) -> int:
        return int(self.spec["budget"])


@dataclass(frozen=True)
class Panel:
    """One problem of the grid, before the seed is put in.

    Attributes:
        problem: Its spec.
        row: Name of its row in the figure.
        column: Name of its column.
        table: The entry of ``[[problems]]`` that it comes from.
    """

    problem: Spec
    row: str
    column: str
    table: Spec = field(repr=False)

    @property
    def title(self) -> str:
        return ", ".join(part for part in (self.row, self.column) if part)


@dataclass(frozen=True)
class Experiment:
    """A definition, as read from its file, at one scale."""

    name: str
    definition: Spec
    scale: Scale = 1.0
    extras: bool = False

    def __post_init__(self) -> None:
        _check(self.name, self.definition)

    @property
    def title(self) -> str:
        return str(self.definition["title"])

    @property
    def kind(self) -> str:
        return str(self.definition.get("kind", "optimize"))

    @property
    def timed(self) -> bool:
        return bool(self.definition.get("timed", False))

    @property
    def figure(self) -> Spec:
        return dict(self.definition.get("figure", {}))

    @property
    def optimizers(self) -> list[str]:
        """Every name that occurs, in the order of the file."""
        names = [name for table in self.definition["problems"] for name in self._optimizers(table)]
        return list(dict.fromkeys([*self._optimizers({}), *names]))

    @property
    def panels(self) -> list[Panel]:
        return [
            Panel(spec, *self._place(spec, table), table)
            for table in self.definition["problems"]
            for spec in _combinations(table["spec"])
        ]

    def runs(self) -> list[Run]:
        """All runs, seed by seed, so that an unfinished experiment has something of everything."""
        found: dict[str, Run] = {}
        order = sorted(self._unsorted(), key=lambda run: run.seed)
        for run in order:
            found.setdefault(run.id, run)
        return list(found.values())

    def taking_part(self, panel: Panel) -> list[str]:
        """Optimizers of a panel, before overrides exclude some."""
        return self._optimizers(panel.table)

    def settings(self, panel: Panel, optimizer: str) -> Spec | None:
        """Seeds, budget, n_init and options of an optimizer on a panel; None where it does not take part."""
        top, table = self.definition, panel.table
        chosen: Spec = {"seeds": 1, "budget": 100, "n_init": 10}
        layers = [top, top.get("full", {}) if self.scale == "full" else {}]
        layers += [table, table.get("full", {}) if self.scale == "full" else {}]
        options: Spec = {}
        for override in top.get("overrides", []):
            if optimizer not in override["optimizers"]:
                continue
            options |= override.get("options", {})
            if self.scale == "full":
                continue
            if any(panel.problem.get(key) not in values for key, values in override.get("only", {}).items()):
                return None
            layers.append(override)
        for layer in layers:
            chosen |= {key: layer[key] for key in _SETTINGS if key in layer}
        if isinstance(self.scale, float):
            chosen["seeds"] = max(1, round(chosen["seeds"] * self.scale))
            chosen["budget"] = max(chosen["n_init"] + 1, round(chosen["budget"] * self.scale))
        return {**chosen, "options": options}

    def _unsorted(self) -> Iterator[Run]:
        for index, panel in enumerate(self.panels):
            for optimizer in self.taking_part(panel):
                chosen = self.settings(panel, optimizer)
                if chosen is None:
                    continue
                for seed in range(chosen["seeds"]):
                    spec = {
                        "kind": self.kind,
                        "problem": {k: seed + 1 if v == "seed" else v for k, v in panel.problem.items()},
                        "optimizer": optimizer,
                        "options": chosen["options"],
                        "seed": seed,
                        "budget": chosen["budget"],
                        "n_init": chosen["n_init"],
                    }
                    if self.timed:
                        spec["timed"] = True
                    yield Run(spec, index)

    def _optimizers(self, table: Spec) -> list[str]:
        names: list[str] = table.get("optimizers") or self.definition.get("optimizers", [])
        return [*names, *(self.definition.get("extras", []) if self.extras else [])]

    def _place(self, spec: Spec, table: Spec) -> tuple[str, str]:
        """Names of the row and the column; problems that the figure does not place get a row of their own."""
        if "label" in table:
            return str(table["label"]), ""
        names = self.figure.get("names", {})

        def name(key: str) -> str:
            value = spec[key]
            given = names.get(key, {}).get(str(value))
            return str(given) if given else f"d = {value}" if key == "dim" else f"{key} {value}"

        rows, columns = self.figure.get("rows"), self.figure.get("columns")
        row = name(rows) if rows in spec else ""
        column = name(columns) if columns in spec else ""
        if row or column:
            return row, column
        return ", ".join(str(value) for key, value in spec.items() if key != "instance"), ""


def canonical(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal texts for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def key(*parts: Any) -> int:
    """A seed (63 bit) that depends on all the parts and on nothing else."""
    return int.from_bytes(sha256(canonical(parts).encode()).digest()[:8], "big") >> 1


def names() -> list[str]:
    """Experiments and collections that come with the bench."""
    return sorted(entry.name[:-5] for entry in _shipped().iterdir() if entry.name.endswith(".toml"))


def load(name: str, scale: Scale = 1.0, extras: bool = False) -> list[Experiment]:
    """The experiment of this name or file; several if it is a collection."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise ExperimentError(f"There is no file {name}.")
        text, stem = path.read_text(encoding="utf-8"), path.stem
    elif name in names():
        text, stem = (_shipped() / f"{name}.toml").read_text(encoding="utf-8"), name
    else:
        raise ExperimentError(f"There is no experiment {name!r}. There are {', '.join(names())}; or name a .toml file.")
    try:
        definition = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{name} is not valid TOML: {error}") from error
    if "include" in definition:
        return [found for part in definition["include"] for found in load(part, scale, extras)]
    return [Experiment(stem, definition, scale, extras)]


def described(experiment: Experiment, among: Iterable[str] | None = None) -> str:
    """How much is run, in words: '10 seeds × 300 evaluations (GP-EI: 3 × 120)', and by how much that is scaled.

    Args:
        experiment: The plan.
        among: The optimizers that are spoken of; all of them by default.
    """
    from boke_bench.labels import label

    sizes: dict[tuple[int, int], list[str]] = {}
    for panel in experiment.panels:
        for name in experiment.taking_part(panel):
            chosen = experiment.settings(panel, name)
            if chosen is not None and (among is None or name in among):
                group = sizes.setdefault((chosen["seeds"], chosen["budget"]), [])
                group.extend([name] if name not in group else [])
    unit = "points" if experiment.kind == "design" else "evaluations"
    everybody = {name for group in sizes.values() for name in group}
    parts: list[str] = []
    for (seeds, budget), group in sorted(sizes.items(), key=lambda item: -len(item[1])):
        if not parts:
            parts.append(f"{seeds} seed{'s' * (seeds != 1)} × {budget} {unit}")
        else:
            who = "other panels" if set(group) == everybody else ", ".join(map(label, group))
            parts.append(f"{who}: {seeds} × {budget}")
    text = (parts[0] if parts else "nothing") + (f" ({'; '.join(parts[1:])})" if parts[1:] else "")
    return text if experiment.scale in (1.0, "full") else f"scaled by {experiment.scale:g}: {text}"


def _shipped() -> Any:
    return files("boke_bench") / "experiments"


def _combinations(spec: Mapping[str, Any]) -> Iterator[Spec]:
    """Every choice of one value from each list, the last key running fastest."""
    values = [value if isinstance(value, list) else [value] for value in spec.values()]
    for chosen in product(*values):
        yield dict(zip(spec, chosen, strict=True))


def _check(name: str, definition: Spec) -> None:
    def fail(message: str) -> None:
        raise ExperimentError(f"Experiment {name}: {message}")

    def known(table: Mapping[str, Any], allowed: set[str], where: str) -> None:
        unknown = sorted(set(table) - allowed)
        if unknown:
            fail(f"{where} has no key {', '.join(map(repr, unknown))}. It may have: {', '.join(sorted(allowed))}.")

    def positive(table: Mapping[str, Any], where: str) -> None:
        for setting in _SETTINGS & set(table):
            value = table[setting]
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                fail(f"{where}: {setting!r} must be a positive integer. Got {value!r}.")

    known(definition, _TOP | _SETTINGS, "the file")
    if not isinstance(definition.get("title"), str):
        fail("'title' is missing.")
    if definition.get("kind", "optimize") not in ("optimize", "design"):
        fail(f"'kind' must be 'optimize' or 'design'. Got {definition['kind']!r}.")
    tables: Sequence[Any] = definition.get("problems", [])
    if not isinstance(tables, list) or not tables:
        fail("there is no [[problems]] table.")
    for table in tables:
        known(table, {"spec", "label", "optimizers", "full"} | _SETTINGS, "[[problems]]")
        if not isinstance(table.get("spec"), dict) or not table["spec"]:
            fail("a [[problems]] table needs spec = { ... }.")
        if not table.get("optimizers", definition.get("optimizers")):
            fail("'optimizers' is missing.")
        positive(table, "[[problems]]")
        known(table.get("full", {}), _SETTINGS, "full")
    for override in definition.get("overrides", []):
        known(override, {"optimizers", "only", "options"} | _SETTINGS, "[[overrides]]")
        if not override.get("optimizers"):
            fail("an [[overrides]] table needs 'optimizers'.")
        if any(not isinstance(values, list) for values in override.get("only", {}).values()):
            fail("'only' needs lists, as in only = { dim = [2] }.")
        positive(override, "[[overrides]]")
    known(definition.get("full", {}), _SETTINGS, "full")
    known(definition.get("figure", {}), _FIGURE, "[figure]")
    positive(definition, "the file")
    positive(definition.get("full", {}), "full")
