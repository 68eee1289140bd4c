"""The compiled module ``boke._native``, where there is one: twins of NumPy code, which stays as their definition.

It is built at installation where there is a C++ compiler. BOKE_SUMS=numpy in the environment does without it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def _find() -> Any:
    if os.environ.get("BOKE_SUMS", "") == "numpy":
        return None
    try:
        return import_module("boke._native")
    except ImportError:
        return None


NATIVE = _find()
