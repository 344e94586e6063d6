"""GEMM of two quantised operands, whole or one slice of K a program."""

import triton
import triton.language as tl

from mxtune.kernels.device.mxfp4 import load_shuffled_scales
from mxtune.kernels.device.tile import rows_of, store_tile, tile_of


@triton.jit
def gemm(
    a_ptr, a_scales_ptr, b_ptr, b_scales_ptr, c_ptr,
    M, N, K, stride_am, stride_as, stride_bn, scale_width, stride_cm, stride_cs, split_blocks,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr, WIDE_A: tl.constexpr, WIDE_B: tl.constexpr, WIDE_C: tl.constexpr,
    CACHE: tl.constexpr,
):  # fmt: skip
    """C = A @ B.T over the blocks of K that belong to program_id(1).

    a         uint8 [M, K/2] packed codes         a_scales  uint8 [M, K/32] plain
    b         uint8 [N, K/2] packed codes         b_scales  uint8 [ceil256(N), scale_width] shuffled
    c         bf16 or fp32 [splits, M, N], strides ``stride_cs`` and ``stride_cm`` in elements
    split_blocks  blocks of BLOCK_K that one split multiplies; EVEN_K: BLOCK_K divides K
    """
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    split = tl.program_id(1)
    row_a = rows_of(tile_m, M, BLOCK_M, WIDE_A)
    row_b = rows_of(tile_n, N, BLOCK_N, WIDE_B)
    byte = tl.arange(0, BLOCK_K // 2)
    block = tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    first = split * split_blocks
    last = tl.minimum(first + split_blocks, tl.cdiv(K, BLOCK_K))
    for step in range(first, last):
        at_byte = step * (BLOCK_K // 2) + byte
        at_block = step * (BLOCK_K // 32) + block
        a_at = a_ptr + row_a[:, None] * stride_am + at_byte[None, :]
        s_at = a_scales_ptr + row_a[:, None] * stride_as + at_block[None, :]
        b_at = b_ptr + row_b[None, :] * stride_bn + at_byte[:, None]
        if EVEN_K:
            a = tl.load(a_at)
            a_scale = tl.load(s_at)
            b = tl.load(b_at, cache_modifier=CACHE)
        else:
            a = tl.load(a_at, mask=at_byte[None, :] < K // 2, other=0)
            a_scale = tl.load(s_at, mask=at_block[None, :] < K // 32, other=0)
            b = tl.load(b_at, mask=at_byte[:, None] < K // 2, other=0, cache_modifier=CACHE)
        b_scale = load_shuffled_scales(
            b_scales_ptr, tile_n * BLOCK_N, step * (BLOCK_K // 32), scale_width,
            BLOCK_N, BLOCK_K // 32, CACHE,
        )  # fmt: skip
        acc = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e2m1", acc)
    if WIDE_C:
        split = split.to(tl.int64)
    store_tile(
        c_ptr + split * stride_cs, acc, tile_m, tile_n, M, N, stride_cm, BLOCK_M, BLOCK_N, WIDE_C
    )
