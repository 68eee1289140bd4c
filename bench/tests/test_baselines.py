"""One contract for every optimizer: an extra that is not installed is skipped with its message."""

from __future__ import annotations

import numpy as np
import pytest

from boke.design import latin_hypercube
from boke_bench.baselines import LABELS, OPTIMIZERS, available, make_optimizer
from boke_bench.baselines.pseudo import expected_improvement
from boke_bench.protocol import Array, Optimizer

SLOW = {"gp-ei", "gp-ucb", "optuna-gp", "hebo", "smac", "glis"}  # tens of milliseconds to seconds for a suggestion
CUBE_CENTRE = 0.37


def usable(names: list[str]) -> list[object]:
    reasons = available()
    return [pytest.param(n, marks=pytest.mark.skipif(reasons[n] is not None, reason=str(reasons[n]))) for n in names]


ALL = usable(list(LABELS))


def quadratic(x: Array) -> float:
    return -float(np.sum((x - CUBE_CENTRE) ** 2))


def start(name: str, dim: int, seed: int = 3, n0: int = 5) -> Optimizer:
    return make_optimizer(name, dim, seed, latin_hypercube(n0, dim, rng=11), 40)


def few(name: str, many: int) -> int:
    """Fewer steps for the slow ones."""
    return max(many // 5, 3) if name in SLOW else many


def run(optimizer: Optimizer, steps: int, fun=quadratic) -> Array:  # type: ignore[no-untyped-def]
    points = []
    for _ in range(steps):
        x = optimizer.ask()
        points.append(x)
        optimizer.tell(x, fun(x))
    return np.array(points)


def test_names_and_labels_agree():
    assert list(LABELS) == list(OPTIMIZERS) == list(available())
    assert len(set(LABELS.values())) == len(LABELS)
    assert all(available()[name] is None for name in ("rs", "kr-ucb", "pseudo-bo", "boke", "boke+", "default"))


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="must be one of"):
        make_optimizer("gradient-descent", 2, 0, np.zeros((1, 2)), 10)


def test_a_design_outside_the_cube_is_refused():
    with pytest.raises(ValueError, match="unit cube"):
        make_optimizer("rs", 2, 0, np.full((3, 2), 1.5), 10)
    with pytest.raises(ValueError, match="unit cube"):
        make_optimizer("rs", 3, 0, np.zeros((3, 2)), 10)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("boke_bench.baselines.find_spec", lambda package: None)
    assert available()["gp-ei"] == "GP-EI needs torch and botorch: pip install 'boke-bench[gp]'"
    with pytest.raises(ImportError, match=r"boke-bench\[gp\]"):
        start("gp-ei", 2)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dim", [1, 2, 20])
