"""What a study is: read from a TOML file or from options, kept with the study in its storage.

name = "sprinkler"                    # default: the file's name
storage = "sqlite:///sprinkler.db"    # default: a SQLite file of that name beside the TOML file
direction = "maximize"                # default "minimize"; a list for several objectives
trials = 200                          # in all, over all runs and machines
workers = 4
seed = 0

[objective]
command = "python simulate.py --angle {angle} --pressure {pressure}"     # any program, or
python = "model.py:loss"                                                 # a function of a dict
value = "last-line"                   # or {json = "{out}/result.json", key = "loss"}, or {regex = "loss=(.+)"}
timeout = 60                          # seconds

[space]
angle = {low = 0.0, high = 90.0}
pressure = {low = 0.1, high = 10.0, log = true}
holes = {low = 1, high = 12}          # integers
nozzle = ["fan", "cone"]              # choices
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from boke.cli.errors import Problem
from boke.cli.reading import LAST_LINE, Reading, reading_of
from boke.space import Categorical

KEYS = {"name", "storage", "direction", "trials", "workers", "seed", "objective", "space"}
OBJECTIVE_KEYS = {"command", "python", "value", "timeout"}

Distributions = dict[str, BaseDistribution]


@dataclass(frozen=True)
class Objective:
    """How a point is evaluated: by a program or by a Python function."""

    command: str | None = None
    python: str | None = None
    value: Reading = LAST_LINE
    timeout: float | None = None


@dataclass(frozen=True)
class Config:
    """A study as it was asked for."""

    name: str
    storage: str
    space: Distributions
    directions: tuple[str, ...] = ("minimize",)
    trials: int = 100
    workers: int = 1
    seed: int = 0
    objective: Objective = field(default_factory=Objective)
    folder: Path = Path()  # where programs run and logs go


def read(path: Path) -> Config:
    """Read a study's TOML file."""
    table = read_toml(path)
    if unknown := sorted(set(table) - KEYS):
        raise Problem(f"{path} has unknown keys {unknown}. It may have {sorted(KEYS)}.")
    if "space" not in table:
        raise Problem(f"{path} has no [space]. Add one, such as:\n[space]\nx = {{low = 0.0, high = 1.0}}")
    name = str(table.get("name", path.stem))
    default = path.with_suffix(".db") if "name" not in table else path.with_name(f"{file_name(name)}.db")
    return Config(
        name=name,
        storage=_relative_to(path, str(table["storage"])) if "storage" in table else f"sqlite:///{default}",
        space=space_of(table["space"], str(path)),
        directions=directions_of(table.get("direction", "minimize"), str(path)),
        trials=_positive(table.get("trials", 100), "trials", path),
        workers=_positive(table.get("workers", 1), "workers", path),
        seed=_whole(table.get("seed", 0), "seed", path),
        objective=objective_of(table.get("objective", {}), path),
        folder=path.parent,
    )


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # too deep or too many digits are no TOML errors of their own
        raise Problem(f"{path} is not valid TOML: {error}") from None


def objective_of(table: Any, path: Path) -> Objective:
    if not isinstance(table, Mapping):
        raise Problem(f"[objective] of {path} must be a table. Got {table!r}.")
    if unknown := sorted(set(table) - OBJECTIVE_KEYS):
        raise Problem(f"[objective] of {path} has unknown keys {unknown}. It may have {sorted(OBJECTIVE_KEYS)}.")
    command, python = table.get("command"), table.get("python")
    if command is not None and python is not None:
        raise Problem(f"[objective] of {path} must have 'command' or 'python', not both.")
    if python is not None:
        python = _relative_to(path, str(python))
    timeout = table.get("timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise Problem(f"The 'timeout' of {path} must be a positive number of seconds. Got {timeout!r}.")
    return Objective(command, python, reading_of(table.get("value", "last-line"), str(path)), timeout)


def space_of(table: Any, where: str) -> Distributions:
    """Distributions from name -> {low, high, log, step, type} or a list of choices."""
    if not isinstance(table, Mapping) or not table:
        raise Problem(f"The space of {where} must be a table of parameters. Got {table!r}.")
    space = {}
    for name, given in table.items():
        try:
            space[str(name)] = _distribution(given)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise Problem(f"The parameter {name!r} of {where} is wrong: {error}") from None
    return space


def _distribution(given: Any) -> BaseDistribution:
    if isinstance(given, Mapping) and set(given) == {"choices"}:
        given = given["choices"]
    if isinstance(given, list):
        for choice in given:
            if not isinstance(choice, str | int | float | bool):
                raise TypeError(f"a choice must be a string, a number or a boolean. Got {choice!r}.")
        Categorical(given)  # refuses a choice that is there twice
        return CategoricalDistribution(given)
    if not isinstance(given, Mapping):
        raise TypeError(f"it must be a table with 'low' and 'high', or a list of choices. Got {given!r}.")
    if unknown := sorted(set(given) - {"low", "high", "log", "step", "type"}):
        raise ValueError(f"it has unknown keys {unknown}. It may have low, high, log, step and type.")
    if missing := sorted({"low", "high"} - set(given)):
        raise ValueError(f"it lacks {missing}.")
    low, high, log, step = given["low"], given["high"], bool(given.get("log", False)), given.get("step")
    numbers = {"low": low, "high": high, **({} if step is None else {"step": step})}
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError(f"its {name} must be a number. Got {number!r}.")
        if not abs(number) <= sys.float_info.max:
            raise ValueError(f"its {name} must be finite, and a double.")
    kind = given.get("type", "int" if isinstance(low, int) and isinstance(high, int) else "float")
    if kind == "int":
        if any(number != int(number) for number in numbers.values()):
            raise ValueError(f"it is of integers. Got {numbers}.")
        return IntDistribution(int(low), int(high), log=log, step=1 if step is None else int(step))
    if kind == "float":
        return FloatDistribution(float(low), float(high), log=log, step=step)
    raise ValueError(f"its type must be 'int' or 'float'. Got {kind!r}.")


def directions_of(given: Any, where: str) -> tuple[str, ...]:
    directions = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not directions or any(d not in ("minimize", "maximize") for d in directions):
        raise Problem(f"The 'direction' of {where} must be 'minimize' or 'maximize', or a list of them. Got {given!r}.")
    return directions


def _relative_to(path: Path, text: str) -> str:
    """Files named in a TOML file lie beside it: 'sqlite:///x.db' and 'model.py:loss'."""
    prefix = "sqlite:///"
    if text.startswith(prefix):
        return prefix + os.fspath(path.parent / text.removeprefix(prefix))
    if "://" not in text and ".py:" in text:
        return os.fspath(path.parent / text)
    return text


def file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)[:100] or "study"


def log_name(config: Config) -> str:
    """The study's name, behind that of its file if that is another: logs of two files must not meet in one folder."""
    name, url = file_name(config.name), config.storage
    stem = "" if "://" in url.removeprefix("sqlite://") else Path(url.removeprefix("sqlite:///")).stem
    return name if stem in ("", name) else f"{stem}-{name}"


def _positive(value: Any, key: str, path: Path) -> int:
    if _whole(value, key, path) < 1:
        raise Problem(f"The '{key}' of {path} must be at least 1. Got {value!r}.")
    return int(value)


def _whole(value: Any, key: str, path: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Problem(f"The '{key}' of {path} must be an integer, 0 or more. Got {value!r}.")
    if value >= 2**63:  # what TOML promises; hexadecimal numbers can be of any length
        raise Problem(f"The '{key}' of {path} must be less than 2**63.")
    return value
