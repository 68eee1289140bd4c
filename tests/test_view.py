"""A view answers like the data it stands for, whatever happened to the history, and so do keys and neighbourhoods."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boke import around, history
from boke.around import Around, Coarse
from boke.compiled import NATIVE
from boke.data import Data
from boke.history import History, Memory
from boke.keys import Runs, TakenPoints, row_keys
from boke.optimizer import Optimizer
from boke.policies import BOKE, KRUCB, BOKELocal, BOKEPlus, Key
from boke.space import Categorical, Float, Int, Space
from boke.view import View

PLAIN = Space.of([(0, 1)] * 3)
GRID = Space({"a": Int(0, 2), "b": Int(0, 2)})  # duplicates and ties all over
MIXED = Space({"a": Float(0, 1), "n": Int(0, 3), "c": Categorical(["x", "y", "z"])})
SPACES = [PLAIN, GRID, MIXED]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Sizes at which everything happens within a few dozen rows."""
    monkeypatch.setattr(history, "INDEXED", 0)
    monkeypatch.setattr(history, "HORIZON", 25)
    monkeypatch.setattr(around, "KEPT", 8)
    monkeypatch.setattr(around, "TAIL", 3)


def plain(h: History, sign: float, **how: bool) -> Data:
    """The definition: the data of a history that keeps no index and has forgotten its order."""
    limit, history.INDEXED = history.INDEXED, 10**9
    h._known.clear()
    try:
        return h.data(sign, **how)
    finally:
        history.INDEXED = limit


def same(a: Data, b: Data) -> None:
    for name in ("X", "y", "silent", "numbers", "asked", "keys"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert len(a) == len(b) and len(a.taken) == len(b.taken)


def agree(view: Data, data: Data, space: Space, rng: np.random.Generator) -> None:
    """Every question has the same answer, before the arrays of the view are made."""
    assert isinstance(view, View) and not isinstance(data, View)
    assert len(view) == len(data.y) and view.distinct == data.distinct == len(np.unique(data.points, axis=0))
    somewhere = space.snap(rng.random((6, space.dim)))
    rows = np.vstack([somewhere, data.points[:5]])
    np.testing.assert_array_equal(view.taken(rows), data.taken(rows))
    for x in somewhere[:2]:
        np.testing.assert_array_equal(view.nearest_silent(x, 3, space), data.nearest_silent(x, 3, space))
    for since in (0, 5, 40):
        for a, b in zip(
            view.outcomes(lambda n: n % 3 > 0, since), data.outcomes(lambda n: n % 3 > 0, since), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    if len(data.y):
        np.testing.assert_array_equal(view.best, data.best)
        assert view.answered == data.answered
        some = int(rng.choice(data.numbers))
        np.testing.assert_array_equal(view.point(some), data.point(some))
        for x in (data.best, data.best, *somewhere[:3]):
            for k in (1, 4, 7):
                for a, b in zip(view.nearest(x, k, space), data.nearest(x, k, space), strict=True):
                    np.testing.assert_array_equal(a, b)
            assert view.reach(x, 5, space) == data.reach(x, 5, space)
        start = int(rng.integers(2**64, dtype=np.uint64))
        same(view.sample(6, start, 3, space), data.sample(6, start, 3, space))


VALUES = st.floats(-3, 3).map(lambda v: round(v, 1)) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "register", "tell", "tell", "finish", "finish", "finish", "bulk", "remove", "look"]),
        st.integers(0, 10**6),
        VALUES,
    ),
    max_size=60,
)  # fmt: skip


def play(h: History, steps, look) -> None:
    pending: list[int] = []
    for action, seed, value in steps:
        rng = np.random.default_rng(seed)
        row = h.space.decode(h.space.snap(rng.random((1 if action != "bulk" else 7, h.space.dim))))
        if action in ("ask", "register"):
            pending.append(h.append(row, asked=action == "ask"))
        elif action in ("tell", "bulk"):
            h.finish(h.append(row, asked=False), np.append(value, rng.normal(size=len(row) - 1).round(1)))
        elif action == "finish" and pending:
            h.finish(pending.pop(seed % len(pending)), np.array([value]))
        elif action == "remove" and len(h):
            number = seed % len(h)
            h.remove(number)
            pending = [p for p in pending if p != number]
        elif action == "look":
            look(rng)
    look(np.random.default_rng(0))


