"""Statistics of raw samples, computed on reading: a spread, an interval, and who is faster."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

RESAMPLES = 1000
CONFIDENCE = 0.95
TIE_BAND = 0.01  # a difference below this is worth nothing to anybody


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the bounds it lies between with CONFIDENCE."""

    value: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 10th and 90th percentile."""
    if len(samples) < 2:
        return samples[0], samples[0]
    tenths = quantiles(samples, n=10, method="inclusive")
    return tenths[0], tenths[-1]


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], seed: int = 0) -> Interval:
    """Return the median of ours/theirs round by round, with a bootstrap interval of it.

    Rounds are paired: both were taken within microseconds, so what drifts cancels. Percentile
    bootstrap (Efron 1979) of RESAMPLES draws, the same for the same samples.
    """
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    draw = random.Random(seed)
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Interval(median(ratios), medians[tail], medians[-1 - tail])


def tied(ratio: Interval) -> bool:
    """Whether a route with ``ratio`` to the fastest is as good: not slower, or by too little."""
    return ratio.low <= 1.0 or ratio.value <= 1 + TIE_BAND
