"""Find the route families: a file in ``families/`` that defines FAMILY is registered."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import ConfigError, MissingError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels import families as package
from mxtune.kernels.family import Problem, RouteFamily

_SAMPLE = Shape(32, 512, 512)  # that every family has a route for on gfx950
_TILES = ("BLOCK_", "kernel")  # how the settings begin that say which tile a program computes
ALWAYS_LEGAL = "direct"  # takes every M, N and K on every device


@cache
def families() -> Mapping[str, RouteFamily]:
    """Every FAMILY under ``mxtune.kernels.families``, by name."""
    modules = (
        importlib.import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    )
    return MappingProxyType({m.FAMILY.name: m.FAMILY for m in modules})


def family(name: str) -> RouteFamily:
    """Return the family called ``name``."""
    try:
        return families()[name]
    except KeyError:
        known = ", ".join(sorted(families()))
        raise ConfigError(f"no family is called {name!r}: one of {known}") from None


def chosen(names: Iterable[str]) -> tuple[RouteFamily, ...]:
    """Return the families of ``names``, all of them if there are none."""
    return tuple(family(name) for name in names) or tuple(families().values())


def available(names: Iterable[str], device: Device) -> tuple[RouteFamily, ...]:
    """Return the families of ``names``, or all that can run on ``device`` if there are none.

    Raises MissingError for a named one that cannot.
    """
    named = tuple(family(name) for name in names)
    for owner in named:
        if lack := owner.missing(device):
            raise MissingError(f"{owner.name}: {lack}")
    return named or tuple(f for f in families().values() if not f.missing(device))


def own_families() -> tuple[RouteFamily, ...]:
    """Return the families whose kernels are all ours: they run wherever Triton does."""
    problem = Problem.contiguous(_SAMPLE, load_device("gfx950"))
    owners = families().values()
    return tuple(f for f in owners if not f.plan(f.fallback(_SAMPLE), problem).foreign)


def fallback_route(shape: Shape) -> Route:
    """Return a route that is legal for any shape on any device."""
    return Route(ALWAYS_LEGAL, families()[ALWAYS_LEGAL].fallback(shape))


def checked_route(route: Route) -> Route:
    """Return ``route`` with missing settings at their defaults; refuse unknown or unfit ones."""
    owner = family(route.family)
    tunables = {tunable.name: tunable for tunable in owner.tunables}
    for name, value in route.config.items():
        if name not in tunables:
            raise ConfigError(f"{owner.name} has no {name!r}: it has {', '.join(tunables)}")
        obstacle = tunables[name].obstacle(value)
        if obstacle:
            raise ConfigError(f"{owner.name}: {obstacle}")
    full = {name: tunable.default for name, tunable in tunables.items()}
    return Route(owner.name, Config.of(full | dict(route.config)))


def brief(route: Route) -> str:
    """Return a route for people: its tile, and the settings that are not at their defaults."""
    owner = family(route.family)
    config = checked_route(route).config
    blocks = [str(config[t.name]) for t in owner.tunables if t.name.startswith(_TILES)]
    others = [
        f"{t.name}={config[t.name]}"
        for t in owner.tunables
        if not t.name.startswith(_TILES) and config[t.name] != t.default
    ]
    return " ".join(filter(None, [owner.name, "x".join(blocks), *others]))
