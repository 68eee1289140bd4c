"""Models in coordinates of their own: the compiled twin, what is learned, and what is taken over."""

import numpy as np
import pytest

from boke import gp
from boke.compiled import NATIVE
from boke.frame import Frame
from boke.shape import plain_shaped, shaped


def problem(seed, n, d, *, noise=0.0, angle=0.0, width=0.1):
    """Points around an origin, and the values of a valley that runs at an angle through the first two columns."""
    rng = np.random.default_rng(seed)
    origin = rng.random(d)
    points = origin + width * rng.normal(size=(n, d))
    z = (points - origin) / width
    if d > 1:
        c, s = np.cos(angle), np.sin(angle)
        z[:, :2] = z[:, :2] @ np.array([[c, -s], [s, c]])
    y = -np.square(z * 5.0 ** -np.arange(d)).sum(axis=1) + noise * rng.normal(size=n)
    return points, y, origin


CASES = [(1, 0.0, 0.0), (2, 0.0, 0.0), (2, 0.0, 0.6), (3, 0.0, 0.4), (5, 0.3, 0.0), (10, 0.0, 0.0), (30, 0.1, 0.0)]


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
@pytest.mark.parametrize(("d", "noise", "angle"), CASES)
@pytest.mark.parametrize("n", [1, 7, 50])
@pytest.mark.parametrize("width", [0.1, 1e-7])
def test_the_compiled_twin_is_the_definition(d, noise, angle, n, width):
    points, y, origin = problem(d, n, d, noise=noise, angle=angle, width=width)
    turned = Frame(origin, 1.0, np.ones(d), np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0])
    for shape in (None, Frame(origin, 1.0, np.linspace(0.5, 2.0, d)), turned):
        for options in ({"turns": 3}, {}, {"learns": False}):
            model, frame = shaped(points, y, origin, shape=shape, **options)
            plain, expected = plain_shaped(points, y, origin, shape=shape, **options)
            assert model.at == plain.at
            assert frame.radius == pytest.approx(expected.radius, rel=1e-12)
            np.testing.assert_allclose(frame.stretch, expected.stretch, rtol=1e-6)
            assert (frame.turn is None) == (expected.turn is None)
            if frame.turn is not None:
                np.testing.assert_allclose(frame.turn, expected.turn, rtol=1e-5, atol=1e-6)
            for name in ("Z", "Y", "jacobian", "y"):
                np.testing.assert_allclose(getattr(model, name), getattr(plain, name), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(frame.z(points), model.Z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [shaped, plain_shaped])
def test_columns_without_effect_shrink_and_axes_turn_along_a_valley(shape):
    points, y, origin = problem(0, 50, 3)
    _, frame = shape(points, y, origin)
    assert frame.turn is None and frame.stretch[0] > 3.0 * frame.stretch[2]
    points, y, origin = problem(0, 50, 2, angle=0.6)
    assert shape(points, y, origin)[1].turn is None
    _, frame = shape(points, y, origin, turns=3)
    assert frame.turn is not None
    across = frame.turn[:, np.argmax(np.linalg.norm(frame.turn, axis=0))]
    assert abs(across @ [np.cos(0.6), np.sin(0.6)]) > 0.98 * np.linalg.norm(across)


def test_axes_do_not_turn_under_noise():
    points, y, origin = problem(1, 50, 2, angle=0.6, noise=1.0)
    assert shaped(points, y, origin, turns=3)[1].turn is None


def test_another_shape_is_taken_over_as_it_is():
    points, y, origin = problem(2, 40, 2)
    shape = Frame(origin + 1.0, 7.0, np.array([2.0, 0.5]), np.array([[0.6, 0.8], [-0.8, 0.6]]))
    _, frame = shaped(points, y, origin, shape=shape, learns=False)
    np.testing.assert_array_equal(frame.stretch, shape.stretch)
    np.testing.assert_array_equal(frame.turn, shape.turn)
    np.testing.assert_array_equal(frame.origin, origin)
    assert frame.radius != shape.radius


def test_the_last_ones_are_kept():
    points, y, origin = problem(3, 30, 2)
    first, _ = shaped(points, y, origin, turns=3)
    assert shaped(points.copy(), y.copy(), origin.copy(), turns=3)[0] is first
    assert shaped(points, y + 1.0, origin, turns=3)[0] is not first


def test_points_that_are_all_the_same():
    for values in (np.zeros(5), np.arange(5.0)):
        model, frame = shaped(np.full((5, 2), 0.5), values, np.full(2, 0.5), turns=3)
        assert frame.radius == 1.0 and np.isfinite(model.fitted()).all()


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
def test_every_instruction_set_gives_the_same_bits():
    points, y, origin = problem(4, 50, 2, angle=0.3)
    grid = gp.LENGTHS, gp.TRENDS, gp.NOISES, gp.START, [1.0, np.inf], [5.0, 0.0]
    rule = [gp.SPREAD, gp.MOST, gp.SLIGHT, gp.WORTH, gp.TURN_WORTH, 1e-5]
    found = []
    for name in NATIVE.instruction_sets():
        model, *frame = NATIVE.shaped(points, y, origin, None, None, *grid, rule, gp.STRETCHES, 3, True, name)
        found.append((*frame, model.Z, model.fitted(), model.hyperparameters))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(NATIVE is None, reason="nothing is compiled here")
def test_shapes_that_do_not_agree_are_refused():
    points, y, origin = problem(5, 10, 2)
    grid = gp.LENGTHS, gp.TRENDS, gp.NOISES, gp.START, [np.inf], [0.0]
    rule = [gp.SPREAD, gp.MOST, gp.SLIGHT, gp.WORTH, gp.TURN_WORTH, 1e-5]
    for observed in ((points, y[:-1], origin), (points, y, origin[:1]), (points[:0], y[:0], origin)):
        with pytest.raises(ValueError, match="agree"):
            NATIVE.shaped(*observed, None, None, *grid, rule, 6, 0, True)
    with pytest.raises(ValueError, match="agree"):
        NATIVE.shaped(points, y, origin, np.ones(3), None, *grid, rule, 6, 0, True)
    with pytest.raises(ValueError, match="agree"):
        NATIVE.shaped(points, y, origin, np.ones(2), np.eye(3), *grid, rule, 6, 0, True)
