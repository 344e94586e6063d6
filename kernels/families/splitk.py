"""A quantised by a kernel of its own, K shared out over programs, their partial sums added last.

Partials in bf16 move half the bytes and round every partial: where partials cancel the result is
wrong, and the correctness gate says so. Partials in fp32 are the default.
"""

from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Legality, Plan, Problem, RouteFamily, Tunable, illegal
from mxtune.kernels.steps import gemm_step, partials, quantise_step, reduce_step
from mxtune.kernels.tiles import (
    QUANTISE,
    REDUCE,
    SPLIT,
    TILE,
    ceil_div,
    defaults,
    normalised_split,
    normalised_tile,
    small_tile,
    tile_legality,
    tile_waste,
)


@dataclass(frozen=True, slots=True)
class _SplitK:
    """Tiles, and a number of splits that must all have work."""

    name: str = "splitk"
    tunables: tuple[Tunable, ...] = (*TILE, *SPLIT, *QUANTISE, *REDUCE)

    def missing(self, device: Device) -> str | None:
        del device
        return None

    def normalise(self, config: Config, shape: Shape) -> Config:
        return normalised_split(normalised_tile(config, shape), shape)

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        blocks = ceil_div(shape.k, config.number("BLOCK_K"))
        if config.number("split_k") > blocks:
            return illegal(f"split_k {config['split_k']} leaves splits of {blocks} blocks idle")
        return tile_legality(config, shape, device)

    def waste(self, config: Config, shape: Shape, device: Device) -> str | None:
        if config.number("split_k") == 1:
            return "a split of one is the direct family and a reduction"
        return tile_waste(config, shape, device)

    def fallback(self, shape: Shape) -> Config:
        return Config.of(defaults(self.tunables) | small_tile(shape) | {"split_k": 1})

    def plan(self, config: Config, problem: Problem) -> Plan:
        sums = partials(config, problem.shape)
        return Plan(
            (
                quantise_step(config, problem),
                gemm_step(config, problem, sums, sums.shape[0]),
                reduce_step(config, problem, sums),
            )
        )


FAMILY: RouteFamily = _SplitK()
