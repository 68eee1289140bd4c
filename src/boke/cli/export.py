"""Trials as a table: CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

from optuna.study import Study

from boke.cli.errors import Problem

FORMATS = ["csv", "json", "parquet"]


def write(study: Study, file: str, kind: str | None) -> int:
    """Write all trials to a file, - for standard output; return how many."""
    kind = kind or Path(file).suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise Problem(f"The format of {file} is not clear. Name it with --format, one of {FORMATS}.")
    rows = table(study)
    try:
        if kind == "parquet":
            _parquet(rows, file)
        else:
            text = _csv(rows) if kind == "csv" else json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
            if file == "-":
                sys.stdout.write(text)
            else:
                Path(file).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise Problem(f"{file} cannot be written: {error}") from None
    return len(rows)


def table(study: Study) -> list[dict[str, Any]]:
    """One row for each trial, all with the same keys; a parameter that a trial does not have is None."""
    trials = study.get_trials(deepcopy=False)
    names = sorted({name for trial in trials for name in trial.params})
    several = len(study.directions) > 1
    rows = []
    for trial in trials:
        values = trial.values or [None] * len(study.directions)
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name.lower()}
        row |= {f"value_{i}": v for i, v in enumerate(values)} if several else {"value": values[0]}
        row |= {f"param_{name}": trial.params.get(name) for name in names}
        row["reason"] = trial.user_attrs.get("reason")
        row["start"] = trial.datetime_start.isoformat() if trial.datetime_start else None
        row["seconds"] = trial.duration.total_seconds() if trial.duration else None
        rows.append(row)
    return rows


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["trial"])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _parquet(rows: list[dict[str, Any]], file: str) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Problem("Parquet needs pyarrow: pip install pyarrow") from None
    if file == "-":
        raise Problem("Parquet is not text: give it a file.")
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    for name, column in columns.items():  # a column of choices may mix types, and a Parquet column has one
        if len({type(v) for v in column if v is not None and not isinstance(v, int | float)}) > 0:
            columns[name] = [None if v is None else str(v) for v in column]
    parquet.write_table(pyarrow.table(columns), file)
