"""Tables, figures and the report: what is in them, that nothing escapes, and that a browser draws every curve."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from boke_bench import figures
from boke_bench.report import report
from boke_bench.store import Store
from boke_bench.study import load_study
from boke_bench.tables import FORMATS, Table, final_table, tables
from boke_bench.trial import execute

EVIL = "</script><img src=x onerror=alert(1)> & \"q\" 'p' {{data}} |_*"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Studies of every kind: regret with a failure and a short optimizer, hidden optima, times, designs."""
    from boke_bench.experiment import Experiment

    problem = {"kind": "bench_fakes:Bowl", "dim": [2, 3], "name": ["a", "b"]}
    base = {"optimizers": ["bench_fakes:Uniform", "bench_fakes:Slow"], "seeds": 3, "budget": 14, "n_init": 4}
    broken = {"optimizers": ["bench_fakes:Slow"], "budget": 9, "seeds": 2, "options": {"at": 6, "does": "raise"}}
    broken["only"] = {"dim": [3]}
    short = {"optimizers": ["bench_fakes:Slow"], "budget": 9, "seeds": 2}
    plans = [
        Experiment(
            "regret",
            {
                **base,
                "title": EVIL,
                "problems": [{"spec": problem}],
                "overrides": [short],
                "figure": {"rows": "name", "columns": "dim", "names": {"name": {"a": EVIL}}},
            },
            0.99,
        ),
        Experiment("broken", {**base, "title": "Broken", "problems": [{"spec": problem}], "overrides": [broken]}),
        Experiment("hidden", {**base, "title": "Hidden", "problems": [{"spec": {**problem, "hidden": 1}}]}),
        Experiment("timed", {**base, "title": "Timed", "timed": True, "problems": [{"spec": problem, "budget": 40}]}),
        Experiment(
            "designs",
            {
                "title": "Designs",
                "kind": "design",
                "optimizers": ["de", "lhs", "uniform"],
                "seeds": 2,
                "budget": 10,
                "problems": [{"spec": {"dim": [1, 2], "bandwidth": 0.1}}],
                "figure": {"columns": "dim"},
            },
        ),
    ]
    with Store(tmp_path_factory.mktemp("report") / "results.sqlite") as store:
        for run in (run for plan in plans for run in plan.runs()):
            store.add(replace(execute(run.spec), environment={"machine": EVIL, "versions": {"numpy": "2"}}))
        yield [load_study(plan, store) for plan in plans]


@pytest.fixture(scope="module")
def page(filled) -> str:
    return report(filled, EVIL)


def test_study_counts_what_there_is(filled):
    regret, broken, _, _, designs = filled
    assert (regret.done, regret.failed, regret.planned) == (4 * 3 + 4 * 2, 0, 20)
    assert regret.subtitle == "scaled by 0.99: 3 seeds × 14 evaluations (Slow: 2 × 9)"
    assert (broken.done, broken.failed) == (12, 4)
    assert broken.subtitle.endswith("so far 3 seeds of Uniform; 4 runs failed")
    assert len(broken.errors) == 4
    assert all("ValueError: I have lost my" in line for line in broken.errors)
    assert designs.quantity == "fill distance"
    assert designs.views[0].cells["de"].curve.shape == (2, len(designs.views[0].cells["de"].x))


def test_comparisons_are_made_after_equal_numbers_of_evaluations(filled):
    everybody, complete = filled[0].comparisons(), filled[2].comparisons()
    assert [(part.evaluations, part.scores.shape) for part in everybody] == [([9], (2, 8))]
    assert [(part.evaluations, part.scores.shape) for part in complete] == [([14], (2, 12))]
    cell = filled[0].views[0].cells["bench_fakes:Uniform"]
    assert everybody[0].scores[everybody[0].optimizers.index("bench_fakes:Uniform"), 0] == pytest.approx(
        np.log10(-cell.true[0, :9].max())
    )


def test_final_table_holds_the_medians(filled):
    table = final_table(filled[0])
    cell = filled[0].views[0].cells["bench_fakes:Uniform"]
    column = table.header.index("Uniform")
    assert float(table.rows[0][column].split()[0]) == pytest.approx(np.median(cell.regret[:, -1]), rel=0.01)
    assert table.rows[0][table.header.index("Slow")].endswith("@9")
    assert (0, column) in table.best
    assert (0, table.header.index("Slow")) not in table.best


def test_runtime_and_growth_tables(filled):
    runtime, step, growth = tables(filled[3])
    slow = runtime.rows[[row[0] for row in runtime.rows].index("Slow")]
    assert all("±" in text and float(text.split()[0]) >= 40 * 0.002 for text in slow[1:])
    slow = step.rows[[row[0] for row in step.rows].index("Slow")]
    assert all(2.0 <= float(text.split()[0]) < 40.0 for text in slow[1:])
    assert all("ms @40" in text for row in growth.rows for text in row[1:])


@pytest.mark.parametrize("form", FORMATS)
def test_tables_in_every_format(filled, form):
    text = "".join(FORMATS[form](table) for study in filled for table in tables(study))
    assert "Uniform" in text
    assert "nan" not in text


