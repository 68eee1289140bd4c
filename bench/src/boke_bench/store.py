"""The store: one SQLite file in which every finished run is a row, written the moment it finishes.

A row is never half written and a finished run is never written over: whatever kills the runner, the rows that are there
are right, and the runs that are not there are to be run. One runner at a time may write (``Store.exclusive``); anybody
may read meanwhile.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boke_bench.experiment import Experiment, Scale, Spec, canonical
from boke_bench.protocol import Array

VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS environments(number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS plans(
    name TEXT NOT NULL, scale TEXT NOT NULL, extras INTEGER NOT NULL, definition TEXT NOT NULL, time TEXT NOT NULL,
    PRIMARY KEY(name, scale)
);
CREATE TABLE IF NOT EXISTS runs(
    id TEXT PRIMARY KEY, spec TEXT NOT NULL, optimizer TEXT NOT NULL, status TEXT NOT NULL, error TEXT,
    attempts INTEGER NOT NULL, started TEXT NOT NULL, seconds REAL NOT NULL, load REAL, environment INTEGER NOT NULL,
    name TEXT, optimum REAL, y BLOB, true BLOB, optimizer_s BLOB, objective_s BLOB, wall_s REAL NOT NULL
) WITHOUT ROWID;
"""


class StoreError(RuntimeError):
    """A store that cannot be used, or not now."""


@dataclass(frozen=True)
class Record:
    """What a run left behind; all arrays have one entry for each evaluation, fewer if the run failed on the way.

    Attributes:
        id: Hash of the spec.
        spec: Everything that the result depends on.
        error: Empty for a finished run, otherwise what went wrong.
        started: When, ISO 8601 in UTC.
        seconds: Wall time of the whole run.
        load: Load average of the machine when it began; not a number where the system does not tell.
        name: The problem's own name.
        optimum: Its largest true value; None if unknown.
        y: Observed values, nan where an evaluation failed. For designs: fill distances.
        true: Values without noise.
        optimizer_s: Processor seconds of ask and tell.
        objective_s: Wall seconds of the objective.
        wall_s: Wall seconds of ask and tell in the whole run.
        environment: Versions, machine and commit.
    """

    id: str
    spec: Spec
    error: str
    started: str
    seconds: float
    load: float
    name: str
    optimum: float | None
    y: Array
    true: Array
    optimizer_s: Array
    objective_s: Array
    wall_s: float = 0.0
    environment: Mapping[str, Any] | None = None

    @property
    def failed(self) -> bool:
        return bool(self.error)


class Status(NamedTuple):
    """What the store knows about a run without reading its arrays."""

    failed: bool
    seconds: float


