"""The garden sprinkler: eight inputs; water consumption, spray range and rotation speed.

The lawn sprinkler of Siebertz, van Bebber and Hochkirchen (Statistische Versuchsplanung, 2010) as the R package
CompModels 0.3.0 computes it, early stops of its torque balance included: 38 % of the box leaves the balance in the
first pass. Operations are in the package's order, because a last bit decides on which side of a jump a point
falls. The package's help names the second output speed and the third range; the physics says otherwise, and so
do we.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from boke_bench.protocol import Array

LOW = np.array([0.0, 0.0, 2e-6, 0.1, 0.01, 0.01, 1.0, 5.0])
HIGH = np.array([90.0, 90.0, 4e-6, 0.2, 0.02, 0.02, 2.0, 10.0])

WATER = 1000.0  # density
AIR = 1.25
GRAVITY = 10.0
TOLERANCE = 0.005  # of the torque balance, relative
STEP = 0.005  # of the flight, in seconds


class Outputs(NamedTuple):
    """Litres per minute, metres, revolutions per second."""

    consumption: float
    range: float
    speed: float


def simulate(x: Array) -> Outputs:
    """The three outputs at x (8,): α, β in degrees, A, d_h, M_c, b in SI units, p in bar, D in millimetres."""
    alpha, beta, area, head, friction, viscous, bar, line = (float(value) for value in x)
    ca, sa = math.cos(alpha * math.pi / 180), math.sin(alpha * math.pi / 180)
    cb = math.cos(beta * math.pi / 180)
    pressure, arm = 1e5 * bar, head / 2
    loss = 10 ** (5.0704 - 0.579413 * line + 0.0196432 * line**2) * 60000**2
    flow = math.sqrt(pressure / (loss + WATER / 8 / area**2))
    speed = flow / 2 / area
    torque = WATER * flow * arm * speed * cb * ca
    if torque <= friction:
        launch, jet, turns = speed, speed, 0.0
    else:
        launch, jet, turns = _turning(ca, cb, area, arm, friction, viscous, pressure, loss, speed, torque)
    return Outputs(2 * jet * area * 60000, _flight(launch, area, ca, sa), turns)


def _turning(
    ca: float,
    cb: float,
    area: float,
    arm: float,
    friction: float,
    viscous: float,
    pressure: float,
    loss: float,
    speed: float,
    torque: float,
) -> tuple[float, float, float]:
    """Balance driving against friction torque: launch speed, speed of the jet at the nozzle, revolutions."""
    first = 2 * WATER * area * arm * 2 * GRAVITY * (1e-4 * pressure) * ca * cb
    omega = 2 * math.pi * (0.1 * abs(first - friction) / (viscous + 5e-4))
    resisting = friction + omega * viscous
    lost_turning = abs(resisting * omega) / (area * math.sqrt(2 * pressure / WATER))
    lost_in_line = 0.1 * pressure
    gap, launch, jet, turns, passes = first, speed, speed, 0.0, 0
    while abs(gap) > TOLERANCE * abs(torque):
        turns = omega / 2 / math.pi
        resisting = friction + turns * viscous
        rim = omega * arm
        effective = pressure - lost_turning - lost_in_line
        if effective < 0.01 * pressure:
            launch = 0.0
            break
        launch = math.sqrt(2 * effective / WATER)
        if launch**2 * rim**2 * ca**2 * cb**2 - 1 < 0:
            break
        jet = rim * ca * cb + math.sqrt(launch**2 + rim**2 * (ca**2 * cb**2 - 1))
        torque = 2 * WATER * jet * area * arm * (jet * cb * ca - omega * arm)
        gap = torque - resisting
        stretch = 1 + 0.1 * min(abs(gap / torque), 0.5 * effective / pressure)
        omega *= stretch ** math.copysign(1.0, gap) if gap else 1.0
        flow = 2 * jet * area
        lost_turning, lost_in_line = abs(resisting * omega) / flow, loss * flow**2
        passes += 1
        if passes > 10000:
            break
        if omega < 0.0062:
            turns = 0.0
            break
    return launch, jet, turns


def _flight(speed: float, area: float, ca: float, sa: float) -> float:
    """How far a spherical drop flies against the drag of the air, by explicit Euler steps."""
    diameter = math.sqrt(4 * area / math.pi)
    mass = math.pi / 6 * diameter**3 * WATER
    x, z, vx, vz = 0.0, 1e-3, speed * ca, speed * sa
    while z > 0 and speed >= 0.01:
        reynolds = speed * diameter / (1.82e-5 / AIR)
        drag = 24 / reynolds * (1 + 0.11 * math.sqrt(reynolds)) ** 2
        slowing = AIR / 2 * speed**2 * math.pi / 4 * diameter**2 * drag / mass
        x, z = x + vx * STEP, z + vz * STEP
        vx, vz = vx - slowing * ca * STEP, vz - GRAVITY * STEP - slowing * sa * STEP
        speed = math.sqrt(vx**2 + vz**2)
        ca, sa = vx / speed, vz / speed
    return x


@dataclass(frozen=True)
class Sprinkler:
    """One output of the sprinkler over the unit cube; consumption is to be small and changes its sign.

    Args:
        output: "range", "speed" or "consumption".
    """

    output: str = "range"

    dim: ClassVar[int] = 8
    OPTIMA: ClassVar[dict[str, float | None]] = {
        "range": 8.335760843396407,
        "speed": 19.830719190967002,
        "consumption": None,
    }

    def __post_init__(self) -> None:
        if self.output not in self.OPTIMA:
            raise ValueError(f"The 'output' of Sprinkler must be one of {list(self.OPTIMA)}. Got {self.output!r}.")

    @property
    def name(self) -> str:
        return f"Sprinkler {self.output}"

    @property
    def optimum(self) -> float | None:
        return self.OPTIMA[self.output]

    def __call__(self, x: Array) -> float:
        return self.true(x)

    def true(self, x: Array) -> float:
        outputs = simulate(np.clip(LOW + np.asarray(x, dtype=float) * (HIGH - LOW), LOW, HIGH))
        value = float(getattr(outputs, self.output))
        return -value if self.output == "consumption" else value
