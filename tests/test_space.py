import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds

from boke.space import Categorical, Float, Int, Space, between, inside, plain_between, plain_inside

UNITS = st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 0.5, np.nextafter(0.5, 0), np.nextafter(1, 0), 1.0])
FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=5e-324, allow_infinity=False)
QUICK = settings(deadline=None, max_examples=100)

EXTREME = [
    (0.0, 5e-324),
    (5e-324, 1e-323),
    (-5e-324, 5e-324),
    (-1e308, 1e308),
    (-1.7976931348623157e308, 1.7976931348623157e308),
    (0.0, 1e-300),
    (1e-300, 2e-300),
    (1.0, 1.0 + 2**-52),
    (1e10, np.nextafter(1e10, np.inf)),
    (1e308, 1.7976931348623157e308),
    (7.0, 7.0),
    (0.0, 0.0),
    (-1e308, -1e308),
    (5e-324, 1.7976931348623157e308),
]


@pytest.mark.parametrize("n", [0, 1, 7])
def test_compiled_maps_of_plain_intervals_are_the_plain_ones(n):
    ranges = [(a, b) for a, b in [*EXTREME, (-5.0, 10.0), (-3.0, 0.0), (1e-3, 0.3)] if Float(a, b).plain]
    low, high = np.array(ranges).T.copy()
    unit = np.random.default_rng(n).random((n, len(ranges)))
    unit[:1], unit[1:2], unit[2:3] = 0.0, 1.0, 5e-324
    native = plain_between(unit, low, high)
    beyond = np.where(unit < 0.5, native - 1.0, native + 1.0)
    for X in (unit, unit[:, ::-1][:, ::-1], np.asfortranarray(unit)):
        assert between(X, low, high).tobytes() == native.tobytes()
    for X in (native, beyond):
        with np.errstate(over="ignore"):  # far beyond a range of 5e-324
            assert inside(X, low, high).tobytes() == plain_inside(X, low, high).tobytes()


@st.composite
def ints(draw):
    if draw(st.booleans()):
        low, high = sorted(draw(st.tuples(*[st.integers(1, 2**45) | st.integers(1, 100)] * 2)))
        return Int(low, high, log=True)
    low, high = sorted(draw(st.tuples(*[st.integers(-(2**50), 2**50) | st.integers(-100, 100)] * 2)))
    return Int(low, high, step=draw(st.integers(1, 10) | st.integers(1, high - low + 1)))


@st.composite
def stepped(draw):
    low, step = draw(st.floats(-1e9, 1e9)), draw(st.floats(1e-5, 1e5))
    return Float(low, low + step * draw(st.floats(0, 1e6)), step=step)


def column(*values):
    return np.array(values, dtype=float)


def round_trip(parameter, native):
    return parameter.decode(parameter.encode(native))


# grids


@QUICK
@given(parameter=ints(), share=UNITS)
def test_integers_come_back_exactly(parameter, share):
    index = min(int(share * parameter.cells), parameter.cells - 1)
    around = [i for i in (0, index - 1, index, index + 1, parameter.cells - 1) if 0 <= i < parameter.cells]
    native = column(*[parameter.low + i * parameter.step for i in around])
    np.testing.assert_array_equal(round_trip(parameter, native), native)
    assert [parameter.to_native(parameter.from_native(v)) for v in native] == native.tolist()


@QUICK
@given(parameter=stepped(), share=UNITS)
def test_stepped_floats_come_back_exactly(parameter, share):
    index = min(int(share * parameter.cells), parameter.cells - 1)
    exact = Decimal(repr(parameter.low)) + index * Decimal(repr(parameter.step))
    native = column(parameter.low, float(exact))
    np.testing.assert_array_equal(round_trip(parameter, native), native)
    assert [parameter.to_native(v) for v in native] == native.tolist()


@QUICK
@given(cells=st.integers(1, 50), data=st.data())
def test_categories_come_back_exactly(cells, data):
    native = column(data.draw(st.integers(0, cells - 1)))
    assert round_trip(Categorical(range(cells)), native) == native


