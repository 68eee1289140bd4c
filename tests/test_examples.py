"""Every script under examples/ runs, in an empty folder, and ends well."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"optuna_sampler.py": ["optuna", "sklearn"], "sklearn_search.py": ["sklearn"], "ray_tune.py": ["ray"]}


@pytest.mark.parametrize("name", ["quickstart.py", *NEEDS])
def test_example(name, tmp_path):
    for module in NEEDS.get(name, []):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    run = subprocess.run(
        [sys.executable, "-W", "ignore" if name == "ray_tune.py" else "error", EXAMPLES / name],  # Ray warns of itself
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "best" in run.stdout


def test_sprinkler(tmp_path):
    for module in ("optuna", "click"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    shutil.copytree(EXAMPLES / "sprinkler", tmp_path / "sprinkler", ignore=shutil.ignore_patterns("*.db", "*-logs"))
    for words in (["run", "--trials", "8"], ["recommend"]):
        run = subprocess.run(
            [sys.executable, "-W", "error", "-m", "boke.cli", words[0], "sprinkler/study.toml", *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stderr
    assert "recommended" in run.stdout
    assert (tmp_path / "sprinkler" / "sprinkler.db").exists()
