"""What a table is worth on one GPU: which of its routes can be used, and what is doubtful.

Another architecture or another scale rule would give wrong numbers or none: no route is used. A
family that cannot run here, an unknown setting or a route that is not legal costs that route.
Another Triton, AITER, torch or GPU of the same architecture may have other winners: that is said.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mxtune.configs.devices import Device, bare_arch
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Measured
from mxtune.configs.json_files import sentence
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, Entry, RouteTable
from mxtune.kernels.aiter import find_aiter
from mxtune.kernels.build import installed_triton
from mxtune.kernels.lookup import Lookup, Obstacle, Tabled
from mxtune.kernels.quantise_steps import RULE
from mxtune.kernels.registry import checked_route, family
from mxtune.kernels.shared import shares

_SHOWN = 3  # refused routes that a warning names


@dataclass(frozen=True, slots=True)
class Standing:
    """A table on one GPU. ``refused`` are routes that are never used there, with the reasons."""

    device: Device
    count: int  # routes that the table has
    usable: Mapping[Shape, Tabled]
    proven: frozenset[Shape]  # measured on this kind of GPU
    default: Route | None
    lack: str = ""  # why none is used at all
    refused: Mapping[str, str] | None = None  # by the place in the table
    doubts: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """How many routes can be used, in one line."""
        return f"{len(self.usable)} of {self.count} routes usable here"

    @property
    def warning(self) -> str:
        """What a user should know, in one line; empty if all is well."""
        refused = [f"{place}: {reason}" for place, reason in (self.refused or {}).items()]
        more = len(refused) - _SHOWN
        told = [self.lack] * bool(self.lack) + refused[:_SHOWN]
        told += [f"and {more} more"] * (more > 0) + list(self.doubts)
        return f"{self.summary}: {'; '.join(told)}" if told else ""

    def lookup(self, *, quantised: bool = False) -> Lookup:
        """Return the lookup on this GPU; ``quantised`` is for an A that is an Mxfp4Activation."""
        lack = self.lack or ("" if self.count or self.default else "there is no table")
        return Lookup(self.usable, self.default, self._obstacle(quantised=quantised), lack)

    def _obstacle(self, *, quantised: bool) -> Obstacle:
        def obstacle(tabled: Tabled, shape: Shape) -> str:
            proven = tabled.shape == shape and shape in self.proven
            found = obstacle_of(tabled.route, shape, self.device, proven=proven)
            if not found and quantised and not shares(tabled.route, shape, self.device):
                return "it takes no A that was quantised before"
            return found

        return obstacle


def standing_of(table: RouteTable | None, device: Device, driver: str | None = None) -> Standing:
    """Work out what ``table`` is worth on ``device``; ``driver`` is the one here, if known."""
    if table is None:
        return Standing(device, 0, {}, frozenset(), None)
    lack = _lack(table, device)
    if lack:
        return Standing(device, len(table.routes), {}, frozenset(), None, lack)
    usable: dict[Shape, Tabled] = {}
    refused: dict[str, str] = {}
    for place, entry in enumerate(table.routes):
        found = _tabled(entry, device)
        if isinstance(found, Tabled):
            usable[found.shape] = found
        else:
            refused[f"routes.{place} ({entry.key})"] = found
    default = _default(table.default)
    if isinstance(default, str):
        refused["default"] = default
    proven = {entry.key for entry in table.routes if isinstance(entry.evidence, Measured)}
    return Standing(
        device,
        len(table.routes),
        usable,
        frozenset(proven),
        default if isinstance(default, Route) else None,
        refused=refused,
        doubts=tuple(_doubts(table, device, driver)),
    )


def obstacle_of(route: Route, shape: Shape, device: Device, *, proven: bool) -> str:
    """Say why a route cannot be used: a suspect one can where a measurement proved it right."""
    owner = family(route.family)
    lack = owner.missing(device)
    if lack:
        return lack
    verdict = owner.legality(route.config, shape, device)
    usable = verdict.grade == "legal" or (verdict.grade == "suspect" and proven)
    return "" if usable else verdict.reason or verdict.grade


def _lack(table: RouteTable, device: Device) -> str:
    made_for = bare_arch(table.device.arch)
    if made_for != device.arch:
        return f"the table is for {made_for} ({table.device.name}), this is {device}"
    if table.made.rule != RULE:
        return f"the table is for the scale rule {table.made.rule!r}, A is quantised by {RULE!r}"
    return ""


def _tabled(entry: Entry, device: Device) -> Tabled | str:
    route = _accepted(entry.route)
    if isinstance(route, str):
        return route
    proven = isinstance(entry.evidence, Measured)
    obstacle = obstacle_of(route, entry.key, device, proven=proven)
    return obstacle or Tabled(entry.key, route, entry.reach)


def _default(default: Default | None) -> Route | str | None:
    return _accepted(Route(default.family, Config.of(default.config))) if default else None


def _accepted(route: Route) -> Route | str:
    """Return a route with all its settings, or what is wrong with them."""
    try:
        return checked_route(route)
    except ConfigError as error:
        return sentence(str(error))  # it may repeat a value of any length


def _doubts(table: RouteTable, device: Device, driver: str | None) -> Iterator[str]:
    """Yield in what the table's makers had something else: its winners may not be the fastest."""
    if not any(isinstance(entry.evidence, Measured) for entry in table.routes):
        return
    triton = installed_triton()
    if table.made.triton is None:
        yield "it does not say by which triton it was measured"
    elif triton and triton != table.made.triton:
        yield f"measured with triton {table.made.triton}, here is {triton}"
    aiter = find_aiter().release
    if aiter and table.made.aiter and aiter != table.made.aiter:
        yield f"measured with AITER {table.made.aiter}, here is {aiter}"
    if driver and table.made.driver and driver != table.made.driver:
        yield f"measured with {table.made.driver}, here is {driver}"
    if table.device.compute_units != device.compute_units:
        yield f"measured on {table.device.compute_units} CUs, here are {device.compute_units}"