@QUICK
@given(parameter=ints(), unit=UNITS)
def test_integers_stay_in_range_and_on_the_grid(parameter, unit):
    value = parameter.from_native(parameter.decode(column(unit))[0])
    assert isinstance(value, int)
    assert parameter.low <= value <= parameter.high
    assert (value - parameter.low) % parameter.step == 0


@QUICK
@given(parameter=stepped(), unit=UNITS)
def test_stepped_floats_stay_in_range(parameter, unit):
    assert parameter.low <= parameter.decode(column(unit))[0] <= parameter.high


@pytest.mark.parametrize("parameter", [Int(3, 12), Int(0, 10, step=3), Float(0, 1, step=0.1), Categorical(["a", "b"])])
def test_a_uniform_unit_is_a_uniform_choice(parameter):
    units = (np.arange(7 * parameter.cells) + 0.5) / (7 * parameter.cells)
    _, count = np.unique(parameter.decode(units), return_counts=True)
    assert count.tolist() == [7] * parameter.cells


def test_log_integers_own_half_a_unit_to_each_side():
    parameter = Int(1, 4, log=True)
    edges = np.log(column(1.5, 2.5, 3.5) / 0.5) / math.log(4.5 / 0.5)
    assert parameter.decode(edges - 1e-9).tolist() == [1, 2, 3]
    assert parameter.decode(edges + 1e-9).tolist() == [2, 3, 4]


def test_decimal_grids_have_the_decimals_people_write():
    grid = Float(0, 1, step=0.1)
    assert grid.decode(np.linspace(0, 1, 23)[1::2]).tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert Float(-0.3, 0.3, step=0.1).cells == 7


def test_values_beside_the_grid_by_rounding_are_put_on_it():
    assert Float(0, 1, step=0.1).to_native(0.1 + 0.2) == 0.3
    assert Float(1e6, 1e6 + 1, step=1e-3).to_native(np.nextafter(1000000.003, 0)) == 1000000.003


def test_step_wider_than_the_range_leaves_low():
    parameter = Float(0, 1, step=3)
    assert parameter.cells == 1
    assert parameter.decode(column(0, 1)).tolist() == [0, 0]
    assert Int(0, 1, step=3).decode(column(0, 1)).tolist() == [0, 0]


# continuous ranges


@QUICK
@given(ends=st.tuples(FINITE, FINITE), unit=UNITS)
def test_floats_keep_their_ends_and_stay_inside(ends, unit):
    parameter = Float(*sorted(ends))
    native = column(*sorted(ends))
    np.testing.assert_array_equal(round_trip(parameter, native), native)
    assert parameter.low <= parameter.decode(column(unit))[0] <= parameter.high


@QUICK
@given(ends=st.tuples(POSITIVE, POSITIVE), unit=UNITS)
def test_log_floats_keep_their_ends_and_stay_inside(ends, unit):
    parameter = Float(*sorted(ends), log=True)
    native = column(*sorted(ends))
    np.testing.assert_array_equal(round_trip(parameter, native), native)
    assert parameter.low <= parameter.decode(column(unit))[0] <= parameter.high


def test_log_floats_keep_their_ends_where_two_logarithms_disagree():
    low = 1.9534393914250943  # NumPy and the C library round its logarithm differently on x86-64
    assert round_trip(Float(low, 1.5 * low, log=True), column(low)) == low


@pytest.mark.parametrize("ends", EXTREME)
@pytest.mark.parametrize("log", [False, True])
def test_extreme_ranges(ends, log):
    if log and ends[0] <= 0:
        ends = (5e-324, max(ends[1], 5e-324))
    parameter, units = Float(*ends, log=log), np.linspace(0, 1, 1001)
    decoded = parameter.decode(units)
    assert (decoded >= ends[0]).all()
    assert (decoded <= ends[1]).all()
    assert decoded[0] == ends[0]
    assert decoded[-1] == ends[1]
    encoded = parameter.encode(decoded)
    assert ((encoded >= 0) & (encoded <= 1)).all()


@QUICK
@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), unit=UNITS)
def test_floats_come_back_to_a_few_roundings(low, width, unit):
    parameter = Float(low, low + width)
    again = parameter.encode(parameter.decode(column(unit)))[0]
    assert again == pytest.approx(unit, abs=1e-15 * (abs(low) / width + 4))


