"""Several route tables as one: of each shape the route with the better evidence.

Measured evidence counts more than modelled, and that more than reported. Of the same kind the less
time counts, or the better score; a report without a time counts least. Times are only compared
where they were taken in one regime, scores where one mxtune made them. Then it does not matter in
which order tables are given. It does where evidence does not decide: between equal figures, between
times that do not compare, between defaults, and for the name of the device, the first given counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import mxtune
from mxtune.configs.devices import bare_arch
from mxtune.configs.errors import ConfigError, NoRouteError
from mxtune.configs.evidence import STRENGTH, Measured, Modelled
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable
from mxtune.results.launches import same_launch, same_settings, told
from mxtune.results.table_files import TableFile


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two tables that disagree about a route, which of them counts, and why."""

    subject: str  # the shape, or default
    won: str
    lost: str
    why: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.won} counts, not {self.lost}: {self.why}"


@dataclass(frozen=True, slots=True)
class Merged:
    """A table made of several, and what they disagreed about, by shape."""

    table: RouteTable
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class _Contender:
    """What one table has for a shape."""

    file: TableFile
    entry: Entry

    @property
    def strength(self) -> int:
        return STRENGTH[self.entry.evidence.kind]

    @property
    def figure(self) -> float:
        """What less of is better, of the same kind of evidence."""
        evidence = self.entry.evidence
        if isinstance(evidence, Measured):
            return evidence.median_us
        if isinstance(evidence, Modelled):
            return evidence.score_us
        return inf if evidence.us is None else evidence.us

    def __str__(self) -> str:
        return f"{told(self.entry.route)} of {self.file.name}"


def merge(files: Sequence[TableFile]) -> Merged:
    """Merge tables for one kind of GPU; see this module for which route counts.

    Raises ConfigError for tables that are for different GPUs or were made under different scale
    rules, NoRouteError if none of them has a route.
    """
    for first, other in pairwise(files):
        _check_alike(first, other)
    by_shape: dict[Shape, list[_Contender]] = {}
    for file in files:
        for placed in file.routes:
            by_shape.setdefault(placed.shape, []).append(_Contender(file, placed.entry))
    if not by_shape:
        raise NoRouteError("no table has a route; nothing to write")
    winners = {shape: _winner(by_shape[shape]) for shape in sorted(by_shape)}
    default, disagreed = _default(files)
    lost = (_lost(shape, winners[shape], by_shape[shape]) for shape in winners)
    return Merged(
        RouteTable(
            device=_device(files),
            made=_made(files),
            routes=_entries(winners, files),
            default=default,
        ),
        (*(conflict for conflicts in lost for conflict in conflicts), *disagreed),
    )


def _check_alike(first: TableFile, other: TableFile) -> None:
    """Refuse tables whose routes may not stand in one."""
    for what, found in _FACTS.items():
        ours, theirs = found(first.table), found(other.table)
        if ours != theirs:
            raise ConfigError(
                f"{first.name} and {other.name} cannot be merged: "
                f"{what} is {ours!r} in one and {theirs!r} in the other"
            )


_FACTS: dict[str, Callable[[RouteTable], str | int]] = {
    "device.arch": lambda table: bare_arch(table.device.arch),
    "device.compute_units": lambda table: table.device.compute_units,
    "made.rule": lambda table: table.made.rule,
}


def _winner(contenders: Sequence[_Contender]) -> _Contender:
    """Return the best by evidence; of equals, and of what does not compare, the first given."""
    best = max(contender.strength for contender in contenders)
    strongest = [contender for contender in contenders if contender.strength == best]
    rivals = [other for other in strongest if _compare(strongest[0], other)]
    return min(rivals, key=lambda rival: rival.figure)


def _compare(one: _Contender, other: _Contender) -> bool:
    """Whether the figures of two contenders of the same kind say which is faster."""
    made, theirs = one.file.table.made, other.file.table.made
    if one is other:
        return True
    if isinstance(one.entry.evidence, Measured):
        return made.regime is not None and made.regime == theirs.regime
    if isinstance(one.entry.evidence, Modelled):
        return made.mxtune == theirs.mxtune  # the model comes with it
    return True


