"""Optimizer: ask, tell, recommend, explain, save, load. Here, and only here, the sign of the objective flips."""

from __future__ import annotations

import math
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from boke import state as statefile
from boke import stopping
from boke.history import STATES, History, Memory, State, Trial, as_value
from boke.journal import Journal, Record, uninterrupted
from boke.policies import BOKELocal, Key, Policy, by_share
from boke.posterior import PosteriorMean
from boke.recommend import EmpiricalBestArm, Rule
from boke.space import Array, Space

Rng = int | np.random.Generator | np.random.SeedSequence | None


@dataclass(frozen=True)
class Recommendation:
    """The best estimated point.

    Attributes:
        params: The point as the user sees it.
        x: The point in the unit cube (d,).
        value: The estimated mean, in the user's orientation.
        support: How many observations stand behind the estimate.
        trials: (trial number, share in the estimate), largest first.
        interval: (low, high), which contains the true mean in 9 of 10 cases; None where too little is known, or where
            the rule gives none.
    """

    params: dict[str, Any]
    x: Array
    value: float
    support: float
    trials: list[tuple[int, float]]
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Explanation:
    """Why a trial was suggested.

    Attributes:
        branch: "initial", "explore", "exploit", "local", "density", "repeat" or "widen".
        mean: What the model expected there, on the policy's scale of y (larger is better).
        exploration: The exploration term β_t σ̂ that was added to it.
        density: W at the point: how much was known around it.
        trials: (trial number, share in the mean), largest first: the past trials that argued for it.
    """

    branch: str
    mean: float
    exploration: float
    density: float
    trials: list[tuple[int, float]]

    def __str__(self) -> str:
        terms = f"mean {self.mean:+.3g}, exploration {self.exploration:+.3g}, density {self.density:.3g}"
        return "\n".join([f"{self.branch}: {terms}", *(f"  trial {n}: {share:.1%}" for n, share in self.trials[:5])])