@QUICK
@given(low=st.floats(1e-12, 1e6), factor=st.floats(1.1, 1e12), unit=UNITS)
def test_log_floats_are_uniform_in_the_logarithm(low, factor, unit):
    parameter = Float(low, low * factor, log=True)
    value = parameter.decode(column(unit))[0]
    assert math.log(value / low) == pytest.approx(unit * math.log(parameter.high / low), rel=1e-9, abs=1e-12)
    assert parameter.encode(column(value))[0] == pytest.approx(unit, abs=1e-12)


def test_zero_width_is_one_value_in_the_middle():
    floats = Float(3, 3), Float(3, 3, log=True), Float(3, 3, step=0.5), Float(1e16, 1e16, step=0.1)
    for parameter in (*floats, Int(3, 3)):
        assert parameter.cells == 1
        assert parameter.decode(column(0, 0.3, 1)).tolist() == [parameter.low] * 3
        assert parameter.encode(column(parameter.low)) == [0.5]


# what users write


def test_bounds_in_every_form_give_the_same_space():
    pairs = [(0, 1), (-2.5, 3)]
    spaces = [Space.of(b) for b in (pairs, np.array(pairs), Bounds([0, -2.5], [1, 3]), [Float(0, 1), (-2.5, 3)])]
    assert all(space == spaces[0] for space in spaces)
    assert not spaces[0].named
    assert Space.of(spaces[0]) is spaces[0]


def test_scipy_bounds_broadcast():
    assert Space.of(Bounds(0, [1, 2])) == Space.of([(0, 1), (0, 2)])


def test_a_dict_is_named_and_a_mixed_list_is_not():
    named = Space.of({"a": Float(0, 1), "b": Int(0, 3), "c": Categorical(["x", "y"])})
    plain = Space.of([(0, 1), Int(0, 3), Categorical(["x", "y"])])
    native = column(0.5, 2, 1)
    assert named.to_user(native) == {"a": 0.5, "b": 2, "c": "y"}
    assert plain.to_user(native) == [0.5, 2, "y"]
    assert plain.to_native([0.5, 2, "y"]).tolist() == [0.5, 2, 1]
    assert named.to_native({"c": "y", "b": 2, "a": 0.5}).tolist() == [0.5, 2, 1]
    assert named.categorical.tolist() == [False, False, True]
    assert named.continuous.tolist() == [True, False, False]


def test_plain_bounds_give_an_array_of_their_own():
    space, native = Space.of([(0, 1), (0, 1)]), column(0.25, 0.75)
    point = space.to_user(native)
    point[:] = 9
    assert native.tolist() == [0.25, 0.75]


def test_values_have_python_types():
    params = Space({"f": Float(0, 1), "s": Float(0, 1, step=0.5), "i": Int(0, 9), "l": Int(1, 9, log=True)}).to_params(
        column(0.5, 0.5, 3, 3)
    )
    assert [type(v) for v in params.values()] == [float, float, int, int]


@pytest.mark.parametrize("value", [2, 2.0, np.int64(2), np.float32(2), np.array(2), Fraction(2), Decimal(2)])
def test_numbers_of_many_kinds_are_floats(value):
    assert Float(0, 5).to_native(value) == 2.0


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.uint64(2), np.float32(2), np.array(2)])
def test_numbers_of_many_kinds_are_ints(value):
    assert Int(0, 5).to_native(value) == 2.0


NAMES = ["学习率", "a\nb", "it's", '"; DROP TABLE trials; --', "", " ", "x" * 200, "\u202e", "🧪", "a.b[0]"]


def test_odd_names_round_trip():
    space = Space({name: Float(0, 1) for name in NAMES})
    native = np.linspace(0, 1, len(NAMES))
    params = space.to_params(native)
    assert list(params) == NAMES
    assert space.to_native(params).tolist() == native.tolist()


CHOICES = [None, True, False, 1, 0, 1.0, 0.0, math.nan, math.inf, "", "a\nb", "é", "1", b"1", (1, 2), [1], {}, object()]


