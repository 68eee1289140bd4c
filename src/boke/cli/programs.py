"""Evaluating a point: run a program, or call a Python function in a process of its own.

Both keep what was printed in files, end when they are told to, and turn whatever goes wrong into a reason.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import string
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from boke.cli.child import READY, serve
from boke.cli.config import Config
from boke.cli.errors import Problem
from boke.workers import end

TICK = 0.1  # seconds between looks at the clock and at the stop sign
GRACE = 0.5  # seconds between asking a program to end and ending it
TAIL = 65_536  # bytes of output that are searched for the value


@dataclass(frozen=True)
class Outcome:
    """Values, or the reason why there are none; ``interrupted`` means that the evaluation was not its own undoing."""

    values: list[float] | None
    reason: str | None = None
    interrupted: bool = False


class Evaluator(Protocol):
    def __call__(self, params: Mapping[str, Any], number: int, folder: Path, stop: threading.Event) -> Outcome: ...
    def close(self) -> None: ...


def evaluator_of(config: Config) -> Evaluator:
    """What evaluates points for one worker; everything that can be checked beforehand is."""
    objective, n_values = config.objective, len(config.directions)
    if objective.command is not None:
        return Program(config)
    if objective.python is not None:
        return Function(objective.python, objective.timeout, n_values)
    raise Problem('There is no objective. Add [objective] with command = "..." to the TOML file, or use --cmd "...".')


class Program:
    """Any program: parameters go into its command line, the value comes out of what it writes."""

    def __init__(self, config: Config) -> None:
        objective, names, reading = config.objective, list(config.space), config.objective.value
        assert objective.command is not None
        self.words = _split(objective.command)
        if not self.words:
            raise Problem("The command is empty.")
        known = {*names, "trial", "out"}
        for word in [*self.words, reading.what if reading.kind == "json" else ""]:
            for name in _placeholders(word):
                if name not in known:
                    raise Problem(f"The command names {{{name}}}, which is not in the space. It has {sorted(names)}.")
        program = self.words[0]
        here = config.folder / program if "/" in program else program
        if "{" not in program and shutil.which(here, path=_path()) is None:
            raise Problem(f"There is no program {program!r}. Is it installed, and on the PATH?")
        apart = {"out", "trial"} & set(_placeholders(reading.what))
        if reading.kind == "json" and config.workers > 1 and not apart:
            raise Problem(
                f"Several workers would write to one {reading.what}. Write to {{out}}/{reading.what} instead."
            )
        self.reading, self.timeout, self.n_values = reading, objective.timeout, len(config.directions)
        self.where = config.folder

    def __call__(self, params: Mapping[str, Any], number: int, folder: Path, stop: threading.Event) -> Outcome:
        folder.mkdir(parents=True, exist_ok=True)
        fields = {**params, "trial": number, "out": folder}
        words = [_fill(word, fields) for word in self.words]
        file = self.where / _fill(self.reading.what, fields) if self.reading.kind == "json" else None
        before = _stamp(file)
        environment = os.environ | {
            "PATH": _path(),
            "BOKE_TRIAL": str(number),
            "BOKE_OUT": str(folder),
            "BOKE_PARAMS": json.dumps(dict(params)),
        }
        with open(folder / "stdout.txt", "wb") as out, open(folder / "stderr.txt", "wb") as err:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=self.where,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                return Outcome(None, f"the program could not be started: {error}")
            ended = self._wait(process, stop)
        if ended is not None:
            return ended
        if process.returncode != 0:
            return Outcome(None, _exit(process.returncode, folder / "stderr.txt"))
        if file is not None and before is not None and _stamp(file) == before:
            return Outcome(None, f"{file} is from before this trial: the program did not write it")
        try:
            return checked(self.reading.values(_tail(folder / "stdout.txt"), file, self.n_values))
        except ValueError as error:
            return Outcome(None, str(error))

    def _wait(self, process: subprocess.Popen[bytes], stop: threading.Event) -> Outcome | None:
        start = time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TICK)
                return None
            if stop.is_set():
                _end(process)
                return Outcome(None, "interrupted", interrupted=True)
            if self.timeout is not None and time.monotonic() - start > self.timeout:
                _end(process)
                return Outcome(None, f"timeout: it ran for more than {self.timeout:g} s")

    def close(self) -> None:
        pass


class Function:
    """A Python function of a dict, in a process that lives from trial to trial unless it has to be ended."""

    def __init__(self, target: str, timeout: float | None, n_values: int) -> None:
        module, colon, name = target.rpartition(":")
        if not colon or not module or not name:
            raise Problem(f"The Python objective must be 'file.py:function' or 'module:function'. Got {target!r}.")
        if module.endswith(".py") and not Path(module).is_file():
            raise Problem(f"There is no file {module}.")
        self.target, self.timeout, self.n_values = target, timeout, n_values
        self._process: Any = None
        self._pipe: Any = None

    def __call__(self, params: Mapping[str, Any], number: int, folder: Path, stop: threading.Event) -> Outcome:
        folder.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        if self._process is None or not self._process.is_alive():
            self._start()
            start = math.inf  # a Python that comes up is no part of the evaluation
        try:
            self._pipe.send((dict(params), str(folder / "stdout.txt"), str(folder / "stderr.txt")))
            while True:
                if self._pipe.poll(TICK):
                    if (answer := self._pipe.recv()) != READY:
                        break
                    start = time.monotonic()
                elif stop.is_set():
                    self.close()
                    return Outcome(None, "interrupted", interrupted=True)
                elif self.timeout is not None and time.monotonic() - start > self.timeout:
                    self.close()
                    return Outcome(None, f"timeout: it ran for more than {self.timeout:g} s")
            values, reason = answer
        except (EOFError, OSError):
            self._process.join(GRACE)
            code = self._process.exitcode
            self.close()
            return Outcome(None, f"the process died: {_exit(code or 0, folder / 'stderr.txt')}")
        if reason is not None:
            return Outcome(None, reason)
        if len(values) != self.n_values:
            return Outcome(None, f"{self.n_values} values were expected, and {len(values)} returned")
        return checked(values)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(self.target, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        if self._process is not None:
            end(self._process)
            self._pipe.close()
            self._process = None


def checked(values: list[float]) -> Outcome:
    if any(math.isnan(value) for value in values):
        return Outcome(None, "the value is nan")
    return Outcome(values)


def _path() -> str:
    """The PATH of programs: `python` is boke's own, so that a virtual environment need not be activated."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _split(template: str) -> list[str]:
    """Words as a shell would have them, each with its placeholders; a name may have spaces in it."""
    names = _placeholders(template)
    safe = template
    for i, name in enumerate(names):
        safe = safe.replace(f"{{{name}", f"{{\ue000{i}\ue001", 1)
    try:
        words = shlex.split(safe)
    except ValueError as error:
        raise Problem(f"The command {template!r} cannot be split into words: {error}.") from None
    return [re.sub("\ue000(\\d+)\ue001", lambda match: names[int(match[1])], word) for word in words]


def _placeholders(word: str) -> list[str]:
    try:
        return [name for _, name, _, _ in string.Formatter().parse(word) if name is not None]
    except ValueError as error:
        raise Problem(
            f"{word!r} has a brace too many or too few ({error}); write {{{{ and }}}} for plain ones."
        ) from None


def _fill(word: str, fields: Mapping[str, Any]) -> str:
    """Replace {name}; names are taken whole, so that one with a dot or a bracket in it is a name like others."""
    parts = []
    for literal, name, spec, _ in string.Formatter().parse(word):
        parts.append(literal)
        if name is not None:
            value = fields[name]
            parts.append(format(value, spec) if spec else str(value))
    return "".join(parts)


def _stamp(file: Path | None) -> tuple[int, int] | None:
    try:
        status = file.stat() if file is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the program and all it has started to end; after a moment, end them."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            if sign is signal.SIGKILL:
                return


def _exit(code: int, stderr: Path) -> str:
    how = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
    lines = [line for line in _tail(stderr).splitlines() if line.strip()]
    return f"{how}: {lines[-1].strip()[:500]}" if lines else how


def _tail(file: Path) -> str:
    try:
        with open(file, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - TAIL))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
