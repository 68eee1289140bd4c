"""A noisy control task: eight gains of a feedback law land a small rocket on a pad in gusty wind.

A plane body with one engine along its axis and a pair of side jets; explicit Euler steps. An evaluation is one flight
from a random start through random gusts. The true value is the mean over a fixed set of flights. Written for this
bench; nobody knows the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from boke_bench.protocol import Array

GRAVITY = 1.6
ENGINE = 3.2  # largest acceleration along the axis
JETS = 0.8  # largest angular acceleration
STEP, STEPS = 0.1, 200
FLIGHTS = 32  # behind a true value

# gain: position, drift, largest tilt, attitude, spin, touchdown speed, speed per height, throttle
LOW = np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.1, 0.0, 0.0])
HIGH = np.array([0.2, 0.6, 1.0, 5.0, 5.0, 3.0, 0.6, 3.0])


@dataclass(frozen=True)
class Flights:
    """Starting states (n, 6), x, z, their speeds, tilt and spin, and horizontal gusts (n, STEPS)."""

    start: Array
    gusts: Array

    @classmethod
    def draw(cls, n: int, rng: Generator) -> Flights:
        typical, spread = np.array([0.0, 12.0, 0.0, -1.0, 0.0, 0.0]), np.array([3.0, 1.0, 0.8, 0.3, 0.15, 0.1])
        start = typical + spread * rng.standard_normal((n, 6))
        kicks = 0.15 * rng.standard_normal((n, STEPS))
        gusts = np.empty_like(kicks)
        wind = 0.3 * rng.standard_normal(n)
        for k in range(STEPS):
            wind = 0.95 * wind + kicks[:, k]
            gusts[:, k] = wind
        return cls(start, gusts)


def fly(gains: Array, flights: Flights) -> Array:
    """The score (n,) of every flight: 100 for a soft, upright landing on the pad, less for all that is missing."""
    position, drift, tilt, attitude, spin, touchdown, glide, throttle = gains
    x, z, vx, vz, angle, turn = flights.start.T.copy()
    fuel, aloft = np.zeros(len(x)), np.ones(len(x), dtype=bool)
    for k in range(STEPS):
        wanted = np.clip(position * x + drift * vx, -tilt, tilt)
        jets = np.clip(attitude * (wanted - angle) - spin * turn, -JETS, JETS)
        descent = -(touchdown + glide * np.maximum(z, 0.0))
        engine = np.clip(GRAVITY + throttle * (descent - vz), 0.0, ENGINE)
        dt = np.where(aloft, STEP, 0.0)  # who has landed stays where he is
        x, z, angle = x + vx * dt, z + vz * dt, angle + turn * dt
        vx = vx + (flights.gusts[:, k] - engine * np.sin(angle)) * dt
        vz = vz + (engine * np.cos(angle) - GRAVITY) * dt
        turn = turn + jets * dt
        fuel += (engine + 0.5 * np.abs(jets)) * dt
        aloft &= z > 0.0
        if not aloft.any():
            break
    loss = 4.0 * np.abs(x) + 10.0 * np.hypot(vx, vz) + 30.0 * np.abs(np.sin(0.5 * angle)) + 0.4 * fuel + 40.0 * aloft
    return np.asarray(100.0 - np.minimum(loss, 200.0))


class Lander:
    """One flight for each evaluation.

    Args:
        seed: Seed of the flights.
    """

    name = "Lander 8-D"
    dim = 8
    optimum: float | None = None

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng((seed, 5))
        self._fixed = Flights.draw(FLIGHTS, np.random.default_rng(5))

    def __call__(self, x: Array) -> float:
        return float(fly(self._gains(x), Flights.draw(1, self._rng))[0])

    def true(self, x: Array) -> float:
        return float(fly(self._gains(x), self._fixed).mean())

    @staticmethod
    def _gains(x: Array) -> Array:
        return np.asarray(LOW + np.asarray(x, dtype=float) * (HIGH - LOW))
