"""The commands. Each reads its arguments, calls what does the work, and prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
import optuna
from optuna.study import Study
from optuna.trial import TrialState

import boke as library
from boke.cli import analysis, config, export, store
from boke.cli.errors import Problem
from boke.cli.reading import reading_from_option
from boke.cli.runner import fail, point, summary
from boke.cli.running import run_study
from boke.cli.text import best_line, interval, number, params

F = TypeVar("F", bound=Callable[..., Any])
SOURCE = "study.toml"


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A study is named by its TOML file, its SQLite file or its storage URL. Begin with `boke run --help`.",
)
@click.version_option(library.__version__, prog_name="boke")
def boke() -> None:
    """Optimize anything that returns a number: a program, a script, a Python function, an experiment."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def study_options(command: F) -> F:
    """What the commands about an existing study have in common."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    command = click.option("--study", help="Name of the study, where the storage has several.")(command)
    return click.argument("source", default=SOURCE)(command)


def show(text: str, answer: Any, as_json: bool) -> None:
    click.echo(json.dumps(answer, default=str) if as_json else text)


@boke.command(
    epilog="""\b
Examples:
  boke run study.toml
  boke run --cmd "python simulate.py --angle {angle}" --space space.toml --trials 200 --workers 4
  boke run --cmd "./solver -o {out}/r.json -x {x}" --value json:{out}/r.json:loss --space space.toml
  boke run study.toml --storage postgresql://user@host/db     # on as many machines as you like

\b
The same command again goes on where it stopped; --trials counts all trials of the study.
Exit codes: 0 done, 1 nothing succeeded, 2 wrong input, 130 interrupted, 143 terminated."""
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--cmd", help="Command line with {parameter}s; also {trial} and {out}, the trial's own folder.")
@click.option("--python", "function", help="Python objective: file.py:function or module:function.")
@click.option("--space", "space_file", type=click.Path(path_type=Path), help="TOML file with the parameters.")
@click.option("--value", help="last-line (default), json:FILE[:KEY] or regex:PATTERN.")
@click.option("--direction", type=click.Choice(["minimize", "maximize"]), multiple=True, help="May be repeated.")
@click.option("--trials", type=click.IntRange(1), help="Number of trials in all.")
@click.option("--workers", type=click.IntRange(1), help="Evaluations at a time.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), help="Seconds an evaluation may take.")
@click.option("--storage", help="SQLite or journal file, or database URL. Default: a SQLite file.")
@click.option("--study", "name", help="Name of the study.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the search.")
@click.option("--logs", type=click.Path(path_type=Path), help="Folder for what evaluations print.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def run(file: Path | None, quiet: bool, as_json: bool, logs: Path | None, **options: Any) -> None:
    """Run a study. Evaluates suggested points until it has its trials."""
    sys.exit(run_study(_config(file, options), logs, quiet=quiet, as_json=as_json))


def _config(file: Path | None, options: dict[str, Any]) -> config.Config:
    if file is None and options["space_file"] is None:
        file = Path(SOURCE)
        if not file.exists():
            raise Problem('Name a study file, as in `boke run study.toml`, or use --cmd "..." with --space space.toml.')
    if file is not None:
        found = config.read(file)
    else:
        path = options["space_file"]
        table = config.read_toml(path)
        found = config.Config(path.stem, "", config.space_of(table.get("space", table), str(path)))
    if file is not None and options["space_file"] is not None:
        raise Problem("Give a study file or --space, not both.")
    objective = found.objective
    if options["cmd"] is not None or options["function"] is not None:
        if options["cmd"] is not None and options["function"] is not None:
            raise Problem("Give --cmd or --python, not both.")
        objective = replace(objective, command=options["cmd"], python=options["function"])
        found = replace(found, folder=Path())  # a command typed here runs here
    if options["value"] is not None:
        objective = replace(objective, value=reading_from_option(options["value"]))
    if options["timeout"] is not None:
        objective = replace(objective, timeout=options["timeout"])
    keys = ("trials", "workers", "storage", "name", "seed")
    changes = {key: options[key] for key in keys if options[key] is not None}
    if options["direction"]:
        changes["directions"] = options["direction"]
    found = replace(found, objective=objective, **changes)
    return found if found.storage else replace(found, storage=f"{found.name}.db")


@boke.command(
    epilog="""\b
