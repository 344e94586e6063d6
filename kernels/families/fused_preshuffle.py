"""A quantised inside the GEMM, weights read as they lie shuffled; K whole or shared out.

With one split there is one kernel. With more, their partial sums are added by a second one.
"""

from mxtune.configs.routes import Config
from mxtune.kernels.family import Plan, Problem, RouteFamily
from mxtune.kernels.operands import operand_c, partials
from mxtune.kernels.steps import fused_step, reduce_step
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import CONVERT, MULTIPLY, PARTIALS, REDUCE, SPLIT, TILE


def _plan(config: Config, problem: Problem) -> Plan:
    if config.number("split_k") == 1:
        return Plan((fused_step(config, problem, operand_c(problem)),))
    sums = partials(config, problem.shape)
    return Plan((fused_step(config, problem, sums), reduce_step(config, problem, sums)))


FAMILY: RouteFamily = TileFamily(
    "fused_preshuffle",
    (*TILE, *SPLIT, *PARTIALS, *CONVERT, *MULTIPLY, *REDUCE),
    _plan,
    weights="shuffled",
)
