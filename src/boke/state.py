"""The state of an optimizer as a text file: JSON lines, versioned, checksummed, written atomically, never unpickled.

    line 1   {"format": "boke-state", "version": 1, "trials": n, "crc32": ..., space, direction, seed, policy}
    line k   {"values": [native numbers], "state": "complete", "value": 0.25, "told": 7, "asked": 5}

Floats are written with all their digits, so a loaded optimizer continues bit for bit.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import zlib
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boke import acquisition, bandwidth, policies, region
from boke.history import State
from boke.policies import Policy
from boke.space import Array, Categorical, Float, Int, Space

if TYPE_CHECKING:
    from boke.optimizer import Optimizer

FORMAT = "boke-state"
VERSION = 1

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
    """Write the state to a temporary file beside ``path`` and rename it into place."""
    history = optimizer.history
    rows = zip(
        history.native.tolist(),
        history.states.tolist(),
        history.values.tolist(),
        history.told_at.tolist(),
        history.asked_at.tolist(),
        strict=True,
    )
    lines = []
    for number, (native, state, value, told, asked) in enumerate(rows):
        row: dict[str, Any] = {"values": native, "state": State(state).name.lower(), "told": told, "asked": asked}
        if state == State.COMPLETE.value:
            row["value"] = value if math.isfinite(value) else repr(value)
        if (reason := history.reason(number)) is not None:
            row["reason"] = reason
        lines.append(json.dumps(row, allow_nan=False))
    body = "".join(line + "\n" for line in lines).encode()
    space = optimizer.space
    header = {
        "format": FORMAT,
        "version": VERSION,
        "trials": len(lines),
        "crc32": zlib.crc32(body),
        "space": [[name, _dump(p)] for name, p in space.parameters.items()],
        "named": space.named,
        "arms": None if space.arms is None else space.arms.tolist(),
        "direction": optimizer.direction,
        "seed": optimizer.seed,
        "policy": _dump_policy(optimizer.policy),
    }
    _write(path, json.dumps(header, allow_nan=False).encode() + b"\n" + body)


def load(cls: type[Optimizer], path: str | os.PathLike[str], policy: Policy | None) -> Optimizer:
    """Read and check the whole file, then build the optimizer."""
    with open(path, "rb") as file:
        first, body = file.readline(), file.read()
    header = _header(first, path)
    if zlib.crc32(body) != header.get("crc32"):
        lines = body.count(b"\n")
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or cut off: its checksum does not match "
            f"({lines} of {header.get('trials')} trials are there)."
        )
    try:
        space = Space(
            {name: _restore(p) for name, p in header["space"]},
            named=header["named"],
            arms=None if header["arms"] is None else np.array(header["arms"], dtype=float),
        )
        if policy is None:
            if header["policy"] is None:
                raise ValueError("it was saved with a policy of your own; pass it as policy=...")
            policy = _restore(header["policy"])
        optimizer = cls(space, direction=header["direction"], policy=policy, rng=header["seed"])
        _fill(optimizer, [json.loads(line) for line in body.splitlines()])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a valid boke state: {error}") from error
    return optimizer


def _header(line: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        header = json.loads(line)
        if header["format"] != FORMAT:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{os.fspath(path)!r} is not a boke state: its first line is not a {FORMAT} header.") from None
    if header.get("version") != VERSION:
        raise ValueError(
            f"{os.fspath(path)!r} has state version {header.get('version')}; this boke reads version {VERSION}."
        )
    assert isinstance(header, dict)
    return header


def _fill(optimizer: Optimizer, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    native = np.array([row["values"] for row in rows], dtype=float)
    values = np.array([float(row.get("value", math.nan)) for row in rows])
    states = np.array([State[row["state"].upper()].value for row in rows], dtype=np.uint8)
    told, asked = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("told", "asked"))
    _check(optimizer.space, native)
    reasons = {i: str(row["reason"]) for i, row in enumerate(rows) if "reason" in row}
    optimizer.history.restore(native, values, states, told, asked, reasons)


def _check(space: Space, native: Array) -> None:
    if native.ndim != 2 or native.shape[1] != space.dim or not np.isfinite(native).all():
        raise ValueError(f"the trials must be rows of {space.dim} numbers")
    for j, (name, p) in enumerate(space.parameters.items()):
        low, high = (0, p.cells - 1) if isinstance(p, Categorical) else (p.low, p.high)  # type: ignore[attr-defined]
        if native[:, j].min() < low or native[:, j].max() > high:
            raise ValueError(f"a trial's value of {name!r} is outside the space")


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


def _write(path: str | os.PathLike[str], content: bytes) -> None:
    target = os.path.abspath(os.fspath(path))
    folder = os.path.dirname(target)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(target)[:64]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    if os.name == "posix":
        folder_handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(folder_handle)
        finally:
            os.close(folder_handle)


def _mode(target: str) -> int:
    """Permissions of the file that is replaced, or what the umask leaves of rw-rw-rw-."""
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