@pytest.mark.parametrize("i", range(len(CHOICES)))
def test_categories_come_back_as_the_very_objects(i):
    space = Space({"c": Categorical(CHOICES)})
    native = space.to_native({"c": CHOICES[i]})
    assert native.tolist() == [i]
    assert space.to_params(space.decode(space.encode(native[None]))[0])["c"] is CHOICES[i]


def test_numpy_scalars_stand_for_their_python_twins():
    categorical = Categorical([1, 1.0, "a", True])
    assert [categorical.to_native(v) for v in (np.int64(1), np.float64(1), np.str_("a"), np.True_)] == [0, 1, 2, 3]


def test_arrays_and_ranges_are_choices():
    assert Categorical(range(3)).cells == 3
    assert Categorical(np.array(["a", "b"])).to_native("b") == 1
    arrays = Categorical([np.zeros(2), np.ones(2)])
    assert arrays.to_native(arrays.choices[1]) == 1


def test_equality_tells_types_apart():
    assert Categorical([True, False]) != Categorical([1, 0])
    assert Categorical([math.nan]) == Categorical([float("nan")])
    assert Categorical([1, 2]) != Categorical([1, 2, 3])
    assert Space.of({"a": Categorical([0])}) != Space.of({"a": Categorical([False])})
    assert len({Categorical([[1], {}]), Categorical([[1], {}])}) == 1


def test_equality_of_spaces():
    assert Space.of([(0, 1)]) == Space.of([(0, 1)])
    assert Space.of([(0, 1)]) != Space.of([(0, 2)])
    assert Space.of([(0, 1)]) != Space({"x0": Float(0, 1)})
    assert Space.of({"a": Float(0, 1), "b": Float(0, 1)}) != Space.of({"b": Float(0, 1), "a": Float(0, 1)})
    assert Space.from_arms([[0], [1]]) != Space.from_arms([[0], [0.5], [1]])
    assert Space.from_arms([[0], [1]]) != Space.of([(0, 1)])


# finite sets


def test_a_point_becomes_the_arm_that_it_is_or_the_nearest():
    arms = np.random.default_rng(0).random((40, 3))
    arms[10:20, 0] = arms[5, 0]  # alike in the first column only
    space = Space.from_arms(arms)
    np.testing.assert_array_equal(space.decode(space.unit_arms[::-1]), arms[::-1])
    for u in np.random.default_rng(1).random((20, 3)):
        nearest = np.square(space.unit_arms - u).sum(axis=1).argmin()
        np.testing.assert_array_equal(space.decode(u[None])[0], arms[nearest])


def test_arms_are_the_only_points():
    arms = np.array([[0.0, 5], [1, 5], [3, 5]])
    space = Space.from_arms(arms)
    assert space.decode(np.random.default_rng(0).random((50, 2))).tolist() == [
        min(arms.tolist(), key=lambda a: abs(a[0] / 3 - u)) for u in np.random.default_rng(0).random((50, 2))[:, 0]
    ]
    np.testing.assert_array_equal(space.decode(space.enumerate(1)), arms)
    assert space.to_native([1, 5]).tolist() == [1, 5]
    with pytest.raises(ValueError, match=r"The point must be one of the 3 arms. Got \[2, 5\]"):
        space.to_native([2, 5])


def test_arms_of_one_column_may_be_a_list():
    assert Space.from_arms([3, 1, 2]).arms.tolist() == [[3], [1], [2]]


@QUICK
@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 2), min_size=1, max_size=20))
def test_arms_come_back_exactly(points):
    arms = np.array(points)
    assume(len(np.unique(arms, axis=0)) == len(arms))
    space = Space.from_arms(arms)
    assume(len(np.unique(np.round(space.unit_arms, 12), axis=0)) == len(arms))
    np.testing.assert_array_equal(space.decode(space.encode(arms)), arms)


MIXED = Space(
    {"a": Int(1, 5, log=True), "b": Categorical(["x", "y", "z"]), "c": Float(0, 1, step=0.25), "d": Int(0, 9, step=4)}
)


def test_enumerate_is_every_point_once():
    points = MIXED.enumerate(1000)
    assert len(points) == 5 * 3 * 5 * 3
    assert len({tuple(row) for row in MIXED.decode(points)}) == len(points)
    assert len(np.unique(points, axis=0)) == len(points)


