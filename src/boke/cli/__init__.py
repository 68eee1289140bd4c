"""The ``boke`` command: optimize any program from a shell. State lives in an Optuna storage."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from boke.cli.commands import boke
    except ImportError as error:
        print(f"The boke command needs {error.name}: pip install 'bokeopt[cli]'", file=sys.stderr)
        sys.exit(2)
    boke(prog_name="boke")