Examples:
  boke ask study.toml            {"trial": 7, "params": {"x": 0.25}}
  boke ask study.toml -n 4       four lines, for four people"""
)
@click.argument("source", default=SOURCE)
@click.option("--study", help="Name of the study, where the storage has several.")
@click.option("-n", "count", type=click.IntRange(1), default=1, help="How many points.")
def ask(source: str, study: str | None, count: int) -> None:
    """Suggest points, as JSON. One line each, to evaluate by hand or by another program."""
    toml = "://" not in source and Path(source).suffix == ".toml"
    found = store.make(config.read(Path(source))) if toml else store.find(source, study)
    space = store.space_of(found)
    for _ in range(count):
        trial = found.ask(space)
        trial.set_user_attr("worker", "by hand")
        click.echo(json.dumps({"trial": trial.number, "params": trial.params}))


@boke.command(
    epilog="""\b
Examples:
  boke tell 7 0.31 --in study.toml
  boke tell 7 --failed "the pump broke"
  echo '{"trial": 7, "value": 0.31}' | boke tell -
  echo '{"params": {"x": 0.5}, "value": 1.2}' | boke tell -      a point that nobody asked for"""
)
@click.argument("trial")
@click.argument("values", nargs=-1, type=float)
@click.option("--in", "source", default=SOURCE, show_default=True, help="The study.")
@click.option("--study", help="Name of the study, where the storage has several.")
@click.option("--failed", help="Why the evaluation has no value.")
def tell(trial: str, values: tuple[float, ...], source: str, study: str | None, failed: str | None) -> None:
    """Record a trial's value. With `-`, JSON lines from standard input."""
    found = store.find(source, study)
    if trial != "-":
        if not trial.isdigit():
            raise Problem(f"TRIAL must be a trial's number, or - for JSON from standard input. Got {trial!r}.")
        if (failed is None) == (not values):
            raise Problem("Give the trial's value, or --failed with a reason.")
        _tell(found, {"trial": int(trial), "value": list(values) or None, "reason": failed})
        return
    lines = [line for line in sys.stdin if line.strip()]
    if not lines:
        raise Problem('Standard input is empty. Write a line such as {"trial": 7, "value": 0.31}.')
    messages = [_message(line) for line in lines]
    for message in messages:
        _tell(found, message)


def _message(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Problem(f"This is not JSON: {line.strip()[:200]} ({error})") from None
    if not isinstance(message, dict) or not ({"trial", "params"} & set(message)) or "value" not in message:
        raise Problem(f"A line must have 'trial' or 'params', and 'value'. Got {line.strip()[:200]}")
    value = message["value"]
    if value is not None:
        try:
            message["value"] = [float(v) for v in (value if isinstance(value, list) else [value])]
        except (TypeError, ValueError, OverflowError):
            raise Problem(f"The 'value' must be a number, a list of numbers or null. Got {value!r:.200}") from None
    return message


def _tell(study: Study, message: dict[str, Any]) -> None:
    values = message["value"]
    if values is not None and len(values) != len(study.directions):
        raise Problem(f"The study has {len(study.directions)} objectives. Got {len(values)} values.")
    try:
        if "trial" not in message:
            state = TrialState.FAIL if values is None else TrialState.COMPLETE
            study.add_trial(
                optuna.create_trial(
                    params=message["params"], distributions=store.space_of(study), values=values, state=state
                )
            )
        elif values is None:
            trials = {t.number: t for t in study.get_trials(deepcopy=False)}
            if message["trial"] not in trials:
                raise Problem(f"The study has no trial {message['trial']}.")
            reason = str(message.get("reason") or "told so")
            fail(study, trials[message["trial"]]._trial_id, message["trial"], reason, None, lost=False)
        else:
            study.tell(message["trial"], values)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, optuna.exceptions.OptunaError) as error:
        what = f"Trial {message['trial']}" if "trial" in message else str(message["params"])
        raise Problem(f"{what} cannot be told: {error}") from None


@boke.command(epilog="\b\nExamples:\n  boke status study.toml\n  boke status study.db --json")
@study_options
def status(source: str, study: str | None, as_json: bool) -> None:
    """How far a study is."""
    answer = summary(store.find(source, study))
    states = [f"{answer[s]} {s}" for s in ("complete", "running", "fail", "pruned", "waiting") if answer[s]]
    lines = [f"{answer['study']}: {answer['trials']} trials ({', '.join(states) or 'none'})"]
    if "best" in answer:
        lines.append(f"{answer['seconds_per_trial']:.3g} s a trial")
        lines += [best_line(best) for best in answer["best"][:5]]
    show("\n".join(lines), answer, as_json)