class Optimizer:
    """Suggests points and learns from their values.

    Args:
        space: {name: Float | Int | Categorical}, [(low, high), ...], scipy Bounds or a Space.
        direction: "minimize" or "maximize".
        policy: What chooses the next point; None is the best measured one.
        rng: Seed of all randomness; None draws one.
        window: For objectives that drift: only the last so many trials count.
        half_life: Likewise, but trials are forgotten one by one, half of them within so many trials.

    The suggestion depends on the set of trials, the seed and the next trial's number, and on nothing else.
    """

    def __init__(
        self,
        space: Any,
        *,
        direction: Literal["minimize", "maximize"] = "minimize",
        policy: Policy | None = None,
        rng: Rng = None,
        window: int | None = None,
        half_life: float | None = None,
    ) -> None:
        if direction not in ("minimize", "maximize"):
            raise ValueError(f"The 'direction' parameter must be 'minimize' or 'maximize'. Got {direction!r}.")
        if policy is not None and not callable(getattr(policy, "suggest", None)):
            raise TypeError(f"The 'policy' parameter must be a policy, such as BOKELocal(). Got {policy!r}.")
        memory = None if window is None and half_life is None else Memory(window, half_life)
        self.space = Space.of(space)
        self.direction = direction
        self.policy: Policy = BOKELocal() if policy is None else policy
        self.seed = _seed(rng)
        self.history = History(self.space, memory)
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._log: Journal | None = None
        self._durable = False
        self._lock = threading.RLock()
        _optimizers.add(self)

    def __repr__(self) -> str:
        return f"Optimizer({self.space}, direction={self.direction!r}, trials={len(self.history)})"

    @overload
    def ask(self) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...

    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """Suggest the next point, or the next n; each counts as pending until it is told."""
        if n is not None:
            if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
                raise ValueError(f"The 'n' parameter of ask must be a positive integer. Got {n!r}.")
            return [self.ask() for _ in range(n)]
        with self._lock:
            number = len(self.history)
            # nothing may hold on to the data: they would have to be copied before the history changes
            data = self.history.data(self._sign, discourage=True)
            native = self.space.decode(self.policy.suggest(data, self.space, Key(self.seed, number)).x[None])
            del data
            with self._step(lambda: [{"ask": native[0].tolist()}]):
                self.history.append(native, asked=True)
            return self.history[number]

    def register(self, params: Any) -> Trial:
        """Announce a point of your own that is being evaluated: pending until it is told."""
        native = self.space.to_native(params)
        with self._lock:
            with self._step(lambda: [{"register": native.tolist()}]):
                number = self.history.append(native[None], asked=False)
            return self.history[number]

    def tell(self, trial: Trial | Any, value: Any, *, reason: str | None = None) -> Trial:
        """Record a value: for a trial that was asked, or for any point of the space.

        None and nan mean that the evaluation failed; ``reason`` may say why. Infinite values are kept.
        """
        result = as_value(value)
        values = np.array([math.nan if result is None else result])
        with self._lock:
            number = self._pending_number(trial) if isinstance(trial, Trial) else None
            native = self.space.to_native(trial) if number is None else None

            def record() -> Iterator[Record]:
                said = {"tell": number} if native is None else {"point": native.tolist()}
                told = {} if result is None else {"value": statefile.dump_values(values)[0]}
                yield {**said, **told, **({} if reason is None else {"reason": str(reason)})}

            with self._step(record, told=True):
                if native is not None:
                    number = self.history.append(native[None], asked=False)
                assert number is not None
                self.history.finish(number, values, None if reason is None else str(reason))
            return self.history[number]

    def tell_many(self, params: Any, values: ArrayLike) -> None:
        """Record many evaluated points at once.

        Args:
            params: An array (n, d) in the order of the space's parameters (categories by value need dicts), or a
                list of points as for tell.
            values: Their values (n,); nan is a failure.
        """
        told = self._values(values)
        native = self._natives(params)
        if len(native) != len(told):
            raise ValueError(
                f"The 'values' parameter must hold a value for each of {len(native)} points. Got {len(told)}."
            )
        with self._lock, self._step(lambda: statefile.points(native, told), told=True):
            first = self.history.append(native, asked=False)
            self.history.finish(first, told)

    def remove(self, trial: Trial | int) -> None:
        """Forget a trial: it leaves every sum, exactly as if it had never been told. Its number stays used."""
        with self._lock:
            number = self._number(trial)
            with self._step(lambda: [{"remove": number}], told=True):
                self.history.remove(number)

    @property
    def best(self) -> Trial:
        """The trial with the best value observed, a finite one if there is any."""
        with self._lock:
            values = self._sign * self.history.values
        told = np.flatnonzero(np.isfinite(values))
        told = told if len(told) else np.flatnonzero(~np.isnan(values))
        if len(told) == 0:
            raise ValueError(f"There is no best trial yet: none of the {len(values)} trials has a value.")
        return self.history[int(told[np.argmax(values[told])])]

    def stop(
        self, *, budget: float | None = None, target: float | None = None, gain: float | None = None
    ) -> dict[str, float]:
        """Reasons to stop, empty while there are none. Nothing ends by it: what to do with them is up to you.

        Args:
            budget: Number of evaluations that are enough.
            target: Value that is good enough.
            gain: Improvement, in units of the objective, that would not be worth another trial.

        Returns:
            {reason: what has been reached}. "budget": evaluations; "target": the best value; "gain": the improvement
            that the local model expects of its next step, from 20 observations on; "space": the number of points
            of a finite space, all of which have been tried.
        """
        with self._lock:
            return stopping.reasons(self.history, self._sign, budget, target, gain)

    def recommend(self, rule: Rule | None = None) -> Recommendation:
        """The best estimated point: where the estimated mean is best, not where the luckiest value was.

        Args:
            rule: None is PosteriorMean() or, over a finite set with fewer arms than observations, EmpiricalBestArm().
        """
        with self._lock:
            data = self.history.data(self._sign)
            if rule is None:
                few = self.space.arms is not None and len(self.space.arms) <= len(data)
                rule = EmpiricalBestArm() if few else PosteriorMean()
            estimate = rule.recommend(data, self.space)
            native = self.space.decode(estimate.x[None])
            ends = None if estimate.interval is None else sorted(self._sign * end for end in estimate.interval)
            return Recommendation(
                self.space.to_params(native[0]),
                self.space.encode(native)[0],
                self._sign * estimate.value,
                estimate.support,
                by_share(data.numbers, estimate.shares),
                None if ends is None else (ends[0], ends[1]),
            )

    def explain(self, trial: Trial | int) -> Explanation:
        """Which past trials argued for a suggestion, and how much of it was exploration.

        The suggestion is a pure function, so it is made again from what was known when the trial was asked.
        """
        with self._lock:
            number = self._number(trial)
            if self.history.asked_at[number] < 0:
                raise ValueError(f"Trial {number} was told without having been asked: there is nothing to explain.")
            data = self.history.data(self._sign, before=number, discourage=True)
            suggestion = self.policy.suggest(data, self.space, Key(self.seed, number))
            model = suggestion.model
            if model is None:
                return Explanation(suggestion.branch, 0.0, 0.0, 0.0, [])
            x = self.history.x[number][None]
            mean, density, _, *_ = model.predict(x)
            bonus = suggestion.beta * (density[0] + suggestion.rho) ** -0.5 if suggestion.beta else 0.0
            trials = suggestion.shares(data, x)
            return Explanation(suggestion.branch, float(mean[0]), float(bonus), float(density[0]), trials)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state as text, atomically: the file is the old one or the new one, never between."""
        with self._lock:
            if self._log is not None and os.path.realpath(path) == self._log.path:
                self._compact()
            else:
                statefile.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Policy | None = None) -> Optimizer:
        """Read a state written by ``save``. A policy of your own has to be passed in again."""
        return statefile.load(cls, path, policy)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        space: Any = None,
        *,
        direction: Literal["minimize", "maximize"] | None = None,
        policy: Policy | None = None,
        rng: Rng = None,
        window: int | None = None,
        half_life: float | None = None,
        durable: bool = True,
    ) -> Optimizer:
        """An optimizer that keeps itself in a file: every ask, tell and removal is there before it returns.

        Where there is a file already, written by this method or by ``save``, the optimizer goes on from it; what is
        given besides has to agree with it. Otherwise a new one is made. One optimizer at a time may have the file
        open; a process that was killed leaves nothing behind that would be in the way. ``close`` it, or use it as a
        context manager.

        Args:
            path: The log: text, to which a line is appended at every step, and which is written anew now and then.
            space: See the class; None where the file is there.
            direction: See the class.
            policy: See the class; a policy of your own has to be passed in again.
            rng: See the class.
            window: See the class.
            half_life: See the class.
            durable: Whether a result is on the disk (fsync) when ``tell`` returns, so that it survives a power cut and
                not only the death of the process.
        """
        given: dict[str, Any] = {} if direction is None else {"direction": direction}
        given |= {"rng": rng, "window": window, "half_life": half_life}
        optimizer, log = statefile.open_log(cls, path, space, policy, **given)
        optimizer._log, optimizer._durable = log, bool(durable)
        return optimizer

    def close(self) -> None:
        """Close the log, if there is one. What is known can still be read; the next step would be an error."""
        with self._lock:
            if self._log is not None:
                self._log.close()

    def __enter__(self) -> Optimizer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self, records: Callable[[], Iterable[Record]], *, told: bool = False) -> AbstractContextManager[None]:
        """One change of the history: first in the log, if there is one, then here."""
        return nullcontext() if self._log is None else self._logged(self._log, records(), told)

    @contextmanager
    def _logged(self, log: Journal, records: Iterable[Record], told: bool) -> Iterator[None]:
        """Ctrl-C waits until both are done."""
        with uninterrupted():
            log.append(records, sync=told and self._durable)
            yield
        if log.long:
            try:
                self._compact()
            except OSError as error:  # the step itself is in the log: no reason to fail it
                warnings.warn(f"The log {log.path!r} could not be written anew: {error}", stacklevel=4)

    def _compact(self) -> None:
        assert self._log is not None
        with uninterrupted():
            self._log.replace(statefile.snapshot(self))

    def _number(self, trial: Trial | int) -> int:
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.history):
            raise ValueError(f"The 'trial' parameter must be one of the {len(self.history)} trials. Got {number!r}.")
        return number

    def _pending_number(self, trial: Trial) -> int:
        number = trial.number
        if not 0 <= number < len(self.history) or self.history.x[number].tolist() != np.asarray(trial.x).tolist():
            raise ValueError(f"Trial {number} is not one of this optimizer's trials.")
        known = STATES[self.history.states[number]]
        if known is not State.PENDING:
            raise ValueError(f"Trial {number} was told already: it is {known.name.lower()}.")
        return number

    @staticmethod
    def _values(values: ArrayLike) -> Array:
        if isinstance(values, list | tuple):
            values = [math.nan if v is None else v for v in values]
        told = np.asarray(values)
        if told.dtype.kind not in "fiub":
            raise TypeError("The 'values' parameter must hold real numbers or None.")
        if told.ndim != 1:
            raise ValueError(f"The 'values' parameter must have one dimension. Got shape {told.shape}.")
        return told.astype(float)

    def _natives(self, params: Any) -> Array:
        if isinstance(params, np.ndarray) and params.dtype.kind in "fiu" and not self.space.mixed:
            return self.space.check_native(params)
        return np.array([self.space.to_native(point) for point in params]).reshape(-1, self.space.dim)


_optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()


def _renew_locks() -> None:
    for optimizer in _optimizers:
        optimizer._lock = threading.RLock()  # another thread may have held it when this process was forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def _seed(rng: Rng) -> int:
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint64)[0])
    if rng is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        return entropy
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise ValueError(f"The 'rng' parameter must be None, an integer >= 0 or a numpy Generator. Got {rng!r}.")
    return int(rng)
