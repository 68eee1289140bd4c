"""A garden sprinkler as any program: numbers on the command line in, a number on the last line out.

python sprinkler.py --angle 38 --pressure 2.5 --holes 8 --nozzle fan

It throws drops with air drag over a lawn 24 m across and prints how unevenly the lawn is watered, plus what the water
costs: smaller is better. High pressure through few holes turns to mist, which is a failure.
"""

import argparse
import math
import random
import sys


def flight(angle: float, speed: float, drag: float) -> float:
    """How far a drop flies (m): quadratic drag, steps of 10 ms, from half a metre up."""
    x, height, vx, vy = 0.0, 0.5, speed * math.cos(angle), speed * math.sin(angle)
    while height > 0.0:
        resistance = drag * math.hypot(vx, vy)
        vx, vy = vx - 0.01 * resistance * vx, vy - 0.01 * (9.81 + resistance * vy)
        x, height = x + 0.01 * vx, height + 0.01 * vy
    return x


def unevenness(angle: float, pressure: float, holes: int, nozzle: str) -> float:
    """Coefficient of variation of the water on rings of equal area, plus the price of the water."""
    if pressure / holes > 0.5:
        sys.exit("the jet turns to mist")
    speed = 12.0 * math.sqrt(pressure)
    drops = random.Random(0)
    spread, fineness = {"fan": (0.25, 1.6), "cone": (0.12, 1.0), "jet": (0.03, 0.8)}[nozzle]
    rings = [0.0] * 12
    for _ in range(240):
        at = drops.gauss(math.radians(angle), spread)
        size = drops.uniform(0.5, 1.5) * math.sqrt(4.0 / holes)
        reach = flight(at, speed * drops.uniform(0.8, 1.0), 0.02 * fineness / size)
        if 0.0 < reach < 12.0:
            rings[int(12 * (reach / 12.0) ** 2)] += 1.0
    mean = sum(rings) / 12
    if mean == 0.0:
        return 5.0
    return math.sqrt(sum((ring - mean) ** 2 for ring in rings) / 12) / mean + 0.05 * pressure + 0.01 * holes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--angle", type=float, required=True, help="degrees above the ground")
    parser.add_argument("--pressure", type=float, required=True, help="bar")
    parser.add_argument("--holes", type=int, required=True)
    parser.add_argument("--nozzle", choices=["fan", "cone", "jet"], required=True)
    print(f"{unevenness(**vars(parser.parse_args())):.6f}")
