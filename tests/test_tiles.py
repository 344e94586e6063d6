"""Each rule of a tile, with one shape or setting that breaks it."""

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import LEGAL, illegal
from mxtune.kernels.registry import family
from mxtune.kernels.tile_rules import tile_legality, tile_waste
from mxtune.kernels.tiles import (
    TILE,
    ceil_div,
    defaults,
    next_power_of_two,
    normalised_split,
    small_tile,
    split_blocks,
)

MI355X, H200 = load_device("gfx950"), load_device("sm_90")
SHAPE = Shape(256, 3072, 1536)
USUAL = Config.of(defaults(TILE))
LARGE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 512, "num_warps": 8}


def test_the_defaults_are_legal_on_both_devices() -> None:
    assert tile_legality(USUAL, SHAPE, MI355X) == LEGAL
    assert tile_legality(USUAL, SHAPE, H200) == LEGAL


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_warps": 1}, "one warp does not get the scaled MFMA on gfx950"),
        ({"matrix_instr_nonkdim": 32}, "matrix_instr_nonkdim 32 takes a tile of at least 32x32"),
        ({"BLOCK_K": 64}, "BLOCK_K 64: the scaled MFMA takes 128 values along K"),
        (LARGE | {"num_stages": 3}, "128x256x512 in flight takes 196608 of 163840 B of LDS"),
    ],
)
def test_the_mi355x_refuses_a_tile(changes: dict[str, Value], reason: str) -> None:
    assert tile_legality(USUAL.changed(**changes), SHAPE, MI355X) == illegal(reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"BLOCK_M": 8}, "BLOCK_M 8: a dot takes at least 16 rows on sm_90"),
        (
            {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 2},
            "128x128 on 2 warps takes 256 accumulators a lane",
        ),
        (LARGE | {"num_stages": 4}, "128x256x512 in flight takes 294912 of 232448 B of LDS"),
    ],
)
def test_the_h200_refuses_a_tile(changes: dict[str, Value], reason: str) -> None:
    assert tile_legality(USUAL.changed(**changes), SHAPE, H200) == illegal(reason)


# what one device refuses, the other may take
def test_a_rule_holds_only_where_its_cause_is() -> None:
    assert tile_legality(USUAL.changed(BLOCK_M=8), SHAPE, MI355X) == LEGAL
    assert tile_legality(USUAL.changed(BLOCK_K=64), SHAPE, H200) == LEGAL
    assert tile_legality(USUAL.changed(num_warps=1, BLOCK_N=32), SHAPE, H200) == LEGAL
    square = USUAL.changed(matrix_instr_nonkdim=32, BLOCK_M=32, BLOCK_N=32, BLOCK_K=64)
    assert tile_legality(square, SHAPE, MI355X) == LEGAL


def test_one_stage_and_two_keep_the_same_in_flight() -> None:
    for stages in (1, 2):
        assert tile_legality(USUAL.changed(**LARGE, num_stages=stages), SHAPE, MI355X) == LEGAL


def test_scales_beyond_32_bit_offsets_are_refused() -> None:
    reason = "the scales of N=67108864, K=1024 do not fit 32-bit offsets"
    assert tile_legality(USUAL, Shape(1, 67108864, 1024), H200) == illegal(reason)
    assert tile_legality(USUAL, Shape(1, 67108608, 1024), H200) == LEGAL


@pytest.mark.parametrize(
    ("changes", "shape", "reason"),
    [
        ({"BLOCK_M": 64}, Shape(32, 3072, 1536), "BLOCK_M far beyond M"),
        ({"BLOCK_M": 32}, Shape(1, 3072, 1536), "BLOCK_M far beyond M"),
        ({"BLOCK_N": 256}, Shape(256, 70, 1536), "BLOCK_N far beyond N"),
        ({"BLOCK_N": 64}, Shape(256, 1, 1536), "BLOCK_N far beyond N"),
        ({"BLOCK_K": 512}, Shape(256, 3072, 256), "BLOCK_K far beyond K"),
        ({"BLOCK_K": 256}, Shape(256, 3072, 32), "BLOCK_K far beyond K"),
        ({"num_warps": 8}, SHAPE, "fewer than 256 results a warp"),
    ],
)
def test_a_legal_tile_may_be_a_waste(changes: dict[str, Value], shape: Shape, reason: str) -> None:
    assert tile_waste(USUAL.changed(**changes), shape, MI355X) == reason


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, SHAPE),
        ({"BLOCK_M": 64}, Shape(33, 3072, 1536)),
        ({"BLOCK_M": 16}, Shape(1, 3072, 1536)),
        ({"BLOCK_N": 128}, Shape(256, 70, 1536)),
        ({"BLOCK_N": 32, "num_warps": 2}, Shape(256, 1, 1536)),
        ({"BLOCK_K": 128}, Shape(256, 3072, 32)),
    ],
)
def test_a_tile_just_covers_what_is_left_over(changes: dict[str, Value], shape: Shape) -> None:
    assert tile_waste(USUAL.changed(**changes), shape, MI355X) is None


def test_a_warp_of_the_h200_computes_half_as_much_before_it_repeats_another() -> None:
    assert tile_waste(USUAL.changed(num_warps=8), SHAPE, H200) is None
    assert tile_waste(USUAL.changed(num_warps=16), SHAPE, H200) == "fewer than 128 results a warp"


def test_a_split_beyond_the_blocks_is_illegal_and_one_split_a_waste() -> None:
    owner, shape = family("splitk"), Shape(16, 2112, 512)
    usual = owner.fallback(shape).changed(BLOCK_K=256)
    idle = owner.legality(usual.changed(split_k=3), shape, MI355X)
    assert idle == illegal("split_k 3 leaves splits of 2 blocks idle")
    assert owner.legality(usual.changed(split_k=2), shape, MI355X) == LEGAL
    assert owner.waste(usual.changed(split_k=1), shape, MI355X) == (
        "a split of one is the direct family and a reduction"
    )


@pytest.mark.parametrize(
    ("asked", "blocks", "left"), [(6, 3, 5), (8, 2, 7), (14, 1, 14), (20, 1, 14)]
)
def test_fourteen_blocks_are_shared_out(asked: int, blocks: int, left: int) -> None:
    config, shape = USUAL.changed(BLOCK_K=512, split_k=asked), Shape(16, 2112, 7168)
    assert split_blocks(config, shape) == blocks
    assert normalised_split(config, shape)["split_k"] == left


@pytest.mark.parametrize(
    ("m", "block_m"), [(1, 16), (16, 16), (17, 32), (33, 64), (65, 64), (5000, 64)]
)
def test_the_small_tile_is_as_high_as_the_shape_up_to_64(m: int, block_m: int) -> None:
    assert small_tile(Shape(m, 64, 64)) == {
        "BLOCK_M": block_m,
        "BLOCK_N": 64,
        "BLOCK_K": 256,
        "num_warps": 4,
        "num_stages": 1,
    }


def test_division_rounds_up_and_powers_of_two_reach() -> None:
    assert [ceil_div(value, 4) for value in (1, 4, 5, 8)] == [1, 1, 2, 2]
    assert [next_power_of_two(value) for value in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]
