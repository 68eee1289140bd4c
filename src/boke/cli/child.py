"""The process in which a Python objective runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from boke.workers import begin

READY = "ready"


def load(target: str) -> Any:
    """The function named by 'file.py:function' or 'package.module:function'."""
    module_name, _, name = target.rpartition(":")
    if module_name.endswith(".py"):
        path = Path(module_name).resolve()
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(module_name)
    function = getattr(module, name)
    if not callable(function):
        raise TypeError(f"{target} is not a function")
    return function


def serve(target: str, pipe: Connection) -> None:
    """Say that it is ready, then answer (params, file for stdout, file for stderr) with (values, reason)."""
    begin()
    pipe.send(READY)
    function = None
    while True:
        try:
            params, out, err = pipe.recv()
        except EOFError:
            return
        for number, path in ((1, out), (2, err)):
            with open(path, "wb") as file:
                os.dup2(file.fileno(), number)
        try:
            function = function or load(target)
            answer: tuple[Any, str | None] = _values(function(params)), None
        except BaseException as error:
            traceback.print_exc()
            answer = None, f"{type(error).__name__}: {error}"[:500]
        sys.stdout.flush()
        sys.stderr.flush()
        pipe.send(answer)


def _values(returned: Any) -> list[float]:
    if returned is None:
        raise ValueError("the function returned None")
    values = list(returned) if isinstance(returned, tuple | list) else [returned]
    for value in values:
        if isinstance(value, bool | str | bytes):
            raise TypeError(f"the function returned {value!r:.200}, not a number")
    return [float(value) for value in values]
