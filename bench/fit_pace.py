"""Fit a device's pace, the constants of the model, to a recording.

    python bench/fit_pace.py RECORDING [--tries 3000]

Random search, then steps around the best: the logarithm of modelled over recorded time, squared,
over all routes of all shapes, with an offset for each shape, since ranking within a shape is what
counts. Prints the constants as a description in configs/devices has them, and what they rank like.
"""

import argparse
import random
from collections.abc import Mapping
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from mxtune.configs.devices import Device, Pace, load_device
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Problem, Step
from mxtune.kernels.registry import families
from mxtune.tuner.model import score_us
from mxtune.tuner.replay import Recording

RANGES = {
    "prologue": (300, 8000),
    "latency": (200, 4000),
    "stream_bytes": (8, 200),
    "quantise": (0.05, 3),
    "unpack": (0.02, 3),
    "matrix": (0.5, 6),
    "resident": (1, 8),
}
LAUNCHES = {"launch_us": (1, 8), "dependent_us": (0.3, 5)}

Point = Mapping[str, float]
Data = dict[Shape, list[tuple[tuple[Step, ...], float]]]


def data_of(recording: Recording, device: Device) -> Data:
    """Return the steps and the recorded time of every route, by shape."""
    data: Data = {}
    for (shape, route), trial in recording.finals.items():
        if route.family in families():
            steps = planned(route, Problem.contiguous(shape, device)).steps
            data.setdefault(shape, []).append((steps, median(trial.times_us)))
    return data


def with_point(device: Device, point: Point) -> Device:
    """Return ``device`` with other constants."""
    pace = Pace(
        **{n: point[n] for n in RANGES if n != "resident"}, resident=round(point["resident"])
    )
    return replace(device, pace=pace, **{name: point[name] for name in LAUNCHES})


def loss(data: Data, device: Device) -> float:
    """Return the mean squared deviation of log(model / recorded) within shapes, the fast first."""
    total: list[float] = []
    for rows in data.values():
        best = min(us for _, us in rows)
        errors = [(log(score_us(steps, device) / us), best / us) for steps, us in rows]
        weight = sum(w * w for _, w in errors)
        middle = sum(e * w * w for e, w in errors) / weight
        total.append(sum(w * w * (e - middle) ** 2 for e, w in errors) / weight + 0.02 * middle**2)
    return fmean(total)


def sample(data: Data, size: int, draw: random.Random) -> Data:
    """Return the fastest quarter and a random part of the rest, to search on."""
    kept: Data = {}
    for shape, rows in data.items():
        ranked = sorted(rows, key=lambda row: row[1])
        head = ranked[: size // 2]
        kept[shape] = head + draw.sample(
            ranked[len(head) :], min(size // 2, len(ranked) - len(head))
        )
    return kept


def fit(data: Data, device: Device, tries: int) -> Point:
    """Return the best constants found."""
    draw = random.Random(1)
    small = sample(data, 60, draw)
    ranges = {**RANGES, **LAUNCHES}
    best: dict[str, float] = {}
    lowest = float("inf")
    for attempt in range(tries):
        if attempt < tries // 3:
            point = {n: exp(draw.uniform(log(a), log(b))) for n, (a, b) in ranges.items()}
        else:
            spread = 0.4 * (1 - attempt / tries) + 0.03
            point = {
                n: min(b, max(a, best[n] * exp(draw.gauss(0, spread))))
                for n, (a, b) in ranges.items()
            }
        now = loss(small, with_point(device, point))
        if now < lowest:
            best, lowest = point, now
    return best


def report(data: Data, device: Device) -> None:
    """Print how well the model ranks: the best of its first few over the best there is."""
    for shape, rows in data.items():
        ranked = sorted(rows, key=lambda row: score_us(row[0], device))
        best = min(us for _, us in rows)
        first = [min(us for _, us in ranked[:count]) / best for count in (1, 5, 15, 45)]
        print(shape, "first 1, 5, 15, 45:", *(f"{ratio:.3f}" for ratio in first))


def main() -> None:
    """Parse, fit, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recording", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--tries", type=int, default=3000)
    options = parser.parse_args()
    device = load_device(options.arch)
    data = data_of(Recording.load(options.recording), device)
    print("before", round(loss(data, device), 4))
    report(data, device)
    point = fit(data, device, options.tries)
    fitted = with_point(device, point)
    print("after", round(loss(data, fitted), 4))
    report(data, fitted)
    for name, value in point.items():
        print(f"  {name}: {value:.3g}")


if __name__ == "__main__":
    main()
