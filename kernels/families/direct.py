"""A quantised by a kernel of its own, then one program per tile of C over all of K."""

from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Legality, Plan, Problem, RouteFamily, Tunable
from mxtune.kernels.steps import gemm_step, operand_c, quantise_step
from mxtune.kernels.tiles import (
    QUANTISE,
    TILE,
    defaults,
    normalised_tile,
    small_tile,
    tile_legality,
    tile_waste,
)


@dataclass(frozen=True, slots=True)
class _Direct:
    name: str = "direct"
    tunables: tuple[Tunable, ...] = (*TILE, *QUANTISE)

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
        quantise = quantise_step(config, problem)
        return Plan((quantise, gemm_step(config, problem, operand_c(problem), splits=1)))


FAMILY: RouteFamily = _Direct()
