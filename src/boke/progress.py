"""A progress bar that is tqdm where it is installed and nothing where it is not."""

from __future__ import annotations

import warnings
from typing import Any


class Progress:
    """Counts finished trials and shows the best value so far."""

    def __init__(self, total: int, show: bool) -> None:
        self._bar: Any = None
        if show:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                warnings.warn("progress=True needs tqdm: pip install 'bokeopt[progress]'", stacklevel=4)
            else:
                self._bar = tqdm(total=total, unit="trial", dynamic_ncols=True)

    def update(self, best: float | None) -> None:
        if self._bar is not None:
            if best is not None:
                self._bar.set_postfix_str(f"best {best:.6g}", refresh=False)
            self._bar.update()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
