"""The suites that other people wrote for what boke plugs into, with their counts: python scripts/foreign.py

Makes two environments in a temporary folder, with the newest and with the oldest versions that pyproject.toml allows,
and runs tests/contract in both. Writes results/foreign.json and the table of docs/contracts.md. Needs a package index.

Optuna ships its tests of samplers since 4.8. The oldest environment runs those of the newest Optuna, as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pages

HERE = Path(__file__).parents[1]
SUITES = {
    "test_optuna_samplers": ("optuna", "`optuna.testing.pytest_samplers`: Basic, Relative, MultiObjective"),
    "test_sklearn_checks": ("scikit-learn", "`parametrize_with_checks`"),
}
FACTS = """
import importlib.metadata as m, json, importlib.util as u
spec = u.find_spec("optuna.testing.pytest_samplers")
versions = {name: m.version(name) for name in ("optuna", "scikit-learn", "numpy", "scipy")}
print(json.dumps({"suite": spec and spec.origin, **versions}))
"""


def environment(folder: Path, constraints: list[str]) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
    subprocess.run([*pip, "-e", HERE, "--group", f"{HERE / 'pyproject.toml'}:test", *constraints], check=True)
    return python


def counts(python: Path, suite: str, folder: Path) -> list[dict[str, object]]:
    """What came out, for each suite and each estimator of ours."""
    report = folder / "report.xml"
    command = [python, "-m", "pytest", "-q", "-n", "2", "tests/contract", f"--junitxml={report}"]
    subprocess.run(command, cwd=HERE, env=os.environ | {"OPTUNA_SAMPLER_TESTS": suite}, check=False)
    found: dict[tuple[str, str], Counter[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"]
        module = next(known for known in SUITES if known in f"{case.attrib['classname']} {name}")
        subject = "BOKESampler" if "optuna" in module else name.partition("[")[2].partition("(")[0]
        outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        found.setdefault((module, subject), Counter())[outcome] += 1
    return [{"suite": suite, "of": subject, **tally} for (suite, subject), tally in sorted(found.items())]


def main() -> None:
    runs = []
    suite = ""
    for name in ("newest", "oldest"):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            constraints = []
            if name == "oldest":
                text = subprocess.run([sys.executable, HERE / "scripts/minimum.py"], check=True, capture_output=True)
                (folder / "minimum.txt").write_bytes(text.stdout)
                constraints = ["-c", str(folder / "minimum.txt")]
            python = environment(folder / "venv", constraints)
            facts = json.loads(subprocess.run([python, "-c", FACTS], check=True, capture_output=True).stdout)
            origin = facts.pop("suite")
            if not suite:
                suite = str(Path(tempfile.mkdtemp()) / "pytest_samplers.py")
                Path(suite).write_bytes(Path(origin).read_bytes())
            runs.append({"environment": name, "versions": facts, "counts": counts(python, suite, folder)})
            print(json.dumps(runs[-1]), flush=True)
    (HERE / "results" / "foreign.json").write_text(
        json.dumps({"command": "python scripts/foreign.py", "runs": runs}, indent=1) + "\n"
    )
    document(runs)


def document(runs: list[dict[str, object]]) -> None:
    """Put the table between the marks of the page."""
    lines = ["| suite | version | of | passed | skipped by the suite | failed |", "|---|---|---|---|---|---|"]
    for run in runs:
        for row in run["counts"]:
            host, title = SUITES[row["suite"]]
            failed = row.get("failure", 0) + row.get("error", 0)
            cells = [title, f"{host} {run['versions'][host]}", f"`{row['of']}`"]
            lines.append(f"| {' | '.join(cells)} | {row.get('passed', 0)} | {row.get('skipped', 0)} | {failed} |")
    pages.put("\n".join(lines), "contracts.md")


if __name__ == "__main__":
    main()
