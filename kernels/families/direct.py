"""A quantised by a kernel of its own, then one program per tile of C over all of K."""

from mxtune.configs.routes import Config
from mxtune.kernels.family import Plan, Problem, RouteFamily
from mxtune.kernels.steps import gemm_step, operand_c, quantise_step
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import QUANTISE, TILE


def _plan(config: Config, problem: Problem) -> Plan:
    multiply = gemm_step(config, problem, operand_c(problem), splits=1)
    return Plan((quantise_step(config, problem), multiply))


FAMILY: RouteFamily = TileFamily("direct", (*TILE, *QUANTISE), _plan)
