"""The family of one tiled kernel over all of K, with whatever must come before it."""

from collections.abc import Callable
from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Legality, Plan, Problem, Tunable
from mxtune.kernels.tiles import (
    defaults,
    normalised_tile,
    small_tile,
    tile_legality,
    tile_waste,
)


@dataclass(frozen=True, slots=True)
class TileFamily:
    """A RouteFamily that obeys the rules of tiles and no others."""

    name: str
    tunables: tuple[Tunable, ...]
    launches: Callable[[Config, Problem], Plan]

    def missing(self, device: Device) -> str | None:
        """Triton is all that is needed."""
        del device
        return None

    def normalise(self, config: Config, shape: Shape) -> Config:
        """See RouteFamily."""
        return normalised_tile(config, shape)

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        """See RouteFamily."""
        return tile_legality(config, shape, device)

    def waste(self, config: Config, shape: Shape, device: Device) -> str | None:
        """See RouteFamily."""
        return tile_waste(config, shape, device)

    def fallback(self, shape: Shape) -> Config:
        """See RouteFamily."""
        return Config.of(defaults(self.tunables) | small_tile(shape))

    def plan(self, config: Config, problem: Problem) -> Plan:
        """See RouteFamily."""
        return self.launches(config, problem)
