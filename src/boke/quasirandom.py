"""Scrambled Sobol points, cheap to draw anew for every suggestion."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from boke.space import Array


def sobol(n: int, d: int, rng: Generator) -> Array:
    """n scrambled Sobol points (n, d): one matrix-scrambled set for all, a fresh digital shift for each call."""
    shift = rng.integers(0, 2**32, size=d, dtype=np.uint32)
    return np.asarray(((_sobol(n, d) ^ shift) + 0.5) / 2.0**32)


@lru_cache(maxsize=32)
def _sobol(n: int, d: int) -> NDArray[np.uint32]:
    from scipy.stats import qmc  # half a second of imports, not before somebody asks for a point

    with _no_interrupts():
        points = qmc.Sobol(d, scramble=True, rng=0, bits=32).random_base2(max(n - 1, 1).bit_length())[:n]
    return np.asarray(points * 2.0**32).astype(np.uint32)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Put Ctrl-C off: SciPy's reader of the direction numbers swallows a KeyboardInterrupt and goes on without them."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # only the main thread is ever interrupted
        return
    caught: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            handler(*caught[0])