@settings(deadline=None, max_examples=80)
@given(
    steps=STEPS,
    space=st.sampled_from(SPACES),
    sign=st.sampled_from([1.0, -1.0]),
    discourage=st.booleans(),
    memory=st.sampled_from([None, None, Memory(window=4), Memory(window=15), Memory(half_life=6.0), Memory(20, 9.0)]),
)
def test_a_view_is_the_data_after_any_history(steps, space, sign, discourage, memory):
    h, how = History(space, memory), {"discourage": discourage}
    seen = []

    def look(rng):
        view, data = h.data(sign, **how), plain(h, sign, **how)
        if not isinstance(view, View):  # nothing has a value
            assert len(data) == 0
            return same(view, data)
        agree(view, data, space, rng)
        seen.append((view, data))
        if len(seen) % 2:
            same(view, data)

    play(h, steps, look)
    for view, data in seen:  # those that were kept show what they saw
        same(view, data)
        if len(data.y):
            np.testing.assert_array_equal(view.best, data.best)
            assert view.reach(data.best, 3, space) == data.reach(data.best, 3, space)


@settings(deadline=None, max_examples=30)
@given(steps=STEPS, space=st.sampled_from(SPACES))
def test_a_restored_history_has_the_same_view(steps, space):
    h = History(space)
    play(h, steps, lambda rng: h.data(1.0))
    copy = History(space)
    copy.data(1.0)
    copy.restore(h.native.copy(), h.values, h.states.copy(), h.told_at.copy(), h.asked_at.copy(), {})
    if len(plain(h, 1.0)):
        agree(copy.data(1.0), plain(h, 1.0), space, np.random.default_rng(1))
    same(copy.data(1.0), plain(h, 1.0))


def test_a_long_history_with_a_moving_incumbent(monkeypatch):
    """Thousands of rows, the best one wandering: neighbourhoods are kept, moved and merged."""
    monkeypatch.setattr(around, "KEPT", 200)
    monkeypatch.setattr(around, "TAIL", 20)
    rng, h = np.random.default_rng(0), History(PLAIN)
    h.finish(h.append(rng.random((3000, 3)), asked=False), rng.normal(size=3000))
    for i in range(300):
        center = 0.5 + 0.3 * np.sin(i / 30.0 + np.arange(3))
        number = h.append(np.clip(center + 0.05 * rng.normal(size=(1, 3)), 0, 1), asked=True)
        h.finish(number, np.array([5.0 + 0.01 * i if i % 7 == 0 else rng.normal()]))
        if i % 10 == 0:
            agree(h.data(1.0), plain(h, 1.0), PLAIN, rng)


def test_a_view_that_nobody_holds_costs_nothing():
    h = History(PLAIN)
    h.finish(h.append(np.random.default_rng(0).random((20, 3)), asked=False), np.arange(20.0))
    kept = h.data(1.0)
    h.data(1.0)
    h.append(np.full((1, 3), 0.5), asked=True)
    assert {"X", "y", "silent", "numbers"} <= set(vars(kept))
    h.data(1.0)
    assert not h._views[0]()


# keys


@settings(deadline=None, max_examples=100)
@given(
    batches=st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12),
    dead=st.sets(st.integers(0, 60)),
    start=st.integers(0, 2**64 - 1) | st.integers(0, 45),
    count=st.integers(1, 30),
)
def test_runs_are_one_sorted_list(batches, dead, start, count):
    runs, pairs = Runs(), []
    for batch in batches:
        numbers = np.arange(len(pairs), len(pairs) + len(batch))
        runs.add(np.array(batch, dtype=np.uint64), numbers)
        pairs += zip(batch, numbers.tolist(), strict=True)

    def alive(numbers):
        return ~np.isin(numbers, list(dead))

    living = [(k, n) for k, n in pairs if n not in dead]
    assert runs.order(alive).tolist() == [n for _, n in sorted(living)]
    ahead = sorted(living, key=lambda pair: ((pair[0] - start) % 2**64, pair[1]))
    assert list(zip(*(c.tolist() for c in runs.after(start, count, alive)), strict=True)) == ahead[:count]
    asked = np.arange(45, dtype=np.uint64)
    assert runs.has(asked, alive).tolist() == [any(k == key for k, _ in living) for key in range(45)]


def test_runs_stay_few():
    runs, rng = Runs(), np.random.default_rng(0)
    for i in range(3000):
        runs.add(rng.integers(2**63, size=1, dtype=np.uint64), np.array([i]))
        sizes = [len(keys) for keys, _ in runs._runs]
        assert all(a >= 2 * b for a, b in itertools.pairwise(sizes))
    assert sum(sizes) == 3000


def test_taken_points_know_themselves():
    X = np.random.default_rng(0).random((30, 2))
    taken = TakenPoints(X[:20])
    assert len(taken) == 20 and taken(X).tolist() == [True] * 20 + [False] * 10
    assert not TakenPoints(X[:0])(X).any()
    assert row_keys(X[:0]).shape == (0,)


