"""One self-contained HTML page about a study: no scripts, no links to the outside, pictures inside."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from boke.cli.analysis import At, explanations, importance, optimizer_of, recommended
from boke.cli.errors import Problem
from boke.cli.store import seed_of
from boke.cli.text import interval, number, params, shown
from boke.optimizer import Optimizer, Recommendation

SLICES = 6  # parameters that get a picture, the most important ones
LISTED = 12  # rows of the tables of best trials, failures and explanations


def report(study: Study) -> str:
    """The page."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise Problem("The report needs Matplotlib: pip install 'bokeopt[plot]'") from None
    trials = study.get_trials(deepcopy=False)
    if not any(trial.state is TrialState.COMPLETE for trial in trials):
        raise Problem(f"The study {study.study_name!r} has no complete trial yet: there is nothing to report.")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "boke", "font.size": 10}):
        body = _one(study, trials) if len(study.directions) == 1 else _several(study, trials)
    template = files("boke.cli").joinpath("report.html").read_text(encoding="utf-8")
    last = max((t.datetime_complete for t in trials if t.datetime_complete), default=None)
    fields = {
        "TITLE": escape(study.study_name),
        "WHEN": "" if last is None else f"last result {last:%Y-%m-%d %H:%M}",
        "BODY": body,
    }
    return re.sub("|".join(f"@{key}@" for key in fields), lambda match: fields[match[0][1:-1]], template)


def picture(study: Study, file: Path) -> None:
    """Progress, the most important parameter's slice and all trials, in one PNG."""
    from matplotlib.figure import Figure

    from boke import plotting

    optimizer = optimizer_of(study)
    names = list(importance(optimizer))
    figure = Figure(figsize=(12.0, 7.0), layout="constrained")
    axes = figure.subplot_mosaic([["progress", "slice"], ["all", "all"]])
    plotting.plot_convergence(optimizer, ax=axes["progress"])
    plotting.plot_slice(optimizer, names[0] if len(names) == 1 else tuple(names[:2]), ax=axes["slice"])
    plotting.plot_parallel(optimizer, ax=axes["all"])
    figure.suptitle(f"{study.study_name}: best {number(optimizer.best.value or 0.0)} of {len(study.trials)} trials")
    figure.savefig(file, dpi=120)


def _one(study: Study, trials: list[FrozenTrial]) -> str:
    from boke import plotting

    optimizer = optimizer_of(study)
    shares = importance(optimizer) if sum(t.state is TrialState.COMPLETE for t in trials) >= 3 else {}
    parts = [_cards(study, optimizer, trials)]
    note = "The line is the best so far, a point is a trial, a cross one that failed."
    parts.append(_section("Progress", _svg(partial(plotting.plot_convergence, optimizer), (8.4, 3.4)), note))
    if shares:
        parts.append(_section("Which parameters matter", _bars(shares), "Share in what the model does over the space."))
        names = list(shares)[:SLICES]
        slices = "".join(_svg(partial(plotting.plot_slice, optimizer, name)) for name in names)
        parts.append(
            _section(
                "Slices",
                f'<div class="grid">{slices}</div>',
                "The model along each parameter, the others as in the best trial; the band is its standard error.",
            )
        )
    if len(shares) > 1:
        pair = tuple(list(shares)[:2])
        parts.append(_figure(" × ".join(pair), partial(plotting.plot_slice, optimizer, pair), (8.4, 4.4)))
        parts.append(_figure("All trials", partial(plotting.plot_parallel, optimizer), (9.4, 3.8)))
    parts += [_best_table(study, trials), _explanations(study), _failures(trials)]
    return "\n".join(parts)


def _several(study: Study, trials: list[FrozenTrial]) -> str:
    front = {trial.number for trial in study.best_trials}
    values = np.array([trial.values[:2] for trial in trials if trial.state is TrialState.COMPLETE])
    chosen = np.array([trial.values[:2] for trial in trials if trial.number in front])

    def draw(ax: Any) -> None:
        ax.plot(*values.T, ".", color="0.6", markersize=5, label="trials")
        ax.plot(*chosen[np.argsort(chosen[:, 0])].T, "o", color="#1f5fa8", markersize=5, label="Pareto front")
        ax.set_xlabel("first objective")
        ax.set_ylabel("second objective")
        ax.legend(frameon=False)

    cards = _card("trials", str(len(trials))) + _card("on the Pareto front", str(len(front)))
    parts = [f'<div class="cards">{cards}</div>', _figure("Pareto front", draw, (6.4, 4.4))]
    return "\n".join([*parts, _table("Best trials", _rows(study.best_trials)), _failures(trials)])


