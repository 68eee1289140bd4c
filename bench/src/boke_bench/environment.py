"""What a run depends on besides its spec: versions, machine, commit."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import boke

PACKAGES = (
    "bokeopt", "boke-bench", "numpy", "scipy", "scikit-learn", "xgboost", "ioh", "cma", "optuna", "torch", "gpytorch",
    "botorch", "ennbo", "hebo", "smac", "glis",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """Versions of everything that could matter, the machine and the commit of boke's sources."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "commit": _commit(Path(boke.__file__).parent),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def _commit(folder: Path) -> str:
    """Commit hash, with a plus if the sources differ from it; outside of a repository a hash of the sources."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        if commit:
            return commit + "+" * bool(git("status", "--porcelain", "--untracked-files=no", "--", str(folder)))
    except (OSError, subprocess.TimeoutExpired):
        pass
    return f"sources {_digest(folder)}"


def _digest(folder: Path) -> str:
    """A hash of all Python files: the same for every copy of a commit."""
    files = sorted((path.relative_to(folder).as_posix(), path.read_bytes()) for path in folder.rglob("*.py"))
    return hashlib.sha256(repr(files).encode()).hexdigest()[:12]
