"""Which families can run here, how much each could try, and what a shape leaves of that."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from mxtune.configs.devices import Device, load_device
from mxtune.configs.shapes import Shape
from mxtune.kernels.candidates import candidates, space_points
from mxtune.kernels.family import RouteFamily
from mxtune.kernels.registry import families

_REASONS = 3  # shown to people; JSON has all


@dataclass(frozen=True, slots=True)
class OfShape:
    """What a shape leaves of a family's candidates; ``worth`` and the last two add up to all."""

    legal: int  # distinct ones that may be used
    worth: int  # of those: worth trying
    suspect: int  # of those: only measuring them tells whether they are right
    collapsed: int  # launch the same as another
    rejected: Mapping[str, int]  # not legal or not worth trying, by reason, the most frequent first


@dataclass(frozen=True, slots=True)
class Standing:
    """One family, on one GPU."""

    family: str
    lack: str  # why it cannot run here; empty if it can
    candidates: int  # points of its space
    of_shape: OfShape | None  # if a shape was given


def standings(shape: str | None, target: str) -> tuple[Standing, ...]:
    """Look at every family for the GPU ``target``, and for ``shape``, MxNxK, if one is given."""
    device = load_device(target)
    wanted = Shape.parse(shape) if shape else None
    return tuple(_standing(owner, wanted, device) for owner in families().values())


def _standing(owner: RouteFamily, shape: Shape | None, device: Device) -> Standing:
    points = sum(1 for _ in space_points(owner, device))
    of_shape = _of_shape(owner, shape, device) if shape else None
    return Standing(owner.name, owner.missing(device) or "", points, of_shape)


def _of_shape(owner: RouteFamily, shape: Shape, device: Device) -> OfShape:
    found = candidates([owner], shape, device)
    grades = [owner.legality(route.config, shape, device).grade for route in found.routes]
    ordered = sorted(found.rejected.items(), key=lambda item: (-item[1], item[0]))
    return OfShape(
        legal=len(grades) + len(found.pruned),
        worth=len(grades),
        suspect=grades.count("suspect"),
        collapsed=found.collapsed,
        rejected={reason.removeprefix(f"{owner.name}: "): count for reason, count in ordered},
    )


def lines(found: Iterable[Standing]) -> Iterator[str]:
    """Yield each family as plain text: a line, then what its candidates of a shape came to."""
    for standing in found:
        here = f"not here: {standing.lack}" if standing.lack else "can run"
        yield f"{standing.family}: {standing.candidates} candidates; {here}"
        if standing.of_shape:
            yield f"  {_counted(standing.of_shape)}"
            yield from _reasons(standing.of_shape.rejected)


def _counted(left: OfShape) -> str:
    suspect = f", {left.suspect} of them suspect" if left.suspect else ""
    worth = f"{left.legal} legal, {left.worth} worth trying{suspect}"
    return f"{worth}; {left.collapsed} launch the same as another"


def _reasons(rejected: Mapping[str, int]) -> Iterator[str]:
    for reason, count in list(rejected.items())[:_REASONS]:
        yield f"  {count} are not: {reason}"
    rest = list(rejected.values())[_REASONS:]
    if rest:
        yield f"  {sum(rest)} are not for other reasons"


def as_json(found: Iterable[Standing]) -> str:
    """Return the same for a program."""
    return json.dumps([asdict(standing) for standing in found], indent=1)