def _cards(study: Study, optimizer: Optimizer, trials: list[FrozenTrial]) -> str:
    best, advice = optimizer.best, recommended(optimizer)
    failed = sum(trial.state is TrialState.FAIL for trial in trials)
    assert best.value is not None
    note = f"{failed} failed" if failed else "none failed"
    cards = [
        _card("trials", str(len(trials)), note),
        _card(f"best observed, in trial {best.number}", number(best.value), params(best.params)),
        _card("expected there", *_expected(optimizer.recommend(At(best.number)))),
        _card("expected at the recommended point", *_expected(advice), params(advice.params)),
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _expected(found: Recommendation) -> tuple[str, str]:
    return number(found.value), f"{interval(found.interval)}; {found.support:.1f} trials behind it"


def _explanations(study: Study) -> str:
    if seed_of(study) is None:  # sampled by somebody else
        return ""
    rows = [["trial", "why", "mean (score)", "exploration", "density", "past trials that argued for it"]]
    for n, why in explanations(study, LISTED):
        behind = ", ".join(f"#{trial} {share:.0%}" for trial, share in why.trials[:4] if share >= 0.005)
        density = number(why.density) if why.density >= 1e-3 else "≈ 0"
        rows.append([f"#{n}", why.branch, number(why.mean), number(why.exploration), density, behind])
    if len(rows) == 1:
        return ""
    note = "Values enter as scores: 0 is ordinary, 2 very good. Exploration is a bonus where little is known."
    return _table("How the last suggestions were made", rows, note)


def _failures(trials: list[FrozenTrial]) -> str:
    failed = [trial for trial in trials if trial.state is TrialState.FAIL]
    if not failed:
        return ""
    rows = [["trial", "reason", "parameters", "log"]]
    for trial in failed[-LISTED:][::-1]:
        attributes = trial.user_attrs
        reason, log = str(attributes.get("reason", "no reason recorded")), str(attributes.get("log", ""))
        rows.append([f"#{trial.number}", reason, params(trial.params), log])
    more = f" (the last {LISTED} of {len(failed)})" if len(failed) > LISTED else ""
    return _table(f"Failures{more}", rows)


def _best_table(study: Study, trials: list[FrozenTrial]) -> str:
    done = [trial for trial in trials if trial.state is TrialState.COMPLETE and trial.values]
    sign = -1.0 if study.directions[0].name == "MAXIMIZE" else 1.0
    done.sort(key=lambda trial: (sign * (trial.values or [math.nan])[0], trial.number))
    return _table("Best trials", _rows(done[:LISTED]))


def _rows(trials: list[FrozenTrial]) -> list[list[str]]:
    names = sorted({name for trial in trials for name in trial.params})
    rows = [["trial", "value", *names]]
    for trial in trials[:100]:
        values = ", ".join(number(value) for value in trial.values or [])
        rows.append([f"#{trial.number}", values, *(shown(trial.params.get(name, "")) for name in names)])
    return rows


def _table(title: str, rows: list[list[str]], note: str = "") -> str:
    head, *body = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    lines = "".join(f"<tr>{line}</tr>" for line in body)
    return _section(title, f'<div class="wide"><table><tr class="head">{head}</tr>{lines}</table></div>', note)


def _bars(shares: dict[str, float]) -> str:
    rows = [
        f'<div class="bar"><span>{escape(name)}</span><i style="width:{60 * share:.1f}%"></i><b>{share:.0%}</b></div>'
        for name, share in shares.items()
    ]
    return "".join(rows)


def _figure(title: str, draw: Callable[..., Any], size: tuple[float, float]) -> str:
    return _section(title, _svg(draw, size))


def _svg(draw: Callable[..., Any], size: tuple[float, float] = (4.2, 2.9)) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(ax=figure.subplots())
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    return f'<div class="figure">{text[text.index("<svg") :]}</div>'


def _section(title: str, content: str, note: str = "") -> str:
    small = f"<p>{escape(note)}</p>" if note else ""
    return f"<section><h2>{escape(title)}</h2>{small}{content}</section>"


def _card(label: str, value: str, *notes: str) -> str:
    small = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f'<div class="card"><h3>{escape(label)}</h3><b>{escape(value)}</b>{small}</div>'
