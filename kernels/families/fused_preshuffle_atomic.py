"""A quantised inside the GEMM, weights read as they lie shuffled, programs add to one fp32 C."""

from mxtune.kernels.family import RouteFamily
from mxtune.kernels.steps import fused_atomic_plan
from mxtune.kernels.tile_family import TileFamily
from mxtune.kernels.tiles import CONVERT, MULTIPLY, REDUCE, SPLIT, TILE

FAMILY: RouteFamily = TileFamily(
    "fused_preshuffle_atomic",
    (*TILE, *SPLIT, *CONVERT, *MULTIPLY, *REDUCE),
    fused_atomic_plan,
    weights="shuffled",
    least_split=2,
)
