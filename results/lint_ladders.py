"""Rules for the routes of one (N, K): times that rise with M, no wide gaps, and one copy of B."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from mxtune.configs.devices import Device
from mxtune.configs.evidence import Evidence, Measured, Modelled
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import BYTES, WEIGHT, Buffer, Problem
from mxtune.kernels.registry import family
from mxtune.results.findings import Finding
from mxtune.results.lint_routes import Usable, usable
from mxtune.results.statistics import TIE_BAND
from mxtune.results.table_files import Placed, TableFile

# A reported time says nothing of its spread. Runs of one kernel on MI355X are publicly said to
# differ by up to 5 %, so two of them by up to twice that.
REPORTED_NOISE = 0.10

# Tiles come in powers of two. Over a wider step than this the M in the middle wants one that is
# neither neighbour's, nor next to it.
LARGEST_STEP = 4


@dataclass(frozen=True, slots=True)
class _Reading:
    """How long one shape takes, and the bounds within which that is no news."""

    place: str
    shape: Shape
    source: str  # only times of one source are compared
    us: float
    low_us: float
    high_us: float


def monotonic(file: TableFile) -> Iterator[Finding]:
    """Yield every shape that is slower than one of the same (N, K) with more rows.

    A route for more rows computes fewer as well. Scores of the model are no times and not compared.
    """
    readings = sorted(_readings(file), key=lambda found: (found.source, *_ladder(found.shape)))
    for _, group in groupby(readings, key=lambda found: (found.source, *_weight(found.shape))):
        yield from _slower(file, list(group))


def _slower(file: TableFile, rising: Sequence[_Reading]) -> Iterator[Finding]:
    """Yield the readings above the least of those after them."""
    least = [*rising[1:], *rising[-1:]]
    for at in range(len(rising) - 2, 0, -1):
        least[at - 1] = min(rising[at], least[at], key=lambda found: found.high_us)
    for ours, other in zip(rising, least, strict=True):
        if ours.low_us > other.high_us:
            ratio = ours.us / other.us
            why = f"{ours.us:g} us, {ratio:.2f} times the {other.us:g} us of {other.shape}"
            yield Finding(
                "warning", "monotonic", file.name, ours.place, ours.shape, f"{why} ({other.place})"
            )


def _readings(file: TableFile) -> Iterator[_Reading]:
    """Yield the times of a table; those of kernels that are not ours too, where a CSV has some."""
    for placed in file.routes:
        found = _reading(placed.place, placed.shape, placed.entry.evidence)
        if found:
            yield found
    known = {placed.shape for placed in file.routes}
    for remark in file.remarks:
        if remark.kind == "foreign" and remark.us and remark.shape and remark.shape not in known:
            known.add(remark.shape)
            yield _as_reported(f"line {remark.line}", remark.shape, _csv_source(file), remark.us)


def _csv_source(file: TableFile) -> str:
    sources = (placed.entry.evidence for placed in file.routes)
    return next((f"reported {e.source}" for e in sources if e.kind == "reported"), "reported")


def _reading(place: str, shape: Shape, evidence: Evidence) -> _Reading | None:
    if isinstance(evidence, Modelled):
        return None
    if not isinstance(evidence, Measured):
        source = f"reported {evidence.source}"
        return _as_reported(place, shape, source, evidence.us) if evidence.us else None
    high = max(evidence.high_us, evidence.median_us * (1 + TIE_BAND))
    return _Reading(place, shape, "measured", evidence.median_us, evidence.low_us, high)


def _as_reported(place: str, shape: Shape, source: str, us: float) -> _Reading:
    return _Reading(place, shape, source, us, us, us * (1 + REPORTED_NOISE))


def holes(file: TableFile) -> Iterator[Finding]:
    """Yield where a dispatcher takes a route that was tuned for an M far from the one asked for.

    Below the smallest M that is its route; between two, one of theirs.
    """
    placed = sorted(file.routes, key=lambda found: _ladder(found.shape))
    for _, group in groupby(placed, key=lambda found: _weight(found.shape)):
        rising = list(group)
        if rising[0].shape.m > 1:
            why = "the smallest M here: its route serves all below"
            yield _hole(file, rising[0], why)
        for below, above in pairwise(rising):
            if above.shape.m > LARGEST_STEP * below.shape.m:
                step = above.shape.m / below.shape.m
                why = f"the next M is {above.shape.m}, {step:.1f} times as much: none between"
                yield _hole(file, below, why)


def _hole(file: TableFile, placed: Placed, why: str) -> Finding:
    return Finding("note", "hole", file.name, placed.place, placed.shape, why)


def reaches(file: TableFile) -> Iterator[Finding]:
    """Yield the routes that are said to reach beyond the next M, whose own route serves there."""
    placed = sorted(file.routes, key=lambda found: _ladder(found.shape))
    for below, above in pairwise(placed):
        reach = below.entry.reach
        if _weight(below.shape) == _weight(above.shape) and (reach or 0) >= above.shape.m:
            why = f"reaches up to M {reach}, but {above.place} is for {above.shape.m}"
            place = f"{below.place}.reach"
            yield Finding("warning", "reach", file.name, place, below.shape, why)


def layouts(file: TableFile, device: Device) -> Iterator[Finding]:
    """Yield where the routes of one (N, K) read B in two layouts, so that both are kept."""
    routes = sorted(usable(file, device), key=lambda found: _ladder(found.placed.shape))
    for _, group in groupby(routes, key=lambda found: _weight(found.placed.shape)):
        yield from _copies(file, group, device)


def _copies(file: TableFile, routes: Iterable[Usable], device: Device) -> Iterator[Finding]:
    kept: dict[str, dict[str, Shape]] = {}  # of codes and of scales: layouts, and who needs them
    for found in routes:
        for buffer in _of_weight(found, device):
            method, layout = WEIGHT[buffer.name]
            layouts = kept.setdefault(method, {})
            if layouts and layout not in layouts:
                other, who = next(iter(layouts.items()))
                size = _size(buffer.elements * BYTES[buffer.dtype])
                why = f"reads {layout} {method} of B, {who} {other} ones: a second copy, {size}"
                place = found.placed
                yield Finding("warning", "layouts", file.name, place.place, place.shape, why)
            layouts.setdefault(layout, found.placed.shape)


def _of_weight(found: Usable, device: Device) -> list[Buffer]:
    """Return what a route reads of B."""
    problem = Problem.contiguous(found.placed.shape, device)
    plan = family(found.route.family).plan(found.route.config, problem)
    read = {buffer.name: buffer for step in plan.steps for buffer in step.buffers.values()}
    return [buffer for name, buffer in sorted(read.items()) if name in WEIGHT]


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def _weight(shape: Shape) -> tuple[int, int]:
    return shape.n, shape.k


def _ladder(shape: Shape) -> tuple[int, int, int]:
    return shape.n, shape.k, shape.m
