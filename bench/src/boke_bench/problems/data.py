"""The two data sets of the tuning tasks: from a folder, or from scikit-learn's and OpenML's fetchers.

Wine is both tables, red over white: 6497 rows, what the UCI repository (186) and OpenML (287) call Wine Quality. The
paper does not say which it means. Rows are put in lexicographic order before anything is drawn from them, so that
folds and subsamples do not depend on where the data came from.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from boke_bench.protocol import Array

FILES = {
    "california": ("california_housing.csv.gz",),
    "wine": ("wine_quality_red.csv.gz", "wine_quality_white.csv.gz"),
}
FOLDER_VARIABLE = "BOKE_DATA"


def load(name: str, folder: str | os.PathLike[str] | None = None, rows: int | None = None) -> tuple[Array, Array]:
    """Features (n, p) and target (n,).

    Args:
        name: "california" or "wine".
        folder: Where the files of FILES lie; None asks the environment variable BOKE_DATA, then the network.
        rows: Size of a fixed random subsample; None is all of them.
    """
    if name not in FILES:
        raise ValueError(f"The 'data' set must be one of {list(FILES)}. Got {name!r}.")
    folder = folder or os.environ.get(FOLDER_VARIABLE)
    table = _read(Path(folder), name) if folder else _fetch(name)
    table = table[np.lexsort(table.T[::-1])]
    if rows is not None and rows < len(table):
        table = table[np.sort(np.random.default_rng(0).permutation(len(table))[:rows])]
    return table[:, :-1], table[:, -1]


def _read(folder: Path, name: str) -> Array:
    for file in FILES[name]:
        if not (folder / file).exists():
            raise FileNotFoundError(f"{folder / file} is missing; {FOLDER_VARIABLE} or 'folder' says where to look.")
    return np.vstack([np.loadtxt(folder / file, delimiter=",", skiprows=1) for file in FILES[name]])


def _fetch(name: str) -> Array:
    from sklearn.datasets import fetch_california_housing, fetch_openml

    try:
        bunch = fetch_california_housing() if name == "california" else fetch_openml(data_id=287, as_frame=False)
    except OSError as error:
        raise OSError(f"{name} could not be fetched. Set {FOLDER_VARIABLE} to a folder with {FILES[name]}.") from error
    return np.column_stack([np.asarray(bunch.data, dtype=float), np.asarray(bunch.target, dtype=float)])
