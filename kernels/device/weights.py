"""Reading weights and their scales: plain codes, or shuffled ones as they lie.

Where the last dimensions of what is read are what a wave of gfx950 feeds to one scaled MFMA, each
lane loads the registers that it needs and nothing goes through LDS. Which order of the dimensions
before them the compiler shares out over waves that way changed with Triton 3.8.
"""

import triton
import triton.language as tl

from mxtune.kernels.device.mxfp4 import load_shuffled_scales
from mxtune.kernels.device.tile import rows_of

ROWS_FIRST = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8))


@triton.jit
def codes_at(
    tile_n, N, stride_bn,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SHUFFLED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Offsets of the codes of a tile at the start of K; rows past N become rows that are there.

    Plain: [BLOCK_K/2, BLOCK_N], ``stride_bn`` bytes from row to row. SHUFFLED: four dimensions, as
    `load_codes` takes them, ``stride_bn`` still that of one row; BLOCK_N % 32, BLOCK_K % 128 == 0.
    """
    if SHUFFLED:
        group = tile_n * (BLOCK_N // 32) + tl.arange(0, BLOCK_N // 32)
        if ROWS_FIRST:
            row16 = group[:, None, None, None] * 2 + tl.arange(0, 2)[None, :, None, None]
        else:
            row16 = group[None, None, :, None] * 2 + tl.arange(0, 2)[None, :, None, None]
        row16 = tl.where(row16 < N // 16, row16, 0)
        if WIDE:
            row16 = row16.to(tl.int64)
        offset = row16 * (16 * stride_bn) + _along_codes(BLOCK_K)
    else:
        row = rows_of(tile_n, N, BLOCK_N, WIDE)
        offset = row[None, :] * stride_bn + tl.arange(0, BLOCK_K // 2)[:, None]
    return offset


@triton.jit
def _along_codes(BLOCK_K: tl.constexpr):
    """How far a shuffled code lies from the start of its 16 rows: 1024 bytes take 128 along K."""
    inside = tl.arange(0, 1024)
    block = tl.arange(0, BLOCK_K // 128)
    if ROWS_FIRST:
        along = block[None, None, :, None] * 1024 + inside[None, None, None, :]
    else:
        along = block[:, None, None, None] * 1024 + inside[None, None, None, :]
    return along


@triton.jit
def load_codes(
    b_ptr, at, left,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, SHUFFLED: tl.constexpr,
    CACHE: tl.constexpr,
):  # fmt: skip
    """Packed codes uint8 [BLOCK_K/2, BLOCK_N] from `codes_at`; zero past ``left`` values of K."""
    if SHUFFLED:
        if EVEN_K:
            raw = tl.load(b_ptr + at, cache_modifier=CACHE)
        else:
            there = tl.broadcast_to(_along_codes(BLOCK_K) < left * 8, at.shape)
            raw = tl.load(b_ptr + at, mask=there, other=0, cache_modifier=CACHE)
        if ROWS_FIRST:
            tile = raw.reshape(BLOCK_N // 32, 2, BLOCK_K // 128, 4, 16, 16)
            tile = tile.permute(0, 1, 4, 2, 3, 5)
        else:
            tile = raw.reshape(BLOCK_K // 128, 2, BLOCK_N // 32, 4, 16, 16)
            tile = tile.permute(2, 1, 4, 0, 3, 5)
        codes = tile.reshape(BLOCK_N, BLOCK_K // 2).trans(1, 0)
    elif EVEN_K:
        codes = tl.load(b_ptr + at, cache_modifier=CACHE)
    else:
        byte = tl.arange(0, BLOCK_K // 2)[:, None]
        codes = tl.load(b_ptr + at, mask=byte < left // 2, other=0, cache_modifier=CACHE)
    return codes


@triton.jit
def load_scales(
    scales_ptr, tile_n, step, width,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, SHUFFLED: tl.constexpr,
    CACHE: tl.constexpr,
):  # fmt: skip
    """Scale bytes uint8 [BLOCK_N, BLOCK_K/32] of block ``step`` along K, to go with `load_codes`.

    ``scales_ptr`` points at the start; scales past K are zero.
    """
    if SHUFFLED and BLOCK_K % 256 == 0:
        group = tile_n * (BLOCK_N // 32) + tl.arange(0, BLOCK_N // 32)
        inside = tl.max_contiguous(tl.arange(0, 256), 4)
        block = tl.arange(0, BLOCK_K // 256)
        if ROWS_FIRST:
            along = block[None, :, None] * 256 + inside[None, None, :]
            at = group[:, None, None] * (32 * width) + along
        else:
            along = block[:, None, None] * 256 + inside[None, None, :]
            at = group[None, :, None] * (32 * width) + along
        scales_ptr += step * BLOCK_K
        if EVEN_K:
            raw = tl.load(scales_ptr + at, cache_modifier=CACHE)
        else:
            there = tl.broadcast_to(along < 32 * width - step * BLOCK_K, at.shape)
            raw = tl.load(scales_ptr + at, mask=there, other=0, cache_modifier=CACHE)
        if ROWS_FIRST:
            tile = raw.reshape(BLOCK_N // 32, BLOCK_K // 256, 4, 16, 2, 2)
            tile = tile.permute(0, 5, 3, 1, 4, 2)
        else:
            tile = raw.reshape(BLOCK_K // 256, BLOCK_N // 32, 4, 16, 2, 2)
            tile = tile.permute(1, 5, 3, 0, 4, 2)
        scales = tile.reshape(BLOCK_N, BLOCK_K // 32)
    else:
        scales = load_shuffled_scales(
            scales_ptr, tile_n * BLOCK_N, step * (BLOCK_K // 32), width,
            BLOCK_N, BLOCK_K // 32, CACHE,
        )  # fmt: skip
    return scales
