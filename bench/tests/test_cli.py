"""The command: from an experiment file to its tables, and errors of one line."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest

from boke_bench.cli import main
from boke_bench.store import Store

FILE = """
title = "Bowls"
optimizers = ["bench_fakes:Uniform", "bench_fakes:Slow"]
seeds = 4
budget = 12
n_init = 4
[[problems]]
spec = { kind = "bench_fakes:Bowl", dim = 2 }
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bowls.toml"
    path.write_text(FILE)
    return str(path)


def test_from_a_file_to_everything(file, tmp_path, capsys):
    assert main(["run", file, "--jobs", "2", "--scale", "0.5"]) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines()[0] == "bowls: scaled by 0.5: 2 seeds × 6 evaluations"
    assert captured.err.splitlines()[-1] == "bowls: 4 of 4 runs"
    assert main(["run", file, "--scale", "0.5"]) == 0  # nothing left to do
    with Store("boke-bench.sqlite") as store:
        assert len(store.statuses()) == 4
    assert not (tmp_path / "boke-bench.sqlite.log").exists()

    assert main(["report"]) == 0
    assert "scaled by 0.5" in (tmp_path / "report.html").read_text()
    assert main(["figure", "bowls"]) == 0
    assert (tmp_path / "figures" / "bowls.png").is_file()
    capsys.readouterr()
    assert main(["table", "bowls"]) == 0
    assert "**Simple regret at the end**" in capsys.readouterr().out
    assert main(["table", "--format", "latex", "--output", "tables"]) == 0
    assert r"\toprule" in (tmp_path / "tables" / "bowls.tex").read_text()

    assert main(["export", "--output", "small.sqlite.xz"]) == 0
    assert main(["report", "--store", "small.sqlite.xz", "--output", "again.html"]) == 0
    assert main(["export", "--output", "runs.csv"]) == 0
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert len(rows) == 4
    assert {row["optimum"] for row in rows} == {"0.0"}


def test_experiments_are_compared_together(file, tmp_path, capsys):
    other = tmp_path / "others.toml"
    other.write_text(FILE.replace("dim = 2", "dim = [2, 3]").replace("seeds = 4", "seeds = 2"))
    assert main(["run", file, str(other)]) == 0
    capsys.readouterr()
    assert main(["compare"]) == 0
    out = capsys.readouterr().out
    assert "**Mean rank after 12 evaluations**" in out
    assert "8 blocks (problem and seed), 3 problems" in out
    assert main(["compare", "--where", "dim=2"]) == 0
    assert "6 blocks (problem and seed), 2 problems" in capsys.readouterr().out
    assert main(["compare", "--where", "dim=2,3"]) == 0
    assert "8 blocks (problem and seed), 3 problems" in capsys.readouterr().out
    assert main(["compare", "--where", "seed=0"]) == 0
    assert "3 blocks (problem and seed), 3 problems" in capsys.readouterr().out
    assert main(["compare", "--where", "seed=1,2,9"]) == 0  # there are four seeds of one problem and two of the others
    assert "4 blocks (problem and seed), 3 problems" in capsys.readouterr().out
    assert main(["compare", "--where", "seed=x"]) == 2
    assert main(["compare", "--at", "7"]) == 0
    assert "**Mean rank after 7 evaluations**" in capsys.readouterr().out
    assert main(["compare", "--output", "all.md", "--title", "All bowls"]) == 0
    assert (tmp_path / "all.md").read_text().startswith("# All bowls\n\n**Mean rank")
    assert main(["compare", "--where", "dim=3"]) == 2  # two blocks say nothing
    assert main(["compare", "--only", "bench_fakes:Uniform"]) == 2
    assert "too few results" in capsys.readouterr().err


def test_the_first_seeds_come_first_and_the_rest_later(file, capsys):
    assert main(["run", file, "--seeds", "1", "--only", "bench_fakes:Slow"]) == 0
    assert main(["run", file, "--only", "bench_fakes:Uniform"]) == 0
    capsys.readouterr()
    assert main(["table"]) == 0
    out = capsys.readouterr().out
    assert "4 seeds × 12 evaluations; so far 4 seeds of Uniform, 1 seed of Slow." in out
    assert "[" not in out.partition("so far")[0]  # one seed in common: no quartiles
    assert main(["run", file]) == 0
    assert "bowls: 8 of 8 runs" in capsys.readouterr().err


def test_only_some_optimizers_and_failures(file, tmp_path, capsys):
    text = FILE + '[[overrides]]\noptimizers = ["bench_fakes:Slow"]\noptions = { at = 3, does = "raise" }\n'
    (tmp_path / "bowls.toml").write_text(text)
    assert main(["run", file, "--only", "bench_fakes:Slow", "--scale", "0.25"]) == 1
    assert "1 runs failed" in capsys.readouterr().err
    assert main(["failures"]) == 0
    out = capsys.readouterr().out
    assert "Slow on {'dim': 2" in out
    assert "seed 0, after 3 evaluations" in out
    assert "ValueError: I have lost my" in out


def test_missing_packages_are_named_and_skipped(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "boke_bench.baselines.available", lambda: {"rs": None, "hebo": "HEBO needs hebo: pip install it"}
    )
    path = tmp_path / "mixed.toml"
    path.write_text(FILE.replace('"bench_fakes:Slow"', '"hebo"').replace("seeds = 4", "seeds = 1"))
    assert main(["run", str(path)]) == 0
    assert "skipped: HEBO needs hebo: pip install it" in capsys.readouterr().err
    with Store("boke-bench.sqlite") as store:
        assert len(store.statuses()) == 1
    main(["table"])
    assert "without HEBO" in capsys.readouterr().out


def test_list_shows_every_experiment(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in ("fill_distance", "noisy_batch2", "ml_tuning_surrogate", "quick", "paper"):
        assert f"\n{name}" in f"\n{out}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing"], "There is no experiment 'nothing'"),
        (["run", "none.toml"], "There is no file none.toml"),
        (["run", "FILE", "--only", "boke"], "None of boke takes part"),
        (["run", "FILE", "--only", "bokee"], "There is no optimizer 'bokee'"),
        (["run", "FILE", "--scale", "-1"], "must be a positive number or 'full'"),
        (["run", "FILE", "--jobs", "0"], "must be a positive integer"),
        (["run", "FILE", "--store", "/proc/none/x.sqlite"], "/proc/none"),
        (["run"], "required: NAME"),
        (["dance"], "invalid choice: 'dance'"),
        ([], "required: COMMAND"),
        (["report"], "There is no store boke-bench.sqlite"),
        (["table", "--format", "word"], "invalid choice: 'word'"),
    ],
)
def test_errors_are_one_line_and_code_2(file, arguments, message, capsys):
    try:
        code = main([file if part == "FILE" else part for part in arguments])
    except SystemExit as stop:  # argparse has the last word on arguments
        code = stop.code
    errors = capsys.readouterr().err.splitlines()
    assert code == 2
    assert len(errors) == 1
    assert message in errors[0]


def test_the_process_ends_with_that_code():
    done = subprocess.run([sys.executable, "-m", "boke_bench.cli", "run", "x"], capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, "")


def test_unknown_names_in_a_store(file, capsys):
    assert main(["run", file, "--scale", "0.2"]) == 0
    capsys.readouterr()
    assert main(["report", "quick"]) == 2
    assert capsys.readouterr().err == "boke-bench: boke-bench.sqlite holds no quick. It holds bowls.\n"
    assert main(["report", "--scale", "0.7"]) == 2
    assert capsys.readouterr().err == "boke-bench: boke-bench.sqlite holds no experiment of scale 0.7.\n"
