"""A quantised by a kernel of its own, K shared out over programs that all add to one fp32 C.

The order in which they add is not fixed, so two calls may differ in the last bit.
"""

from mxtune.configs.routes import Config
from mxtune.kernels.family import Plan, Problem, RouteFamily
from mxtune.kernels.operands import total
from mxtune.kernels.quantise_steps import quantise_step
from mxtune.kernels.steps import gemm_step, reduce_step, zero_step
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import CONVERT, MULTIPLY, QUANTISE, REDUCE, SPLIT, TILE, WEIGHTS


def _plan(config: Config, problem: Problem) -> Plan:
    sums = total(problem.shape)
    steps = (
        quantise_step(config, problem),
        zero_step(sums),
        gemm_step(config, problem, sums, atomic=True),
        reduce_step(config, problem, sums),
    )
    return Plan(steps, deterministic=False)


FAMILY: RouteFamily = TileFamily(
    "splitk_atomic",
    (*TILE, *WEIGHTS, *SPLIT, *QUANTISE, *CONVERT, *MULTIPLY, *REDUCE),
    _plan,
    least_split=2,
)
