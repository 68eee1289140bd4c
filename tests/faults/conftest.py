"""The matrix of faults: one test for each row, named by its number, and a table of what was observed."""

import os
import re

import pytest

ALL = os.environ.get("BOKE_FAULTS") == "all"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") is not None and not ALL:
            item.add_marker(pytest.mark.skip(reason="takes long: make test-faults"))


@pytest.fixture(autouse=True)
def _done(request, record_property):
    """What a row does is the first line of its test's docstring."""
    text = (request.function.__doc__ or "").strip()
    record_property("done", text.split("\n")[0])


@pytest.fixture
def observed(record_property):
    """Say what was seen; it goes into the table."""
    return lambda text: record_property("observed", text)


def pytest_terminal_summary(terminalreporter):
    if not ALL:
        return
    rows = {}
    for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in terminalreporter.stats.get(outcome, []):
            match = re.search(r"::test_row_(\d+)", report.nodeid)
            if match is None:
                continue
            notes = dict(report.user_properties)
            why = report.longrepr[2].removeprefix("Skipped: ") if outcome == "skipped" else ""
            seen = notes.get("observed") or why or ("" if outcome == "passed" else "see above")
            rows.setdefault(int(match[1]), []).append((notes.get("done", ""), seen, outcome))
    terminalreporter.section("faults: row, done, observed, pass")
    for number in sorted(rows):
        for done, seen, outcome in dict.fromkeys(rows[number]):
            word = {"passed": "yes", "skipped": "skipped"}.get(outcome, "NO")
            terminalreporter.write_line(f"{number:>3} | {done} | {seen} | {word}")
    missing = sorted(set(range(1, 51)) - set(rows))
    outcomes = [outcome for found in rows.values() for *_, outcome in found]
    counts = ", ".join(f"{outcomes.count(o)} {o}" for o in dict.fromkeys(outcomes))
    terminalreporter.write_line(f"{len(rows)} of 50 rows, {counts}; rows without a test here: {missing or 'none'}")
