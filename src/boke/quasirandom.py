"""Scrambled Sobol points, cheap to draw anew for every suggestion.

They are those of ``scipy.stats.qmc`` to the last bit. Importing that takes half a second, a thousand times as long as a
suggestion; all that is needed of it is the table of direction numbers.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from boke.compiled import NATIVE
from boke.space import Array

BITS = 32
PLACES = np.arange(BITS, dtype=np.uint64)


def sobol(n: int, d: int, rng: Generator) -> Array:
    """n scrambled Sobol points (n, d): one matrix-scrambled set for all, a fresh digital shift for each call."""
    shift = rng.integers(0, 2**32, size=d, dtype=np.uint32)
    return np.asarray((plain_shifted if NATIVE is None else NATIVE.shifted)(sobol_integers(n, d), shift))


def plain_shifted(points: NDArray[np.uint32], shift: NDArray[np.uint32]) -> Array:
    """Points (n, d) of the unit cube from integers (n, d), all moved by one shift (d,)."""
    return np.asarray(((points ^ shift) + 0.5) / 2.0**BITS)


@lru_cache(maxsize=32)
def sobol_integers(n: int, d: int) -> NDArray[np.uint32]:
    """The first n points (n, d), as integers: point i is the sum of the columns where the Gray code of i is one."""
    try:
        columns, shift = _scrambled(d)
    except FileNotFoundError:  # a SciPy that keeps its table elsewhere still has the points
        return _imported(n, d)
    i = np.arange(n)
    gray = i ^ (i >> 1)
    points = np.tile(shift, (n, 1))
    for b in range(max(n - 1, 1).bit_length()):
        points[gray >> b & 1 == 1] ^= columns[:, b]
    return points.astype(np.uint32)


def _imported(n: int, d: int) -> NDArray[np.uint32]:
    """The same from SciPy, and its definition."""
    from scipy.stats import qmc

    points = qmc.Sobol(d, scramble=True, rng=0, bits=BITS).random_base2(max(n - 1, 1).bit_length())[:n]
    return np.asarray(points * 2.0**BITS).astype(np.uint32)


@lru_cache(maxsize=8)
def _scrambled(d: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Direction numbers (d, BITS) times a random lower triangular matrix of bits for each column; and a shift (d,)."""
    rng = np.random.default_rng(0).spawn(1)[0]
    shift = (rng.integers(2, size=(d, BITS), dtype=np.uint32).astype(np.uint64) << PLACES).sum(axis=1)
    matrices = np.tril(rng.integers(2, size=(d, BITS, BITS), dtype=np.uint32))
    matrices[:, range(BITS), range(BITS)] = 1
    bits = (_directions(d)[:, :, None] >> PLACES[::-1]) & np.uint64(1)  # the highest first
    mixed = np.einsum("dpk,djk->djp", matrices, bits.astype(np.uint32)) & 1
    return (mixed.astype(np.uint64) << PLACES[::-1]).sum(axis=2), shift


def _directions(d: int) -> NDArray[np.uint64]:
    """Sobol's direction numbers (d, BITS): columns of binary matrices, one matrix for each dimension.

    A dimension has a primitive polynomial over GF(2) of degree m and m first numbers; the polynomial's recurrence
    makes the others (Bratley and Fox 1988).
    """
    polynomials, first = _table(d)
    V = np.ones((d, BITS), dtype=np.uint64)
    for k in range(1, d):
        m = polynomials[k].bit_length() - 1
        v = first[k][:m]
        for j in range(m, BITS):
            new = v[j - m]
            for i in range(1, m + 1):
                if polynomials[k] >> (m - i) & 1:
                    new ^= v[j - i] << i
            v.append(new)
        V[k] = v
    return V << PLACES[::-1]


def _table(d: int) -> tuple[list[int], list[list[int]]]:
    """Polynomials and first direction numbers of Joe and Kuo (2008), which SciPy carries."""
    spec = find_spec("scipy.stats")
    assert spec is not None and spec.origin is not None
    with np.load(Path(spec.origin).with_name("_sobol_direction_numbers.npz")) as table:
        if d > len(table["poly"]):
            raise ValueError(f"There are Sobol points in up to {len(table['poly'])} dimensions. Got {d}.")
        return table["poly"][:d].tolist(), table["vinit"][:d].tolist()
