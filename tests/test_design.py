import numpy as np
import pytest
from oracles import NAMES
from scipy.spatial.distance import cdist

from boke import quasirandom
from boke.design import DESIGNS, density_exploration, fill_distance, latin_hypercube, middle, p_greedy, sobol, uniform

ALL = [uniform, latin_hypercube, middle, sobol, density_exploration, p_greedy]


@pytest.mark.parametrize("design", ALL)
@pytest.mark.parametrize(("n", "d"), [(0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (7, 2), (10, 4)])
def test_designs_have_their_shape_and_lie_in_the_cube(design, n, d):
    X = design(n, d, rng=0)
    assert X.shape == (n, d)
    assert ((X >= 0) & (X <= 1)).all()
    assert len(np.unique(X, axis=0)) == n


@pytest.mark.parametrize("design", ALL)
def test_seeds_and_generators_repeat_a_design(design):
    first = design(6, 2, rng=3)
    np.testing.assert_array_equal(first, design(6, 2, rng=3))
    np.testing.assert_array_equal(first, design(6, 2, rng=np.random.default_rng(3)))
    assert not np.array_equal(first, design(6, 2, rng=4))
    assert not np.array_equal(design(6, 2), design(6, 2))


@pytest.mark.parametrize("design", ALL)
@pytest.mark.parametrize(
    ("n", "d", "error", "message"),
    [
        (-1, 2, ValueError, r"The 'n' parameter must be at least 0. Got -1."),
        (2.0, 2, TypeError, r"The 'n' parameter must be an integer. Got 2.0."),
        (True, 2, TypeError, r"The 'n' parameter must be an integer. Got True."),
        (2, 0, ValueError, r"The 'd' parameter must be at least 1. Got 0."),
        (2, "2", TypeError, r"The 'd' parameter must be an integer. Got '2'."),
    ],
)
def test_bad_sizes(design, n, d, error, message):
    with pytest.raises(error, match=message):
        design(n, d)


@pytest.mark.parametrize("n", [1, 2, 13, 64])
def test_latin_hypercube_has_one_point_in_every_interval(n):
    X = latin_hypercube(n, 5, rng=1)
    for column in X.T:
        assert sorted((column * n).astype(int)) == list(range(n))


@pytest.mark.parametrize("d", [1, 2, 6])
def test_sobol_is_balanced(d):
    X = sobol(64, d, rng=1)
    for column in X.T:
        assert sorted((column * 64).astype(int)) == list(range(64))


def test_the_designs_of_a_policy():
    assert {"middle": middle, "lhs": latin_hypercube, "sobol": sobol, "uniform": uniform} == DESIGNS


@pytest.mark.parametrize("d", [2, 5])
def test_density_exploration_fills_better_than_latin_hypercubes_and_uniform_points(d):
    h = {f: np.median([fill_distance(f(64, d, rng=s)) for s in range(20)]) for f in (latin_hypercube, uniform)}
    explored = np.median([fill_distance(density_exploration(64, d, rng=s, n_acq=512)) for s in range(20)])
    assert explored < 0.9 * h[latin_hypercube]
    assert explored < 0.9 * h[uniform]


def test_density_exploration_goes_to_the_lowest_density():
    X = density_exploration(12, 1, rng=0, n_acq=4096)
    line = np.linspace(0, 1, 5001)
    for t in range(1, 12):
        W = np.exp(-0.5 * np.square((line[:, None] - X[:t, 0]) / 0.1)).sum(axis=1)
        reached = np.exp(-0.5 * np.square((X[t, 0] - X[:t, 0]) / 0.1)).sum()
        assert np.log(reached) <= np.log(W.min()) + 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_greedy_designs_know_all_kernels(name):
    for design in (density_exploration, p_greedy):
        X = design(20, 2, rng=0, kernel=name, bandwidth=0.3)
        assert len(np.unique(X, axis=0)) == 20
        assert fill_distance(X) < 0.5


def naive_variance(K, cross):
    """1 - kᵀ K⁻¹ k at every candidate."""
    return 1.0 - np.einsum("tn,tn->n", cross, np.linalg.solve(K, cross))


def gaussian(X, Z, ell):
    return np.exp(-0.5 * cdist(X, Z, "sqeuclidean") / ell**2)


@pytest.mark.parametrize("ell", [0.25, 0.35])
@pytest.mark.parametrize("seed", range(3))
def test_p_greedy_is_the_argmax_of_the_gaussian_process_variance(ell, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((1, 2))
    while len(X) < 16:
        C = quasirandom.sobol(256, 2, rng)
        X = np.vstack([X, C[np.argmax(naive_variance(gaussian(X, X, ell), gaussian(X, C, ell)))]])
    np.testing.assert_array_equal(p_greedy(16, 2, rng=seed, bandwidth=ell, n_acq=256), X)


@pytest.mark.parametrize("d", [10, 20, 30, 50])
def test_p_greedy_has_no_ties_where_the_variance_is_all_ones(d):
    rng = np.random.default_rng(0)
    X = rng.random((1, d))
    C = quasirandom.sobol(1024, d, rng)
    assert (naive_variance(np.ones((1, 1)), gaussian(X, C, 0.1)) == 1.0).sum() > 1000  # an argmax by order alone
    farthest = C[np.argmax(cdist(X, C)[0])]  # beside one point the variance grows with the distance
    np.testing.assert_array_equal(p_greedy(2, d, rng=0)[1], farthest)


@pytest.mark.parametrize(("n", "d"), [(200, 1), (150, 2)])
def test_p_greedy_survives_dense_designs(n, d):
    X = p_greedy(n, d, rng=0, n_acq=256)
    assert np.isfinite(X).all()
    assert len(np.unique(X, axis=0)) == n
    assert fill_distance(X) < 0.1
