"""How far up in M a route of a table serves, where a sweep measured what the alternatives lose.

Between two Ms of one (N, K) either winner can be taken. What each loses at the other's M is known
where both were timed at both. In log M the loss of the lower route is taken to grow evenly from
nothing to that, and the loss of the upper one to fall evenly: the edge is where they are equal.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.results.trial import Trial


def reaches(
    winners: Mapping[Shape, Route], trials: Mapping[Shape, Sequence[Trial]]
) -> dict[Shape, int]:
    """Return the largest M that a shape's winner serves below the next shape's, where known.

    A shape that is left out serves no M but its own: all up to the next are the next one's.
    """
    found = (_edge(low, high, winners, trials) for low, high in _neighbours(winners))
    return dict(edge for edge in found if edge is not None)


def _neighbours(shapes: Iterable[Shape]) -> Iterator[tuple[Shape, Shape]]:
    """Yield the shapes that follow each other in M at one (N, K)."""
    ordered = sorted(shapes, key=lambda s: (s.n, s.k, s.m))
    return (pair for pair in pairwise(ordered) if len({(s.n, s.k) for s in pair}) == 1)


def _edge(
    low: Shape,
    high: Shape,
    winners: Mapping[Shape, Route],
    trials: Mapping[Shape, Sequence[Trial]],
) -> tuple[Shape, int] | None:
    down = _loss(winners[low], winners[high], trials[high])
    up = _loss(winners[high], winners[low], trials[low])
    if down is None or up is None or not down + up:
        return None
    share = up / (down + up)
    reach = min(int(low.m * (high.m / low.m) ** share), high.m - 1)
    return (low, reach) if reach > low.m else None


def _loss(route: Route, winner: Route, trials: Iterable[Trial]) -> float | None:
    """Return how much longer ``route`` takes than ``winner``, 0.1 for a tenth, by first readings.

    None unless both were timed and right.
    """
    right = (t for t in trials if t.stage == "screen" and t.state == "ok" and t.times_us)
    times = {trial.route: trial.median_us for trial in right}
    if route not in times or winner not in times:
        return None
    return max(times[route] / times[winner] - 1, 0.0)