@boke.command(epilog="\b\nExamples:\n  boke best study.toml\n  boke best postgresql://user@host/db --study fit --json")
@study_options
def best(source: str, study: str | None, as_json: bool) -> None:
    """The best trial, or the Pareto front."""
    found = store.find(source, study)
    points = [point(trial) for trial in found.best_trials]
    if not points:
        raise Problem(f"The study {found.study_name!r} has no complete trial yet.")
    answer: Any = points[0] if len(found.directions) == 1 else points
    show("\n".join(best_line(each) for each in points), answer, as_json)


@boke.command(epilog="\b\nExamples:\n  boke recommend study.toml\n  boke recommend study.db --json")
@study_options
def recommend(source: str, study: str | None, as_json: bool) -> None:
    """The best estimated point. What to use when values are noisy."""
    found = analysis.recommended(analysis.optimizer_of(store.find(source, study)))
    low, high = found.interval or (None, None)
    answer = {"params": found.params, "value": found.value, "low": low, "high": high, "support": found.support}
    text = f"recommended: {params(found.params)}\nexpected value {number(found.value)} ({interval(found.interval)})"
    show(f"{text}, {found.support:.1f} trials behind it", answer, as_json)


@boke.command(epilog="\b\nExamples:\n  boke importance study.toml")
@study_options
def importance(source: str, study: str | None, as_json: bool) -> None:
    """Which parameters matter. According to the kernel model."""
    shares = analysis.importance(analysis.optimizer_of(store.find(source, study)))
    width = max(map(len, shares))
    lines = [f"{name:<{width}}  {share:6.1%}  {'█' * round(30 * share)}" for name, share in shares.items()]
    show("\n".join(lines), shares, as_json)


@boke.command(
    name="export", epilog="\b\nExamples:\n  boke export study.toml trials.csv\n  boke export study.db - --format json"
)
@click.argument("source")
@click.argument("file")
@click.option("--format", "kind", type=click.Choice(export.FORMATS), help="Default: by the file's ending.")
@click.option("--study", help="Name of the study, where the storage has several.")
def export_(source: str, file: str, kind: str | None, study: str | None) -> None:
    """Write all trials to a file. CSV, JSON or Parquet; - is standard output."""
    rows = export.write(store.find(source, study), file, kind)
    if file != "-":
        click.echo(f"{rows} trials in {file}")


@boke.command(epilog="\b\nExamples:\n  boke report study.toml\n  boke report study.db --out page.html --png page.png")
@click.argument("source", default=SOURCE)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The page. Default: STUDY.html")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Also draw a summary into a PNG file.")
@click.option("--study", help="Name of the study, where the storage has several.")
def report(source: str, out: Path | None, png: Path | None, study: str | None) -> None:
    """Write an HTML page about a study.

    Progress, best and recommended with intervals, slices, importances, failures, and how suggestions were made.
    """
    from boke.cli import report as pages

    found = store.find(source, study)
    out = out or Path(f"{config.file_name(found.study_name)}.html")
    page = pages.report(found)
    try:
        out.write_text(page, encoding="utf-8")
        click.echo(str(out))
        if png is not None:
            pages.picture(found, png)
            click.echo(str(png))
    except OSError as error:
        raise Problem(f"{error.filename or out} cannot be written: {error}") from None


@boke.command(epilog="\b\nExamples:\n  boke dashboard study.toml\n  boke dashboard study.db --port 9000")
@click.argument("source", default=SOURCE)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
def dashboard(source: str, port: int, host: str) -> None:
    """Start optuna-dashboard on a study."""
    try:
        import optuna_dashboard
    except ImportError:
        raise Problem("The dashboard needs optuna-dashboard: pip install optuna-dashboard") from None
    where, _ = store.url_of(source, None)
    click.echo(f"http://{host}:{port}/  (Ctrl-C ends it)")
    try:
        optuna_dashboard.run_server(store.storage_of(where), host=host, port=port)
    except OSError as error:
        raise Problem(f"{host}:{port} cannot be used: {error}. Try another --port.") from None
    except KeyboardInterrupt:
        sys.exit(130)


@boke.command(
    epilog="""\b
Examples:
  eval "$(boke completion bash)"
  boke completion fish > ~/.config/fish/completions/boke.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell's completion script."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(boke, {}, "boke", "_BOKE_COMPLETE").source())