# neighbourhoods


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4), grid=st.booleans())
def test_neighbourhoods_find_the_nearest(seed, d, grid):
    rng = np.random.default_rng(seed)
    X = rng.random((200, d))
    X = np.round(X * 3) / 3 if grid else X
    dead = rng.random(200) < 0.3
    looks = 0

    def metric(P, x):
        return np.abs(P - x).max(axis=1)

    def search(k):
        nonlocal looks
        looks += 1
        return coarse.nearest(x, k, ~dead[:n], largest=True)

    pool, coarse, x = Around(metric), Coarse(d), rng.random(d)
    for n in range(20, 200, 3):
        new = np.arange(n - 3, n) if n > 20 else np.arange(20)
        pool.add(new)
        coarse.add(X[new])
        dead[rng.integers(200)] = True
        x = np.clip(x + 0.02 * rng.normal(size=d), 0, 1)
        k = int(rng.integers(1, 6))
        rows = pool.nearest(X[:n], x, k, lambda numbers: ~dead[numbers], search)
        living = np.flatnonzero(~dead[:n])
        away = metric(X[living], x)
        wanted = living[away <= np.sort(away)[min(k, len(living)) - 1]]
        assert set(wanted) <= set(rows) <= set(living)
        assert len(rows) == len(set(rows))
    assert looks <= 60


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 19),
    n=st.integers(1, 400),
    k=st.integers(1, 30),
    kind=st.sampled_from(["anywhere", "grid", "close", "outside"]),
    largest=st.booleans(),
    measured=st.booleans(),
)
def test_a_coarse_copy_knows_all_that_may_be_nearest(seed, d, n, k, kind, largest, measured):
    rng = np.random.default_rng(seed)
    X = {
        "anywhere": lambda: rng.random((n, d)),
        "grid": lambda: rng.integers(3, size=(n, d)) / 2,  # ties
        "close": lambda: 0.4 + 1e-3 * rng.random((n, d)),  # all of them the same to a code
        "outside": lambda: rng.normal(size=(n, d)),
    }[kind]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(around, "PIECE", 128)
        coarse = Coarse(d)
        for rows in np.split(X, np.sort(rng.integers(n, size=3))):
            coarse.add(rows)
    x, used = X[rng.integers(n)] + 0.05 * rng.normal(size=d), int(rng.integers(d + 1))  # later columns may not count
    alive = rng.random(n) < 0.8
    found = coarse.nearest(x[:used], k, alive, largest, X if measured else None)
    step = np.abs(X - x)[:, :used]
    away = step.max(axis=1, initial=0.0) if largest else np.sqrt(np.square(step).sum(axis=1))
    kth = np.sort(away[alive])[min(k, int(alive.sum())) - 1] if alive.any() else 0.0
    assert set(np.flatnonzero(alive & (away <= kth))) <= set(found) <= set(np.flatnonzero(alive))
    assert np.all(np.diff(found) > 0)
    if measured and NATIVE is not None:
        assert (away[found] <= kth * (1.0 + 1e-8)).all()