def test_starts_with_the_shared_design_and_stays_in_the_cube(name: str, dim: int):
    X0 = latin_hypercube(5, dim, rng=11)
    points = run(make_optimizer(name, dim, 3, X0, 40), 5 + few(name, 15))
    assert np.array_equal(points[:5], X0)
    assert points.shape == (5 + few(name, 15), dim)
    assert points.dtype == np.float64
    assert ((points >= 0.0) & (points <= 1.0)).all()
    assert len(np.unique(points[5:], axis=0)) > 1


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_points(name: str):
    steps = 5 + few(name, 20)
    first, again, other = (run(start(name, 2, seed), steps) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", ALL)
def test_two_at_once_do_not_disturb_each_other_or_the_global_generator(name: str):
    steps = 5 + few(name, 15)
    alone = [run(start(name, 2, seed), steps) for seed in (1, 2)]
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    pair, together = [start(name, 2, seed) for seed in (1, 2)], ([], [])
    for _ in range(steps):
        for optimizer, points in zip(pair, together, strict=True):
            points.extend(run(optimizer, 1))
    assert np.array_equal(together[0], alone[0])
    assert np.array_equal(together[1], alone[1])
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("name", ALL)
def test_lives_with_noise_and_constant_values(name: str):
    noise = np.random.default_rng(0)
    points = run(start(name, 2), 5 + few(name, 15), lambda x: quadratic(x) + 0.3 * noise.standard_normal())
    assert np.isfinite(points).all()
    points = run(start(name, 2), 5 + few(name, 10), lambda x: 1.0)
    assert ((points >= 0.0) & (points <= 1.0)).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("failure", [None, float("nan")])
def test_lives_with_failures(name: str, failure: float | None):
    optimizer = start(name, 2)
    points = run(optimizer, 5 + few(name, 15), lambda x: failure if x[0] > 0.5 else quadratic(x))
    assert ((points >= 0.0) & (points <= 1.0)).all()


@pytest.mark.parametrize("name", ALL)
def test_lives_when_everything_fails(name: str):
    points = run(start(name, 2), 5 + few(name, 10), lambda x: None)
    assert len(np.unique(points, axis=0)) > 5


@pytest.mark.parametrize("name", ALL)
def test_takes_points_it_did_not_ask_for(name: str):
    optimizer, rng = start(name, 2), np.random.default_rng(0)
    for x in rng.random((4, 2)):
        optimizer.tell(x, quadratic(x))
    for _ in range(few(name, 15) + 5):
        x = optimizer.ask()
        optimizer.tell(x, quadratic(x))
        other = rng.random(2)
        optimizer.tell(other, None if other[0] > 0.9 else quadratic(other))
    assert np.isfinite(optimizer.ask()).all()


@pytest.mark.parametrize("name", ALL)
def test_can_be_asked_ahead_and_told_in_any_order(name: str):
    optimizer = start(name, 2)
    for _ in range(few(name, 15) // 3 + 2):
        for x in [optimizer.ask() for _ in range(4)][::-1]:
            optimizer.tell(x, quadratic(x))
    assert np.isfinite(optimizer.ask()).all()


@pytest.mark.parametrize("name", usable([n for n in LABELS if n != "rs"]))
def test_beats_its_own_random_start_on_a_quadratic(name: str):
    steps = 16 if name in SLOW else 60
    values = [quadratic(x) for x in run(start(name, 2, n0=10), 10 + steps)]
    assert max(values[10:]) > max(values[:10])
    assert max(values[10:]) > -1e-2


def test_a_changed_result_does_not_change_what_was_told():
    optimizer = start("rs", 2)
    x = optimizer.ask()
    optimizer.tell(x, 1.0)
    x[:] = 9.0
    assert np.array_equal(optimizer.ask(), latin_hypercube(5, 2, rng=11)[1])


def test_options_reach_the_policy():
    X0 = latin_hypercube(5, 2, rng=11)
    boke = make_optimizer("boke+", 2, 0, X0, 40, c=0.5, bandwidth=0.7, q=0.25, y_scale="standardize")
    policy = boke.optimizer.policy  # type: ignore[attr-defined]
    assert (policy.beta.c, policy.bandwidth.c, policy.q) == (0.5, 0.7, 0.25)
    assert (policy.y_scale, policy.n_init) == ("standardize", 0)
    with pytest.raises(TypeError):
        make_optimizer("boke", 2, 0, X0, 40, wings=2)


def test_expected_improvement_against_monte_carlo():
    draws = np.random.default_rng(0).standard_normal(400_000)
    for mean, sigma, best in ((0.0, 1.0, 0.5), (1.0, 0.3, 0.2), (-1.0, 2.0, 0.0)):
        sampled = np.maximum(mean + sigma * draws - best, 0.0).mean()
        assert expected_improvement(np.array([mean]), np.array([sigma]), best)[0] == pytest.approx(sampled, abs=5e-3)


def test_lfbo_weights_balance_the_classes():
    pytest.importorskip("xgboost")
    from boke_bench.baselines.ratio import BORE, LFBO

    rng = np.random.default_rng(0)
    X, y = rng.random((40, 3)), rng.standard_normal(40)
    threshold = float(np.quantile(y, 0.33))
    points, label, weight = LFBO(X, 0).labelled(X, y, threshold)
    good = int((y < threshold).sum())
    assert points.shape == (40 + good, 3)
    assert label.sum() == good
    assert weight.mean() == pytest.approx(1.0)
    assert weight[label == 1].sum() == pytest.approx(weight[label == 0].sum())
    gain = threshold - y[y < threshold]
    assert np.allclose(weight[label == 1] / weight[0], gain / gain[0])
    points, label, weight = BORE(X, 0).labelled(X, y, threshold)
    assert (points.shape, label.sum(), set(weight)) == ((40, 3), good, {1.0})


@pytest.mark.parametrize("name", usable(["bore", "lfbo", "pseudo-bo"]))
def test_candidates_can_be_placed_near_the_best(name: str):
    X0 = latin_hypercube(10, 4, rng=11)
    optimizer = make_optimizer(name, 4, 0, X0, 40, local=0.75)
    run(optimizer, 10)
    C = optimizer.candidates()  # type: ignore[attr-defined]
    best = X0[np.argsort([-quadratic(x) for x in X0])[:5]]
    nearest = np.abs(C[:, None] - best[None]).max(axis=2).min(axis=1)
    assert C.shape == (1024, 4)
    assert ((C >= 0.0) & (C <= 1.0)).all()
    assert np.median(nearest[:768]) < 0.05 < np.median(nearest[768:])
    assert len(run(optimizer, 3)) == 3


def test_cma_restarts_with_twice_the_population():
    pytest.importorskip("cma")
    optimizer = start("cma", 2)
    sizes = set()
    for _ in range(400):
        x = optimizer.ask()
        optimizer.tell(x, 1.0 if x[0] > 0.5 else 0.0)  # flat: it stops soon
        if optimizer._strategy is not None:  # type: ignore[attr-defined]
            sizes.add(optimizer._strategy.popsize)  # type: ignore[attr-defined]
    assert {6, 12} <= sizes


def test_quick_tpe_asks_for_the_same_points_and_leaves_optuna_alone():
    truncnorm = pytest.importorskip("optuna.samplers._tpe._truncnorm")
    before, X0 = truncnorm._log_ndtr, latin_hypercube(5, 2, rng=11)
    plain, quick = (run(make_optimizer("tpe", 2, 3, X0, 40, quick=flag), 25) for flag in (False, True))
    assert np.allclose(plain, quick, atol=1e-9)
    assert truncnorm._log_ndtr is before


def test_quick_density_of_tpe_is_optunas_to_the_last_bit():
    parts = pytest.importorskip("optuna.samplers._tpe.probability_distributions")
    from boke_bench.baselines.studies import _log_pdf

    rng = np.random.default_rng(0)
    normal = parts._BatchedTruncNormDistributions(rng.random(7), 10.0 ** rng.uniform(-3, 1, 7), 0.0, 1.0)
    mixture = parts._MixtureOfProductDistribution(rng.dirichlet(np.ones(7)), [normal])
    x = np.append(rng.random(50), [0.0, 1.0, 1.5])[:, None]  # the last one is outside
    expected = mixture.log_pdf(x)
    assert np.isneginf(expected[-1])
    assert (_log_pdf(mixture, x) == expected).all()
