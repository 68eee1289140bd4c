"""The measurement of speed: every part at a small scale, its figure and its tables."""

from __future__ import annotations

import json
import math

import pytest

from boke_bench import speed, speed_report
from boke_bench.cli import main

TINY = speed.Scale((2,), (60, 1200), 4, 0.5, 12, 7, 9, 12, (4, 12), 2, 12, (1500,), (60,))


@pytest.fixture(scope="module")
def record():
    found = {"command": "test"}
    assert [name for name, _ in speed.measure(TINY, speed.PARTS, found)] == list(speed.PARTS)
    return found


def test_every_part_has_figures(record):
    names = speed.installed()
    assert {"default", "tpe"} <= set(names)
    assert {(r["optimizer"], r["t"]) for r in record["bulk"]} == {
        (name, t) for name in names for t in TINY.sizes if t <= speed.LIMITS.get(name, t)
    }
    for row in record["bulk"]:
        assert 0.0 < row["median_ms"] <= row["p99_ms"]
        assert 3 <= row["steps"] <= TINY.steps
    assert all(r["seconds"] > 0.0 for r in record["sequential"])
    assert [r["d"] for r in record["sums"]] == [2, 10, 50]
    assert [r["d"] for r in record["paper"]] == list(speed.PAPER)
    assert {r["n"] for r in record["batches"]} == set(TINY.batches)
    assert record["long_history"]["bytes_per_observation"] > 0.0
    assert len(record["quality"]) == 6
    assert [(r["points"], r["t"]) for r in record["catalogue"]] == [(1500, 100), (1500, 1000)]
    assert {r["policy"] for r in record["policies"]} == {"BOKE", "BOKEPlus", "DensityExploration", "KRUCB", "BOKELocal"}
    assert all(0.0 < r["median_ms"] <= r["p99_ms"] for r in record["policies"])
    assert math.isfinite(record["exponent_of_mean"]) if len(TINY.sizes) > 2 else record["exponent_of_mean"] is None


def test_goals_tables_and_figure_come_from_the_record(record, tmp_path, capsys):
    path = tmp_path / "speed.json"
    path.write_text(json.dumps(record))
    picture, table = tmp_path / "a" / "speed.png", tmp_path / "b" / "speed.md"
    assert main(["speed", "--read", str(path), "--figure", str(picture), "--table", str(table)]) == 0
    assert picture.stat().st_size > 5000
    text = table.read_text()
    assert text.startswith("# Speed\n")
    assert text.count("\n| --- |") == 9
    capsys.readouterr()
    assert main(["speed", "--read", str(path)]) == 0
    assert "| goal | measured | reached |" in capsys.readouterr().out


def test_a_goal_is_reached_or_not(record):
    slow = json.loads(json.dumps(record))
    for row in slow["bulk"]:
        if row["optimizer"] == "default":
            row["p99_ms"] = 6.0 * row["median_ms"]
    reached = {aim: yes for aim, _, yes in speed_report.goals(slow)}
    assert not any(yes for aim, yes in reached.items() if aim.startswith("p99"))


def test_the_exponent_is_that_of_a_power():
    rows = [{"optimizer": "default", "d": 10, "t": t, "median_ms": t**0.25} for t in (100, 1000, 10_000, 10**6)]
    assert speed.exponent(rows, 10, "median_ms") == pytest.approx(0.25)
    assert speed.exponent(rows[:2], 10, "median_ms") is None


def test_parts_are_added_to_the_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speed, "QUICK", TINY)
    path = tmp_path / "speed.json"
    assert main(["speed", "--quick", "--parts", "sums", "--output", str(path)]) == 1
    assert "not yet measured: bulk, sequential, paper" in capsys.readouterr().err
    assert main(["speed", "--quick", "--parts", "batches", "--output", str(path)]) == 1
    assert {"sums", "batches", "command", "machine"} <= set(json.loads(path.read_text()))
    assert main(["speed", "--parts", "nonsense", "--output", str(path)]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert set(speed_report.PARTS) == set(speed.PARTS)


def test_a_missing_record_is_an_error_of_one_line(capsys):
    assert main(["speed", "--read", "nowhere.json"]) == 2
    assert "nowhere.json" in capsys.readouterr().err
