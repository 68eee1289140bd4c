"""Seeds of NumPy's generators: those of ``np.random.SeedSequence``, made faster than the generator itself."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

from boke.compiled import NATIVE


def generator(*entropy: int) -> Generator:
    """``np.random.default_rng(entropy)``, of integers that are not negative."""
    return np.random.default_rng(entropy) if NATIVE is None else Generator(PCG64(Seed(entropy)))  # type: ignore[arg-type]


class Seed(ISpawnableSeedSequence):
    """``SeedSequence(entropy)``, which a generator asks for its first state only."""

    def __init__(self, entropy: tuple[int, ...]) -> None:
        self.entropy = entropy

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        if NATIVE is None or n_words != 4 or dtype != np.uint64:
            return self._whole.generate_state(n_words, dtype)
        return np.asarray(NATIVE.seeded([word for number in self.entropy for word in words(number)]))

    def spawn(self, n_children: int) -> list[SeedSequence]:  # type: ignore[override]
        return self._whole.spawn(n_children)

    @cached_property
    def _whole(self) -> SeedSequence:
        return SeedSequence(self.entropy)


def words(number: int) -> list[int]:
    """The 32-bit words of a number, the lowest first and one at least."""
    found = [number & 0xFFFFFFFF]
    while number := number >> 32:
        found.append(number & 0xFFFFFFFF)
    return found
