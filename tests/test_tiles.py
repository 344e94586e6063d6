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


SHUFFLED: dict[str, Value] = {"weights": "shuffled"}
READ = "shuffled weights are read 32 rows and 128 values along K at a time"


@pytest.mark.parametrize(
    ("changes", "shape", "reason"),
    [
        (SHUFFLED | {"BLOCK_N": 16}, SHAPE, READ),
        (SHUFFLED | {"BLOCK_K": 64}, SHAPE, READ),
        (
            SHUFFLED,
            Shape(256, 3080, 1536),
            "shuffled weights need N to be a multiple of 16, not 3080",
        ),
        (
            SHUFFLED,
            Shape(256, 3072, 1568),
            "shuffled weights need K to be a multiple of 64, not 1568",
        ),
        ({"convert": "hardware"}, SHAPE, "sm_90 has no FP4 conversion that Triton can be given"),
    ],
)
def test_what_reads_or_converts_operands_may_refuse_a_tile(
    changes: dict[str, Value], shape: Shape, reason: str
) -> None:
    assert tile_legality(USUAL.changed(**changes), shape, H200) == illegal(reason)


def test_the_mi355x_converts_and_reads_shuffled_weights_of_whole_tiles() -> None:
    whole, half = Shape(256, 3072, 1536), Shape(256, 3088, 1600)
    for shape in (whole, half):
        config = USUAL.changed(convert="hardware", weights="shuffled", BLOCK_N=32, BLOCK_K=128)
        assert tile_legality(config, shape, MI355X) == LEGAL
    assert tile_legality(USUAL.changed(weights="plain"), Shape(1, 1, 32), MI355X) == LEGAL


def test_products_in_bf16_need_no_scaled_mfma_and_are_a_waste_where_there_is_one() -> None:
    narrow = USUAL.changed(multiply="bf16", num_warps=1, BLOCK_K=64)
    assert tile_legality(narrow, SHAPE, MI355X) == LEGAL
    assert tile_waste(narrow, SHAPE, MI355X) == "bf16 on a GPU with FP4 matrix units"
    assert tile_waste(narrow, SHAPE, H200) is None


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
        ({"matrix_instr_nonkdim": 32}, SHAPE, "a matrix instruction of 32x32 on a smaller tile"),
        (SHUFFLED, SHAPE, "fewer than 32 rows of weights a wave"),
        (
            SHUFFLED | {"BLOCK_M": 32, "num_warps": 8},
            SHAPE,
            "fewer than 32 rows of weights a wave",
        ),
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
        (SHUFFLED | {"num_warps": 2}, SHAPE),
        (SHUFFLED | {"BLOCK_M": 32}, SHAPE),
        (SHUFFLED | {"BLOCK_N": 32, "BLOCK_M": 8, "num_warps": 1}, SHAPE),
    ],
)
def test_a_tile_just_covers_what_is_left_over(changes: dict[str, Value], shape: Shape) -> None:
    assert tile_waste(USUAL.changed(**changes), shape, MI355X) is None


def test_a_matrix_instruction_computes_16_rows_however_few_a_tile_has() -> None:
    low = USUAL.changed(BLOCK_M=4, BLOCK_N=128, num_warps=8)
    assert tile_waste(low, SHAPE, MI355X) is None
    assert tile_waste(low.changed(BLOCK_N=64), SHAPE, MI355X) == "fewer than 256 results a warp"


@pytest.mark.parametrize(
    ("changes", "shape", "reason"),
    [
        ({"num_warps": 8}, SHAPE, None),
        ({"matrix_instr_nonkdim": 32}, SHAPE, None),
        ({"weights": "shuffled"}, SHAPE, None),
        ({"BLOCK_M": 32}, Shape(16, 3072, 1536), None),
        ({"BLOCK_M": 64}, Shape(16, 3072, 1536), "BLOCK_M far beyond M"),
        ({"BLOCK_K": 1024}, Shape(256, 3072, 512), None),
        ({"BLOCK_K": 1024}, Shape(256, 3072, 256), "BLOCK_K far beyond K"),
        ({"multiply": "bf16"}, SHAPE, "bf16 on a GPU with FP4 matrix units"),
    ],
)
def test_what_won_somewhere_may_be_one_size_too_large_and_repeat_itself(
    changes: dict[str, Value], shape: Shape, reason: str | None
) -> None:
    assert tile_waste(USUAL.changed(**changes), shape, MI355X, won=True) == reason


def test_a_warp_of_the_h200_computes_half_as_much_before_it_repeats_another() -> None:
    assert tile_waste(USUAL.changed(num_warps=8), SHAPE, H200) is None
    assert tile_waste(USUAL.changed(num_warps=16), SHAPE, H200) == "fewer than 128 results a warp"
    assert tile_waste(USUAL.changed(**SHUFFLED, num_warps=8), SHAPE, H200) is None


def test_a_split_beyond_the_blocks_is_illegal_and_one_split_a_waste() -> None:
    owner, shape = family("splitk"), Shape(16, 2112, 512)
    usual = owner.fallback(shape).changed(BLOCK_K=256)
    idle = owner.legality(usual.changed(split_k=3), shape, MI355X)
    assert idle == illegal("split_k 3 leaves splits of 2 blocks idle")
    assert owner.legality(usual.changed(split_k=2), shape, MI355X) == LEGAL
    assert owner.waste(usual.changed(split_k=1), shape, MI355X) == (
        "a split of one is another family, and a kernel more"
    )
    alone = family("fused_preshuffle")
    one = alone.fallback(shape).changed(split_k=1, BLOCK_K=256, num_warps=2)
    assert alone.waste(one, shape, MI355X) is None


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