@pytest.mark.skipif(NATIVE is None, reason="without the compiled module all rows are found")
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 20, 51])
def test_a_coarse_copy_finds_the_same_on_all_instruction_sets(d):
    rng = np.random.default_rng(d)
    codes, query = rng.integers(128, size=(300, d), dtype=np.uint8), rng.integers(128, size=d, dtype=np.uint8)
    copy = np.zeros((5, -(-d // 4), 64, 4), np.uint8)
    (block, place), columns = np.divmod(np.arange(300), 64), np.arange(d)
    copy[block[:, None], columns // 4, place[:, None], columns % 4] = codes
    for used, largest in itertools.product((d, d - 1), (False, True)):
        step = np.abs(codes.astype(int) - query)[:, :used]
        away = step.max(axis=1, initial=0) if largest else np.square(step).sum(axis=1)
        expected = np.flatnonzero(away <= np.sort(away)[19])
        asked = query[:used], query[:used] / 127, None, np.ones(300, bool), 20, 1e-9, largest
        for isa in NATIVE.instruction_sets():
            np.testing.assert_array_equal(NATIVE.nearest([copy], [None], *asked, instructions=isa), expected)


@pytest.mark.skipif(NATIVE is None, reason="without the compiled module all rows are found")
@pytest.mark.parametrize("d", [1, 3, 10])
def test_points_in_order_of_their_places_are_the_same_points(d):
    codes = np.random.default_rng(d).integers(128, size=(1024, d), dtype=np.uint8)
    copy = np.zeros((16, -(-d // 4), 64, 4), np.uint8)
    (block, place), columns = np.divmod(np.arange(1024), 64), np.arange(d)
    where = block[:, None], columns // 4, place[:, None], columns % 4
    copy[where] = codes
    order, box = NATIVE.arrange(copy, d)
    np.testing.assert_array_equal(np.sort(order), np.arange(1024))
    np.testing.assert_array_equal(copy[where], codes[order])
    blocks = codes[order].reshape(16, 64, d)
    np.testing.assert_array_equal(box, np.concatenate([blocks.min(axis=1).T, blocks.max(axis=1).T]))
    sides = (box[d:].astype(int) - box[:d]).sum(axis=0)  # smaller than those of any 64 points
    assert (
        sides.mean()
        < 0.9 * (codes.reshape(16, 64, d).max(axis=1) - codes.reshape(16, 64, d).min(axis=1)).sum(axis=1).mean()
    )


@pytest.mark.skipif(NATIVE is None, reason="without the compiled module all rows are found")
@pytest.mark.parametrize("largest", [False, True])
def test_a_coarse_copy_finds_few(largest):
    X = np.random.default_rng(0).random((5000, 10))
    coarse = Coarse(10)
    coarse.add(X)
    assert 20 <= len(coarse.nearest(X[0], 20, np.ones(5000, bool), largest)) < 60


# suggestions


def side_by_side(space, policy, steps, seed, **memory):
    """Two optimizers with the same life, one with an index and one without, and what they suggest."""
    rng = np.random.default_rng(seed)
    pair = [Optimizer(space, policy=policy, rng=seed, **memory) for _ in range(2)]
    for _ in range(steps):
        asked = []
        for optimizer, limit in zip(pair, (0, 10**9), strict=True):
            history.INDEXED = limit
            asked.append(optimizer.ask())
        np.testing.assert_array_equal(asked[0].x, asked[1].x)
        choice, value = rng.random(), float(np.square(asked[0].x - 0.4).sum() + rng.choice([0.0, 0.1 * rng.normal()]))
        bulk, gone = rng.random((5, space.dim)), int(rng.integers(len(pair[0].history)))
        for optimizer, trial in zip(pair, asked, strict=True):
            if choice < 0.1:
                continue  # stays pending
            optimizer.tell(trial, None if choice < 0.2 else value)
            if 0.2 < choice < 0.25:
                optimizer.remove(gone)
            if choice > 0.95:
                optimizer.tell_many(optimizer.space.decode(bulk), bulk.sum(axis=1))
    return pair


@pytest.mark.parametrize(
    "space", [PLAIN, Space({"a": Float(0, 1), "n": Int(0, 99), "b": Float(0, 1)})], ids=["plain", "grid"]
)
@pytest.mark.parametrize("policy", [BOKELocal(max_points=30, q=0.3), BOKEPlus(max_points=30)], ids=["local", "plus"])
def test_suggestions_are_the_same_with_and_without_an_index(space, policy):
    indexed, _ = side_by_side(space, policy, 120, seed=3)
    branches = set()
    for number in range(60, 120, 7):
        if indexed.history.asked_at[number] >= 0:
            explanation = indexed.explain(number)
            branches.add(explanation.branch)
            assert sum(share for _, share in explanation.trials) == pytest.approx(1.0, abs=1e-4)
    assert len(branches) == 2


@pytest.mark.parametrize("eta", [0.8, 1.0])
def test_kr_ucb_is_the_same_with_and_without_an_index(eta):
    side_by_side(PLAIN, KRUCB(max_points=30, n_acq=64, eta=eta), 120, seed=5)


@pytest.mark.parametrize("memory", [{"window": 40}, {"half_life": 25.0}], ids=str)
def test_suggestions_are_the_same_with_and_without_an_index_where_trials_are_forgotten(memory):
    side_by_side(PLAIN, BOKELocal(max_points=30, q=0.3), 120, seed=4, **memory)


def test_a_sampled_model_sees_its_sample_only():
    rng = np.random.default_rng(0)
    X = rng.random((400, 3))
    data = Data(X, -np.square(X - 0.3).sum(axis=1), X[:0], np.arange(400))
    policy = BOKE(max_points=100)
    first, second = (policy.suggest(data, PLAIN, Key(0, number)) for number in (400, 401))
    assert 100 <= len(first.model.X) <= 164 and not np.array_equal(first.model.X, second.model.X)
    assert first.beta == policy.beta(400, 3)
    repeats = KRUCB(max_points=100).suggest(data, PLAIN, Key(0, 400))
    np.testing.assert_array_equal(repeats.model.X, first.model.X)
    everything = BOKE(max_points=400).suggest(data, PLAIN, Key(0, 400))
    np.testing.assert_array_equal(everything.model.X, X)
