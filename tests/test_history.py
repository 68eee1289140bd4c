import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boke import history as module
from boke.compiled import NATIVE
from boke.data import Data
from boke.history import HORIZON, LONGEST, PATIENCE, History, Memory, State, as_value, oldest
from boke.keys import row_keys
from boke.space import Categorical, Float, Int, Space

FLOATS = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 0.5, 1.0])


# row keys


@settings(deadline=None, max_examples=200)
@given(a=st.tuples(FLOATS, FLOATS, FLOATS), b=st.tuples(FLOATS, FLOATS, FLOATS))
def test_keys_are_equal_for_equal_rows_only(a, b):
    first, second = row_keys(np.array([a, b]))
    assert (first == second) == (a == b)


def test_keys_of_a_large_grid_are_distinct():
    for cells, d in ((2, 18), (4, 9), (60, 3)):
        middles = (np.arange(cells) + 0.5) / cells
        X = np.stack(np.meshgrid(*[middles] * d, indexing="ij"), axis=-1).reshape(-1, d)
        assert len(np.unique(row_keys(X))) == len(X)


def test_a_key_belongs_to_its_row_wherever_it_stands():
    X = np.random.default_rng(0).random((50, 3))
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(row_keys(X[order]), row_keys(X)[order])
    np.testing.assert_array_equal(row_keys(np.asfortranarray(X)), row_keys(X))
    np.testing.assert_array_equal(row_keys(X[7:8]), row_keys(X)[7:8])


def test_keys_see_the_order_of_columns_and_the_last_bit():
    row = np.array([[0.25, 0.75, 0.5]])
    others = [row[:, list(p)] for p in itertools.permutations(range(3))]
    others += [np.where(np.arange(3) == j, np.nextafter(row, 1), row) for j in range(3)]
    assert len({int(row_keys(r)[0]) for r in others}) == 9


def test_minus_zero_is_zero():
    assert row_keys(np.array([[0.0, 1.0]])) == row_keys(np.array([[-0.0, 1.0]]))


def test_no_rows_have_no_keys():
    assert row_keys(np.empty((0, 4))).shape == (0,)


# values


class Weird:
    def __float__(self):
        raise ValueError("no")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1, 1.0),
        (-2.5, -2.5),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.bool_(False), 0.0),
        (np.longdouble(2), 2.0),
        (np.array(1.0), 1.0),
        (np.array([1.5]), 1.5),
        (np.array([[2]]), 2.0),
        (Decimal("1.25"), 1.25),
        (Fraction(1, 4), 0.25),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (1e308, 1e308),
        (5e-324, 5e-324),
        (None, None),
        (math.nan, None),
        (np.nan, None),
        (np.array(np.nan), None),
        (Decimal("nan"), None),
    ],
)
def test_values_that_are_read(value, read):
    got = as_value(value)
    assert got == read
    assert got is None or type(got) is float


@pytest.mark.parametrize(
    "value",
    [
        *("1.5", b"1", "", np.str_("1.5"), np.array("1.5")),
        *(1j, np.complex64(1), np.array(1j), 10**400, Decimal("sNaN")),
        *([1.0], (1.0,), [], {}, {"loss": 1.0}, np.array([1.0, 2.0]), np.empty(0)),
        *(object(), Weird(), float, math.sin),
    ],
)
def test_values_that_are_refused(value):
    with pytest.raises(TypeError, match=r"The 'value' parameter must be a real number or None. Got"):
        as_value(value)


# the columns


def space():
    return Space({"a": Float(0, 10), "n": Int(0, 9), "c": Categorical(["x", None])})


def natives(seed, n):
    return space().decode(np.random.default_rng(seed).random((n, 3)))


def test_a_trial_shows_what_was_stored():
    history = History(space())
    first = history.append(np.array([[2.5, 3, 1]]), asked=True)
    trial = history[first]
    assert (trial.number, trial.params, trial.state) == (0, {"a": 2.5, "n": 3, "c": None}, State.PENDING)
    assert trial.value is None
    np.testing.assert_array_equal(trial.x, [0.25, 0.35, 0.75])
    with pytest.raises(ValueError, match="read-only"):
        trial.x[0] = 0
    history.finish(0, np.array([7.0]))
    assert (history[0].state, history[0].value) == (State.COMPLETE, 7.0)
    assert trial.state is State.PENDING


