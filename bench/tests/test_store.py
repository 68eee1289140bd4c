"""The store: what goes in comes out, finished runs stay, one runner at a time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from boke_bench.experiment import Run
from boke_bench.store import Record, Store, StoreError, pack, pack_short, unpack

SPEC = {"kind": "optimize", "problem": {"kind": "toy"}, "optimizer": "rs", "seed": 0, "budget": 4, "n_init": 2}


def record(seed: int = 0, **changes) -> Record:
    spec = {**SPEC, "seed": seed}
    rng = np.random.default_rng(seed)
    true = -rng.random(4)
    made = Record(
        Run(spec, 0).id, spec, "", "2026-01-01T00:00:00+00:00", 1.5, 0.5, "Toy", 0.0,
        true + 0.1, true, rng.random(4), rng.random(4), 2.5, {"python": "3"},
    )  # fmt: skip
    return replace(made, **changes)


def test_round_trip(store):
    kept = record(y=np.array([1.0, np.nan, 3.0, 4.0]))
    store.add(kept)
    (found,) = store.records([kept.id, "unknown"]).values()
    np.testing.assert_array_equal(found.y, kept.y)
    np.testing.assert_array_equal(found.true, kept.true)
    np.testing.assert_allclose(found.optimizer_s, kept.optimizer_s, rtol=1e-3)
    assert (found.spec, found.optimum, found.environment, found.failed) == (kept.spec, 0.0, {"python": "3"}, False)
    assert (found.wall_s, found.seconds, found.load) == (2.5, 1.5, 0.5)


def test_other_connections_see_a_run_at_once(store):
    store.add(record())
    with Store(store.path) as other:
        assert len(other.statuses()) == 1


def test_finished_runs_are_never_written_over_and_failed_ones_are(store):
    store.add(record(error="Traceback\nOops"))
    assert store.statuses()[record().id].failed
    store.add(record())
    store.add(record(true=np.zeros(4), y=np.zeros(4)))
    store.add(record(error="Traceback\nOops"))
    (found,) = store.records([record().id]).values()
    assert not found.failed
    np.testing.assert_array_equal(found.true, record().true)
    assert store._db.execute("SELECT attempts FROM runs").fetchone() == (2,)


def test_extras_stay_in_a_plan(store, plan):
    for extras in (True, False):
        store.remember(replace(plan("one"), extras=extras), "2026")
    assert [found.extras for found in store.plans()] == [True]


def test_plans_come_back_in_the_order_of_their_use(store, plan):
    for name, time in (("late", "2026-02"), ("early", "2026-01")):
        store.remember(plan(name, scale=0.5), time)
    assert [(found.name, found.scale) for found in store.plans()] == [("early", 0.5), ("late", 0.5)]
    assert store.plans()[0].runs() == plan("early", scale=0.5).runs()


@pytest.mark.parametrize("offset", [0.0, 79.48, -1e6])
def test_short_arrays_keep_three_digits_of_the_distance(offset):
    gaps = np.concatenate([10.0 ** np.arange(-7, 8), [0.0, 1.0, np.nan]])
    back = offset - unpack(pack_short(offset - gaps, offset))
    assert np.isnan(back[-1])
    np.testing.assert_allclose(back[:-1], gaps[:-1], rtol=6e-4, atol=abs(offset) * 1e-14)
    coarse = unpack(pack_short(gaps, bits=6, level=0))
    np.testing.assert_allclose(coarse[:-1], gaps[:-1], rtol=1e-2)
    np.testing.assert_array_equal(unpack(pack(gaps)), gaps)
    assert unpack(pack_short(np.empty(0))).shape == (0,)


@pytest.mark.parametrize("ending", ["sqlite", "sqlite.xz"])
def test_export_is_a_store_that_says_the_same(store, plan, tmp_path, ending):
    experiment = plan(optimizers=["rs"])
    store.remember(experiment, "2026")
    for seed in range(3):
        store.add(record(seed, optimum=None if seed == 2 else 0.0))
    ids = [record(seed).id for seed in range(3)]
    path = tmp_path / f"small.{ending}"
    store.export(path, ids[1:], [experiment])
    with Store(path, create=False) as small:
        assert set(small.statuses()) == set(ids[1:])
        assert [found.name for found in small.plans()] == ["bowls"]
        for id, found in small.records(ids).items():
            np.testing.assert_allclose(found.true, store.records([id])[id].true, rtol=1e-3, atol=1e-3)
            assert found.objective_s.sum() == pytest.approx(store.records([id])[id].objective_s.sum(), rel=1e-3)
        if ending.endswith("xz"):
            with pytest.raises(StoreError, match="compressed"), small.exclusive():
                pass


def test_only_one_runner_at_a_time(store):
    code = (
        "import sys, time; from boke_bench.store import Store\n"
        "with Store(sys.argv[1]) as store, store.exclusive():\n    print('mine', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(store.path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(StoreError, match="Another 'boke-bench run'"), store.exclusive():
            pass
        other.kill()
    with store.exclusive():
        pass


def test_what_is_not_a_store(tmp_path):
    text = tmp_path / "notes.sqlite"
    text.write_text("not a database, but long enough to be looked at " * 20)
    with pytest.raises(StoreError, match="is not a store"):
        Store(text)
    with pytest.raises(StoreError, match="There is no store"):
        Store(tmp_path / "none.sqlite", create=False)
    packed = tmp_path / "x.sqlite.xz"
    packed.write_bytes(b"no")
    with pytest.raises(StoreError, match="not xz-compressed"):
        Store(packed)


def test_stores_of_the_future_are_refused(store):
    store._db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="version 99"):
        Store(store.path)
