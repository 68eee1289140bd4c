"""What ``boke run`` shows while it runs, and how it ends."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import click
from optuna.study import Study
from optuna.trial import TrialState

from boke.cli import store
from boke.cli.config import Config, log_name
from boke.cli.errors import Problem
from boke.cli.programs import evaluator_of
from boke.cli.runner import Finished, Runner, counted, summary
from boke.cli.text import best_line, number

SHOWN_FAILURES = 5  # one is told at once; of many, the page has them all


def run_study(config: Config, logs: Path | None, *, quiet: bool, as_json: bool) -> int:
    """Run, print the result, return the exit code."""
    evaluators = [evaluator_of(config) for _ in range(config.workers)]
    study = store.make(config)
    folder = (logs or config.folder / f"{log_name(config)}-logs").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f"The folder for logs, {folder}, cannot be made: {error}") from None
    runner = Runner(study, config.space, evaluators, folder)
    already = counted(study)
    with Display(study, config.trials, already, show=not quiet and not as_json) as display:
        try:
            runner.run(config.trials, display.heard)
        except OSError as error:
            raise Problem(f"The run has stopped: {error}. What was told is kept; the same command goes on.") from None
    answer = summary(study) | {"storage": config.storage, "logs": str(folder), "new": display.heard_of}
    _print(answer, config, quiet, as_json)
    if runner.signal is not None:
        click.echo("Interrupted. The same command goes on.", err=True)
        return 128 + runner.signal
    return 0 if answer["complete"] else 1


def _print(answer: dict[str, Any], config: Config, quiet: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, default=str))
    if quiet or as_json:
        return
    failed = f", {answer['fail']} failed" if answer["fail"] else ""
    click.echo(f"{answer['study']}: {answer['complete']} trials complete{failed}, in {config.storage}")
    if not answer["complete"]:
        click.echo(f"No trial succeeded. Look into {answer['logs']} for what they printed.", err=True)
    for best in answer.get("best", [])[:5]:
        click.echo(best_line(best))


class Display:
    """A progress bar with the best value and the time left, on a terminal; elsewhere a line now and then."""

    def __init__(self, study: Study, total: int, already: int, *, show: bool) -> None:
        self._sign = [-1.0 if d.name == "MAXIMIZE" else 1.0 for d in study.directions]
        self._best = math.inf
        if len(self._sign) == 1:
            done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            self._best = min((self._sign[0] * t.values[0] for t in done if t.values), default=math.inf)
        self._total, self._show, self._failures = total, show, 0
        self.heard_of = 0
        self._bar: Any = None
        self._already = already

    def __enter__(self) -> Display:
        if self._show and sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return self
            self._bar = tqdm(total=self._total, initial=self._already, unit="trial", dynamic_ncols=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def heard(self, news: Finished) -> None:
        self.heard_of += 1
        if news.values is not None and len(self._sign) == 1:
            self._best = min(self._best, self._sign[0] * news.values[0])
        if not self._show:
            return
        if news.reason is not None:
            self._failures += 1
            if self._failures <= SHOWN_FAILURES:
                last = " (further failures are not shown)" if self._failures == SHOWN_FAILURES else ""
                self._write(f"trial {news.number} failed: {news.reason}{last}")
        best = f"best {number(self._sign[0] * self._best)}" if math.isfinite(self._best) else ""
        if self._bar is not None:
            self._bar.set_postfix_str(best, refresh=False)
            self._bar.update()
        elif self.heard_of % max(1, self._total // 10) == 0:
            self._write(f"{self._already + self.heard_of} of {self._total} trials  {best}")

    def _write(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            click.echo(text, err=True)
