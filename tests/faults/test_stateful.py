"""Any sequence of calls against a model so simple that it cannot be wrong."""

import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from boke import Categorical, Float, Int, Optimizer
from boke.policies import BOKEPlus

EXAMPLES = 2000 if os.environ.get("BOKE_FAULTS") == "all" else 25
MEMORY = "/dev/shm"  # thousands of files: no disk needs to see them
POLICY = BOKEPlus(n_acq=16, n_init=3)
SPACES = {
    "plain": [(0.0, 1.0), (-5.0, 5.0)],
    "mixed": {"a": Float(1e-3, 10, log=True), "n": Int(0, 6), "c": Categorical(["x", None, 2.5])},
    "narrow": [(1.0, 1.0), (0.0, 5e-324)],
    "wide": [(-1e308, 1e308)],
}
VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.none(),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]),
)


class Machine(RuleBasedStateMachine):
    """The model is a list of [params, state, value], in the order of numbers, and the order of arrivals."""

    @initialize(space=st.sampled_from(sorted(SPACES)), seed=st.integers(0, 3), logged=st.booleans())
    def begin(self, space, seed, logged):
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None)
        self.path = Path(self.folder.name) / "log"
        self.space, self.seed, self.logged = SPACES[space], seed, logged
        self.optimizer = self.made()
        self.model, self.arrivals = [], []

    def made(self):
        if self.logged:
            return Optimizer.open(self.path, self.space, policy=POLICY, rng=self.seed, durable=False)
        return Optimizer(self.space, policy=POLICY, rng=self.seed)

    def pending(self):
        return [i for i, (_, state, _) in enumerate(self.model) if state == "pending"]

    def finished(self, number, value):
        failed = value is None or math.isnan(value)
        self.model[number][1:] = ["failed", None] if failed else ["complete", float(value)]
        self.arrivals.append(number)

    @rule(n=st.integers(1, 3))
    def ask(self, n):
        for trial in self.optimizer.ask(n):
            assert trial.number == len(self.model)
            assert trial.x.min() >= 0.0 and trial.x.max() <= 1.0
            self.optimizer.space.to_native(trial.params)  # inside and on the grid, or it raises
            self.model.append([trial.params, "pending", None])

    @precondition(lambda self: self.pending())
    @rule(data=st.data(), value=VALUES)
    def tell(self, data, value):
        number = data.draw(st.sampled_from(self.pending()))
        self.optimizer.tell(self.optimizer.history[number], value)
        self.finished(number, value)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=VALUES)
    def tell_an_old_point_anew(self, data, value):
        params = self.model[data.draw(st.integers(0, len(self.model) - 1))][0]
        self.optimizer.tell(params, value)
        self.model.append([params, "pending", None])
        self.finished(len(self.model) - 1, value)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), values=st.lists(VALUES, min_size=1, max_size=4))
    def tell_many(self, data, values):
        params = self.model[data.draw(st.integers(0, len(self.model) - 1))][0]
        self.optimizer.tell_many([params] * len(values), values)
        for value in values:
            self.model.append([params, "pending", None])
            self.finished(len(self.model) - 1, value)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def register(self, data):
        params = self.model[data.draw(st.integers(0, len(self.model) - 1))][0]
        assert self.optimizer.register(params).number == len(self.model)
        self.model.append([params, "pending", None])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data):
        number = data.draw(st.integers(0, len(self.model) - 1))
        self.optimizer.remove(number)
        self.model[number][1:] = ["removed", None]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=VALUES)
    def wrong_calls_change_nothing(self, data, value):
        done = [i for i in range(len(self.model)) if i not in self.pending()]
        for number in done[:1]:
            with pytest.raises(ValueError, match="was told already"):
                self.optimizer.tell(self.optimizer.history[number], value)
        with pytest.raises(ValueError, match="must be one of"):
            self.optimizer.remove(len(self.model))
        with pytest.raises((ValueError, TypeError), match=r"point|value|list"):
            self.optimizer.tell([9e307] * 7, value)

    @rule()
    def save_and_load(self):
        if self.logged:
            self.optimizer.close()
            self.optimizer = Optimizer.open(self.path, policy=POLICY, durable=False)
        else:
            self.optimizer.save(self.path)
            self.optimizer = Optimizer.load(self.path)

    @precondition(lambda self: self.logged)
    @rule()
    def write_the_whole_anew(self):
        self.optimizer.save(self.path)

    @precondition(lambda self: len(self.arrivals) > 1)
    @rule(seed=st.integers(0, 99))
    def reorder(self, seed):
        """The same trials told in another order give the same next suggestion."""
        history = self.optimizer.history
        other = Optimizer(self.space, policy=POLICY, rng=self.seed)
        for i, row in enumerate(history.native):
            other.history.append(row[None], asked=bool(history.asked_at[i] >= 0))
        told = {i: m for i, m in enumerate(self.model) if m[1] in ("complete", "failed")}
        for i in np.random.default_rng(seed).permutation(sorted(told)).tolist():
            other.history.finish(i, np.array([math.nan if told[i][2] is None else told[i][2]]))
        for i, (_, state, _) in enumerate(self.model):
            if state == "removed":
                other.history.remove(i)
        self.optimizer.save(Path(self.folder.name) / "copy")
        ours = Optimizer.load(Path(self.folder.name) / "copy")
        assert ours.ask().x.tobytes() == other.ask().x.tobytes()

    @invariant()
    def agrees(self):
        if not hasattr(self, "model"):
            return
        history = self.optimizer.history
        assert len(history) == len(self.model)
        for trial, (params, state, value) in zip(history, self.model, strict=True):
            assert repr(trial.params) == repr(params) and trial.state.name.lower() == state
            assert trial.value == value
        order = sorted((at, n) for n, at in enumerate(history.told_at.tolist()) if at >= 0)
        assert [n for _, n in order] == self.arrivals
        values = [v for _, state, v in self.model if state == "complete"]
        if not values:
            with pytest.raises(ValueError, match="There is no best trial yet"):
                _ = self.optimizer.best
        else:
            finite = [v for v in values if math.isfinite(v)]
            assert self.optimizer.best.value == min(finite or values)

    def teardown(self):
        if hasattr(self, "folder"):
            self.optimizer.close()
            self.folder.cleanup()


Machine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
)
TestOptimizer = Machine.TestCase
