"""By what a run can be traced back to its code."""

import re
import shutil
import subprocess
from pathlib import Path

from boke_bench.environment import _commit, environment


def package(folder: Path, text: str = "x = 1\n") -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text(text)
    (folder / "sub" / "module.py").write_text("y = 2\n")
    return folder


def test_a_copy_outside_any_repository_is_known_by_its_sources(tmp_path):
    one, other = package(tmp_path / "one"), package(tmp_path / "other", "x = 3\n")
    copy = shutil.copytree(one, tmp_path / "copy")
    (copy / "compiled.so").write_bytes(b"of this machine")
    assert re.fullmatch("sources [0-9a-f]{12}", _commit(one))
    assert _commit(one) == _commit(copy) != _commit(other)
    (copy / "sub" / "module.py").rename(copy / "sub" / "renamed.py")
    assert _commit(copy) != _commit(one)


def test_in_a_repository_it_is_the_commit_and_a_plus_for_changes(tmp_path):
    folder = package(tmp_path / "repository" / "package")

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", str(folder.parent))
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert _commit(folder) == commit
    (folder / "__init__.py").write_text("x = 4\n")
    assert _commit(folder) == commit + "+"


def test_every_run_has_versions_machine_and_commit():
    found = environment()
    assert found["versions"]["numpy"]
    assert found["machine"]
    assert found["commit"]
