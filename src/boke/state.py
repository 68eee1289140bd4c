"""The state of an optimizer as a text file: versioned, checksummed, never unpickled.

A file is a header and then records, each a line of ``boke.journal``. ``save`` writes the trials in blocks; a log goes
on from there with a record for every step:

    {"format": "boke-state", "version": 2, "trials": n, space, direction, seed, policy}
    {"rows": base64, "states": "cfpr", "values": base64, "told": base64, "asked": base64, "reasons": {}}
    {"ask": [native numbers]}   {"register": [...]}   {"tell": number, "value": 0.25, "reason": "..."}
    {"point": [native numbers], "value": 0.25}   {"points": [[...], ...], "values": [...]}   {"remove": number}

Floats are written with all their digits or bits, so a loaded optimizer continues bit for bit. Version 1 had one
checksum for the whole file and a line for each trial.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boke import acquisition, bandwidth, journal, policies, region
from boke.history import History, Memory, State
from boke.journal import MORE, Journal, Record
from boke.policies import Policy
from boke.space import Array, Categorical, Float, Int, Space

if TYPE_CHECKING:
    from boke.optimizer import Optimizer

FORMAT = "boke-state"
VERSION = 2
BLOCK = 4096  # trials in a line
LETTERS = "pcfr"  # by the value of State
OURS = re.compile(rb'(\[\d{1,12}, \d{1,10}, )?\{"format": "boke-state", "version": ')

# the only classes that a file can name
KNOWN: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        policies.BOKE,
        policies.BOKEPlus,
        policies.BOKELocal,
        region.TrustRegion,
        policies.DensityExploration,
        policies.KRUCB,
        bandwidth.Fixed,
        bandwidth.Silverman,
        bandwidth.Scott,
        bandwidth.LeastSquaresCV,
        bandwidth.MaximumLikelihoodCV,
        bandwidth.FillDistanceSchedule,
        acquisition.PaperBeta,
        acquisition.UCB1Beta,
        Float,
        Int,
        Categorical,
    )
}


def save(optimizer: Optimizer, path: str | os.PathLike[str]) -> None:
    """Write the whole state, atomically."""
    journal.save(path, snapshot(optimizer))


def snapshot(optimizer: Optimizer) -> Iterator[Record]:
    """The records of the whole state."""
    space, history = optimizer.space, optimizer.history
    yield (
        {
            "format": FORMAT,
            "version": VERSION,
            "trials": len(history),
            "space": [[name, _dump(p)] for name, p in space.parameters.items()],
            "named": space.named,
            "arms": None if space.arms is None else space.arms.tolist(),
            "direction": optimizer.direction,
            "seed": optimizer.seed,
            **({} if history.memory is None else {"memory": asdict(history.memory)}),
            "policy": _dump_policy(optimizer.policy),
        }
    )
    values = history.values
    for first in range(0, len(history), BLOCK):
        rows = slice(first, first + BLOCK)
        reasons = {str(i - first): r for i in range(len(history))[rows] if (r := history.reason(i)) is not None}
        yield (
            {
                "rows": _bits(history.native[rows], "<f8"),
                "states": "".join(LETTERS[state] for state in history.states[rows].tolist()),
                "values": _bits(values[rows], "<f8"),
                "told": _bits(history.told_at[rows], "<i8"),
                "asked": _bits(history.asked_at[rows], "<i8"),
                "reasons": reasons,
            }
        )


def _bits(column: NDArray[Any], kind: str) -> str:
    """A column as base64 of its bits: a million trials as decimal numbers would take ten times as long."""
    return base64.b64encode(column.astype(kind).tobytes()).decode()


def _column(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)


def dump_values(values: Array) -> list[float | str | None]:
    """Values as JSON has them: nan is null, the infinite ones are text."""
    listed: list[float | str | None] = values.tolist()
    for i in np.flatnonzero(~np.isfinite(values)).tolist():
        listed[i] = None if math.isnan(values[i]) else repr(listed[i])
    return listed


def load_values(values: list[float | str | None]) -> Array:
    return np.array([math.nan if value is None else float(value) for value in values])


def points(native: Array, values: Array) -> Iterator[Record]:
    """The records for many points told at once: one group, so that a crash leaves all of them or none."""
    for first in range(0, len(native), BLOCK):
        rows = slice(first, first + BLOCK)
        record = {"points": native[rows].tolist(), "values": dump_values(values[rows])}
        yield record if first + BLOCK >= len(native) else {**record, MORE: True}


def load(cls: type[Optimizer], path: str | os.PathLike[str], policy: Policy | None) -> Optimizer:
    """Read and check the whole file, then build the optimizer; whatever is not whole is refused."""
    with open(path, "rb") as file:
        found = _read(cls, file, path, policy)
    if found.damage:
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or cut off: {found.damage}. Optimizer.open goes on with what is whole."
        )
    return found.optimizer


def open_log(
    cls: type[Optimizer], path: str | os.PathLike[str], space: Any, policy: Policy | None, **settings: Any
) -> tuple[Optimizer, Journal]:
    """The optimizer of a log, and the log; a new one where there is no file, or an empty one."""
    with contextlib.ExitStack() as on_error:
        try:
            file = journal.open_locked(path)
        except FileNotFoundError:
            if space is None:
                raise
        else:
            on_error.callback(file.close)
            if os.fstat(file.fileno()).st_size:
                found = _reopen(cls, file, path, space, policy, settings)
                on_error.pop_all()
                return found
        if space is None:
            raise ValueError(f"{os.fspath(path)!r} is empty: a new log needs the 'space' parameter.")
        optimizer = cls(space, policy=policy, **settings)
        return optimizer, Journal.create(path, snapshot(optimizer))


def _reopen(
    cls: type[Optimizer],
    file: IO[bytes],
    path: str | os.PathLike[str],
    space: Any,
    policy: Policy | None,
    settings: dict[str, Any],
) -> tuple[Optimizer, Journal]:
    found = _read(cls, file, path, policy)
    optimizer, name = found.optimizer, os.fspath(path)
    if space is not None and (asked := Space.of(space)) != optimizer.space:
        raise ValueError(f"{name!r} belongs to another space: {optimizer.space}. Got {asked}.")
    memory = optimizer.history.memory or Memory()
    agreed = {"direction": optimizer.direction, "rng": optimizer.seed, **asdict(memory)}
    for key, known in agreed.items():
        given = settings.get(key)
        if isinstance(given, str | int | float | np.integer) and given != known:
            raise ValueError(f"{name!r} was made with {key}={known!r}. Got {key}={given!r}.")
    log = Journal(path, file, found.base, found.end)
    if found.damage:
        warnings.warn(f"{name!r} was cut off: {found.damage}.", RuntimeWarning, stacklevel=4)
    if found.damage or found.version != VERSION:
        log.replace(snapshot(optimizer))
    return optimizer, log


@dataclass(frozen=True)
class Found:
    """What was read: the optimizer, where its blocks and its records end, and what is wrong with the rest."""

    optimizer: Optimizer
    version: int
    base: int
    end: int
    damage: str


def _read(cls: type[Optimizer], file: IO[bytes], path: str | os.PathLike[str], policy: Policy | None) -> Found:
    name = os.fspath(path)
    if OURS.match(file.read(64)) is None:
        raise ValueError(f"{name!r} is not a boke state: its first line is not a {FORMAT} header.")
    file.seek(0)
    first = file.readline()
    try:
        header = json.loads(first) if first.startswith(b"{") else journal.unpack(first)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{name!r} is not a boke state: its first line is damaged or cut off.")
    version = header.get("version")
    if version not in (1, VERSION):
        raise ValueError(f"{name!r} has state version {version}; this boke reads versions 1 to {VERSION}.")
    try:
        space = Space(
            {name: _restore(p) for name, p in header["space"]},
            named=header["named"],
            arms=None if header["arms"] is None else _arms(header["arms"], len(header["space"])),
        )
        if policy is None:
            if header["policy"] is None:
                raise ValueError("it was saved with a policy of your own; pass it as policy=...")
            policy = _restore(header["policy"])
        memory = header.get("memory", {})
        optimizer = cls(space, direction=header["direction"], policy=policy, rng=header["seed"], **memory)
        if version == 1:
            _fill_1(optimizer, file.read(), header)
            return Found(optimizer, version, 0, file.tell(), "")
        base, end = _replay(optimizer.history, journal.records(file), len(first))
        missing = header["trials"] - len(optimizer.history)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError) as error:
        raise ValueError(f"{name!r} is not a valid boke state: {error}") from error
    dropped = os.fstat(file.fileno()).st_size - end
    damage = [f"the last {dropped} bytes are no whole record and were dropped"] if dropped else []
    damage += [f"{missing} of {header['trials']} trials are missing"] if missing > 0 else []
    return Found(optimizer, version, base, end, "; ".join(damage))


def _replay(history: History, found: Iterable[tuple[Any, int]], end: int) -> tuple[int, int]:
    """Do again what the records say; return where the blocks and where the records end."""
    blocks: list[dict[str, Any]] = []
    base = end
    for record, end in found:
        if "rows" in record:
            if len(history):
                raise ValueError("a block of trials comes after a step")
            blocks.append(record)
            base = end
            continue
        if blocks:
            _fill(history, blocks)
            blocks = []
        _redo(history, record)
    if blocks:
        _fill(history, blocks)
    return base, end


def _fill(history: History, blocks: list[dict[str, Any]]) -> None:
    native = np.concatenate([_column(block["rows"], "<f8") for block in blocks]).reshape(-1, history.space.dim)
    states = np.array([LETTERS.index(letter) for block in blocks for letter in block["states"]], dtype=np.uint8)
    values = np.concatenate([_column(block["values"], "<f8") for block in blocks])
    told, asked = (np.concatenate([_column(block[name], "<i8") for block in blocks]) for name in ("told", "asked"))
    if not len(native) == len(states) == len(values) == len(told) == len(asked):
        raise ValueError("the columns of a block differ in length")
    _check(history.space, native, states, values)
    starts = np.cumsum([0, *(len(block["states"]) for block in blocks)]).tolist()
    reasons = {
        start + int(i): str(reason)
        for start, block in zip(starts, blocks, strict=False)
        for i, reason in block["reasons"].items()
    }
    history.restore(native, values, states, told, asked, reasons)


def _redo(history: History, record: dict[str, Any]) -> None:
    if "tell" in record or "remove" in record:
        number = record["tell" if "tell" in record else "remove"]
        if type(number) is not int or not 0 <= number < len(history):
            raise ValueError(f"there is no trial {number!r} to {'tell' if 'tell' in record else 'remove'}")
        if "remove" in record:
            history.remove(number)
            return
        if history.states[number] != State.PENDING.value:
            raise ValueError(f"trial {number} is told twice")
        history.finish(number, load_values([record.get("value")]), record.get("reason"))
        return
    kind = next(key for key in ("ask", "register", "point", "points", None) if key is None or key in record)
    if kind is None:
        raise ValueError(f"a record with the keys {sorted(record)} is unknown")
    native = np.array(record[kind] if kind == "points" else [record[kind]], dtype=float)
    _check(history.space, native)
    first = history.append(native, asked=kind == "ask")
    if kind in ("point", "points"):
        values = load_values(record["values"] if kind == "points" else [record.get("value")])
        if len(values) != len(native):
            raise ValueError("points and values differ in length")
        history.finish(first, values, record.get("reason"))


def _fill_1(optimizer: Optimizer, body: bytes, header: dict[str, Any]) -> None:
    """The trials of a file of version 1: a line each, one checksum for all."""
    if zlib.crc32(body) != header["crc32"]:
        there = f"{body.count(bytes([10]))} of {header['trials']} trials are there"
        raise ValueError(f"it is damaged or cut off, its checksum does not match ({there})")
    rows = [json.loads(line) for line in body.splitlines()]
    if not rows:
        return
    native = np.array([row["values"] for row in rows], dtype=float)
    values = np.array([float(row.get("value", math.nan)) for row in rows])
    states = np.array([State[row["state"].upper()].value for row in rows], dtype=np.uint8)
    told, asked = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("told", "asked"))
    _check(optimizer.space, native, states, values)
    reasons = {i: str(row["reason"]) for i, row in enumerate(rows) if "reason" in row}
    optimizer.history.restore(native, values, states, told, asked, reasons)


def _check(space: Space, native: Array, states: NDArray[np.uint8] | None = None, values: Array | None = None) -> None:
    if native.ndim != 2 or native.shape[1] != space.dim or not np.isfinite(native).all():
        raise ValueError(f"the trials must be rows of {space.dim} numbers")
    for j, (name, p) in enumerate(space.parameters.items()):
        low, high = (0, p.cells - 1) if isinstance(p, Categorical) else (p.low, p.high)  # type: ignore[attr-defined]
        if native[:, j].min() < low or native[:, j].max() > high:
            raise ValueError(f"a trial's value of {name!r} is outside the space")
    if states is not None and values is not None and ((states == State.COMPLETE.value) == np.isnan(values)).any():
        raise ValueError("a trial is complete without a value, or has a value and is not complete")


def _arms(rows: Any, d: int) -> Array:
    arms = np.array(rows, dtype=float)
    if arms.ndim != 2 or arms.shape[1] != d or len(arms) == 0 or not np.isfinite(arms).all():
        raise ValueError(f"the arms must be rows of {d} numbers")
    return arms


def _dump(value: Any) -> Any:
    """A parameter, a rule or a policy as JSON: its class by name and its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        if KNOWN.get(type(value).__name__) is not type(value):
            raise TypeError(f"{value!r} cannot be saved: only boke's own classes can.")
        return {"class": type(value).__name__, **{f.name: _dump(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, tuple):
        return [_dump(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"class": "float", "value": repr(value)}
    raise TypeError(f"{value!r} cannot be saved: a state file holds numbers, strings, booleans and None.")


def _dump_policy(policy: Policy) -> Any:
    """The policy as JSON, or None for one that the file cannot describe."""
    try:
        return _dump(policy) if is_dataclass(policy) else None
    except TypeError:
        return None


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restore(v) for v in value)
    if isinstance(value, dict):
        name = value.get("class")
        if name == "float":
            return float(value["value"])
        if name not in KNOWN:
            raise ValueError(f"unknown class {name!r}")
        return KNOWN[name](**{key: _restore(v) for key, v in value.items() if key != "class"})
    return value
