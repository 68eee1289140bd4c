"""Every script under examples/ runs, in an empty folder, and ends well."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {
    "quickstart.py": [],
    "figures.py": ["matplotlib"],
    "optuna_sampler.py": ["optuna", "sklearn"],
    "sklearn_search.py": ["sklearn"],
    "ray_tune.py": ["ray"],
}
STUDIES = {"sprinkler": ["optuna", "click"], "demo": ["optuna", "click", "sklearn"]}  # folders with a study.toml
ELSEWHERE = {"postgres_workers.py"}  # test_postgres.py has a server for it


def need(modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")


def execute(words, folder, *, warnings="error"):
    run = subprocess.run(
        [sys.executable, "-W", warnings, "-W", "ignore:::pyparsing", *words],  # its advice is for matplotlib
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "timed out during startup" in run.stderr:  # Ray gives itself 30 seconds, which a busy machine may not have
        pytest.skip("Ray did not start")
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_nothing_is_left_out():
    assert {path.name for path in EXAMPLES.glob("*.py")} == NEEDS.keys() | ELSEWHERE
    assert {path.parent.name for path in EXAMPLES.glob("*/*.py")} == STUDIES.keys()


@pytest.mark.parametrize("name", NEEDS)
def test_example(name, tmp_path):
    need(NEEDS[name])
    words = [EXAMPLES / name, *(["."] if name == "figures.py" else [])]
    out = execute(words, tmp_path, warnings="ignore" if name == "ray_tune.py" else "error")  # Ray warns of itself
    assert "parallel.png" in out if name == "figures.py" else "best" in out


@pytest.mark.parametrize("name", STUDIES)
def test_study(name, tmp_path):
    need(STUDIES[name])
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("*.db", "*-logs"))
    boke = ["-m", "boke.cli"]
    assert "trials complete" in execute([*boke, "run", f"{name}/study.toml", "--trials", "8"], tmp_path)
    assert "recommended" in execute([*boke, "recommend", f"{name}/study.toml"], tmp_path)
    assert (tmp_path / name / f"{name}.db").exists()
    if name == "demo":
        assert "random search, 3 trials: best" in execute(["demo/random_search.py", "3"], tmp_path)
