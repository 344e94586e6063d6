"""A quantised by a kernel of its own, then one program per tile of C over all of K."""

from mxtune.configs.routes import Config
from mxtune.kernels.family import Plan, Problem, RouteFamily
from mxtune.kernels.operands import operand_c
from mxtune.kernels.quantise_steps import quantise_step
from mxtune.kernels.steps import gemm_step
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import CONVERT, MULTIPLY, QUANTISE, TILE, WEIGHTS


def _plan(config: Config, problem: Problem) -> Plan:
    multiply = gemm_step(config, problem, operand_c(problem))
    return Plan((quantise_step(config, problem), multiply))


FAMILY: RouteFamily = TileFamily("direct", (*TILE, *WEIGHTS, *QUANTISE, *CONVERT, *MULTIPLY), _plan)
