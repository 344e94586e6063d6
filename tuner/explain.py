"""Tells how a table would route a shape, without a GPU and without computing anything."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.devices import Device, bare_arch, load_device
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.dispatch import bundled_table
from mxtune.kernels.lookup import Tried
from mxtune.kernels.registry import brief
from mxtune.kernels.standing import standing_of
from mxtune.tuner.request import OFFLINE_TARGET


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps of one lookup, the one that was taken last."""

    shape: Shape
    device: Device
    source: str
    worth: str  # of the table on the GPU
    warning: str
    steps: tuple[Tried, ...]


def explain(word: str, routes: Path | None, target: str | None) -> Explanation:
    """Look a shape up in a table, or in the one that comes with mxtune, on ``target``.

    That is the GPU that the table is for unless given. Raises ConfigError for a shape or a table
    that cannot be used.
    """
    shape = Shape.parse(word)
    table = RouteTable.load(routes) if routes else bundled_table(target or OFFLINE_TARGET)
    own = bare_arch(table.device.arch) if table else OFFLINE_TARGET
    device = load_device(target or own)
    standing = standing_of(table, device)
    name = f"the table that comes with mxtune for {device.arch}" if table else "no table"
    return Explanation(
        shape,
        device,
        str(routes) if routes else name,
        standing.summary,
        standing.warning,
        tuple(standing.lookup().steps(shape)),
    )


def lines(found: Explanation) -> Iterator[str]:
    """Yield what a person reads."""
    yield f"{found.shape} on {found.device}"
    yield f"{found.source}: {found.warning or found.worth}"
    for tried in found.steps:
        yield f"  {tried.step:13}{tried.offer}: {tried.obstacle or 'taken'}"
    route = found.steps[-1].route
    if route is not None:
        yield f"route: {brief(route)}"


def as_json(found: Explanation) -> str:
    """Return the same for a program."""
    body = {
        "shape": [found.shape.m, found.shape.n, found.shape.k],
        "target": found.device.arch,
        "source": found.source,
        "usable": found.worth,
        "warning": found.warning,
        "steps": [
            {
                "step": tried.step,
                "offer": tried.offer,
                "taken": not tried.obstacle,
                "obstacle": tried.obstacle,
                "family": tried.route.family if tried.route else None,
                "config": dict(tried.route.config) if tried.route else None,
            }
            for tried in found.steps
        ],
    }
    return json.dumps(body, indent=1, allow_nan=False)
