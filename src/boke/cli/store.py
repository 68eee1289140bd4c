"""Where studies live: Optuna storages, named by a TOML file, a SQLite or journal file, or a URL."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import distribution_to_json, json_to_distribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study, StudyDirection
from optuna.trial import TrialState
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from boke.cli.config import Config, Distributions, read
from boke.cli.errors import Problem
from boke.integrations.optuna import BOKESampler

ATTRIBUTE = "boke"  # the study's attribute that holds what is needed to go on with it
LOCK_WAIT = 60  # seconds a SQLite writer waits for another


def storage_of(where: str, *, new: bool = False) -> BaseStorage:
    """Open a storage; without ``new`` a file has to be there already."""
    try:
        if "://" not in where and Path(where).suffix in (".log", ".journal"):
            _check_file(Path(where), new)
            return JournalStorage(JournalFileBackend(where))
        url = where if "://" in where else f"sqlite:///{where}"
        if url.startswith("sqlite:///"):
            _check_file(Path(url.removeprefix("sqlite:///")), new)
            return _database(url, {"connect_args": {"timeout": LOCK_WAIT}})
        return _database(_with_driver(url), {"pool_pre_ping": True})
    except Problem:
        raise
    except ImportError:
        raise Problem(f"The storage {where} needs a driver, for PostgreSQL: pip install psycopg2-binary") from None
    except Exception as error:  # SQLAlchemy has dozens, all of which mean the same to a user
        raise Problem(f"The storage {where} cannot be opened: {_first_line(error)}") from None


def _with_driver(url: str) -> str:
    """Which driver plain postgresql:// means depends on SQLAlchemy's version: take the one that is installed."""
    scheme, _, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        for driver in ("psycopg2", "psycopg"):
            if importlib.util.find_spec(driver) is not None:
                return f"postgresql+{driver}://{rest}"
    return url


def _database(url: str, settings: dict[str, Any]) -> BaseStorage:
    """Two processes that make the same new database at once get in each other's way; the second try finds it made."""
    for pause in (0.3, 0.9):
        try:
            return RDBStorage(url, engine_kwargs=settings)
        except (OperationalError, ProgrammingError, IntegrityError):
            time.sleep(pause)
    return RDBStorage(url, engine_kwargs=settings)


def _check_file(path: Path, new: bool) -> None:
    if path.is_dir():
        raise Problem(f"{path} is a folder, not a file.")
    if not new and not path.exists():
        raise Problem(f"There is no study in {path}. `boke run` makes one.")
    if new and not path.parent.is_dir():
        raise Problem(f"There is no folder {path.parent}. Make it first.")


def url_of(source: str, study: str | None) -> tuple[str, str | None]:
    """Storage and study name behind what a user typed."""
    if "://" not in source and Path(source).suffix == ".toml":
        config = read(Path(source))
        return config.storage, study or config.name
    return source, study


def find(source: str, name: str | None) -> Study:
    """An existing study, with a sampler that continues it."""
    where, name = url_of(source, name)
    storage = storage_of(where)
    names = sorted(summary.study_name for summary in storage.get_all_studies())
    if name is None:
        if len(names) != 1:
            raise Problem(f"{where} has {len(names)} studies: {names}. Name one with --study.")
        name = names[0]
    if name not in names:
        raise Problem(f"{where} has no study {name!r}. It has {names}.")
    study = optuna.load_study(study_name=name, storage=storage)
    study.sampler = sampler_of(study)
    return study


def make(config: Config) -> Study:
    """The study of a configuration: the one that is there, if it is the same, or a new one."""
    storage = storage_of(config.storage, new=True)
    directions = [StudyDirection[direction.upper()] for direction in config.directions]
    study = optuna.create_study(study_name=config.name, storage=storage, directions=directions, load_if_exists=True)
    known = study.user_attrs.get(ATTRIBUTE)
    if known is None:
        study.set_user_attr(ATTRIBUTE, _dump(config))
    else:
        _check_same(config, study, known)
    study.sampler = sampler_of(study)
    return study


def sampler_of(study: Study) -> BaseSampler:
    return BOKESampler(seed=seed_of(study))


def seed_of(study: Study) -> int | None:
    known = study.user_attrs.get(ATTRIBUTE)
    return None if known is None else int(known["seed"])


def space_of(study: Study) -> Distributions:
    """The space that was given to boke, or the one that all complete trials of a foreign study share."""
    known = study.user_attrs.get(ATTRIBUTE)
    if known is not None:
        return {name: json_to_distribution(text) for name, text in known["space"].items()}
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not done:
        raise Problem(f"The study {study.study_name!r} has no complete trial, so its parameters are not known yet.")
    shared = set.intersection(*(set(trial.distributions) for trial in done))
    return {name: done[-1].distributions[name] for name in sorted(shared)}


def _dump(config: Config) -> dict[str, Any]:
    space = {name: distribution_to_json(found) for name, found in config.space.items()}
    return {"version": 1, "seed": config.seed, "space": space}


def _check_same(config: Config, study: Study, known: dict[str, Any]) -> None:
    theirs, ours = known["space"], _dump(config)["space"]
    if {n: json.loads(d) for n, d in theirs.items()} != {n: json.loads(d) for n, d in ours.items()}:
        changed = sorted(n for n in {*theirs, *ours} if theirs.get(n) != ours.get(n))
        raise Problem(
            f"The study {config.name!r} in {config.storage} has another space: {changed} changed. "
            "Give the new one another name."
        )
    directions = tuple(direction.name.lower() for direction in study.directions)
    if directions != config.directions:
        raise Problem(
            f"The study {config.name!r} in {config.storage} has the direction {list(directions)}, not "
            f"{list(config.directions)}. Give the new one another name."
        )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
