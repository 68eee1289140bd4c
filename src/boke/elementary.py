"""exp and log that round the same on every processor.

NumPy's round differently where there is AVX-512, and a last bit is enough to send two runs apart. SciPy's power
transforms with the exponent 0 are plain loops over the C library's functions.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray


def exp(x: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(scipy.special.inv_boxcox(x, 0.0))


def log(x: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(scipy.special.boxcox(x, 0.0))
