"""The report: one HTML file with all tables and curves that can be asked, which works from disk without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from boke_bench import analysis, figures
from boke_bench.figures import Curve
from boke_bench.labels import colour, dashed, label
from boke_bench.protocol import Array
from boke_bench.study import Study, View
from boke_bench.tables import tables, to_html

POINTS = 100  # of a curve; a screen shows no more

_CHOICES = {
    "evaluations": "Evaluations",
    "seconds": "Optimizer seconds",
    "cumulative": "Cumulative regret",
    "step": "Time per step",
}


def report(studies: Sequence[Study], title: str = "boke-bench report") -> str:
    """The whole page."""
    found = [study for study in studies if study.views]
    environments = {json.dumps(e, sort_keys=True): e for study in found for e in study.environments}
    machines = "; ".join(sorted({_machine(e) for e in environments.values()}))
    count = f"{len(found)} experiment{'s' * (len(found) != 1)}, {sum(study.done for study in found)} runs"
    lead = f"{count}. {machines}. Curves are medians over seeds, bands reach from the first to the third quartile."
    parts = {
        "title": escape(title),
        "lead": escape(lead),
        "nav": "".join(f'<a href="#study-{i}">{escape(study.experiment.title)}</a>' for i, study in enumerate(found)),
        "sections": "\n".join(_section(i, study) for i, study in enumerate(found)),
        "data": _json([_study(i, study) for i, study in enumerate(found)]),
        "style": _template("report.css"),
        "script": _template("report.js"),
    }
    page = _template("report.html")
    pieces = page.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:]))


def _section(number: int, study: Study) -> str:
    notes = [study.subtitle, str(study.experiment.definition.get("note", ""))]
    text = "".join(f"<p class=note>{escape(note)}</p>" for note in notes if note)
    errors = "".join(f"<li>{escape(line)}</li>" for line in study.errors)
    failed = f"<details><summary>{study.failed} failed runs</summary><ul>{errors}</ul></details>" if errors else ""
    environments = "".join(f"<li>{escape(_described(found))}</li>" for found in study.environments)
    return (
        f'<section id="study-{number}"><h2>{escape(study.experiment.title)}</h2>{text}'
        f'<div id="curves-{number}"></div><div class=tables>{"".join(map(to_html, tables(study)))}</div>{failed}'
        f"<details><summary>Versions and machines</summary><ul>{environments}</ul></details></section>"
    )


def _study(number: int, study: Study) -> dict[str, Any]:
    views = [_view(study, what) for what in figures.kinds(study)]
    if not study.experiment.timed and (profiles := figures.profiles(study)):
        views.append(_profile_view(profiles))
    return {
        "id": number,
        "name": study.name,
        "optimizers": [
            {"name": name, "label": label(name), "colour": colour(name), "dashed": dashed(name)}
            for name in study.optimizers
        ],
        "views": views,
    }


def _view(study: Study, what: str) -> dict[str, Any]:
    rows, columns = figures.grid(study)
    places = figures.places(study, rows, columns)
    order = sorted(range(len(study.views)), key=lambda i: places[i])
    return {
        "key": what,
        "label": "Points" if study.is_design else _CHOICES[what],
        "xlabel": figures.x_label(study, what),
        "xlog": what in ("seconds", "step") or study.is_design,
        "whole": what != "seconds",
        "columns": len(columns),
        "panels": [_panel(study, study.views[i], what) for i in order],
    }


def _panel(study: Study, view: View, what: str) -> dict[str, Any]:
    """Its curves, and how to show them: whether a log axis suits, where it ends, whether smaller is better."""
    curves = _curves(figures.curves(study, view, what))
    smaller = study.is_design or view.shows_regret or what in ("step", "cumulative")
    floor = analysis.SOLVED / 10 if view.shows_regret and what in ("evaluations", "seconds") else None
    ylabel = figures.y_label(study, view, what)
    return {"title": view.panel.title, "ylabel": ylabel, "smaller": smaller, "floor": floor, "curves": curves}


def _profile_view(profiles: Mapping[str, Mapping[str, Curve]]) -> dict[str, Any]:
    panels = []
    for title, shown in profiles.items():
        curves = {name: {"x": part["x"], "middle": part["middle"]} for name, part in _curves(shown).items()}
        share = {"ylabel": "share of targets reached", "smaller": False, "whole": True, "floor": None}
        panels.append({"title": title, "curves": curves, **share})
    return {
        "key": "profile",
        "label": "Data profile",
        "xlabel": "evaluations",
        "xlog": False,
        "whole": True,
        "columns": len(panels),
        "panels": panels,
    }


def _curves(curves: Mapping[str, Curve]) -> dict[str, dict[str, list[float | None]]]:
    return {name: _curve(curve) for name, curve in curves.items()}


def _curve(curve: Curve) -> dict[str, list[float | None]]:
    steps = np.unique(np.linspace(0, len(curve.x) - 1, POINTS).round().astype(int))
    low, middle, high = curve.quartiles[:, steps]
    return {"x": _short(curve.x[steps]), "low": _short(low), "middle": _short(middle), "high": _short(high)}


def _short(values: Array) -> list[float | None]:
    """Four digits are more than a screen shows; JSON has no nan."""
    shortened = (float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist())
    return [int(value) if value is not None and value.is_integer() else value for value in shortened]


def _json(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _machine(environment: Mapping[str, Any]) -> str:
    return f"{environment.get('machine', 'unknown machine')}, Python {environment.get('python', '?')}"


def _described(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in environment.get("versions", {}).items())
    where = f"{environment.get('system', '')}, commit {environment.get('commit') or '?'}"
    return f"{_machine(environment)}, {where}: {versions}"


def _template(name: str) -> str:
    return (files("boke_bench") / "templates" / name).read_text(encoding="utf-8")
