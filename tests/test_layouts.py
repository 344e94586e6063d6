"""Shuffled layouts against the index formulas, applied one byte at a time."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.kernels import layouts


def random_bytes(rows: int, columns: int) -> Tensor:
    source = torch.Generator().manual_seed(rows * 1000 + columns)
    return torch.randint(256, (rows, columns), generator=source, dtype=torch.uint8)


def weight_index(n: int, j: int, row_bytes: int) -> int:
    tile = n // 16 * 16 * row_bytes + j // 32 * 512
    return tile + j % 32 // 16 * 256 + n % 16 * 16 + j % 16


def scale_index(r: int, c: int, width: int) -> int:
    tile = r // 32 * 32 * width + c // 8 * 256
    return tile + c % 4 * 64 + r % 16 * 4 + c % 8 // 4 * 2 + r % 32 // 16


@pytest.mark.parametrize(
    ("n", "row_bytes"), [(16, 32), (16, 96), (32, 32), (48, 64), (80, 160), (0, 32), (16, 0)]
)
def test_every_weight_byte_goes_where_the_formula_says(n: int, row_bytes: int) -> None:
    codes = random_bytes(n, row_bytes)
    wanted = [-1] * (n * row_bytes)
    for row, values in enumerate(codes.tolist()):
        for column, value in enumerate(values):
            wanted[weight_index(row, column, row_bytes)] = value
    shuffled = layouts.shuffle_weight(codes)
    assert shuffled.shape == (n, row_bytes)
    assert shuffled.flatten().tolist() == wanted
    assert shuffled.is_contiguous()


@pytest.mark.parametrize(
    ("rows", "columns", "height", "width"),
    [
        (1, 1, 256, 8),
        (3, 5, 256, 8),
        (16, 4, 256, 8),
        (33, 9, 256, 16),
        (64, 10, 256, 16),  # BL-015: K = 320
        (256, 8, 256, 8),
        (257, 3, 512, 8),
        (352, 11, 512, 16),  # BL-014: N = K = 352
        (0, 3, 0, 8),
    ],
)
def test_every_scale_goes_where_the_formula_says_and_the_rest_is_zero(
    rows: int, columns: int, height: int, width: int
) -> None:
    scales = random_bytes(rows, columns)
    wanted = [0] * (height * width)
    for row, values in enumerate(scales.tolist()):
        for column, value in enumerate(values):
            wanted[scale_index(row, column, width)] = value
    shuffled = layouts.shuffle_scales(scales)
    assert shuffled.shape == (height, width)
    assert shuffled.flatten().tolist() == wanted
    assert shuffled.is_contiguous()


@pytest.mark.parametrize(
    ("n", "j", "target"), [(0, 1, 1), (1, 0, 16), (0, 16, 256), (0, 32, 512), (16, 0, 1024)]
)
def test_one_weight_byte_lands_at_a_known_place(n: int, j: int, target: int) -> None:
    codes = torch.zeros(32, 64, dtype=torch.uint8)
    codes[n, j] = 1
    assert layouts.shuffle_weight(codes).flatten().nonzero().tolist() == [[target]]


@pytest.mark.parametrize(
    ("r", "c", "target"),
    [(16, 0, 1), (0, 4, 2), (1, 0, 4), (0, 1, 64), (0, 8, 256), (32, 0, 512), (299, 10, 5036)],
)
def test_one_scale_lands_at_a_known_place(r: int, c: int, target: int) -> None:
    scales = torch.zeros(300, 11, dtype=torch.uint8)
    scales[r, c] = 1
    assert layouts.shuffle_scales(scales).flatten().nonzero().tolist() == [[target]]


@settings(deadline=None, database=None, max_examples=50)
@given(strategies.integers(0, 6), strategies.integers(0, 6))
def test_unshuffling_a_weight_gives_it_back(tiles: int, column_tiles: int) -> None:
    codes = random_bytes(16 * tiles, 32 * column_tiles)
    assert torch.equal(layouts.unshuffle_weight(layouts.shuffle_weight(codes)), codes)
    assert torch.equal(layouts.shuffle_weight(layouts.unshuffle_weight(codes)), codes)


@settings(deadline=None, database=None, max_examples=50)
@given(strategies.integers(0, 600), strategies.integers(0, 40))
def test_unshuffling_ragged_scales_gives_them_back_without_padding(rows: int, columns: int) -> None:
    scales = random_bytes(rows, columns)
    plain = layouts.unshuffle_scales(layouts.shuffle_scales(scales), rows, columns)
    assert plain.is_contiguous()
    assert torch.equal(plain, scales)


def test_transposed_input_is_shuffled_by_value() -> None:
    transposed = random_bytes(64, 32).t()
    assert torch.equal(
        layouts.shuffle_weight(transposed), layouts.shuffle_weight(transposed.contiguous())
    )
    assert torch.equal(
        layouts.shuffle_scales(transposed), layouts.shuffle_scales(transposed.contiguous())
    )


@pytest.mark.parametrize(("n", "k"), [(64, 128), (352, 352)])
def test_padding_is_zero_whatever_the_allocator_left_behind(n: int, k: int) -> None:
    # BL-014
    scales = torch.full((n, k // 32), 0x7F, dtype=torch.uint8)
    size = layouts.padded_scales(n, k // 32)
    for garbage in range(0x7F, 0x7F + 10):
        blocks = [torch.full(size, garbage, dtype=torch.uint8) for _ in range(8)]
        del blocks
        shuffled = layouts.shuffle_scales(scales)
        assert shuffled.count_nonzero().item() == scales.numel()
        assert shuffled.sum().item() == 0x7F * scales.numel()


@pytest.mark.parametrize("function", [layouts.shuffle_weight, layouts.unshuffle_weight])
@pytest.mark.parametrize(
    ("n", "row_bytes", "message"),
    [
        (17, 32, "shuffled weights need N to be a multiple of 16, not 17"),
        (16, 48, "shuffled weights need K to be a multiple of 64, not 96"),
    ],
)
def test_a_weight_that_fills_no_tile_is_refused(
    function: Callable[[Tensor], Tensor], n: int, row_bytes: int, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        function(torch.zeros(n, row_bytes, dtype=torch.uint8))
    assert str(error.value) == message
    assert layouts.weight_obstacle(n, row_bytes) == message


def test_a_weight_of_whole_tiles_has_no_obstacle() -> None:
    assert layouts.weight_obstacle(32, 96) is None


@pytest.mark.parametrize("size", [(256, 16), (512, 8), (8, 256), (3, 5)])
def test_shuffled_scales_of_another_size_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ConfigError) as error:
        layouts.unshuffle_scales(torch.zeros(size, dtype=torch.uint8), 3, 5)
    wanted = f"shuffled scales of [3, 5] are [256, 8], not [{size[0]}, {size[1]}]"
    assert str(error.value) == wanted


def test_sizes_are_rounded_up_to_a_multiple() -> None:
    assert [layouts.round_up(value, 8) for value in (0, 1, 8, 9)] == [0, 8, 8, 16]
    assert layouts.padded_scales(257, 9) == (512, 16)
    assert layouts.padded_scales(256, 8) == (256, 8)
