"""minimize and maximize: results, workers, callbacks, failures, interrupts."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.optimize import Bounds, OptimizeResult

import boke
from boke.policies import BOKEPlus

SQUARE = [(0.0, 1.0), (0.0, 1.0)]
QUICK = BOKEPlus(n_acq=64)


def bowl(x):
    return float(np.square(np.asarray(x) - 0.3).sum())


def fragile(x):
    if x[0] > 0.6:
        raise RuntimeError("too hot")
    return bowl(x)


def deadly(x):
    if x[0] > 0.8:
        os.kill(os.getpid(), signal.SIGKILL)
    return bowl(x)


def test_result_has_what_scipy_users_expect():
    result = boke.minimize(bowl, SQUARE, n_trials=60, rng=0)
    assert isinstance(result, OptimizeResult)
    assert result.success and result.status == 0 and result.nfev == result.nit == 60
    assert result.x.shape == (2,) and result.fun == bowl(result.x) == result.func_vals.min() < 1e-3
    assert result.x_iters.shape == (60, 2) and result.func_vals.shape == (60,)
    assert result.message == "The budget of trials is used up."
    assert bowl(list(result.recommendation.params.values())) < 0.01 and result.recommendation.support > 0
    np.testing.assert_array_equal([bowl(x) for x in result.x_iters], result.func_vals)


def test_maximize_mirrors_minimize():
    low = boke.minimize(bowl, SQUARE, n_trials=40, rng=1)
    high = boke.maximize(lambda x: -bowl(x), SQUARE, n_trials=40, rng=1)
    np.testing.assert_array_equal(low.x_iters, high.x_iters)
    assert high.fun == -low.fun and high.func_vals.max() == high.fun


def test_scipy_bounds_lists_and_named_spaces():
    a = boke.minimize(bowl, SQUARE, n_trials=12, rng=0)
    b = boke.minimize(bowl, Bounds([0, 0], [1, 1]), n_trials=12, rng=0)
    np.testing.assert_array_equal(a.x_iters, b.x_iters)
    space = {"x": boke.Float(0, 1), "n": boke.Int(1, 5), "c": boke.Categorical(["a", "b"])}
    c = boke.minimize(lambda p: p["x"] + p["n"] + (p["c"] == "a"), space, n_trials=30, rng=0)
    assert set(c.x) == set(space) and isinstance(c.x_iters[0], dict) and c.x["n"] == 1 and c.x["c"] == "b"
    mixed = boke.minimize(lambda x: x[0] + len(x[1]), [(0, 1), boke.Categorical(["a", "bb"])], n_trials=12, rng=0)
    assert mixed.x[1] == "a"


def test_x0_is_evaluated_first():
    one = boke.minimize(bowl, SQUARE, n_trials=8, x0=[0.3, 0.3], rng=0)
    assert one.fun == 0.0 and one.x_iters[0].tolist() == [0.3, 0.3]
    two = boke.minimize(bowl, SQUARE, n_trials=8, x0=[[0.1, 0.2], [0.3, 0.4]], rng=0)
    assert two.x_iters[:2].tolist() == [[0.1, 0.2], [0.3, 0.4]] and two.nfev == 8
    named = boke.minimize(lambda p: p["a"], {"a": boke.Int(0, 9)}, n_trials=3, x0={"a": 7}, rng=0)
    assert named.x_iters[0] == {"a": 7}
    short = boke.minimize(bowl, SQUARE, n_trials=1, x0=[[0.1, 0.2], [0.3, 0.4]], rng=0)
    assert short.nfev == 1


@pytest.mark.parametrize("workers", [2, -1, map, "threads"], ids=["2", "-1", "map", "threads"])
def test_workers(workers):
    with ThreadPoolExecutor(3) as pool:
        result = boke.minimize(
            bowl, SQUARE, n_trials=30, rng=0, policy=QUICK, workers=pool if workers == "threads" else workers
        )
    assert result.nfev == 30 and result.fun < 0.05 and np.isfinite(result.func_vals).all()
    assert len(np.unique(result.x_iters, axis=0)) == 30


def test_asynchronous_workers_are_kept_busy():
    meeting, calls = threading.Barrier(8, timeout=60), iter(range(1000))

    def together(x):
        if next(calls) < 16:
            meeting.wait()  # breaks, and the trial fails, unless eight are under way at once
        return bowl(x)

    with ThreadPoolExecutor(8) as pool:
        result = boke.minimize(together, SQUARE, n_trials=20, rng=0, policy=QUICK, workers=pool)
    assert np.isfinite(result.func_vals).all()


def test_a_worker_that_dies_costs_a_few_trials_only():
    result = boke.minimize(deadly, SQUARE, n_trials=25, rng=0, policy=QUICK, workers=2)
    assert result.nfev == 25 and result.success and result.fun < 0.3
    assert "ChildProcessError: the process died: SIGKILL" in result.message


def hangs(x):
    if x[0] > 0.5:
        subprocess.run(["sleep", "600"], check=False)
    return bowl(x)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_evaluation_that_takes_too_long_is_killed_and_fails(workers):
    result = boke.minimize(hangs, SQUARE, n_trials=8, rng=0, policy=QUICK, workers=workers, timeout=0.5)
    failed = np.isnan(result.func_vals)
    assert (result.x_iters[failed, 0] > 0.5).all() and (result.x_iters[~failed, 0] <= 0.5).all()
    assert failed.any() and "TimeoutError: it ran for more than 0.5 s" in result.message
    assert {t.reason for t in result.optimizer.history if t.value is None} == {
        "TimeoutError: it ran for more than 0.5 s"
    }


@pytest.mark.parametrize("timeout", [0, -1, True, "1", math.nan])
def test_a_wrong_timeout_is_named(timeout):
    with pytest.raises(ValueError, match="'timeout' parameter must be a positive number"):
        boke.minimize(bowl, SQUARE, timeout=timeout)


def test_a_timeout_needs_processes_of_its_own():
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="'timeout' parameter needs a number of"):
        boke.minimize(bowl, SQUARE, timeout=1.0, workers=pool)
    with pytest.raises(TypeError, match="must be picklable for a timeout"):
        boke.minimize(lambda x: 0.0, SQUARE, timeout=1.0)


def unpicklable(x):
    return (value for value in x)


def test_a_value_that_cannot_travel_is_a_failure():
    result = boke.minimize(unpicklable, SQUARE, n_trials=3, rng=0, policy=QUICK, workers=2)
    assert "cannot be sent back" in result.message and np.isnan(result.func_vals).all()


def test_functions_that_cannot_travel_get_advice():
    with pytest.raises(TypeError, match="must be picklable for workers=2: define it at the top level"):
        boke.minimize(lambda x: 0.0, SQUARE, n_trials=5, workers=2)


@pytest.mark.parametrize("workers", [1, 2, map], ids=["serial", "pool", "map"])
def test_exceptions_are_failed_trials_and_the_run_goes_on(workers):
    result = boke.minimize(fragile, SQUARE, n_trials=30, rng=0, policy=QUICK, workers=workers)
    failed = np.isnan(result.func_vals)
    assert result.nfev == 30 and 0 < failed.sum() < 30 and result.success
    assert (result.x_iters[failed, 0] > 0.6).all()
    assert f"{failed.sum()} of 30 evaluations failed; the last one: RuntimeError: too hot" in result.message


@pytest.mark.parametrize("workers", [1, 2, map], ids=["serial", "pool", "map"])
def test_raise_on_error(workers):
    with pytest.raises(RuntimeError, match="too hot"):
        boke.minimize(fragile, SQUARE, n_trials=60, rng=0, policy=QUICK, workers=workers, raise_on_error=True)


@pytest.mark.parametrize(
    "returned",
    [None, math.nan, "1.5", 1 + 2j, [1.0], [1.0, 2.0], {"a": 1}, np.array([1.0, 2.0]), int],
    ids=repr,
)
def test_what_is_not_a_number_is_a_failure(returned):
    result = boke.minimize(lambda x: returned, SQUARE, n_trials=8, rng=0, policy=QUICK)
    assert not result.success and result.status == 3 and result.x is None and math.isnan(result.fun)
    assert result.message.startswith("No evaluation succeeded. 8 of 8 evaluations failed")
    assert result.recommendation is None and np.isnan(result.func_vals).all()


@pytest.mark.parametrize("returned", [np.float32(1.5), np.array(1.5), np.array([1.5]), True, 3, np.int64(2)], ids=repr)
def test_numbers_of_all_kinds_are_accepted(returned):
    assert boke.minimize(lambda x: returned, SQUARE, n_trials=3, rng=0).fun == float(np.asarray(returned).item())


@pytest.mark.parametrize("odd", [math.inf, -math.inf, 1e308, -1e308, 5e-324, None, math.nan])
@pytest.mark.parametrize("every", [1, 3])
def test_odd_values_do_no_harm(odd, every):
    calls = iter(range(1000))
    result = boke.minimize(lambda x: odd if next(calls) % every == 0 else bowl(x), SQUARE, n_trials=30, rng=0)
    X = result.x_iters
    assert np.isfinite(X).all() and X.min() >= 0 and X.max() <= 1 and len(np.unique(X, axis=0)) >= 27
    if every == 3:
        assert math.isfinite(result.fun)


def test_system_exit_in_the_objective_is_a_failure():
    def leaves(x):
        sys.exit("bye")

    result = boke.minimize(leaves, SQUARE, n_trials=4, rng=0)
    assert "SystemExit: bye" in result.message


def test_callback_sees_progress_and_can_stop():
    seen = []

    def stop_at_ten(intermediate_result):
        seen.append(intermediate_result)
        return intermediate_result.nfev >= 10

    result = boke.minimize(bowl, SQUARE, n_trials=50, rng=0, callback=stop_at_ten)
    assert result.nfev == 10 and result.status == 1 and result.message == "The callback stopped the run."
    assert [r.trial.number for r in seen] == list(range(10))
    assert [r.fun for r in seen] == np.minimum.accumulate(result.func_vals).tolist()

    def stop(_):
        raise StopIteration

    assert boke.minimize(bowl, SQUARE, n_trials=50, rng=0, callback=stop).nfev == 1
    assert boke.minimize(bowl, SQUARE, n_trials=5, rng=0, callback=lambda r: 1).nfev == 5  # only True stops
    failing = boke.minimize(lambda x: None, SQUARE, n_trials=3, rng=0, callback=lambda r: r.x is None and r.nfev == 2)
    assert failing.nfev == 2


def test_errors_in_a_callback_are_not_swallowed():
    def broken(_):
        raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError, match="oops"):
        boke.minimize(bowl, SQUARE, n_trials=5, rng=0, callback=broken)


def test_keyboard_interrupt_returns_what_is_known():
    calls = iter(range(100))

    def interrupted(x):
        if next(calls) == 12:
            raise KeyboardInterrupt
        return bowl(x)

    result = boke.minimize(interrupted, SQUARE, n_trials=50, rng=0)
    assert result.nfev == 12 and result.status == 2 and not result.success
    assert result.message.startswith("The run was interrupted") and result.fun == result.func_vals.min()
    assert not [t for t in result.optimizer.history if t.state is boke.State.PENDING]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_real_ctrl_c_ends_with_the_result(tmp_path, workers):
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, signal, time, boke
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
            def slow(x):
                time.sleep(0.05)
                return x[0]
            def tick(intermediate_result):
                os.write(1, b"tick\\n")  # a print may be interrupted before the end of its line
            if __name__ == "__main__":
                r = boke.minimize(slow, [(0, 1)] * 2, n_trials=100000, rng=0, workers={workers}, callback=tick)
                print(r.status, r.nfev > 0, r.fun == min(r.func_vals), flush=True)
            """
        )
    )
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for _ in range(5):
                assert process.stdout.readline() == "tick\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert out.splitlines()[-1] == "2 True True", err
    assert process.returncode == 0 and "Traceback" not in err


