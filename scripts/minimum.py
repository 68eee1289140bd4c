"""Print the oldest versions that pyproject.toml allows, as constraints for pip: what `make test-minimum` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

# Old releases don't know the newest of what they need themselves: matplotlib 3.8 calls what this pyparsing still had,
# and newer pandas need a newer NumPy.
COMPANIONS = ["pyparsing<3.3", "pandas<2.3"]

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
extras = project["project"]["optional-dependencies"]
groups = [project["dependency-groups"][name] for name in ("test", "test-integrations")]
needed = [
    requirement for group in (project["project"]["dependencies"], *extras.values(), *groups) for requirement in group
]
for requirement in dict.fromkeys(each for each in needed if isinstance(each, str)):
    match = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?>=([0-9.]+)", requirement)
    if match:
        print(f"{match[1]}=={match[2]}.*")
print(*COMPANIONS, sep="\n")