class Store:
    """Runs and plans in the file ``path``; made if it is not there."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise StoreError(f"There is no store {self.path}. 'boke-bench run' makes one; --store names another.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        source = self._unpacked() if self.path.suffix == ".xz" else self.path
        self._db = sqlite3.connect(source, timeout=60.0, isolation_level=None)
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(f"{self.path} is not a store of the bench: {error}.") from error
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and remove what was unpacked."""
        self._db.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be the only runner on this store; the lock goes with the process, however that ends."""
        if self._temporary is not None:
            raise StoreError(f"{self.path} is compressed and can only be read. Unpack it first: xz -dk {self.path}")
        with closing(sqlite3.connect(f"{self.path}.lock", timeout=0.0, isolation_level=None)) as lock:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise StoreError(f"Another 'boke-bench run' is writing to {self.path}.") from error
            yield

    def statuses(self) -> dict[str, Status]:
        """What there is, by id."""
        rows = self._db.execute("SELECT id, status, seconds FROM runs")
        return {id: Status(status == "failed", seconds) for id, status, seconds in rows}

    def add(self, record: Record) -> None:
        """Keep a record. A failed run may be replaced, a finished one stays as it is."""
        values = {
            "id": record.id,
            "spec": canonical(record.spec),
            "optimizer": record.spec["optimizer"],
            "status": "failed" if record.failed else "done",
            "error": record.error or None,
            "started": record.started,
            "seconds": record.seconds,
            "load": record.load,
            "environment": self._environment(record.environment or {}),
            "name": record.name,
            "optimum": record.optimum,
            "y": None if np.array_equal(record.y, record.true, equal_nan=True) else pack(record.y),
            "true": pack(record.true),
            "optimizer_s": pack_short(record.optimizer_s),
            "objective_s": pack_short(record.objective_s),
            "wall_s": record.wall_s,
        }
        columns = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        updates = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
        self._db.execute(
            f"INSERT INTO runs(attempts, {columns}) VALUES(1, {places}) ON CONFLICT(id) DO UPDATE SET {updates}, "
            "attempts = runs.attempts + 1 WHERE runs.status = 'failed'",
            values,
        )

    def records(self, ids: Iterable[str]) -> dict[str, Record]:
        """The records of these runs, as far as they are there."""
        environments = {number: json.loads(text) for number, text in self._db.execute("SELECT * FROM environments")}
        columns = (
            "spec, error, started, seconds, load, name, optimum, y, true, optimizer_s, objective_s, wall_s, environment"
        )
        found = {}
        for id in ids:
            row = self._db.execute(f"SELECT {columns} FROM runs WHERE id = ?", (id,)).fetchone()
            if row is None:
                continue
            of = dict(zip(columns.split(", "), row, strict=True))
            true = unpack(of["true"])
            found[id] = Record(
                id=id,
                spec=json.loads(of["spec"]),
                error=of["error"] or "",
                started=of["started"],
                seconds=of["seconds"],
                load=float("nan") if of["load"] is None else of["load"],
                name=of["name"],
                optimum=of["optimum"],
                y=true if of["y"] is None else unpack(of["y"]),
                true=true,
                optimizer_s=unpack(of["optimizer_s"]),
                objective_s=unpack(of["objective_s"]),
                wall_s=of["wall_s"],
                environment=environments.get(of["environment"]),
            )
        return found

    def forget(self, ids: Iterable[str]) -> int:
        """Delete runs; returns how many there were."""
        with self._transaction():
            return sum(self._db.execute("DELETE FROM runs WHERE id = ?", (id,)).rowcount for id in ids)

    def remember(self, experiment: Experiment, time: str) -> None:
        """Keep the definition of an experiment that is run, so that a report needs the store only.

        Extras that were run once stay in the plan: a later run of some other optimizer must not hide them.
        """
        self._db.execute(
            "INSERT INTO plans VALUES(?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET extras = max(extras, excluded.extras), "
            "definition = excluded.definition, time = excluded.time",
            (experiment.name, str(experiment.scale), experiment.extras, json.dumps(experiment.definition), time),
        )

    def plans(self) -> list[Experiment]:
        """Experiments that were run into this store, the latest last."""
        rows = self._db.execute("SELECT name, scale, extras, definition FROM plans ORDER BY time, name")
        return [Experiment(name, json.loads(text), to_scale(scale), bool(extras)) for name, scale, extras, text in rows]

    def export(self, path: str | Path, ids: Iterable[str], plans: Iterable[Experiment]) -> None:
        """Write a small copy that holds these runs, compressed if the path ends in ``.xz``.

        Distances to the optimum keep three digits, seconds of single steps two. Observed values and the objective's
        seconds step by step are left out: no figure and no table uses them.
        """
        path = Path(path)
        level = 0 if path.suffix == ".xz" else 9  # xz sees more of what repeats when nobody was there before
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.sqlite"
            with Store(copy) as small:
                with small._transaction():
                    for record in self.records(sorted(ids)).values():
                        small.add(replace(record, y=record.true, objective_s=record.objective_s.sum(keepdims=True)))
                        true = pack_short(record.true, _offset(record), level=level)
                        seconds = pack_short(record.optimizer_s, bits=6, level=level)
                        query = "UPDATE runs SET true = ?, optimizer_s = ? WHERE id = ?"
                        small._db.execute(query, (true, seconds, record.id))
                    for plan in plans:
                        row = self._db.execute(
                            "SELECT time FROM plans WHERE name = ? AND scale = ?", (plan.name, str(plan.scale))
                        ).fetchone()
                        small.remember(plan, row[0] if row else "")
                small._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                small._db.execute("PRAGMA journal_mode=DELETE")
                small._db.execute("VACUUM")
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".xz":
                path.write_bytes(lzma.compress(copy.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
            else:
                shutil.copy(copy, path)

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise StoreError(f"{self.path} is a store of version {version}; this bench reads version {VERSION}.")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")

    def _environment(self, environment: Mapping[str, Any]) -> int:
        text = canonical(environment)
        self._db.execute("INSERT OR IGNORE INTO environments(text) VALUES(?)", (text,))
        return int(self._db.execute("SELECT number FROM environments WHERE text = ?", (text,)).fetchone()[0])

    def _unpacked(self) -> Path:
        try:
            content = lzma.decompress(self.path.read_bytes())
        except lzma.LZMAError as error:
            raise StoreError(f"{self.path} is not xz-compressed: {error}.") from error
        self._temporary = tempfile.TemporaryDirectory(prefix="boke-bench-")
        target = Path(self._temporary.name) / self.path.stem
        target.write_bytes(content)
        return target

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def to_scale(text: str) -> Scale:
    """A scale as the command line and the store write it."""
    return "full" if text == "full" else float(text)


def pack(values: Array) -> bytes:
    """Float64, compressed."""
    return b"d" + zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes(), 9)


def pack_short(values: Array, offset: float = 0.0, *, bits: int = 10, level: int = 9) -> bytes:
    """The distances ``offset - values``, rounded to some bits of the mantissa, compressed; 0 stays 0.

    Ten bits are three digits. Bytes of equal rank stand together: exponents repeat, mantissas do not.
    """
    drop = 23 - bits
    raw = np.asarray(offset - np.asarray(values, dtype=float), dtype="<f4").view("<u4")
    finite = np.isfinite(raw.view("<f4"))
    rounded = np.where(finite, (raw + np.uint32(1 << (drop - 1))) & ~np.uint32((1 << drop) - 1), raw)
    planes = np.ascontiguousarray(rounded.astype("<u4")).view(np.uint8).reshape(-1, 4).T
    return b"s" + struct.pack("<d", offset) + zlib.compress(planes.tobytes(), level)


def unpack(blob: bytes) -> Array:
    """What ``pack`` or ``pack_short`` packed."""
    if blob[:1] == b"d":
        return np.frombuffer(zlib.decompress(blob[1:]), dtype="<f8").astype(float)
    (offset,) = struct.unpack("<d", blob[1:9])
    planes = np.frombuffer(zlib.decompress(blob[9:]), dtype=np.uint8).reshape(4, -1)
    short = np.ascontiguousarray(planes.T).view("<f4").ravel()
    return np.asarray(offset - short.astype(float))


def _offset(record: Record) -> float:
    if record.spec["kind"] == "design":
        return 0.0
    if record.optimum is not None:
        return record.optimum
    finite = record.true[np.isfinite(record.true)]
    return float(finite.max()) if finite.size else 0.0
