"""exp and log that round the same on every processor.

NumPy's round differently where there is AVX-512, and a last bit is enough to send two runs apart. SciPy's power
transforms with the exponent 0 are plain loops over the C library's functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import boxcox, inv_boxcox


def exp(x: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(inv_boxcox(x, 0.0))


def log(x: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(boxcox(x, 0.0))
