"""What the subcommands of ``boke-bench`` do."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from boke_bench import experiment as experiments
from boke_bench.experiment import Experiment, ExperimentError, Scale, described
from boke_bench.labels import label
from boke_bench.store import Store, StoreError

ENDINGS = {"markdown": "md", "latex": "tex", "html": "html", "csv": "csv"}


def run(options: Namespace) -> int:
    """Do what is missing of some experiments."""
    from boke_bench.environment import environment
    from boke_bench.runner import run_experiment

    chosen = _load(options.names, options.scale, options.extras)
    usable = _usable(chosen, options.only)
    signal.signal(signal.SIGTERM, _interrupt)
    failed = 0
    with Store(options.store) as store, store.exclusive():
        here = environment()
        for experiment in chosen:
            print(f"{experiment.name}: {described(experiment)}", file=sys.stderr)
            progress = run_experiment(
                experiment,
                store,
                here,
                jobs=options.jobs,
                retry=options.retry,
                redo=options.redo,
                wanted=lambda run: run.optimizer in usable and (options.seeds is None or run.seed < options.seeds),
                limit_s=options.time_limit,
            )
            failed += progress.failed
    if failed:
        print(f"boke-bench: {failed} runs failed; 'boke-bench failures' shows why.", file=sys.stderr)
    return 1 if failed else 0


def listing(options: Namespace) -> int:
    """Show the experiments of the bench, and how far each is in the store."""
    known = {}
    if Path(options.store).is_file():
        with _opened(options) as store:
            known = store.statuses()
    for name in experiments.names():
        found = experiments.load(name, options.scale)
        if len(found) > 1:
            print(f"{name:20} all of {', '.join(part.name for part in found)}")
            continue
        runs = found[0].runs()
        done = sum(run.id in known and not known[run.id].failed for run in runs)
        print(f"{name:20} {done:5} of {len(runs):5} runs  {found[0].title}")
        print(f"{'':20} {described(found[0])}")
    return 0


def failures(options: Namespace) -> int:
    """Show the errors of failed runs."""
    with _opened(options) as store:
        ids = [id for id, status in store.statuses().items() if status.failed]
        for record in store.records(ids).values():
            spec = record.spec
            where = f"{spec['problem']}, seed {spec['seed']}, after {len(record.y)} evaluations"
            print(f"{label(spec['optimizer'])} on {where}:")
            print("    " + record.error.strip().replace("\n", "\n    "))
    return 0


def report(options: Namespace) -> int:
    """Write the HTML report."""
    from boke_bench.report import report as page
    from boke_bench.study import load_study

    with _opened(options) as store:
        studies = [load_study(plan, store) for plan in _plans(store, options)]
    path = Path(options.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(studies, options.title), encoding="utf-8")
    print(path)
    return 0


def figure(options: Namespace) -> int:
    """Write the figures as PNG files."""
    from boke_bench.figures import save
    from boke_bench.study import load_study

    with _opened(options) as store:
        for plan in _plans(store, options):
            for path in save(load_study(plan, store), Path(options.output)):
                print(path)
    return 0


def table(options: Namespace) -> int:
    """Print tables, or write them into a folder."""
    from boke_bench.study import load_study
    from boke_bench.tables import FORMATS, tables

    with _opened(options) as store:
        for plan in _plans(store, options):
            parts = [FORMATS[options.format](part) for part in tables(load_study(plan, store))]
            if options.output is None:
                print("\n".join(parts))
            elif parts:
                path = Path(options.output) / f"{plan.name}.{ENDINGS[options.format]}"
                _write(path, plan.title, parts, options.format)
    return 0


def compare(options: Namespace) -> int:
    """Compare optimizers over the problems of several experiments together."""
    from boke_bench.study import load_study, pooled
    from boke_bench.tables import FORMATS, rank_tables, win_tables

    where = dict(part.split("=", 1) for part in options.where)
    with _opened(options) as store:
        study = pooled([load_study(plan, store) for plan in _plans(store, options)], where, options.only)
    parts = [*rank_tables(study, options.at), *win_tables(study, options.at)]
    if not parts:
        raise StoreError(f"{options.store} has too few results for that comparison.")
    texts = [FORMATS[options.format](part) for part in parts]
    if options.output is None:
        print("\n".join(texts))
    else:
        _write(Path(options.output), options.title, texts, options.format)
    return 0


def _write(path: Path, title: str, parts: Sequence[str], form: str) -> None:
    """Tables into a file; a page of Markdown has a heading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = [f"# {title}\n"] if form == "markdown" else []
    path.write_text("\n".join([*head, *parts]), encoding="utf-8")
    print(path)


