"""Experiment files: what they expand to, what is wrong with bad ones, and that the shipped ones are whole."""

from __future__ import annotations

import pytest

from boke_bench import experiment as experiments
from boke_bench.baselines import LABELS
from boke_bench.designs import NAMES
from boke_bench.experiment import Experiment, ExperimentError, described

PAPER = [
    "fill_distance",
    "noisefree_batch1",
    "noisefree_batch2",
    "noisy_batch1",
    "noisy_batch2",
    "sprinkler",
    "ml_tuning_surrogate",
    "ml_tuning",
    "runtime",
    "complexity",
]
OWN = ["efficiency", "long", "quick"]


def test_grid_is_a_product_and_seeds_come_first(plan):
    runs = plan().runs()
    assert len(runs) == 2 * 2 * 3
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert len({run.id for run in runs}) == len(runs)
    assert {run.spec["problem"]["dim"] for run in runs} == {2, 3}


def test_identity_is_the_spec_and_not_the_experiment(plan):
    one, other = plan("one"), plan("other", title="Something else", seeds=2)
    assert {run.id for run in other.runs()} < {run.id for run in one.runs()}
    assert not {run.id for run in plan(timed=True).runs()} & {run.id for run in one.runs()}
    assert not {run.id for run in plan(budget=13).runs()} & {run.id for run in one.runs()}


def test_seed_as_a_value(plan):
    runs = plan(problems=[{"spec": {"kind": "bbob", "function": 8, "dim": 2, "instance": "seed"}}]).runs()
    assert {(run.seed, run.spec["problem"]["instance"]) for run in runs} == {(0, 1), (1, 2), (2, 3)}


def test_overrides_change_and_exclude(plan):
    override = {"optimizers": ["bench_fakes:Slow"], "seeds": 1, "only": {"dim": [3]}, "options": {"at": 2}}
    experiment = plan(overrides=[override])
    slow = [run for run in experiment.runs() if run.optimizer.endswith("Slow")]
    assert len(slow) == 1
    assert slow[0].spec["problem"]["dim"] == 3
    assert slow[0].spec["options"] == {"at": 2}
    full = plan(scale="full", overrides=[override], full={"seeds": 5, "budget": 20})
    slow = [run for run in full.runs() if run.optimizer.endswith("Slow")]
    assert len(slow) == 10
    assert {(run.budget, run.spec["options"]["at"]) for run in slow} == {(20, 2)}


@pytest.mark.parametrize(("scale", "seeds", "budget"), [(0.5, 2, 6), (0.01, 1, 5), (2.0, 6, 24)])
def test_scale_changes_seeds_and_budget_and_says_so(plan, scale, seeds, budget):
    experiment = plan(scale=scale)
    assert {run.budget for run in experiment.runs()} == {budget}
    assert {run.seed for run in experiment.runs()} == set(range(seeds))
    assert described(experiment).startswith(f"scaled by {scale:g}: {seeds} seed")
    assert "scaled" not in described(plan())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problems": []}, "no .*problems"),
        ({"sedes": 3}, "no key 'sedes'"),
        ({"seeds": 0}, "'seeds' must be a positive integer. Got 0"),
        ({"kind": "dance"}, "'kind' must be"),
        ({"optimizers": []}, "'optimizers' is missing"),
        ({"problems": [{"spec": 3}]}, "needs spec"),
        ({"overrides": [{"seeds": 3}]}, "needs 'optimizers'"),
        ({"overrides": [{"optimizers": ["rs"], "only": {"dim": 3}}]}, "'only' needs lists"),
        ({"figure": {"colour": "red"}}, "no key 'colour'"),
    ],
)
def test_bad_definitions_say_what_is_wrong(plan, change, message):
    with pytest.raises(ExperimentError, match=message):
        plan(**change)


def test_paper_is_all_of_the_paper():
    assert [experiment.name for experiment in experiments.load("paper")] == PAPER
    assert set(experiments.names()) == {*PAPER, *OWN, "paper"}


@pytest.mark.parametrize("name", [*PAPER, *OWN])
def test_shipped_experiments_name_what_exists(name):
    from boke_bench.problems import KINDS

    for scale in (1.0, 0.2, "full"):
        (experiment,) = experiments.load(name, scale)
        runs = experiment.runs()
        assert runs
        assert {run.optimizer for run in runs} <= {*LABELS, *NAMES}
        assert all(run.spec["n_init"] < run.budget for run in runs)
        if experiment.kind == "optimize":
            assert {run.spec["problem"]["kind"] for run in runs} <= set(KINDS)


def test_committed_scale_is_that_of_the_issue():
    for name, named in (("noisefree_batch1", {1, 8}), ("noisy_batch2", {4, 11})):
        (experiment,) = experiments.load(name)
        sizes = {(run.optimizer in ("gp-ei", "gp-ucb"), run.budget) for run in experiment.runs()}
        assert sizes == {(False, 300), (True, 120)}
        assert max(run.seed for run in experiment.runs()) == 9
        gps = [run for run in experiment.runs() if run.optimizer == "gp-ei"]
        assert {run.spec["problem"]["function"] for run in gps} == named
        assert max(run.seed for run in gps) == 2
    (sprinkler,) = experiments.load("sprinkler")
    assert {(run.optimizer, run.budget) for run in sprinkler.runs()} >= {("boke", 500), ("gp-ucb", 150)}
    (full,) = experiments.load("noisefree_batch1", "full")
    assert len(full.runs()) == 12 * 15 * 50


def test_quick_touches_everything():
    from boke_bench.problems import KINDS

    (quick,) = experiments.load("quick")
    assert set(quick.optimizers) == set(LABELS)
    assert {run.spec["problem"]["kind"] for run in quick.runs()} == set(KINDS)


def test_unknown_names_and_files():
    with pytest.raises(ExperimentError, match="There is no experiment 'papier'"):
        experiments.load("papier")
    with pytest.raises(ExperimentError, match="There is no file"):
        experiments.load("nowhere/x.toml")


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\noptimizers = ["rs"]\n[[problems]]\nspec = { kind = "toy" }\n')
    (mine,) = experiments.load(str(path))
    assert isinstance(mine, Experiment)
    assert mine.name == "mine"
    path.write_text("title = ")
    with pytest.raises(ExperimentError, match="not valid TOML"):
        experiments.load(str(path))