def test_enumerated_points_are_fixed_by_snap_and_by_the_detour_over_native_values():
    points = MIXED.enumerate(1000)
    np.testing.assert_array_equal(MIXED.snap(points), points)
    np.testing.assert_array_equal(MIXED.encode(MIXED.decode(points)), points)


def test_snap_equals_the_detour_over_native_values():
    units = np.vstack([np.random.default_rng(0).random((500, 4)), np.zeros((1, 4)), np.ones((1, 4))])
    np.testing.assert_array_equal(MIXED.snap(units), MIXED.encode(MIXED.decode(units)))


def test_snap_leaves_continuous_columns_alone():
    space = Space.of([(0, 7), Int(0, 2)])
    assert space.snap(np.array([[0.123, 0.9]])).tolist() == [[0.123, 2.5 / 3]]


def test_enumerate_says_none_when_there_is_too_much():
    assert MIXED.enumerate(224) is None
    assert len(MIXED.enumerate(225)) == 225
    assert Space.of([(0, 1), Int(0, 1)]).enumerate(10**9) is None
    assert Space.of([(2, 2), Int(0, 1)]).enumerate(2).tolist() == [[0.5, 0.25], [0.5, 0.75]]


def test_no_points_are_no_problem():
    empty = np.empty((0, 4))
    for points in (MIXED.encode(empty), MIXED.decode(empty), MIXED.snap(empty)):
        assert points.shape == (0, 4)


# checking points

NUMERIC = Space({"f": Float(-1, 1), "s": Float(0, 1, step=0.1), "i": Int(-3, 9, step=3), "l": Int(1, 1000, log=True)})


def rows(n):
    native = NUMERIC.decode(np.random.default_rng(n).random((n, 4)))
    native[::3, 1] += 1e-12
    return np.clip(native, [-1, 0, -3, 1], [1, 1, 9, 1000])