def test_nan_is_a_failure_with_its_reason():
    history = History(space())
    history.append(natives(0, 2), asked=True)
    history.finish(0, np.array([np.nan]), "diverged")
    history.finish(1, np.array([np.inf]))
    assert (history[0].state, history[0].value, history[0].reason) == (State.FAILED, None, "diverged")
    assert (history[1].state, history[1].value, history[1].reason) == (State.COMPLETE, math.inf, None)
    np.testing.assert_array_equal(history.values, [np.nan, np.inf])


def test_columns_grow_and_keep_everything():
    history, rows = History(space()), natives(0, 500)
    for start, stop in itertools.pairwise([0, 1, 2, 15, 16, 17, 18, 200, 500]):
        assert history.append(rows[start:stop], asked=False) == start
        history.finish(start, np.arange(float(start), stop))
    assert len(history) == 500
    np.testing.assert_array_equal(history.native, rows)
    np.testing.assert_array_equal(history.x, space().encode(rows))
    np.testing.assert_array_equal(history.values, np.arange(500.0))
    assert [t.number for t in history] == list(range(500))
    assert history.arrivals == 500


def test_numbers_count_like_a_list():
    history = History(space())
    history.append(natives(0, 3), asked=False)
    assert history[-1].number == 2
    with pytest.raises(IndexError):
        history[3]
    with pytest.raises(IndexError):
        history[-4]


def test_removed_trials_keep_their_number_and_leave_the_data():
    history = History(space())
    history.append(natives(0, 3), asked=False)
    history.finish(0, np.array([1.0, 2.0, 3.0]))
    history.remove(1)
    assert history[1].state is State.REMOVED
    assert history[1].value is None
    assert sorted(history.data(1.0).y) == [1.0, 3.0]
    assert len(history) == 3


def test_restored_columns_are_the_same_history():
    history = played(5)[0]
    copy = History(history.space)
    reasons = {i: r for i in range(len(history)) if (r := history.reason(i)) is not None}
    copy.restore(
        history.native.copy(),
        history.values,
        history.states.copy(),
        history.told_at.copy(),
        history.asked_at.copy(),
        reasons,
    )
    assert copy.arrivals == history.arrivals
    assert [(t.number, t.params, t.state, t.value, t.reason) for t in copy] == [
        (t.number, t.params, t.state, t.value, t.reason) for t in history
    ]
    same_data(copy.data(1.0), history.data(1.0))


# the model's view


