"""One kernel: A is quantised inside the GEMM, again by every program that needs its rows."""

from mxtune.configs.routes import Config
from mxtune.kernels.family import Plan, Problem, RouteFamily
from mxtune.kernels.operands import operand_c
from mxtune.kernels.steps import fused_step
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import CONVERT, MULTIPLY, TILE


def _plan(config: Config, problem: Problem) -> Plan:
    return Plan((fused_step(config, problem, operand_c(problem)),))


FAMILY: RouteFamily = TileFamily("fused", (*TILE, *CONVERT, *MULTIPLY), _plan, weights="plain")
