"""Other tiles and orders of tiles than the fallback's give the same numbers."""

import pytest
from tests.family_gate import accept, config_of
from tests.family_shapes import NAMES, READINGS, is_legal

from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape

# Scales are read as they lie where a tile is whole 32 x 8 groups, as in every fallback; both of
# these gather them byte by byte, one for its BLOCK_K and one for its BLOCK_N.
FP32: dict[str, Value] = {"partial_dtype": "fp32"}
GROUPED = FP32 | {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128, "group_m": 4}
NARROW = FP32 | {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 256, "group_m": 2}
WIDE = FP32 | {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "group_m": 2}  # for shuffled weights
SPLIT = {"split_k": 4, "quant_m": 32, "quant_k": 64, "reduce_m": 32, "reduce_n": 128}
HALVES = {"split_k": 2, "quant_m": 8, "quant_k": 512, "reduce_m": 16, "reduce_n": 16}
TILES = {
    "plain": {"32x32x128": GROUPED | SPLIT, "16x16x256": NARROW | HALVES},
    "shuffled": {"32x32x128": GROUPED | SPLIT, "16x128x512": WIDE | HALVES},
}
# Small tiles are many programs: the largest shape is smaller than where one program does a lot.
SHAPES = {
    "plain": (Shape(1, 32, 32), Shape(3, 70, 96), Shape(17, 40, 320), Shape(33, 24, 288)),
    "shuffled": (Shape(17, 160, 320), Shape(33, 48, 320)),
}
TRIED = [
    (name, weights, tile, shape)
    for name, weights in READINGS
    for tile in TILES[weights]
    for shape in SHAPES[weights]
]


@pytest.mark.parametrize(("name", "weights", "tile", "shape"), TRIED, ids=str)
def test_other_tiles_groups_and_splits_give_the_reference(
    name: str, weights: str, tile: str, shape: Shape
) -> None:
    accept(name, config_of(name, shape, weights=weights, **TILES[weights][tile]), shape)


# 10 tiles: two of the XCDs get two, and rows of tiles are taken in groups of two, the last of one
@pytest.mark.parametrize("group_m", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_every_tile_is_computed_once_whatever_the_order(name: str, group_m: int) -> None:
    shape = Shape(67, 64, 192)
    settings: dict[str, Value] = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 256, "num_warps": 2}
    config = config_of(name, shape, xcd_remap=1, group_m=group_m, **settings)
    assert is_legal(name, config, shape)
    accept(name, config, shape)