def test_progress_bar_counts_and_shows_the_best(capsys):
    boke.minimize(bowl, SQUARE, n_trials=7, rng=0, progress=True)
    assert "7/7" in (shown := capsys.readouterr().err) and "best" in shown
    boke.minimize(bowl, SQUARE, n_trials=3, rng=0)
    assert capsys.readouterr().err == ""


def test_progress_without_tqdm_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.warns(UserWarning, match=r"pip install 'bokeopt\[progress\]'"):
        boke.minimize(bowl, SQUARE, n_trials=2, rng=0, progress=True)


def test_nothing_is_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="raise", under="ignore"):
            boke.minimize(lambda x: math.inf if x[0] > 0.7 else bowl(x), SQUARE, n_trials=40, rng=0)


def test_global_random_state_is_left_alone():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    boke.minimize(bowl, SQUARE, n_trials=15)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_a_second_interrupt_while_tidying_up_does_not_cost_the_result(tmp_path, monkeypatch):
    remove, calls = boke.Optimizer.remove, []

    def removing(self, trial):
        signal.raise_signal(signal.SIGINT)
        remove(self, trial)

    def loss(x):
        calls.append(x)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGINT)
        return float(x[0] ** 2)

    monkeypatch.setattr(boke.Optimizer, "remove", removing)
    result = boke.minimize(loss, [(-1, 1)], n_trials=20, rng=0, log=tmp_path / "run.jsonl")
    assert result.nfev == 4
    assert "nterrupt" in result.message
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert boke.minimize(lambda x: 1.0, [(-1, 1)], n_trials=6, rng=0, log=tmp_path / "run.jsonl").nfev == 6
