"""Products with small matrices and their eigenvectors, the same on every machine: no BLAS, no LAPACK."""

from __future__ import annotations

import math

import numpy as np

from boke.compiled import NATIVE
from boke.space import Array

NEGLIGIBLE = 1e-8  # of entries beside the diagonal, relative to the largest


def turned(Z: Array, matrix: Array) -> Array:
    """Z (n, d) times a matrix (d, d)."""
    return np.asarray(np.einsum("nj,jk->nk", Z, matrix))


def eigenvectors(A: Array) -> Array:
    """The eigenvectors of a symmetric matrix (d, d), as columns: Jacobi's rotations, the same on every machine.

    They are at right angles to rounding, and leave beside the diagonal what is NEGLIGIBLE.
    """
    if NATIVE is None:
        return plain_eigenvectors(A)
    return np.asarray(NATIVE.eigenvectors(np.ascontiguousarray(A)))


def plain_eigenvectors(A: Array) -> Array:
    """The same, and its definition.

    Each rotation makes an entry beside the diagonal zero; a few rounds over all of them are enough.
    """
    d = len(A)
    A, V, small = A.copy(), np.eye(d), NEGLIGIBLE * np.abs(A).max(initial=0.0)
    for _ in range(20):
        large = False
        for i in range(d):
            for j in range(i + 1, d):
                if not abs(A[i, j]) > small:
                    continue
                large = True
                cot = (A[j, j] - A[i, i]) / (2.0 * A[i, j])  # of twice the angle
                tan = math.copysign(1.0, cot) / (abs(cot) + math.sqrt(1.0 + cot * cot))
                cos = 1.0 / math.sqrt(1.0 + tan * tan)
                rotation, pair = np.array([[cos, tan * cos], [-tan * cos, cos]]), [i, j]
                A[:, pair] = turned(A[:, pair], rotation)
                A[pair] = turned(A[pair].T, rotation).T
                V[:, pair] = turned(V[:, pair], rotation)
        if not large:
            break
    return V
