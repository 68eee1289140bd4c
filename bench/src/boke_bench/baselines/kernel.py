"""The library under test: KR-UCB, BOKE, BOKE+ and whatever ``boke.Optimizer`` takes by default."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from boke import Optimizer, Space, Trial
from boke.acquisition import PaperBeta
from boke.bandwidth import Silverman
from boke.policies import BOKE, KRUCB, BOKEPlus, Policy
from boke_bench.protocol import Array

POLICIES: dict[str, type[BOKE] | type[KRUCB]] = {"boke": BOKE, "boke+": BOKEPlus, "kr-ucb": KRUCB}


class Boke:
    """A ``boke.Optimizer`` that starts from the shared design instead of its own.

    Args:
        X0: The initial design (n0, d).
        seed: Seed of the optimizer.
        policy: A key of POLICIES, or None for the library's default.
        c: The constant of β_t.
        bandwidth: The constant of Silverman's rule.
        fields: Other fields of the policy, such as ``y_scale`` or ``n_acq``.
    """

    def __init__(
        self,
        X0: Array,
        seed: int,
        *,
        policy: str | None = None,
        c: float | None = None,
        bandwidth: float | None = None,
        **fields: Any,
    ) -> None:
        if c is not None:
            fields["beta"] = PaperBeta(c)
        if bandwidth is not None:
            fields["bandwidth"] = Silverman(bandwidth)
        self.design = np.array(X0, dtype=float)
        space = Space.of([(0.0, 1.0)] * self.design.shape[1])
        chosen: Policy = Optimizer(space).policy if policy is None else POLICIES[policy]()
        self.optimizer = Optimizer(
            space, direction="maximize", policy=_with(chosen, {"n_init": 0, **fields}, optional="n_init"), rng=seed
        )
        self._asked = 0
        self._pending: dict[bytes, list[Trial]] = {}  # KR-UCB may ask for the same point twice

    def ask(self) -> Array:
        self._asked += 1
        if self._asked <= len(self.design):
            return np.array(self.design[self._asked - 1])
        trial = self.optimizer.ask()
        self._pending.setdefault(trial.x.tobytes(), []).append(trial)
        return np.array(trial.x)

    def tell(self, x: Array, y: float | None) -> None:
        x = np.asarray(x, dtype=float)
        waiting = self._pending.get(x.tobytes())
        self.optimizer.tell(waiting.pop(0) if waiting else x, y)


def _with(policy: Policy, changes: dict[str, Any], *, optional: str) -> Policy:
    """The policy with other fields; the optional one is left out where the policy has no such field."""
    assert is_dataclass(policy) and not isinstance(policy, type)
    known = {field.name for field in fields(policy)}
    return replace(policy, **{name: value for name, value in changes.items() if name in known or name != optional})
