"""Print the oldest versions that pyproject.toml allows, as constraints for pip: what `make test-minimum` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
needed = list(project["project"]["dependencies"])
for extra in ("plot", "progress", "optuna", "sklearn", "cli"):
    needed += project["project"]["optional-dependencies"][extra]
for requirement in needed:
    match = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement)
    if match:
        print(f"{match[1]}=={match[2]}.*")