def test_check_native_equals_to_native_row_by_row():
    native = rows(200)
    one_by_one = np.array([NUMERIC.to_native(dict(zip(NUMERIC.parameters, row, strict=True))) for row in native])
    np.testing.assert_array_equal(NUMERIC.check_native(native), one_by_one)
    assert NUMERIC.check_native(np.empty((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    ("j", "value"),
    [(0, 1.1), (0, np.nan), (0, np.inf), (1, 0.55), (1, -0.1), (2, 1), (2, 0.5), (2, -np.inf), (3, 0), (3, 1.5)],
)
def test_check_native_complains_like_to_native(j, value):
    native = rows(5)
    native[2, j] = value
    with pytest.raises((TypeError, ValueError)) as one:
        NUMERIC.to_native(dict(zip(NUMERIC.parameters, native[2].tolist(), strict=True)))
    with pytest.raises((TypeError, ValueError)) as many:
        NUMERIC.check_native(native)
    assert str(many.value) == str(one.value)
    assert type(many.value) is type(one.value)


def test_check_native_knows_the_arms():
    space = Space.from_arms([[0, 0], [1, 2]])
    assert space.check_native([[1, 2], [0, 0]]).tolist() == [[1, 2], [0, 0]]
    with pytest.raises(ValueError, match="one of the 2 arms"):
        space.check_native([[1, 0]])


def test_check_native_wants_the_right_shape():
    with pytest.raises(ValueError, match=r"The points must be an \(n, 4\) array. Got shape \(3,\)."):
        NUMERIC.check_native([1, 2, 3])


def test_check_native_leaves_the_callers_array_alone():
    native = rows(9)
    before = native.copy()
    NUMERIC.check_native(native)
    np.testing.assert_array_equal(native, before)


WRONG_POINTS = [
    ({"f": 0, "n": 0, "c": "x", "z": 1}, ValueError, r"unknown parameters \['z'\]"),
    ({"f": 0, "c": "x"}, ValueError, r"lacks the parameters \['n'\]"),
    ([0, 0, "x"], TypeError, r"must be a dict with the keys \['f', 'n', 'c'\]. Got \[0, 0, 'x'\]"),
    ({"f": 2, "n": 0, "c": "x"}, ValueError, r"The value of 'f' must be in \[0.0, 1.0\]. Got 2.0."),
    ({"f": "1", "n": 0, "c": "x"}, TypeError, r"The value of 'f' is wrong: .*must be a real number. Got '1'."),
    ({"f": True, "n": 0, "c": "x"}, TypeError, r"'f' .*must be a real number. Got True."),
    ({"f": np.True_, "n": 0, "c": "x"}, TypeError, r"'f' .*must be a real number. Got (np\.)?True_?."),
    ({"f": 1j, "n": 0, "c": "x"}, TypeError, r"'f' .*must be a real number. Got 1j."),
    ({"f": np.complex64(1), "n": 0, "c": "x"}, TypeError, r"'f' .*must be a real number"),
    ({"f": None, "n": 0, "c": "x"}, TypeError, r"'f' .*must be a real number. Got None."),
    ({"f": math.nan, "n": 0, "c": "x"}, ValueError, r"'f' .*must be finite. Got nan."),
    ({"f": 10**400, "n": 0, "c": "x"}, TypeError, r"'f' .*must be a real number"),
    ({"f": 0, "n": 7, "c": "x"}, ValueError, r"The value of 'n' must be in \[0, 6\]. Got 7."),
    ({"f": 0, "n": 3, "c": "x"}, ValueError, r"The value of 'n' must be 0 plus a multiple of 2. Got 3."),
    ({"f": 0, "n": 0.5, "c": "x"}, TypeError, r"'n' .*must be an integer. Got 0.5."),
    ({"f": 0, "n": True, "c": "x"}, TypeError, r"'n' .*must be an integer. Got True."),
    ({"f": 0, "n": math.inf, "c": "x"}, ValueError, r"'n' .*must be finite. Got inf."),
    ({"f": 0, "n": 0, "c": "w"}, ValueError, r"The value of 'c' must be one of \['x', 'y'\]. Got 'w'."),
]


@pytest.mark.parametrize(("point", "error", "message"), WRONG_POINTS)
def test_wrong_points_name_the_parameter_and_show_the_value(point, error, message):
    space = Space({"f": Float(0, 1), "n": Int(0, 6, step=2), "c": Categorical(["x", "y"])})
    with pytest.raises(error, match=message):
        space.to_native(point)


def test_points_of_plain_bounds_need_the_right_length():
    space = Space.of([(0, 1), (0, 1)])
    with pytest.raises(ValueError, match=r"must have 2 coordinates. Got 3: \[1, 0, 1\]"):
        space.to_native([1, 0, 1])
    with pytest.raises(TypeError, match=r"A list, tuple or array was expected. Got 7."):
        space.to_native(7)
    assert space.to_native({"x1": 1, "x0": 0}).tolist() == [0, 1]


WRONG_SPACES = [
    (lambda: Float(3, 1), ValueError, r"'low' parameter of Float must be less than 'high'.* Got low=3.0, high=1.0"),
    (lambda: Float(0, math.nan), ValueError, r"'high' parameter of Float must be finite. Got nan"),
    (lambda: Float(-math.inf, 0), ValueError, r"'low' parameter of Float must be finite. Got -inf"),
    (lambda: Float("0", 1), TypeError, r"'low' parameter of Float must be a real number. Got '0'"),
    (lambda: Float(0, 1, log=True), ValueError, r"'low' parameter of Float must be positive when log=True. Got"),
    (lambda: Float(0, 1, step=0), ValueError, r"'step' parameter of Float must be positive. Got step=0.0"),
    (lambda: Float(0, 1, step=-1), ValueError, r"'step' parameter of Float must be positive. Got step=-1.0"),
    (lambda: Float(0, 1, step=math.nan), ValueError, r"'step' parameter of Float must be finite. Got nan"),
    (lambda: Float(1, 2, log=True, step=1), ValueError, r"'step' parameter of Float must be None when log=True"),
    (lambda: Float(0, 1, step=1e-17), ValueError, r"'step' parameter of Float must be so wide .* Got step=1e-17"),
    (lambda: Float(1e15, 1e15 + 1, step=0.1), ValueError, r"'step' parameter of Float must be so wide"),
    (lambda: Float(-1e308, 1e308, step=1e300), ValueError, r"'step' parameter of Float must be so wide"),
    (lambda: Int(3, 1), ValueError, r"'low' parameter of Int must be less than 'high'.* Got low=3, high=1"),
    (lambda: Int(0, 1.5), TypeError, r"'high' parameter of Int must be an integer. Got 1.5"),
    (lambda: Int(0, math.inf), ValueError, r"'high' parameter of Int must be finite. Got inf"),
    (lambda: Int(0, math.nan), ValueError, r"'high' parameter of Int must be finite. Got nan"),
    (lambda: Int(False, 3), TypeError, r"'low' parameter of Int must be an integer. Got False"),
    (lambda: Int(0, 3, step=0), ValueError, r"'step' parameter of Int must be at least 1. Got step=0"),
    (lambda: Int(1, 3, log=True, step=2), ValueError, r"'step' parameter of Int must be 1 when log=True. Got step=2"),
    (lambda: Int(0, 3, log=True), ValueError, r"'low' parameter of Int must be positive when log=True. Got low=0"),
    (lambda: Int(0, 2**50 + 1), ValueError, r"'high' parameter of Int must be within ±2\*\*50. Got high=11258"),
    (lambda: Int(-(2**50) - 1, 0), ValueError, r"'low' parameter of Int must be within ±2\*\*50"),
    (lambda: Int(1, 2**46, log=True), ValueError, r"'high' parameter of Int must be within ±2\*\*45 when log=True"),
    (lambda: Categorical([]), ValueError, r"'choices' parameter of Categorical must not be empty"),
    (lambda: Categorical({"a", "b"}), TypeError, r"'choices' parameter of Categorical must be a list or tuple"),
    (lambda: Categorical(3), TypeError, r"'choices' parameter of Categorical must be a list or tuple. Got 3"),
    (lambda: Categorical([1, 2, 1]), ValueError, r"'choices' parameter of Categorical must be distinct. Got 1 twice"),
    (lambda: Categorical([math.nan, float("nan")]), ValueError, r"must be distinct. Got nan twice"),
    (lambda: Space({}), ValueError, r"at least one parameter"),
    (lambda: Space({1: Float(0, 1)}), TypeError, r"name must be a string. Got 1"),
    (lambda: Space.of({"a": (0, 1)}), TypeError, r"parameter 'a' of the space must be a Float, .* Got \(0, 1\)"),
    (lambda: Space.of([]), ValueError, r"at least one parameter"),
    (lambda: Space.of(3), TypeError, r"A list, tuple or array was expected. Got 3"),
    (lambda: Space.of([(0, 1), 3]), ValueError, r"'bounds' parameter must hold \(low, high\) pairs. Got 3 at 1"),
    (lambda: Space.of([(0, 1, 2)]), ValueError, r"must hold \(low, high\) pairs. Got \(0, 1, 2\) at 0"),
    (lambda: Space.of([(0, 1), (2, 1)]), ValueError, r"'bounds' parameter is wrong at position 1: .* Got low=2.0"),
    (lambda: Space.of(Bounds([0, 0], [1, np.inf])), ValueError, r"wrong at position 1: .*must be finite. Got inf"),
    (lambda: Space.from_arms([]), ValueError, r"'points' parameter of from_arms must be a finite .* Got \[\]"),
    (lambda: Space.from_arms([[0, np.nan]]), ValueError, r"'points' parameter of from_arms must be a finite"),
    (lambda: Space.from_arms([["a"]]), ValueError, r"'points' parameter of from_arms .* Got \[\['a'\]\]"),
    (lambda: Space.from_arms([[0, 1], [2]]), ValueError, r"'points' parameter of from_arms must be a finite"),
    (lambda: Space.from_arms([[0], [1], [0]]), ValueError, r"'points' parameter of from_arms must be distinct"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG_SPACES)
def test_wrong_spaces_name_the_parameter_and_show_the_value(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_strings_are_not_lists_of_choices():
    with pytest.raises(TypeError, match="Got 'xyz'"):
        Categorical("xyz")


def test_repr_shows_the_parameters():
    assert repr(Space({"a": Int(0, 3)})) == "Space({'a': Int(low=0, high=3, log=False, step=1)})"
    assert repr(Space.from_arms([[0], [1]])).endswith("arms=2)")