def test_formats_escape():
    table = Table("50% & more", ["", "a|b"], [[EVIL, "1_2"]], "x < y", {(0, 1)})
    assert r"50\% \& more" in FORMATS["latex"](table)
    assert r"\textbf{1\_2}" in FORMATS["latex"](table)
    assert r"| a\|b |" in FORMATS["markdown"](table)
    assert r"**1\_2**" in FORMATS["markdown"](table)
    assert "<img" not in FORMATS["html"](table)
    assert FORMATS["csv"](table).splitlines()[0] == ",a|b"


def test_figures_are_files_with_the_scale_on_them(filled, tmp_path):
    for study in (filled[0], filled[3], filled[4]):
        paths = figures.save(study, tmp_path)
        assert paths[0].name == f"{study.name}.png"
        for path in paths:
            width, height = struct.unpack(">II", path.read_bytes()[16:24])
            assert min(width, height) > 200
    drawn = figures.draw_panels(filled[0], "evaluations")
    assert "scaled by 0.99: 3 seeds × 14 evaluations" in drawn.get_suptitle()
    assert [len(ax.get_lines()) for ax in drawn.axes] == [2, 2, 2, 2]
    assert set(figures.pictures(filled[0])) == {"", "_seconds", "_cumulative", "_profile", "_ranks"}
    assert set(figures.pictures(filled[2])) == {"", "_seconds", "_ranks"}


def test_same_optimizer_same_colour(filled, page):
    from boke_bench.labels import colour

    drawn = figures.draw_panels(filled[0], "evaluations").axes[0].get_lines()
    assert {line.get_color() for line in drawn} == {colour("bench_fakes:Uniform"), colour("bench_fakes:Slow")}
    assert colour("bench_fakes:Uniform") in page


# the report


class Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [
            value for name, value in attrs if name in ("src", "href") and not value.startswith(("#", "data:"))
        ]


def test_report_is_one_file_that_needs_no_network(page):
    outline = Outline()
    outline.feed(page)
    assert outline.outside == []
    assert outline.tags.count("script") == 2
    assert outline.tags.count("section") == 5
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", page)


def test_failed_runs_are_in_the_report(page):
    assert "4 failed runs" in page
    assert page.count("ValueError: I have lost my &lt;head&gt; &amp; &quot;hat&quot;") == 4


def test_report_escapes_names(page):
    outline = Outline()
    outline.feed(page)
    assert "img" not in outline.tags
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert any(EVIL in panel["title"] for panel in data[0]["views"][0]["panels"])


def browse(path: Path, folder: Path) -> str:
    """The page after its scripts have run, as Chromium writes it."""
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --window-size=1280,1000 --dump-dom"
    )
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={folder}", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_chromium_draws_every_figure_and_answers(page, tmp_path):
    # what a reader would do, appended to a copy of the page
    script = """
      const body = document.body.dataset, all = (s) => [...document.querySelectorAll(s)];
      const plot = all('svg.plot')[0], frame = plot.getBoundingClientRect();
      const middle = { clientX: frame.left + frame.width / 2, clientY: frame.top + frame.height / 2, bubbles: true };
      plot.dispatchEvent(new PointerEvent('pointermove', middle));
      body.tip = document.getElementById('tip').textContent;
      body.before = plot.querySelectorAll('.curve').length;
      all('[data-optimizer]')[0].click();
      body.hidden = plot.querySelectorAll('.curve').length;
      all('[data-optimizer]')[0].click();
      const seen = [];
      for (const button of all('[data-view]')) {
        button.click();
        const plots = [...button.closest('section').querySelectorAll('svg.plot')];
        seen.push(button.dataset.view + ':' + plots.filter((p) => p.dataset.curves > 0).length + '/' + plots.length);
      }
      body.views = seen.join(' ');
      for (const box of all('input[type=checkbox]')) box.click();
      body.again = all('svg.plot').filter((p) => p.dataset.curves > 0).length + '/' + all('svg.plot').length;
    """
    path = tmp_path / "report.html"
    path.write_text(page.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    found = dict(
        re.findall(r'data-([\w-]+)="([^"]*)"', re.search(r"<body[^>]*>", browse(path, tmp_path / "profile"))[0])
    )
    assert "error" not in found
    assert found["figures"] == found["drawn"] == str(4 + 4 + 4 + 4 + 2)
    assert found["tip"].startswith("evaluations: 8")
    assert "Uniform" in found["tip"]
    assert (found["before"], found["hidden"]) == ("2", "1")
    regret = "evaluations:4/4 seconds:4/4 cumulative:4/4 profile:{0}/{0}"
    expected = [regret.format(2), regret.format(1), "evaluations:4/4 seconds:4/4", "step:4/4", "evaluations:2/2"]
    assert found["views"] == " ".join(expected)
    assert len(set(found["again"].split("/"))) == 1


def test_nothing_done_means_nothing_shown(plan, store):
    study = load_study(plan(), store)
    assert (study.done, study.planned, tables(study), figures.pictures(study)) == (0, 0, [], {})
    assert "<section" not in report([study])
