"""The command ``boke-bench``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from boke_bench import commands
from boke_bench.experiment import ExperimentError, Scale
from boke_bench.store import StoreError, to_scale

STORE = "boke-bench.sqlite"
Sub = argparse.ArgumentParser
Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0 fine, 1 some runs failed, 2 it could not be done, 130 interrupted."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except (ExperimentError, StoreError, OSError) as error:
        print(f"boke-bench: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("boke-bench: stopped; finished runs are kept, and the same command goes on.", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """Errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="boke-bench", description="Measure boke against other optimizers.")
    make = parser.add_subparsers(required=True, metavar="COMMAND").add_parser
    _add_run(_command(make, "run", commands.run, names="+"))
    _add_scale(_command(make, "list", commands.listing), 1.0)
    _command(make, "failures", commands.failures)
    for name, function, add in (
        ("report", commands.report, _add_report),
        ("figure", commands.figure, _add_figure),
        ("table", commands.table, _add_table),
        ("compare", commands.compare, _add_compare),
        ("export", commands.export, _add_export),
    ):
        sub = _command(make, name, function, names="*")
        _add_scale(sub)
        add(sub)
    _add_speed(_command(make, "speed", commands.speed))
    return parser


def _command(make: Callable[..., Sub], name: str, function: Command, names: str = "") -> Sub:
    sub = make(name, help=function.__doc__, description=function.__doc__)
    sub.set_defaults(command=function)
    if names:
        sub.add_argument("names", metavar="NAME", nargs=names, help="experiment, 'paper' for all, or a TOML file")
    text = f"results, $BOKE_BENCH_STORE or {STORE}; may be compressed (.xz) where it is only read"
    sub.add_argument("--store", default=os.environ.get("BOKE_BENCH_STORE", STORE), help=text)
    return sub


def _add_scale(sub: Sub, default: Scale | None = None) -> None:
    text = "share of seeds and evaluations, or 'full': the paper's numbers"
    sub.add_argument("--scale", type=_scale, metavar="X", default=default, help=text)


def _add_run(sub: Sub) -> None:
    _add_scale(sub, 1.0)
    sub.add_argument("--jobs", type=_positive, default=1, metavar="N", help="processes, each with one thread")
    sub.add_argument("--only", type=_names, metavar="A,B", help="only these optimizers")
    sub.add_argument("--seeds", type=_positive, metavar="N", help="only the first N seeds for now; the plan stays")
    sub.add_argument("--extras", action="store_true", help="also optimizers that the paper does not compare with")
    sub.add_argument("--retry", action="store_true", help="do failed runs again")
    sub.add_argument("--redo", action="store_true", help="forget these runs, finished or not, and do them again")
    sub.add_argument("--time-limit", type=_seconds, metavar="S", help="a run that takes longer has failed")


def _add_report(sub: Sub) -> None:
    sub.add_argument("--output", default="report.html", metavar="FILE")
    sub.add_argument("--title", default="boke-bench report")


def _add_figure(sub: Sub) -> None:
    sub.add_argument("--output", default="figures", metavar="FOLDER")


def _add_table(sub: Sub) -> None:
    sub.add_argument("--format", choices=sorted(commands.ENDINGS), default="markdown")
    sub.add_argument("--output", metavar="FOLDER", help="without it tables are printed")


def _add_compare(sub: Sub) -> None:
    sub.add_argument("--only", type=_names, metavar="A,B", help="only these optimizers")
    sub.add_argument("--output", metavar="FILE", help="without it the tables are printed")
    sub.add_argument("--title", default="Comparison", help="heading of a Markdown file")
    sub.add_argument("--at", type=_positive, metavar="N", help="after N evaluations instead of all")
    sub.add_argument("--where", type=_setting, nargs="+", default=[], metavar="KEY=VALUE", help="dim=2,5 seed=0 ...")
    sub.add_argument("--format", choices=sorted(commands.ENDINGS), default="markdown")


def _add_export(sub: Sub) -> None:
    text = "ends in .sqlite, .sqlite.xz or .csv"
    sub.add_argument("--output", default="boke-bench.sqlite.xz", metavar="FILE", help=text)


def _add_speed(sub: Sub) -> None:
    sub.add_argument("--quick", action="store_true", help="little of everything, to see that it works")
    sub.add_argument("--parts", type=_names, metavar="A,B", help="only these; the others stay")
    sub.add_argument("--read", metavar="FILE", help="measure nothing: figure and tables of this record")
    sub.add_argument("--output", default="speed.json", metavar="FILE", help="the record")
    sub.add_argument("--figure", metavar="FILE", help="cost against the number of observations, as PNG")
    sub.add_argument("--table", metavar="FILE", help="Markdown; without it the goals are printed")


def _names(text: str) -> list[str]:
    return text.split(",")


def _scale(text: str) -> Scale:
    try:
        value = to_scale(text)
    except ValueError:
        value = 0.0
    if isinstance(value, float) and not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number or 'full', got {text!r}")
    return value


def _setting(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, got {text!r}")
    return text


def _seconds(text: str) -> float:
    value = _scale(text)
    if isinstance(value, str):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
    return value


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
