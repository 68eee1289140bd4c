"""A Ray Tune search algorithm: ``tune.TuneConfig(search_alg=BOKESearch(seed=0))``."""

from __future__ import annotations

import copy
import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    from ray.tune.result import DEFAULT_METRIC
    from ray.tune.search import Searcher
    from ray.tune.search.variant_generator import parse_spec_vars
    from ray.tune.utils.util import flatten_dict, unflatten_dict
except ImportError as error:
    raise ImportError("boke.integrations.ray needs Ray Tune: pip install 'bokeopt[ray]'") from error

from boke.history import State, as_value
from boke.integrations._domains import column, dump_columns, load_columns, native, parameter
from boke.optimizer import Optimizer
from boke.policies import Policy
from boke.space import Categorical, Space

FORMAT, VERSION = "boke-ray", 1
log = logging.getLogger(__name__)


class BOKESearch(Searcher):
    """Search by kernel regression and density-based exploration.

    Trials that are running count as density without a value, so any number may run at once. The state is text and is
    read without unpickling anything.

    Args:
        space: Parameters, nested as you like: Tune's domains or boke's Float, Int and Categorical. None takes the
            Tuner's ``param_space``.
        metric: The reported value to optimize; None takes that of the TuneConfig.
        mode: "min" or "max"; None takes that of the TuneConfig.
        points_to_evaluate: Points to try first, nested like the space.
        evaluated_rewards: Values of those points, if they are known: then they are not run.
        policy: What chooses the next point; None is the best measured one.
        seed: Seed of all randomness; None draws one.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float | None] | None = None,
        policy: Policy | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(metric, list) or isinstance(mode, list):
            raise ValueError(
                "The 'metric' parameter of BOKESearch must be one metric. For several objectives use "
                f"OptunaSearch(sampler=boke.integrations.optuna.BOKESampler()). Got {metric!r}."
            )
        if mode not in (None, "min", "max"):
            raise ValueError(f"The 'mode' parameter of BOKESearch must be 'min' or 'max'. Got {mode!r}.")
        super().__init__(metric=metric, mode=mode)
        self._metric: str | None = metric
        self._mode: str | None = mode
        self._points = [dict(point) for point in points_to_evaluate or []]
        self._rewards = None if evaluated_rewards is None else list(evaluated_rewards)
        if self._rewards is not None and len(self._rewards) != len(self._points):
            raise ValueError(
                f"The 'evaluated_rewards' parameter of BOKESearch must have a value for each of "
                f"{len(self._points)} points. Got {len(self._rewards)}."
            )
        self._policy, self._seed = policy, seed
        self._columns: dict[str, Any] = {}
        self._live: dict[str, int] = {}
        self._optimizer: Optimizer | None = None
        if space is not None:
            self._columns = _columns(space)
            self._set_up()

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        if self._columns:
            if config and any(parse_spec_vars(config)[1:]):
                return False  # a second space would be ignored without a word
        else:
            self._columns = _columns(config)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._optimizer is None:
            self._set_up()
        return True

    def _set_up(self) -> None:
        if not self._columns or self._mode is None:
            return
        self._metric = self._metric or DEFAULT_METRIC
        space = Space({name: parameter(found) for name, found in self._columns.items()})
        direction: Any = "minimize" if self._mode == "min" else "maximize"
        self._optimizer = Optimizer(space, direction=direction, policy=self._policy, rng=self._seed)
        known, self._rewards = self._rewards, None
        if known is not None:
            for point, reward in zip(self._points, known, strict=True):
                self.add_evaluated_point(point, reward)
            self._points = []
        else:
            for point in self._points:
                space.to_native(self._indexed(point))  # a wrong one is found now, not after an expensive trial

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer behind the search."""
        if self._optimizer is None:
            raise RuntimeError(
                "BOKESearch has no space, metric or mode yet. Give them to it, or to the Tuner as param_space and "
                "TuneConfig(metric=..., mode=...)."
            )
        return self._optimizer

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        optimizer = self.optimizer
        if trial_id not in self._live:
            point = self._points.pop(0) if self._points else None
            trial = optimizer.ask() if point is None else optimizer.register(self._indexed(point))
            self._live[trial_id] = trial.number
        return self._config(optimizer.history[self._live[trial_id]].params)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        number = self._live.pop(trial_id, None)
        if number is None:
            log.warning("BOKESearch knows no running trial %s; its result is left out.", trial_id)
            return
        trial = self.optimizer.history[number]
        value = None
        if result and not error:
            value = flatten_dict(result).get(str(self._metric), result.get(str(self._metric)))
        try:
            value = as_value(value)
        except TypeError:
            log.warning(
                "Trial %s reported %s=%r, which is not a number: it counts as failed.", trial_id, self._metric, value
            )
            value = None
        self.optimizer.tell(trial, value, reason="error" if error else None)

    def add_evaluated_point(
        self,
        parameters: Mapping[str, Any],
        value: float | None,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Sequence[float] | None = None,
    ) -> None:
        self.optimizer.tell(self._indexed(parameters), None if error else value)

    def _indexed(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A user's point with categories by index."""
        flat = flatten_dict(dict(point), prevent_delimiter=True)
        return {
            name: native(found, flat.get(name, _nested(point, name)), name) for name, found in self._columns.items()
        }

    def _config(self, params: Mapping[str, Any]) -> dict[str, Any]:
        values = {
            name: copy.deepcopy(found.choices[params[name]]) if isinstance(found, Categorical) else params[name]
            for name, found in self._columns.items()
        }
        return dict(unflatten_dict(values))

    # state

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_text(self._dump(), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        try:
            text = Path(checkpoint_path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{checkpoint_path!r} is not a state of BOKESearch: it is not text.") from None
        self._load(text, checkpoint_path)

    def _dump(self) -> str:
        state = {"format": FORMAT, "version": VERSION, "live": self._live, "left": len(self._points)}
        state |= {"metric": self._metric, "mode": self._mode, "columns": dump_columns(self._columns)}
        if self._optimizer is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "state")
                self._optimizer.save(path)
                state["optimizer"] = Path(path).read_text(encoding="utf-8")
        return json.dumps(state)

    def _load(self, text: str, where: str) -> None:
        try:
            state = json.loads(text)
            if state["format"] != FORMAT or state["version"] > VERSION:
                raise ValueError(f"it is {state['format']} version {state['version']}")
            live = {str(trial_id): int(number) for trial_id, number in state["live"].items()}
            left, text, columns = int(state["left"]), state.get("optimizer"), state["columns"]
            metric, mode = state["metric"], state["mode"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{where!r} is not a state of BOKESearch (version {VERSION}): {error}") from None
        if text is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "state")
            path.write_text(text, encoding="utf-8")
            found = Optimizer.load(path, policy=self._policy)
        if self._optimizer is not None and found.space != self._optimizer.space:
            raise ValueError(f"{where!r} belongs to another space: {found.space}. This one is {self._optimizer.space}.")
        if not self._columns:  # Tuner.restore does not say what the param_space was
            self._columns = load_columns(columns, where)
        self._metric, self._mode = self._metric or metric, self._mode or mode
        self._optimizer, self._live = found, live
        self._points = self._points[len(self._points) - left :] if left else []

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_optimizer"] = None if self._optimizer is None else self._dump()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        text = state.pop("_optimizer")
        self.__dict__.update(state, _optimizer=None)
        if text is not None:
            self._load(text, "the pickled search")

    @property
    def n_running(self) -> int:
        """Trials that were suggested and not finished."""
        return int((self.optimizer.history.states == State.PENDING.value).sum())


def _columns(space: Mapping[str, Any]) -> dict[str, Any]:
    """Nested domains as columns; "a/b" is b of a. Constants stay the Tuner's business."""
    _, domains, grids = parse_spec_vars(dict(space))
    if grids:
        raise ValueError(f"BOKESearch does not understand grid_search. Use tune.choice instead of it in {grids}.")
    found = {"/".join(map(str, path)): column(domain, "/".join(map(str, path))) for path, domain in domains}
    for name, value in flatten_dict(dict(space)).items():
        if hasattr(value, "cells"):  # boke's own parameters are no domains to Tune
            found[name] = column(value, name)
    return dict(sorted(found.items()))


def _nested(point: Mapping[str, Any], name: str) -> Any:
    """The value of "a/b": a choice may be a dict itself, which flattening would take apart."""
    value: Any = point
    for part in name.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            raise ValueError(f"The point lacks the parameter {name!r}. Got {dict(point)}.")
        value = value[part]
    return value