def same_data(a: Data, b: Data):
    for name in ("X", "y", "silent", "numbers", "asked", "keys"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def told(rows, values):
    history = History(space())
    for row, value in zip(rows, values, strict=True):
        number = history.append(row[None], asked=False)
        if value is not None:
            history.finish(number, np.array([value]))
    return history.data(-1.0)


@settings(deadline=None, max_examples=50)
@given(
    values=st.lists(st.floats(allow_nan=True) | st.none(), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_order_of_data_depends_on_the_content_only(values, seed):
    rows = natives(seed, len(values))
    order = np.random.default_rng(seed).permutation(len(values))
    a, b = told(rows, values), told(rows[order], [values[i] for i in order])
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.silent, b.silent)


def test_data_has_values_silent_points_and_numbers():
    history, rows = History(space()), natives(0, 6)
    history.append(rows, asked=True)
    history.finish(0, np.array([1.0, np.nan, 3.0, -np.inf]))
    data, x = history.data(-1.0), space().encode(rows)
    assert data.X.shape == (3, 3)
    np.testing.assert_array_equal(data.X, x[data.numbers])
    by_number = dict(zip(data.numbers.tolist(), data.y.tolist(), strict=True))
    assert by_number == {0: -1.0, 2: -3.0, 3: -1.0}  # minus infinity, minimized, is the best finite value
    assert {tuple(r) for r in data.silent} == {tuple(r) for r in x[[1, 4, 5]]}
    assert data.points.shape == (6, 3)


def test_failures_can_count_as_the_worst_value():
    history, rows = History(space()), natives(0, 6)
    history.append(rows, asked=True)
    history.finish(0, np.array([1.0, np.nan, 3.0, -np.inf, np.nan]))
    data, x = history.data(-1.0, discourage=True), space().encode(rows)
    by_number = dict(zip(data.numbers.tolist(), data.y.tolist(), strict=True))
    assert by_number == {0: -1.0, 1: -3.0, 2: -3.0, 3: -1.0, 4: -3.0}
    np.testing.assert_array_equal(data.X, x[data.numbers])
    np.testing.assert_array_equal(data.silent, x[[5]])
    nothing = History(space())
    nothing.append(rows, asked=True)
    nothing.finish(0, np.array([np.nan]))
    assert len(nothing.data(1.0, discourage=True).y) == 0  # there is no worst value yet
    assert len(nothing.data(1.0, discourage=True).silent) == 6


def oldest_by_hand(pending, told):
    """Go back from the newest trial until one is out for too long."""
    out = back = 0
    for number in reversed(range(max(0, len(pending) - HORIZON), len(pending))):
        out, back = out + pending[number], back + told[number]
        if pending[number] and back > PATIENCE * out:
            return number + 1
    return max(0, len(pending) - HORIZON)


@given(st.lists(st.sampled_from("ppttttttttttttttttttttttttttu"), max_size=200), st.integers(1, 30))
def test_the_oldest_pending_trial_that_counts(letters, group):
    letters = [letter for letter in letters for _ in range(group)][-300:]
    pending, told = (np.array([letter == which for letter in letters], dtype=bool) for which in "pt")
    assert oldest(pending, told) == oldest_by_hand(pending, told)


def test_a_hundred_killed_workers_are_soon_forgotten_and_slow_ones_are_not():
    history, rows = History(space()), natives(0, 300)
    history.append(rows[:100], asked=True)  # a hundred workers are killed, and another goes on alone
    for number in range(100, 100 + PATIENCE + 1):
        assert len(history.data(1.0).silent) == 100
        history.append(rows[[number]], asked=True)
        history.finish(number, np.array([1.0]))
    assert len(history.data(1.0).silent) == 0
    slow = History(space())  # a hundred workers, the first of which takes three times as long as the others
    slow.append(rows[:100], asked=True)
    for number in range(100, 300):
        slow.finish(number - 99, np.array([1.0]))
        slow.append(rows[[number]], asked=True)
        assert len(slow.data(1.0).silent) == 100
    told = History(space())
    told.append(rows[:3], asked=True)
    told.append(rows[3:], asked=False)  # results from elsewhere say nothing about the time that ours take
    told.finish(3, np.ones(297))
    assert len(told.data(1.0).silent) == 3


def test_pending_trials_age_by_the_numbers_that_followed():
    history, rows = History(space()), natives(0, HORIZON + 3)
    history.append(rows, asked=True)
    history.finish(1, np.array([np.nan, 1.0]))
    silent = history.data(1.0).silent
    failed, left = space().encode(rows[1:2]), space().encode(rows[3:])
    assert {tuple(r) for r in silent} == {tuple(r) for r in np.vstack([failed, left])}


@pytest.mark.parametrize(
    ("values", "finite"),
    [
        ([1.0, math.inf, -math.inf, 3.0], [1.0, 3.0, 1.0, 3.0]),
        ([math.inf, -math.inf], [1.0, -1.0]),
        ([math.inf, math.inf], [1.0, 1.0]),
        ([1e308, -1e308], [1e308, -1e308]),
    ],
)
def test_infinite_values_become_finite(values, finite):
    history = History(space())
    history.append(natives(0, len(values)), asked=False)
    history.finish(0, np.array(values))
    data = history.data(1.0)
    assert data.y[np.argsort(data.numbers)].tolist() == finite


def test_an_empty_history_has_empty_data():
    data = History(space()).data(1.0)
    assert data.X.shape == data.silent.shape == data.points.shape == (0, 3)
    assert data.y.shape == data.numbers.shape == (0,)


def played(seed, steps=120):
    """A history of asked, told, failed, unasked and pending trials, and what was known at each ask."""
    rng = np.random.default_rng(seed)
    history, seen, pending = History(space()), {}, []
    for row in natives(seed, steps):
        choice = rng.random()
        if choice < 0.4:
            seen[len(history)] = history.data(1.0), history.data(1.0, discourage=True)
            pending.append(history.append(row[None], asked=True))
        elif choice < 0.5:
            pending.append(history.append(row[None], asked=False))  # registered: being evaluated elsewhere
        elif choice < 0.6:
            history.finish(history.append(row[None], asked=False), rng.normal(size=1))
        elif pending:
            number = pending.pop(rng.integers(len(pending)))
            value = rng.choice([rng.normal(), np.nan, np.inf], p=[0.7, 0.2, 0.1])
            history.finish(number, np.array([value]), None if np.isfinite(value) else "why not")
    return history, seen


@pytest.mark.parametrize("seed", range(10))
def test_before_shows_what_was_known_when_a_trial_was_asked(seed):
    history, seen = played(seed)
    assert len(seen) > 20
    for number, (data, discouraged) in seen.items():
        same_data(history.data(1.0, before=number), data)
        same_data(history.data(1.0, before=number, discourage=True), discouraged)


@pytest.mark.parametrize(
    "memory", [None, Memory(window=15), Memory(half_life=10.0)], ids=["all", "window", "half-life"]
)
@pytest.mark.parametrize("seed", range(4))
def test_the_order_that_is_kept_is_that_of_a_history_asked_for_the_first_time(seed, memory):
    """Over long random histories of tell, fail, pending and remove; on a coarse grid, where keys tie."""
    rng = np.random.default_rng(seed)
    space = Space({"a": Int(0, 2), "b": Int(0, 1)})
    history, open_, told_ = History(space, memory), [], []
    for _ in range(150):
        choice = rng.random()
        if choice < 0.5 or not open_:
            point = np.array([[rng.integers(3), rng.integers(2)]], dtype=float)
            open_.append(history.append(point, asked=bool(rng.random() < 0.8)))
        elif choice < 0.95:
            number = open_.pop(rng.integers(len(open_)))
            history.finish(number, np.array([rng.choice([0.0, 1.0, 2.0, np.nan, -np.inf])]))
            told_.append(number)
        elif told_:
            history.remove(told_.pop(rng.integers(len(told_))))
        for sign, discourage in ((1.0, True), (1.0, False), (-1.0, True)):
            kept = history.data(sign, discourage=discourage)
            known, history._known = history._known, {}
            same_data(history.data(sign, discourage=discourage), kept)
            history._known = known
    assert len(told_) > 20


@pytest.mark.skipif(NATIVE is None, reason="there is nothing compiled here")
@pytest.mark.parametrize(
    "memory", [None, Memory(window=40), Memory(half_life=30.0)], ids=["all", "window", "half-life"]
)
@pytest.mark.parametrize("seed", range(6))
def test_compiled_data_are_the_plain_ones(seed, memory, monkeypatch):
    """To the last bit, whatever was known before: copies are asked for the same by both ways, now and then."""
    rng = np.random.default_rng(seed)
    one, other, open_ = *(History(Space.of([(0, 1)] * (1 + seed % 3)), memory) for _ in range(2)), []
    grid = np.array([0.0, -0.0, 0.5, 1.0])

    def both(*arguments, **options):
        compiled = one.data(*arguments, **options)
        with monkeypatch.context() as patch:
            patch.setattr(module, "NATIVE", None)
            plain = other.data(*arguments, **options)
        for name in ("X", "y", "silent", "numbers", "asked", "keys"):
            a, b = getattr(compiled, name), getattr(plain, name)
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

    both(1.0, discourage=True)
    for step in range(250):
        choice = rng.random()
        if choice < 0.5 or not open_:
            point = rng.choice(grid, size=(1, one.space.dim)) if rng.random() < 0.3 else rng.random((1, one.space.dim))
            number, _ = (history.append(point, asked=choice < 0.4) for history in (one, other))
            if rng.random() < 0.9:
                open_.append(number)
        elif choice < 0.95:
            number = open_.pop(rng.integers(len(open_)))
            usual = step > 20 and rng.random() < 0.8
            value = (
                rng.normal(size=1) if usual else rng.choice([0.0, -0.0, 2.0, np.nan, -np.nan, np.inf, -np.inf], size=1)
            )
            for history in (one, other):
                history.finish(number, value)
        else:
            number = int(rng.integers(len(one)))
            open_ = [n for n in open_ if n != number]
            for history in (one, other):
                history.remove(number)
        if rng.random() < 0.5:
            both(rng.choice([1.0, -1.0]), discourage=bool(rng.random() < 0.7))
        if rng.random() < 0.1:
            both(1.0, before=int(rng.integers(len(one))), discourage=bool(rng.random() < 0.7))


# forgetting


@pytest.mark.parametrize("window", [1, 7, 30, 100])
def test_a_window_is_a_history_of_the_last_trials(window):
    rng, rows = np.random.default_rng(0), natives(0, 60)
    history = History(space(), Memory(window=window))
    values = rng.choice([rng.normal(), np.nan, np.inf], p=[0.7, 0.2, 0.1], size=60)
    for n in range(60):
        number = history.append(rows[n : n + 1], asked=True)
        if n % 5:
            history.finish(number, values[n : n + 1])
        last = History(space())
        for m in range(max(0, n + 1 - window), n + 1):
            copy = last.append(rows[m : m + 1], asked=True)
            if m % 5:
                last.finish(copy, values[m : m + 1])
        seen, expected = history.data(-1.0), last.data(-1.0)
        for name in ("X", "y", "silent", "asked"):
            np.testing.assert_array_equal(getattr(seen, name), getattr(expected, name))
        np.testing.assert_array_equal(seen.numbers, expected.numbers + max(0, n + 1 - window))
    assert history.values[59] == values[59] or np.isnan(values[59])  # the values themselves stay
    assert len(history) == 60


def test_half_of_the_trials_are_left_after_a_half_life():
    memory, rows = Memory(half_life=50.0), np.arange(200_000)
    span = memory.span(rows)
    for age in (1, 10, 50, 100, 400):
        assert np.mean(span > age) == pytest.approx(0.5 ** (age / 50.0), abs=0.005)
    np.testing.assert_array_equal(memory.span(rows[1000:1010]), span[1000:1010])  # of a trial, not of its company
    assert (Memory(window=20, half_life=50.0).span(rows) == np.minimum(span, 20)).all()
    assert (Memory().span(rows) == LONGEST).all() and (Memory(half_life=1e300).span(rows) <= LONGEST).all()


def test_forgotten_sums_are_on_average_exponential_weights():
    from boke.model import KernelModel

    rng, n, h = np.random.default_rng(1), 3000, 300.0
    line = Space.of([(0, 1)])
    X = rng.random((n, 1))
    history = History(line, Memory(half_life=h))
    history.finish(history.append(X, asked=False), np.sin(5 * X[:, 0]))
    data, q = history.data(1.0), np.linspace(0, 1, 5)[:, None]
    weights = 0.5 ** ((n - np.arange(n)) / h)
    exact = KernelModel(X, np.sin(5 * X[:, 0]), bandwidth=0.1, weights=weights)
    forgetful = KernelModel(data.X, data.y, bandwidth=0.1)
    np.testing.assert_allclose(forgetful.density(q), exact.density(q), rtol=0.3)
    np.testing.assert_allclose(forgetful.mean(q), exact.mean(q), atol=0.05)


def test_what_was_forgotten_later_is_still_there_in_an_explanation():
    history, rows = History(space(), Memory(window=5)), natives(1, 20)
    seen = {}
    for n in range(20):
        seen[n] = history.data(1.0)
        history.finish(history.append(rows[n : n + 1], asked=True), np.array([float(n)]))
    for n, data in seen.items():
        same_data(history.data(1.0, before=n), data)
        assert len(data.y) == min(n, 5)


@pytest.mark.parametrize(
    "bad",
    [
        {"window": 0},
        {"window": 2.5},
        {"window": True},
        {"half_life": 0},
        {"half_life": -1.0},
        {"half_life": math.inf},
        {"half_life": math.nan},
        {"half_life": "9"},
    ],
)
def test_bad_memories_are_refused(bad):
    with pytest.raises(ValueError, match=f"The '{next(iter(bad))}' parameter must be None or a positive"):
        Memory(**bad)