def speed(options: Namespace) -> int:
    """Measure what a suggestion costs; leave the machine alone meanwhile."""
    from boke_bench import speed_report
    from boke_bench.tables import FORMATS

    path = Path(options.read or options.output)
    record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() or options.read else {}
    if options.read is None:
        _measure(options, record)
        print(path)
    if missing := [name for name in speed_report.PARTS if name not in record]:
        print(f"boke-bench: not yet measured: {', '.join(missing)}", file=sys.stderr)
        return 1
    if options.figure is not None:
        speed_report.draw(record).savefig(_folder(options.figure))
        print(options.figure)
    parts = [FORMATS["markdown"](part) for part in speed_report.tables(record)]
    if options.table is None:
        print(parts[0])
    else:
        _write(Path(options.table), "Speed", parts, "markdown")
    return 0


def _measure(options: Namespace, record: dict[str, Any]) -> None:
    """Every part is written when it is done. One core: libraries read the number of threads when they are loaded."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from boke_bench import speed as measuring
    from boke_bench.environment import environment

    parts = options.parts or list(measuring.PARTS)
    if unknown := set(parts) - set(measuring.PARTS):
        raise ExperimentError(f"--parts must be of {', '.join(measuring.PARTS)}. Got {', '.join(sorted(unknown))}.")
    record |= {"command": "boke-bench speed" + " --quick" * options.quick, **environment()}
    for name, seconds in measuring.measure(measuring.QUICK if options.quick else measuring.Scale(), parts, record):
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
        _folder(options.output).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _folder(name: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def export(options: Namespace) -> int:
    """Write a small store, or one line of CSV for each run."""
    path = Path(options.output)
    with _opened(options) as store:
        plans = _plans(store, options)
        if path.suffix == ".csv":
            _export_csv(store, plans, path)
        else:
            store.export(path, {run.id for plan in plans for run in plan.runs()}, plans)
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


def _export_csv(store: Store, plans: Sequence[Experiment], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        head = "experiment,scale,panel,optimizer,seed,budget,best,optimum,optimizer_s,objective_s,error"
        rows.writerow(head.split(","))
        for plan in plans:
            panels, runs = plan.panels, plan.runs()
            records = store.records(run.id for run in runs)
            for one in runs:
                if (record := records.get(one.id)) is None:
                    continue
                where = (plan.name, plan.scale, panels[one.panel].title, one.optimizer, one.seed, one.budget)
                best = max((value for value in record.true if value == value), default="")
                optimum = "" if record.optimum is None else record.optimum
                spent = (f"{seconds.sum():.6g}" for seconds in (record.optimizer_s, record.objective_s))
                error = record.error.strip().splitlines()[-1] if record.error else ""
                rows.writerow([*where, best, optimum, *spent, error])


def _load(names: Sequence[str], scale: Scale, extras: bool) -> list[Experiment]:
    found = {plan.name: plan for name in names for plan in experiments.load(name, scale, extras)}
    return list(found.values())


def _usable(chosen: Sequence[Experiment], only: Sequence[str] | None) -> set[str]:
    """Optimizers to run; says which are not installed. Designs need nothing."""
    from boke_bench.baselines import available
    from boke_bench.designs import NAMES

    known = {**available(), **dict.fromkeys(NAMES)}
    wanted = {name for plan in chosen for name in plan.optimizers}
    unknown = [name for name in sorted({*wanted, *(only or [])}) if name not in known and ":" not in name]
    if unknown:
        raise ExperimentError(f"There is no optimizer {', '.join(map(repr, unknown))}. There are {', '.join(known)}.")
    if only is not None:
        if not wanted & set(only):
            raise ExperimentError(f"None of {', '.join(only)} takes part; those who do: {', '.join(sorted(wanted))}.")
        wanted &= set(only)
    for name in sorted(wanted):
        if message := known.get(name):
            print(f"skipped: {message}", file=sys.stderr)
    return {name for name in wanted if known.get(name) is None}


def _plans(store: Store, options: Namespace) -> list[Experiment]:
    """The latest plan of each experiment, or those of the wanted scale, in the order of the paper."""
    latest = {plan.name: plan for plan in store.plans() if options.scale is None or plan.scale == options.scale}
    if not latest:
        scaled = "" if options.scale is None else f" of scale {options.scale}"
        raise StoreError(f"{store.path} holds no experiment{scaled}.")
    paper = [part.name for part in experiments.load("paper")]
    known = sorted(latest, key=lambda name: (paper.index(name) if name in paper else len(paper), name))
    wanted = [Path(name).stem if name.endswith(".toml") else name for name in options.names]
    unknown = [name for name in wanted if name not in latest and name != "paper"]
    if unknown:
        raise StoreError(f"{store.path} holds no {', '.join(unknown)}. It holds {', '.join(known)}.")
    return [latest[name] for name in known if not wanted or name in wanted or ("paper" in wanted and name in paper)]


def _opened(options: Namespace) -> Store:
    return Store(options.store, create=False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
