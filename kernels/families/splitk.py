"""A quantised by a kernel of its own, K shared out over programs, their partial sums added last.

Partials in bf16 move half the bytes and round every partial: where partials cancel the result is
wrong, and the correctness gate says so. Partials in fp32 are the default.
"""

from mxtune.configs.routes import Config
from mxtune.kernels.family import Plan, Problem, RouteFamily
from mxtune.kernels.operands import partials
from mxtune.kernels.quantise_steps import quantise_step
from mxtune.kernels.steps import gemm_step, reduce_step
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import CONVERT, MULTIPLY, PARTIALS, QUANTISE, REDUCE, SPLIT, TILE, WEIGHTS


def _plan(config: Config, problem: Problem) -> Plan:
    sums = partials(config, problem.shape)
    return Plan(
        (
            quantise_step(config, problem),
            gemm_step(config, problem, sums),
            reduce_step(config, problem, sums),
        )
    )


FAMILY: RouteFamily = TileFamily(
    "splitk",
    (*TILE, *WEIGHTS, *SPLIT, *PARTIALS, *QUANTISE, *CONVERT, *MULTIPLY, *REDUCE),
    _plan,
    least_split=2,
)