def _entries(winners: Mapping[Shape, _Contender], files: Iterable[TableFile]) -> tuple[Entry, ...]:
    """Return what tables had for each shape, without a reach that was measured beside another M.

    A reach is how far a route pays between its M and the next: with another M next, nobody knows.
    """
    merged = _nexts(winners)
    own = {file.name: _nexts(placed.shape for placed in file.routes) for file in files}
    return tuple(
        winner.entry
        if winner.entry.reach is None or own[winner.file.name].get(shape) == merged.get(shape)
        else winner.entry.model_copy(update={"reach": None})
        for shape, winner in winners.items()
    )


def _nexts(shapes: Iterable[Shape]) -> dict[Shape, Shape]:
    """Return the next larger M of the same (N, K) of every shape that has one."""
    ladders = sorted(shapes, key=lambda shape: (shape.n, shape.k, shape.m))
    return {one: two for one, two in pairwise(ladders) if (one.n, one.k) == (two.n, two.k)}


def _lost(shape: Shape, winner: _Contender, contenders: Iterable[_Contender]) -> list[Conflict]:
    return [
        Conflict(str(shape), str(winner), str(other), _why(winner, other))
        for other in contenders
        if not same_launch(other.entry.route, winner.entry.route, shape)
    ]


def _why(winner: _Contender, other: _Contender) -> str:
    kind, weaker = winner.entry.evidence.kind, other.entry.evidence.kind
    if kind != weaker:
        return f"{kind} counts more than {weaker}"
    if not _compare(winner, other):
        return f"{_apart(winner, other)} do not compare, and the first given counts"
    if winner.figure == other.figure:
        return f"both are {kind}, {_figure(winner)}, and the first given counts"
    return f"{_figure(winner)} against {_figure(other)}, both {kind}"


def _apart(winner: _Contender, other: _Contender) -> str:
    made, theirs = winner.file.table.made, other.file.table.made
    if isinstance(winner.entry.evidence, Measured):
        regimes = (made.regime or "unknown", theirs.regime or "unknown")
        return "times of the regimes {!r} and {!r}".format(*regimes)
    return f"scores of mxtune {made.mxtune!r} and {theirs.mxtune!r}"


def _figure(contender: _Contender) -> str:
    if contender.figure == inf:
        return "no time"
    what = "score {:g}" if contender.entry.evidence.kind == "modelled" else "{:g} us"
    return what.format(contender.figure)


def _default(files: Iterable[TableFile]) -> tuple[Default | None, list[Conflict]]:
    """Return the default of the first table that has one, and those that are another."""
    given = [(file, file.table.default) for file in files]
    found = [(file, default) for file, default in given if default is not None]
    if not found:
        return None, []
    first, kept = found[0]
    route = _route_of(kept)
    conflicts = [
        Conflict(
            "default",
            f"{told(route)} of {first.name}",
            f"{told(_route_of(default))} of {file.name}",
            "no evidence decides, and the first given counts",
        )
        for file, default in found[1:]
        if not same_settings(_route_of(default), route)
    ]
    return kept, conflicts


def _route_of(default: Default) -> Route:
    return Route(default.family, Config.of(default.config))


def _device(files: Sequence[TableFile]) -> DeviceInfo:
    info = files[0].table.device
    partition = _common(file.table.device.partition for file in files)
    return info.model_copy(update={"arch": bare_arch(info.arch), "partition": partition})


def _made(files: Sequence[TableFile]) -> Made:
    """Return what all tables say of how they were made; the newest time.

    A regime is one of measured routes: tables without such have none to agree about.
    """
    made = [file.table.made for file in files]
    return Made(
        at=max(about.at for about in made),
        mxtune=_common(about.mxtune for about in made) or mxtune.__version__,
        torch=_common(about.torch for about in made),
        triton=_common(about.triton for about in made),
        aiter=_common(about.aiter for about in made),
        driver=_common(about.driver for about in made),
        rule=made[0].rule,
        regime=_common(file.table.made.regime for file in files if _timed(file)),
    )


def _timed(file: TableFile) -> bool:
    return any(isinstance(placed.entry.evidence, Measured) for placed in file.routes)


def _common(values: Iterable[str | None]) -> str | None:
    """Return the one value that all have; None where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
