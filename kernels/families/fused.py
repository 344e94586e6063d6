"""One kernel: A is quantised inside the GEMM, again by every program that needs its rows."""

from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Legality, Plan, Problem, RouteFamily, Tunable
from mxtune.kernels.steps import fused_step
from mxtune.kernels.tiles import (
    TILE,
    defaults,
    normalised_tile,
    small_tile,
    tile_legality,
    tile_waste,
)


@dataclass(frozen=True, slots=True)
class _Fused:
    name: str = "fused"
    tunables: tuple[Tunable, ...] = TILE

    def missing(self, device: Device) -> str | None:
        del device
        return None

    def normalise(self, config: Config, shape: Shape) -> Config:
        return normalised_tile(config, shape)

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        return tile_legality(config, shape, device)

    def waste(self, config: Config, shape: Shape, device: Device) -> str | None:
        return tile_waste(config, shape, device)

    def fallback(self, shape: Shape) -> Config:
        return Config.of(defaults(self.tunables) | small_tile(shape))

    def plan(self, config: Config, problem: Problem) -> Plan:
        return Plan((fused_step(config, problem),))


FAMILY: RouteFamily = _Fused()
