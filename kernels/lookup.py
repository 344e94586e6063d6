"""From a shape to a route: the steps of a lookup, in order, each with why it was taken or not.

exact, the bucket of M at the same (N, K), the nearest M there that is legal, the table's default, a
family that is legal for everything.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import log
from typing import Literal

from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import fallback_route

_MOST = 65536  # shapes whose choice is remembered: a server's prompts may have any length

StepName = Literal["exact", "bucket", "nearest", "default", "always legal"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The route for a shape, and the step of the lookup that gave it."""

    route: Route
    why: str
    step: StepName = "always legal"


@dataclass(frozen=True, slots=True)
class Tried:
    """One step of a lookup: what it offered, and why that was not taken, empty if it was."""

    step: StepName
    offer: str
    route: Route | None
    obstacle: str


@dataclass(frozen=True, slots=True)
class Tabled:
    """A route of a table, for the M it was made for; ``reach`` as in the table's entry."""

    shape: Shape
    route: Route
    reach: int | None = None


Obstacle = Callable[[Tabled, Shape], str]  # why a route cannot serve a shape; empty if it can


class Lookup:
    """Answers for one table on one GPU; the same shape is worked out once."""

    def __init__(
        self, tabled: Mapping[Shape, Tabled], default: Route | None, obstacle: Obstacle, lack: str
    ) -> None:
        """Take the routes that can be used; ``lack`` says why there are none, where it is so."""
        self._tabled, self._default, self._obstacle, self._lack = tabled, default, obstacle, lack
        self._known: dict[tuple[int, int, int], Choice] = {}
        ladders: dict[tuple[int, int], list[Tabled]] = {}
        for shape in sorted(tabled):
            ladders.setdefault((shape.n, shape.k), []).append(tabled[shape])
        self._ladders = ladders

    def find(self, m: int, n: int, k: int) -> Choice:
        """Return the route for a shape that can be; raises ConfigError for another."""
        known = self._known.get((m, n, k))
        return self._worked_out(Shape(m, n, k)) if known is None else known

    def steps(self, shape: Shape) -> Iterator[Tried]:
        """Yield the steps up to the one that is taken."""
        for tried in self._offers(shape):
            yield tried
            if not tried.obstacle:
                return

    def _worked_out(self, shape: Shape) -> Choice:
        *_, last = self.steps(shape)
        choice = Choice(
            last.route or fallback_route(shape), f"{last.step}: {last.offer}", last.step
        )
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[(shape.m, shape.n, shape.k)] = choice
        return choice

    def _offers(self, shape: Shape) -> Iterator[Tried]:
        yield self._exact(shape)
        ladder = [t for t in self._ladders.get((shape.n, shape.k), []) if t.shape != shape]
        bucket = _bucket(ladder, shape.m)
        if bucket is None:
            yield Tried("bucket", f"N={shape.n}, K={shape.k}", None, "the table has none there")
        else:
            yield self._offer("bucket", _range(ladder, bucket), bucket, shape)
        others = [tabled for tabled in ladder if tabled is not bucket]
        for near in sorted(others, key=lambda t: (abs(log(t.shape.m / shape.m)), -t.shape.m)):
            yield self._offer("nearest", f"the table has {near.shape}", near, shape)
        yield self._by_default(shape)
        why = self._lack or "the table has nothing that fits"
        yield Tried("always legal", why, fallback_route(shape), "")

    def _exact(self, shape: Shape) -> Tried:
        tabled = self._tabled.get(shape)
        if tabled is None:
            return Tried("exact", str(shape), None, "the table does not have it")
        return self._offer("exact", "the table has this shape", tabled, shape)

    def _offer(self, step: StepName, offer: str, tabled: Tabled, shape: Shape) -> Tried:
        return Tried(step, offer, tabled.route, self._obstacle(tabled, shape))

    def _by_default(self, shape: Shape) -> Tried:
        if self._default is None:
            return Tried("default", "a route for every shape", None, "the table has no default")
        offer = "the table has no other for this (N, K)"
        default = Tabled(shape, self._default)
        return self._offer("default", offer, default, shape)


def _bucket(ladder: list[Tabled], m: int) -> Tabled | None:
    """Return the route of M's bucket: of the M below if it reaches so far, else of the next above.

    The largest M of the ladder serves all above it.
    """
    if not ladder:
        return None
    above = bisect_left(ladder, m, key=lambda tabled: tabled.shape.m)
    if above and (ladder[above - 1].reach or 0) >= m:
        return ladder[above - 1]
    return ladder[min(above, len(ladder) - 1)]


def _range(ladder: list[Tabled], bucket: Tabled) -> str:
    """Say for which M the route of a bucket is taken."""
    at = ladder.index(bucket)
    low = max(ladder[at - 1].shape.m, ladder[at - 1].reach or 0) + 1 if at else 1
    if at == len(ladder) - 1:
        return f"the table has {bucket.shape} for M from {low} up"
    high = max(bucket.shape.m, bucket.reach or 0)
    return f"the table has {bucket.shape} for M from {low} to {high}"
